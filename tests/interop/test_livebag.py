"""Every brick and every export that livebag writes, read by other projects' readers.

run.sh builds the command and makes the containers; LIVEBAG is the command, LIVEBAG_FRAMES the folder
with the containers."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
from pathlib import Path

import check_mcap
import pytest
from tools import SHARED, check, check_node, livebag

FRAMES = Path(os.environ["LIVEBAG_FRAMES"])
CONTAINERS = sorted(mark.parent for mark in FRAMES.rglob("container.yaml"))
BAGS = [bag for bag in (SHARED / name for name in (
    "do.bag", "outdoor.bag", "rosbag2/mcap/talker", "rosbag2/mcap/wbag",
    "rosbag2/sqlite3/talker", "rosbag2/sqlite3/wbag")) if bag.exists()]
SAME = ("count", "sha256", "times_sha256", "data_sha256", *check_mcap.IMAGE_FIELDS, *check_mcap.POINTS_FIELDS)


def by_name(path):
    return str(path.relative_to(FRAMES if path.is_relative_to(FRAMES) else SHARED))


def merged(reports):
    """The topics of several files that share none."""
    topics = {}
    for path, report in reports.items():
        for name, said in report["topics"].items():
            assert name not in topics, f"{name} stands in {path} and in another file"
            topics[name] = said
    return topics


def same(first, second, keys=SAME):
    """Both hold the same topics, alike in every key that both know."""
    assert sorted(first) == sorted(second)
    for topic in first:
        for key in keys:
            if key in first[topic] and key in second[topic]:
                assert first[topic][key] == second[topic][key], f"{topic}: {key}"


def read_everywhere(files, expect=None):
    """The topics in these files, on which all readers agree."""
    files = sorted(files)
    assert files
    reports = check(files, expect=expect)
    topics, in_node = merged(reports), merged(check_node(files))
    same(topics, in_node)
    return topics


def bricks(container):
    return container.glob("*.mcap")


def export(container, folder):
    """Converts a container to a rosbag2 bag and returns its topics, which must be the container's."""
    livebag("convert", container, folder, "--storage", "mcap")
    assert (folder / "metadata.yaml").exists()
    topics = read_everywhere(folder.glob("*.mcap"))
    if all(said["type"] for said in topics.values()) and is_ros2(folder):
        same(topics, check_mcap.read_rosbags(folder), ("count", "sha256", "data_sha256"))
    return topics


def is_ros2(folder):
    """Whether rosbags takes this bag: the ros2 profile, and CDR alone."""
    return all("rosbags" in report["readers"] for report in check(sorted(folder.glob("*.mcap"))).values())


def expectation(container):
    """expect.json of a container: beside its files, or beside it under its own name."""
    for path in (container / "expect.json", container.parent / f"{container.name}.expect.json",
                 container.parent / "expect.json"):
        if path.exists():
            return path
    raise AssertionError(f"no expect.json for {container}")


def test_there_are_containers():
    assert CONTAINERS, f"no container below {FRAMES}"


@pytest.mark.parametrize("container", CONTAINERS, ids=by_name)
def test_bricks_are_read_everywhere_and_hold_what_was_written(container):
    read_everywhere(bricks(container), expect=expectation(container))


@pytest.mark.parametrize("container", CONTAINERS, ids=by_name)
def test_an_export_holds_what_the_bricks_hold(container, tmp_path):
    same(export(container, tmp_path / "bag"), read_everywhere(bricks(container)))


@pytest.mark.parametrize("container", CONTAINERS, ids=by_name)
def test_an_export_comes_back_unchanged(container, tmp_path):
    livebag("convert", container, tmp_path / "bag", "--storage", "mcap")
    livebag("convert", tmp_path / "bag", tmp_path / "back", "--storage", "container")
    same(read_everywhere(bricks(tmp_path / "back")), read_everywhere(bricks(container)))


@pytest.mark.parametrize("container", CONTAINERS, ids=by_name)
def test_a_query_gives_an_ordinary_mcap(container, tmp_path):
    answer = tmp_path / "answer.mcap"
    livebag("query", container, "latest", "--last", "1000000s", "-o", answer)
    same(read_everywhere([answer]), read_everywhere(bricks(container)))


@pytest.mark.parametrize("bag", BAGS, ids=by_name)
def test_an_import_keeps_every_message(bag, tmp_path):
    livebag("convert", bag, tmp_path / "container", "--storage", "container")
    imported = read_everywhere(bricks(tmp_path / "container"))
    original = check_mcap.read_rosbags(bag)
    if not original:
        # rosbags finds no message in a directory whose metadata.yaml lists no `files` (before version
        # 5), although it reads the one file in it.
        (file,) = [*bag.glob("*.mcap"), *bag.glob("*.db3")]
        original = check_mcap.read_rosbags(file)
    original = {name: said for name, said in original.items() if said["count"]}
    same(imported, original, ("count", "sha256", "data_sha256", *check_mcap.IMAGE_FIELDS))
    same(export(tmp_path / "container", tmp_path / "bag"), imported)


