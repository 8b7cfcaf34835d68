"""ROS 2 networks recorded, played into and bridged by the command, with nodes of other implementations.

LIVEBAG is the command. LIVEBAG_ROS2_SECONDS=60 makes the recordings of test_what_is_sent_is_recorded so
long (2 otherwise) and prints figures (pytest -s)."""

import json
import os
import time

import numpy
import pytest
from ros2_bags import by_name, playing, read, read_with_rosbags, recording, running
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from ros2_nodes import JAZZY, Dds, FastDds, Topic, Zenoh, encode, type_hash, wait_for
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer
from ruamel.yaml import YAML
from tools import SHARED, livebag

SECONDS = float(os.environ.get("LIVEBAG_ROS2_SECONDS", 2))
STRING, IMAGE, BYTES = "std_msgs/msg/String", "sensor_msgs/msg/Image", "std_msgs/msg/UInt8MultiArray"


needs_fast_dds = pytest.mark.skipif(not FastDds.peer.exists(), reason="no Fast DDS here (scripts/setup.sh dds)")


@pytest.fixture(params=[Dds, pytest.param(FastDds, marks=needs_fast_dds), Zenoh], ids=["dds", "fastdds", "zenoh"])
def network(request):
    pytest.importorskip({Dds: "cyclonedds", FastDds: "cyclonedds", Zenoh: "zenoh"}[request.param])
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
    if not any((path / name).exists() for name in ("container.yaml", "metadata.yaml")):
        return {}
    return {topic["name"]: topic["message_count"] for topic in json.loads(livebag("info", path, "--json"))["topics"]}


def wait_for_recorded(path, expected):
    wait_for(f"{expected} in {path}", lambda: counts(path) == expected)


def wait_until_quiet(path):
    """Waits until what a process sent before its end has come: until two looks see the same."""
    seen = []

    def is_quiet():
        seen.append(counts(path))
        return len(seen) > 1 and seen[-1] == seen[-2]
    wait_for("quiet", is_quiet)


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
          f" {summary['message_bytes'] / 1e6:.0f} MB in {took:.1f} s; recorded {summary['message_count']}, lost {summary['lost']}")
    recorded = by_name(tmp_path / "bag")
    for name, messages in sent.items():
        assert [hash(data) for data in recorded[name].data()] == messages, name
        assert recorded[name].type_name == STRING
        assert recorded[name].metadata["topic_type_hash"] == type_hash(STRING)
        assert "string data" in recorded[name].definition
    if SECONDS <= 10:
        assert {name: [hash(data) for data in found] for name, found in read_with_rosbags(tmp_path / "bag").items()} == sent


def newest(path, *names):
    """The sequence number of each topic's newest message that can be read now, by topic."""
    names = [name for name in names if name in counts(path)]
    found = {}
    for line in livebag("query", path, "latest", "--last", "1h", "--json", "-t", *names).splitlines() if names else []:
        message = json.loads(line)
        found[message["topic"]] = message["sequence"]
    return found


def test_what_is_lost_is_counted(network, node, tmp_path):
    publisher = node.publisher(Topic("/flood", BYTES, is_reliable=False, depth=1))
    marks = node.publisher(Topic("/mark", STRING, depth=0))
    layout = JAZZY.types["std_msgs/msg/MultiArrayLayout"]([], 0)
    sizes = [600_000, 1000, 100_000]
    bodies = [encode(BYTES, layout, numpy.zeros(size, dtype=numpy.uint8)) for size in sizes]
    sent = marked = 0

    def send(size_index):
        nonlocal sent
        data = bytearray(bodies[size_index])
        # Each is numbered in its bytes.
        data[-8:] = sent.to_bytes(8, "little")
        sent += 1
        publisher.write(bytes(data))

    bag = tmp_path / "bag"
    with recording(network, bag, "-a", "--max-cache-size", "2MB") as recorder:
        open_for([publisher, marks])

        def one_is_recorded():
            send(1)
            return counts(bag).get("/flood", 0) > 0
        # What precedes the first that comes, nobody can know to have been sent, nor what follows the last.
        wait_for("a first message", one_is_recorded)
        for number in range(1500):
            send(number % len(sizes))

        def last_is_recorded():
            """Sends one more, and marks behind it until one is recorded; whether the one was, too."""
            nonlocal marked
            send(1)
            marks_before, seen = marked, {}
            while seen.get("/flood") != sent and seen.get("/mark", 0) <= marks_before:
                marks.write(text("it has come by now, or never"))
                marked += 1
                seen = newest(bag, "/flood", "/mark")
            return seen.get("/flood") == sent
        wait_for("the last message", last_is_recorded)
        code = recorder.stop()
        summary = recorder.json()
    numbers = [int.from_bytes(data[-8:], "little") for data in by_name(bag)["/flood"].data()]
    lost = next(topic["lost"] for topic in summary["topics"] if topic["name"] == "/flood")
    print(f"\n{type(network).__name__}: {sent} sent, {len(numbers)} recorded, lost {lost}")
    assert numbers == sorted(set(numbers)), "each once, in their order"
    assert numbers[-1] == sent - 1
    assert len(numbers) + lost["total"] == sent - numbers[0]
    assert code == (3 if summary["lost"]["total"] else 0)


