"""ROS 2 networks recorded, played into and bridged by the command, with nodes of other implementations.

LIVEBAG is the command. LIVEBAG_ROS2_SECONDS=60 makes the recordings of test_what_is_sent_is_recorded so
long (2 otherwise) and prints figures (pytest -s)."""

import json
import os
import time
from dataclasses import replace

import numpy
import pytest
from ros2_bags import by_name, read, read_with_rosbags, recording, running
from ros2_nodes import JAZZY, UNKNOWN_HASH, Dds, Topic, Zenoh, encode, type_hash, wait_for
from tools import livebag

SECONDS = float(os.environ.get("LIVEBAG_ROS2_SECONDS", 2))
STRING, IMAGE, BYTES = "std_msgs/msg/String", "sensor_msgs/msg/Image", "std_msgs/msg/UInt8MultiArray"


@pytest.fixture(params=[Dds, Zenoh], ids=["dds", "zenoh"])
def network(request):
    pytest.importorskip({Dds: "cyclonedds", Zenoh: "zenoh"}[request.param])
    network = request.param()
    yield network
    network.close()


@pytest.fixture
def node(network):
    node = network.node()
    yield node
    node.close()


def text(words):
    return encode(STRING, words)


def image(number, width=64, height=48):
    types = JAZZY.types
    header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](number, 5), "camera")
    pixels = numpy.arange(width * height, dtype=numpy.uint32).astype(numpy.uint8) + numpy.uint8(number % 256)
    return encode(IMAGE, header, height, width, "mono8", 0, width, pixels)


def counts(path):
    """Messages by topic that can be read now."""
    return {topic["name"]: topic["message_count"] for topic in json.loads(livebag("info", path, "--json"))["topics"]}


def wait_for_recorded(path, expected):
    wait_for(f"{expected} in {path}", lambda: counts(path) == expected)


def open_for(publishers):
    """Waits until every publisher has a subscription."""
    for publisher in publishers:
        wait_for("a subscription", publisher.subscriptions)


# Topics, messages a second, bytes: 20 topics, some 1,600 messages and 36 MB a second.
MIXED = [(2, 500, 12), (4, 100, 320), (8, 20, 40_001), (4, 10, 307_200), (2, 2, 6_000_003)]


def test_what_is_sent_is_recorded(network, node, tmp_path):
    topics = []
    for number, (topic_count, rate, size) in enumerate(MIXED):
        topics += [(node.publisher(Topic(f"/mixed_{number}/topic_{i}", STRING, depth=0)), rate, size)
                   for i in range(topic_count)]
    names = [f"/mixed_{number}/topic_{i}" for number, mixed in enumerate(MIXED) for i in range(mixed[0])]
    sent = {name: [] for name in names}
    texts = {size: "x" * (size - 6) for _, _, size in MIXED}
    with recording(network, tmp_path / "bag", "-a") as recorder:
        open_for(publisher for publisher, _, _ in topics)
        began = time.monotonic()
        ticks = 1000
        for tick in range(round(SECONDS * ticks)):
            behind = began + tick / ticks - time.monotonic()
            if behind > 0:
                time.sleep(behind)
            for number, (publisher, rate, size) in enumerate(topics):
                # Not all at once.
                if (tick + number) % (ticks // rate) == 0:
                    data = text(f"{tick:06}{texts[size]}")
                    publisher.write(data)
                    sent[names[number]].append(hash(data))
        took = time.monotonic() - began
        expected = {name: len(messages) for name, messages in sent.items()}
        assert all(publisher.has_arrived() for publisher, _, _ in topics)
        wait_for_recorded(tmp_path / "bag", expected)
        assert recorder.stop() == 0, recorder.said
        summary = recorder.json()
    print(f"\n{type(network).__name__}: {len(topics)} topics, {sum(expected.values())} messages,"
          f" {summary['bytes'] / 1e6:.0f} MB in {took:.1f} s; recorded {summary['message_count']}, lost {summary['lost']}")
    recorded = by_name(tmp_path / "bag")
    for name, messages in sent.items():
        assert [hash(data) for data in recorded[name].data()] == messages, name
        assert recorded[name].type_name == STRING
        assert recorded[name].metadata["topic_type_hash"] == type_hash(STRING)
        assert "string data" in recorded[name].definition
    if SECONDS <= 10:
        assert {name: [hash(data) for data in found] for name, found in read_with_rosbags(tmp_path / "bag").items()} == sent


def test_what_is_lost_is_counted(network, node, tmp_path):
    publisher = node.publisher(Topic("/flood", BYTES, is_reliable=False, depth=1))
    layout = JAZZY.types["std_msgs/msg/MultiArrayLayout"]([], 0)
    sizes = [600_000, 1000, 100_000]
    bodies = [encode(BYTES, layout, numpy.zeros(size, dtype=numpy.uint8)) for size in sizes]
    sent = 0

    def send(size_index):
        nonlocal sent
        data = bytearray(bodies[size_index])
        # Each is numbered in its bytes.
        data[-8:] = sent.to_bytes(8, "little")
        sent += 1
        publisher.write(bytes(data))

    with recording(network, tmp_path / "bag", "-a", "--max-cache-size", "2MB") as recorder:
        def one_more_has_come(before):
            send(1)
            return counts(tmp_path / "bag").get("/flood", 0) > before
        # What precedes the first that comes, nobody can know to have been sent, nor what follows the last.
        wait_for("a first message", lambda: one_more_has_come(0))
        for number in range(1500):
            send(number % len(sizes))
        flooded = sent
        wait_for("a last message", lambda: one_more_has_come(counts(tmp_path / "bag")["/flood"]))
        code = recorder.stop()
        summary = recorder.json()
    numbers = [int.from_bytes(data[-8:], "little") for data in by_name(tmp_path / "bag")["/flood"].data()]
    lost = summary["lost"]["total"]
    print(f"\n{type(network).__name__}: {sent} sent, {len(numbers)} recorded, lost {summary['lost']}")
    assert numbers == sorted(set(numbers)), "each once, in their order"
    assert numbers[-1] >= flooded
    assert len(numbers) + lost == numbers[-1] - numbers[0] + 1
    assert code == (3 if lost else 0)
