"""ROS 2 networks recorded, played into and bridged by the command, with nodes of other implementations.

LIVEBAG is the command. LIVEBAG_ROS2_SECONDS=60 makes the recordings of test_what_is_sent_is_recorded so
long (2 otherwise) and prints figures (pytest -s)."""

import json
import os
import time
from dataclasses import replace

import numpy
import pytest
from ros2_bags import by_name, playing, read, read_with_rosbags, recording, running
from ros2_nodes import JAZZY, UNKNOWN_HASH, Dds, Topic, Zenoh, encode, type_hash, wait_for
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer
from ruamel.yaml import YAML
from tools import SHARED, livebag

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


SENSOR = Qos(history=QosHistory.KEEP_LAST, depth=5, reliability=QosReliability.RELIABLE,
             durability=QosDurability.VOLATILE, deadline=QosTime(9223372036, 854775807),
             lifespan=QosTime(9223372036, 854775807), liveliness=QosLiveliness.AUTOMATIC,
             liveliness_lease_duration=QosTime(9223372036, 854775807), avoid_ros_namespace_conventions=False)
LATCHED = SENSOR._replace(durability=QosDurability.TRANSIENT_LOCAL, depth=3)
START = 1_700_000_000_000_000_000


def make_bag(path):
    """A second of messages: one latched, 200 texts, 20 images. Gives the messages by topic."""
    messages = [(START, "/map", text("where we are"))]
    messages += [(START + 5_000_000 * i, "/said", text(f"{i} " * (i + 1))) for i in range(200)]
    messages += [(START + 50_000_000 * i + 1000, "/seen", image(i)) for i in range(20)]
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topics = {name: writer.add_connection(name, kind, typestore=JAZZY, offered_qos_profiles=[qos])
                  for name, kind, qos in (("/map", STRING, LATCHED), ("/said", STRING, SENSOR), ("/seen", IMAGE, SENSOR))}
        for at, name, data in sorted(messages):
            writer.write(topics[name], at, data)
    return {name: [data for _, other, data in sorted(messages) if other == name] for name in topics}


def play_into_recording(network, bag, path, *options, during=lambda player: None):
    """Plays a bag into a recording, from its beginning once each of its topics has arrived there at all."""
    names = [topic["name"] for topic in json.loads(livebag("info", bag, "--json"))["topics"]]
    with recording(network, path, "-a") as recorder:
        with playing(network, bag, *options) as player:
            def one_more_of_all():
                player.press(player.NEXT)
                seen = counts(path)
                return all(seen.get(name) for name in names)
            wait_for("a message of each topic", one_more_of_all)
            during(player)
            player.press(player.BACK)
            player.press(player.PAUSE)
            assert player.command.end() == 0, player.command.said
            played = player.command.json()
        total = counts(path)
        wait_for_recorded(path, total)
        assert recorder.stop() == 0, recorder.said
    return played, by_name(path)


def qos_of(topic):
    return YAML(typ="safe").load(topic.metadata["offered_qos_profiles"])


@pytest.mark.parametrize("rate", [0.5, 1, 10])
def test_what_is_played_is_recorded(network, tmp_path, rate):
    messages = make_bag(tmp_path / "bag")

    def late_joiner(player):
        # It comes after the latched message was published.
        node = network.node()
        late = node.subscriber(Topic("/map", STRING, is_latched=True, depth=3))
        wait_for("the latched message", late.messages)
        assert late.messages()[0] == messages["/map"][0]
        late.close()
        node.close()
        for _ in range(2):
            player.press(player.PAUSE)

    played, recorded = play_into_recording(network, tmp_path / "bag", tmp_path / "again", "-r", rate, during=late_joiner)
    assert sorted(recorded) == sorted(messages)
    original = by_name(tmp_path / "bag")
    for name, topic in recorded.items():
        assert topic.data()[-len(messages[name]):] == messages[name], name
        assert topic.type_name == original[name].type_name
        assert topic.definition == original[name].definition
        assert topic.metadata["topic_type_hash"] == type_hash(topic.type_name)
        qos = qos_of(topic)[0]
        assert qos["durability"] in (("transient_local", 1) if name == "/map" else ("volatile", 2)), qos
        assert qos["reliability"] in ("reliable", 1), qos
    assert read_with_rosbags(tmp_path / "again")["/seen"][-20:] == messages["/seen"]