# The depth is more than is played, so that a publisher that keeps the last messages gives up none.
SENSOR = Qos(history=QosHistory.KEEP_LAST, depth=5000, reliability=QosReliability.RELIABLE,
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
        wait_until_quiet(path)
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
        assert qos["history"] in ("keep_last", 1) and qos["depth"] == (3 if name == "/map" else SENSOR.depth), qos
    assert read_with_rosbags(tmp_path / "again")["/seen"][-20:] == messages["/seen"]


def stream_names():
    return {stream["name"] for stream in json.loads(livebag("streams", "--json"))}


def bridge_row(bridge, topic):
    rows = [row for row in bridge.json()["topics"] if row["topic"] == topic]
    assert len(rows) == 1, bridge.json()
    return rows[0]


def test_bridges_carry_streams_through_the_network_and_back(network, tmp_path):
    """Stream, topic, stream: two bridges of one machine, whose streams carry the same topic."""
    own = f"bridged_{os.getpid()}"
    bag, frames = tmp_path / "bag", [image(number, 320, 200) for number in range(120)]
    with Writer(bag, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection(f"/{own}", IMAGE, typestore=JAZZY)
        for number, frame in enumerate(frames):
            writer.write(topic, START + number * 5_000_000, frame)
    far = ["bridge", *network.arguments, "--from-ros2", f"/{own}", "--prefix", "far.", "--json"]
    near = ["bridge", *network.other_arguments, "--to-ros2", own, f"/{own}", "--json"]
    with running(network, *far) as from_ros2, running(network, *near) as to_ros2:
        # The looped player shows the bridges the stream; what is then played once is compared.
        with running(network, "play", bag, "--loop"):
            wait_for("the stream at the far side", lambda: f"far.{own}" in stream_names())
            recorder = ["record", f"far.{own}", "--storage", "mcap", "-o", tmp_path / "far", "--json"]
            with running(network, *recorder) as record:
                def times_round():
                    return counts(tmp_path / "far").get(f"/{own}", 0) >= 3 * len(frames)
                wait_for("three rounds", times_round)
                record.stop()
        to_ros2.stop()
        from_ros2.stop()
    sent, come = bridge_row(to_ros2, f"/{own}"), bridge_row(from_ros2, f"/{own}")
    assert sent["refused"] == come["refused"] == 0
    # A stream of the far side that went back would have been passed on as well, without end.
    assert 3 * len(frames) <= come["message_count"] <= sent["message_count"]
    recorded = by_name(tmp_path / "far")[f"/{own}"]
    assert recorded.type_name == IMAGE
    pixels = [frame[-320 * 200:] for frame in frames]
    numbers = [pixels.index(data[len(frames[0]) - 320 * 200:len(frames[0])]) for data in recorded.data()]
    lost = record.json()["lost"]["total"] + sent["lost"]["total"] + come["lost"]["total"]
    gaps = sum((b - a - 1) % len(frames) for a, b in zip(numbers, numbers[1:]))
    assert gaps <= lost, "what is missing was counted"
    assert {data[:len(frames[0])] for data in recorded.data()} <= set(frames)


def test_a_bridge_keeps_to_its_rate(network, node, tmp_path):
    own = f"throttled_{os.getpid()}"
    publisher = node.publisher(Topic(f"/{own}", IMAGE))
    options = ["--from-ros2", f"/{own}", "--throttle", f"/{own}=0.001", "--json"]
    with running(network, "bridge", *network.arguments, *options) as bridge:
        open_for([publisher])
        early = 0

        def has_come():
            nonlocal early
            early += 1
            publisher.write(image(0))
            return own in stream_names()

        # A DDS subscription begins with the first heartbeat that it hears: messages before it are acknowledged, and
        # not given to it.
        wait_for("the stream", has_come)
        for number in range(49):
            publisher.write(image(number))
        assert publisher.has_arrived()
        code = bridge.stop()
    row = bridge_row(bridge, f"/{own}")
    assert row["message_count"] == 1 and row["skipped"] <= early - 1 + 49
    if isinstance(network, Dds):
        assert row["skipped"] >= 49, "what was acknowledged was counted"
    assert code == 0


# Nodes that lie.

CUSTOM = "odd_msgs/msg/Odd"


def test_messages_that_are_not_what_their_type_says_are_recorded(network, node, tmp_path):
    layout = bytes.fromhex("00010000")
    wrong = [layout + b"\xff\xff\xff\x7fabcd", layout + b"\0" * 4, layout + b"\x05\0\0\0abcd", b"\0\x07\0\0" + b"x" * 96,
             layout + b"\xff" * 4000, text("and a right one")]
    topics = [Topic("/wrong", STRING), Topic("/wrong_image", IMAGE), Topic("/wrong_tf", "tf2_msgs/msg/TFMessage")]
    publishers = [node.publisher(topic) for topic in topics]
    with recording(network, tmp_path / "bag", "-a") as recorder:
        open_for(publishers)
        for publisher in publishers:
            for data in wrong:
                publisher.write(data)
        wait_for_recorded(tmp_path / "bag", {topic.name: len(wrong) for topic in topics})
        assert recorder.stop() == 0, recorder.said
    recorded = by_name(tmp_path / "bag")
    assert all(recorded[topic.name].data() == wrong for topic in topics)
    livebag("verify", tmp_path / "bag")


def test_a_topic_with_two_types_or_two_hashes_is_recorded_apart(network, node, tmp_path):
    other = network.node()
    lie = "RIHS01_" + "ab" * 32
    topics = [Topic("/odd", STRING), Topic("/odd", IMAGE), Topic("/hash", STRING), Topic("/hash", STRING, type_hash=lie)]
    publishers = [(node if index % 2 == 0 else other).publisher(topic) for index, topic in enumerate(topics)]
    with recording(network, tmp_path / "bag", "-a") as recorder:
        open_for(publishers)
        recorder.wait_for("/odd is published as")
        recorder.wait_for("/hash is published as")
        for number, publisher in enumerate(publishers):
            for index in range(5):
                publisher.write(image(index) if number == 1 else text(f"{number} {index}"))
        def all_there():
            found = [topic["message_count"] for topic in json.loads(livebag("info", tmp_path / "bag", "--json"))["topics"]]
            return sum(found) == 20
        wait_for("all", all_there)
        assert recorder.stop() == 0, recorder.said
    other.close()
    recorded = read(tmp_path / "bag")
    assert recorded["/odd", STRING, type_hash(STRING)].data() == [text(f"0 {i}") for i in range(5)]
    assert recorded["/odd", IMAGE, type_hash(IMAGE)].data() == [image(i) for i in range(5)]
    told = {key[2] for key in recorded if key[0] == "/hash"}
    assert lie in told and type_hash(STRING) in told
    # Which message came under which hash, DDS does not say where one subscription serves both.
    both = [data for key, topic in recorded.items() if key[0] == "/hash" for data in topic.data()]
    assert sorted(both) == sorted(text(f"{n} {i}") for n in (2, 3) for i in range(5))
    # No definition is made up for a hash that does not fit it.
    assert recorded["/hash", STRING, lie].definition == ""
    livebag("verify", tmp_path / "bag")


def test_names_and_types_without_end_are_refused_with_a_word(network, node, tmp_path):
    if isinstance(network, FastDds):
        pytest.skip("Fast DDS cuts names to 255 bytes itself")
    long = [Topic("/" + "x" * 10_000), Topic("/" + "y/" * 600 + "z"), Topic("/odd_type", "a/msg/" + "T" * 200)]
    if isinstance(network, Zenoh):
        # The other package takes no longer ones.
        long.append(Topic("/long_type", "a/msg/" + "T" * 5000))
    kept = [node.publisher(topic) for topic in long]
    right = node.publisher(Topic("/right"))
    with recording(network, tmp_path / "bag", "-a") as recorder:
        open_for([right])
        right.write(text("here"))
        recorder.wait_for("announces things that cannot be")
        wait_for("the right one", lambda: counts(tmp_path / "bag").get("/right") == 1)
        assert recorder.stop() == 0, recorder.said
    del kept
    livebag("verify", tmp_path / "bag")


def test_a_crowd_of_topics_is_recorded_or_refused_with_a_word(network, node, tmp_path):
    """Of types that nobody knows, on a node that answers nothing."""
    # Each of DDS' costs both sides milliseconds.
    # Zenoh compares each subscription with all others: for ten thousand the recorder takes minutes.
    count = 500 if isinstance(network, Dds) else 10_000 if SECONDS > 10 else 2000
    if isinstance(network, Zenoh):
        kept = [node.announce("MP", Topic(f"/crowd/topic_{i}", f"odd_msgs/msg/Odd{i}", type_hash="RIHS01_" + f"{i:064x}"))
                for i in range(1, count)]
    else:
        kept = [node.publisher(Topic(f"/crowd/topic_{i}", f"odd_msgs/msg/Odd{i}", type_hash="RIHS01_" + f"{i:064x}"))
                for i in range(1, count)]
    with recording(network, tmp_path / "bag", "-a") as recorder:
        recorder.wait_for("/crowd/topic_")
        first = node.publisher(Topic("/at_first"))
        open_for([first])
        first.write(text("here"))
        wait_for("the right one", lambda: counts(tmp_path / "bag").get("/at_first") == 1)
        assert recorder.stop() in (0, 3), recorder.said
    del kept
    assert by_name(tmp_path / "bag")["/at_first"].data() == [text("here")]
    livebag("verify", tmp_path / "bag")


# Options of the recorder and the player.


def test_time_can_be_that_of_a_played_clock(network, tmp_path):
    bag = tmp_path / "bag"
    messages = make_bag(bag)
    node = network.node()
    clock = node.subscriber(Topic("/clock", "rosgraph_msgs/msg/Clock", is_reliable=False))
    with recording(network, tmp_path / "again", "--topics", "/said", "--use-sim-time") as recorder:
        with running(network, "play", bag, *network.other_arguments, "--clock", "200", "--loop"):
            wait_for("messages with the clock's times", lambda: counts(tmp_path / "again").get("/said", 0) > 100)
            wait_for("the clock itself", lambda: len(clock.messages()) > 10)
        assert recorder.stop() == 0, recorder.said
    node.close()
    recorded = by_name(tmp_path / "again")
    assert list(recorded) == ["/said"] and set(recorded["/said"].data()) <= set(messages["/said"])
    assert all(START <= at <= START + 2_000_000_000 for at in recorded["/said"].times())
    assert all(len(data) == 12 and data[4:8] == (START // 10**9).to_bytes(4, "little") for data in clock.messages())


@pytest.mark.skipif(not (SHARED / "do.bag").exists(), reason="no ../shared/data/do.bag")
def test_a_bag_of_ros_1_is_played_as_ros_2(network, tmp_path):
    livebag("convert", SHARED / "do.bag", tmp_path / "converted", "--to-ros2", "--storage", "mcap")
    converted = by_name(tmp_path / "converted")
    with recording(network, tmp_path / "again", "-a") as recorder:
        with running(network, "play", SHARED / "do.bag", *network.other_arguments, "-r", "10", "--loop"):
            wait_for("every topic", lambda: set(counts(tmp_path / "again")) == set(converted))
            wait_for("messages", lambda: sum(counts(tmp_path / "again").values()) > 200)
        recorder.stop()
    recorded = by_name(tmp_path / "again")
    for name, topic in recorded.items():
        assert topic.type_name == converted[name].type_name
        assert topic.metadata["topic_type_hash"] == converted[name].metadata["topic_type_hash"]
        known = set(converted[name].data())
        padded = {data + bytes(-len(data) % 4) for data in known}
        assert set(topic.data()) <= known | padded, name
    # Definitions that differ from today's are the bag's alone: the player tells their hashes.
    assert any(topic.definition == converted[name].definition for name, topic in recorded.items())
    read_with_rosbags(tmp_path / "again")


def test_services_are_recorded_if_they_are_asked_for(network, node, tmp_path):
    event = Topic("/add/_service_event", "example_interfaces/srv/AddTwoInts_Event")
    publishers = [node.publisher(topic) for topic in (event, Topic("/other"))]
    for options, expected in [(["--all-services"], "/add/_service_event"), (["--services", "/add"], "/add/_service_event"),
                              (["--all-topics"], "/other"), (["--topics", "/other"], "/other")]:
        path = tmp_path / "_".join(options).replace("/", "")
        with recording(network, path, *options) as recorder:
            def is_there():
                for publisher in publishers:
                    publisher.write(text("x"))
                return counts(path).get(expected)
            wait_for(expected, is_there)
            assert recorder.stop() == 0, recorder.said
        assert list(by_name(path)) == [expected]


def test_quality_of_service_can_be_said(network, node, tmp_path):
    overrides = tmp_path / "qos.yaml"
    overrides.write_text("/said:\n  reliability: reliable\n  durability: transient_local\n  history: keep_all\n")
    publisher = node.publisher(Topic("/said", is_reliable=False))
    with recording(network, tmp_path / "bag", "-a", "--qos-profile-overrides-path", overrides) as recorder:
        recorder.wait_for("is more than")
        recorder.stop()
    assert publisher.subscriptions() == 0 or isinstance(network, Zenoh)


@needs_fast_dds
@pytest.mark.parametrize("one_for_all", [False, True])
def test_publishers_of_two_reliabilities_are_recorded_and_what_they_hear(tmp_path, one_for_all):
    """The best-effort one prints that an incompatible QoS is asked for, if the reliable one is to lose nothing."""
    network = FastDds()
    node = network.node()
    publishers = [node.publisher(Topic("/both", is_reliable=is_reliable, depth=0)) for is_reliable in (True, False)]
    options = ["-a"]
    if one_for_all:
        (tmp_path / "qos.yaml").write_text("/both: {reliability: best_effort}\n")
        options += ["--qos-profile-overrides-path", tmp_path / "qos.yaml"]
    with recording(network, tmp_path / "bag", *options) as recorder:
        open_for(publishers)
        for number in range(20):
            for index, publisher in enumerate(publishers):
                publisher.write(text(f"{index} {number:02}"))
            # Best effort: so few at a time that none is lost.
            wait_for("both", lambda: counts(tmp_path / "bag").get("/both") == 2 * (number + 1))
        assert recorder.stop() == 0, recorder.said
    assert [publisher.incompatible() for publisher in publishers] == [0, 0 if one_for_all else 1]
    node.close()


def test_what_appears_late_is_left_out_if_it_is_asked_for(network, node, tmp_path):
    early = node.publisher(Topic("/early"))
    with recording(network, tmp_path / "bag", "-a", "--no-discovery") as recorder:
        open_for([early])
        # Two seconds are what it looks around for; whatever comes later is not taken, however long it is waited for.
        time.sleep(2.5)
        late = node.publisher(Topic("/late"))
        for _ in range(20):
            early.write(text("early"))
            late.write(text("late"))
        wait_for("the early one", lambda: counts(tmp_path / "bag").get("/early") == 20)
        assert recorder.stop() == 0, recorder.said
    assert list(by_name(tmp_path / "bag")) == ["/early"]


def test_an_unknown_type_is_recorded_raw_and_said(network, node, tmp_path):
    publisher = node.publisher(Topic("/odd", CUSTOM, type_hash="RIHS01_" + "12" * 32))
    with recording(network, tmp_path / "bag", "-a") as recorder:
        open_for([publisher])
        publisher.write(text("of nobody knows what"))
        recorder.wait_for(f"there is no definition of {CUSTOM}")
        wait_for("the message", lambda: counts(tmp_path / "bag").get("/odd") == 1)
        assert recorder.stop() == 0, recorder.said
    odd = by_name(tmp_path / "bag")["/odd"]
    assert odd.data() == [text("of nobody knows what")]
    assert odd.type_name == CUSTOM and odd.definition == ""
    assert odd.metadata["topic_type_hash"] == "RIHS01_" + "12" * 32


@pytest.mark.parametrize("is_honest", [True, False], ids=["honest", "lying"])
def test_a_node_tells_what_an_unknown_type_is(tmp_path, is_honest):
    """Over Zenoh: nodes of cyclonedds' package have no names."""
    pytest.importorskip("zenoh")
    definition = "string data\nuint8 OF_ITS_OWN=3\n"
    types = get_typestore(Stores.ROS2_JAZZY)
    types.register(get_types_from_msg(definition, CUSTOM))
    response = "type_description_interfaces/msg/GetTypeDescription_Response"
    types.register(get_types_from_msg(
        "bool successful\nstring failure_reason\ntype_description_interfaces/TypeDescription type_description\n"
        "type_description_interfaces/TypeSource[] type_sources\ntype_description_interfaces/KeyValue[] extra_information\n",
        response))
    kind = {name: types.types[f"type_description_interfaces/msg/{name}"]
            for name in ("TypeDescription", "IndividualTypeDescription", "TypeSource")}
    source = kind["TypeSource"](CUSTOM, "msg", definition if is_honest else "int32 data\n")
    nothing = kind["TypeDescription"](kind["IndividualTypeDescription"](CUSTOM, []), [])
    answer = types.serialize_cdr(types.types[response](True, "", nothing, [source], []), response, little_endian=True)
    network = Zenoh()
    node = network.node()
    node.describe(bytes(answer))
    publisher = node.publisher(Topic("/odd", CUSTOM, type_hash=types.hash_rihs01(CUSTOM)))
    with recording(network, tmp_path / "bag", "-a") as recorder:
        open_for([publisher])
        publisher.write(text("described"))
        wait_for("the message", lambda: counts(tmp_path / "bag").get("/odd") == 1)
        if not is_honest:
            recorder.wait_for("another hash than the one it tells")
        assert recorder.stop() == 0, recorder.said
    node.close()
    odd = by_name(tmp_path / "bag")["/odd"]
    assert odd.data() == [text("described")]
    assert odd.definition.strip() == (definition.strip() if is_honest else "")


@pytest.mark.parametrize("arguments, code, words", [
    (["record", "--ros2", "carrier-pigeon", "-a"], 2, "not one of zenoh, dds"),
    (["record", "--ros2", "dds", "-a", "--domain", "233"], 1, "232"),
    (["record", "--ros2", "dds"], 2, "-a"),
    (["record", "--ros2", "dds", "-a", "--interface", "no_such_interface"], 1, "no_such_interface"),
    (["record", "--ros2", "zenoh", "-a", "--interface", "lo"], 2, "--interface is for --ros2 dds"),
    (["record", "--ros2", "zenoh", "-a", "--zenoh-config", "/no/such/file.json5"], 1, "/no/such/file.json5"),
    (["record", "--ros2", "zenoh", "-a", "--zenoh-listen", "tcp/0.0.0.0:0"], 1, "without encryption"),
    (["record", "--ros2", "dds", "-a", "--qos-profile-overrides-path", "/no/such/file.yaml"], 1, "/no/such/file.yaml"),
    (["record", "--ros2", "dds", "-a", "--use-sim-time", "--no-discovery"], 2, "--no-discovery"),
    (["bridge", "--ros2", "dds"], 2, "--to-ros2"),
    (["bridge", "--to-ros2"], 2, "--ros2"),
    (["play", "/no/such/bag", "--ros2", "dds"], 1, "/no/such/bag"),
], ids=lambda value: "_".join(value[:5]).replace("/", "") if isinstance(value, list) else None)
def test_what_cannot_be_is_refused_with_a_word(arguments, code, words, tmp_path):
    class Local:
        environment = {"ROS_LOCALHOST_ONLY": "1"}
    options = ["-o", tmp_path / "bag"] if arguments[0] == "record" else []
    with running(Local, *arguments, *options) as command:
        assert command.end() == code, command.said
    assert any(words in line for line in command.said), command.said
    assert not (tmp_path / "bag").exists()