@pytest.mark.skipif(not (SHARED / "do.bag").exists(), reason="no real recording here")
def test_real_frames_through_shared_memory_keep_their_pixels(tmp_path):
    recorded = tmp_path / "recorded"
    with playing(SHARED / "do.bag") as player:
        player.record(recorded)
    original = {player.streams[name]: said for name, said in check_mcap.read_rosbags(SHARED / "do.bag").items()}
    images = {name for name, said in original.items() if "encoding" in said}
    found = check(sorted(bricks(recorded)), "--list")
    checked = 0
    for topic, said in merged(found).items():
        if topic in images:
            pixels = {message["data_sha256"] for message in said["messages"]}
            assert pixels == {original[topic]["data_sha256"]}
            assert said["encoding"] == original[topic]["encoding"]
            checked += said["count"]
    assert images and checked, f"no image was recorded while this ran: {player.said}"
    same(merged(found), merged(check_node(sorted(bricks(recorded)))))


@contextlib.contextmanager
def playing(bag):
    """Plays a bag into streams whose names no other test and no other program uses."""
    player = Player(bag)
    try:
        yield player
    finally:
        player.process.send_signal(signal.SIGINT)
        player.said = player.process.communicate(timeout=60)[0].decode()


class Player:
    numbers = itertools.count()

    def __init__(self, bag):
        prefix = f"interop_{os.getpid()}_{next(self.numbers)}"
        topics = [topic["name"] for topic in json.loads(livebag("info", bag, "--json"))["topics"]]
        # The stream of each topic, by the topic's name in the bag.
        self.streams = {name: f"/{prefix}{name}" for name in topics}
        self.pattern = f"^/{prefix}/"
        self.process = subprocess.Popen(
            [os.environ["LIVEBAG"], "play", bag, "--loop", "-m", *(f"{old}:={new}" for old, new in self.streams.items())],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def record(self, folder, *options):
        """Records for two seconds. Exit code 3 says that something was lost, which is another test's."""
        done = subprocess.run([os.environ["LIVEBAG"], "record", "-e", self.pattern, "-o", folder, "--duration", "2", *options],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode in (0, 3), done.stderr


def test_a_direct_recording_is_read_by_rosbags_as_a_bag(tmp_path):
    recorded = tmp_path / "recorded"
    with playing(next(container for container in CONTAINERS if is_ros2(container))) as player:
        player.record(recorded, "--storage", "mcap", "--max-bag-duration", "0.7")
    info = json.loads(livebag("info", recorded, "--json"))
    counts = {topic["name"]: topic["message_count"] for topic in info["topics"] if topic["message_count"]}
    found = check_mcap.read_rosbags(recorded)
    assert counts and {name: said["count"] for name, said in found.items() if said["count"]} == counts
    files = sorted(recorded.glob("*.mcap"))
    assert len(files) >= 2
    checked = [said["count"] for report in check(files).values() for said in report["topics"].values()]
    assert sum(checked) == info["message_count"]


@pytest.mark.parametrize("preset, version", [("none", "5"), ("none", "7"), ("resilient", "9")])
def test_a_recording_of_databases_is_read_by_rosbags(tmp_path, preset, version):
    recorded = tmp_path / "recorded"
    container = next(container for container in CONTAINERS if is_ros2(container))
    with playing(container) as player:
        player.record(recorded, "--storage", "sqlite3", "--preset", preset,
                      "--metadata-version", version, "--max-bag-duration", "0.7")
    played = {player.streams[name]: said for name, said in merged(check(sorted(bricks(container)))).items()}
    found = check_mcap.read_rosbags(recorded)
    assert len(list(recorded.glob("*.db3"))) >= 2
    info = json.loads(livebag("info", recorded, "--json"))
    assert sum(said["count"] for said in found.values()) == info["message_count"] > 0
    counts = {topic["name"]: topic["message_count"] for topic in info["topics"]}
    assert found
    for name, said in found.items():
        assert said["type"] == played[name]["type"]
        assert said["count"] == counts[name]
    livebag("verify", recorded)


def test_info_counts_what_the_readers_count():
    for container in CONTAINERS:
        info = json.loads(livebag("info", container, "--json"))
        topics = read_everywhere(bricks(container))
        assert info["message_count"] == sum(said["count"] for said in topics.values())
