"""rosbag2 bags of every kind and ROS 1 bags, against the `rosbags` package and the official `mcap` one.

Bags are made by rosbags in each version, storage and compression that it can write, and taken from
../shared/data where it is. LIVEBAG is the command."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest
from mcap.reader import make_reader
from rosbags.convert.converter import LATCH, convert as rosbags_convert
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Nodetype
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.enums import CompressionFormat, CompressionMode
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from ruamel.yaml import YAML
from tools import SHARED, livebag

JAZZY = get_typestore(Stores.ROS2_JAZZY)
COUNT = 60
# Storage without compression of messages in it, and what it is called here.
KINDS = [(version, plugin, mode) for version in (8, 9) for plugin in StoragePlugin for mode in CompressionMode
         if (plugin, mode) != (StoragePlugin.SQLITE3, CompressionMode.STORAGE)]
REAL = [bag for bag in (SHARED / "rosbag2" / name for name in (
    "mcap/talker", "mcap/wbag", "sqlite3/talker", "sqlite3/wbag")) if bag.exists()]


def kind_name(kind):
    return kind.name.lower() if hasattr(kind, "name") else str(kind)


def make(path, version, plugin, mode):
    """A bag with a latched topic, an image topic and one without messages."""
    string, image = JAZZY.types["std_msgs/msg/String"], JAZZY.types["sensor_msgs/msg/Image"]
    header, time = JAZZY.types["std_msgs/msg/Header"], JAZZY.types["builtin_interfaces/msg/Time"]
    writer = Writer(path, version=version, storage_plugin=plugin)
    writer.set_compression(mode, CompressionFormat.ZSTD)
    writer.set_custom_data("run", "7: of \"many\"")
    with writer:
        said = writer.add_connection("/said", "std_msgs/msg/String", typestore=JAZZY, offered_qos_profiles=LATCH)
        seen = writer.add_connection("/seen", "sensor_msgs/msg/Image", typestore=JAZZY)
        writer.add_connection("/silent", "std_msgs/msg/String", typestore=JAZZY)
        for number in range(COUNT):
            at = 1_700_000_000_000_000_000 + number * 50_000_000
            data = JAZZY.serialize_cdr(string("hello " * number), "std_msgs/msg/String", little_endian=True)
            writer.write(said, at, data)
            pixels = numpy.full(48 * 32, number, dtype=numpy.uint8)
            frame = image(header(time(number, 5), "camera"), 32, 48, "mono8", 0, 48, pixels)
            data = JAZZY.serialize_cdr(frame, "sensor_msgs/msg/Image", little_endian=True)
            writer.write(seen, at + 7, data)
    return path


def messages(bag):
    """What rosbags reads: topic, type, time and bytes of each message."""
    with AnyReader([bag], default_typestore=JAZZY) as reader:
        found = sorted((connection.topic, connection.msgtype, time, bytes(data))
                       for connection, time, data in reader.messages())
    if found or not metadata(bag)["message_count"]:
        return found
    # rosbags finds no message where metadata.yaml lists no `files` (before version 5).
    (file,) = [*bag.glob("*.mcap"), *bag.glob("*.db3")]
    with AnyReader([file], default_typestore=JAZZY) as reader:
        return sorted((connection.topic, connection.msgtype, time, bytes(data))
                      for connection, time, data in reader.messages())


def metadata(bag):
    return YAML(typ="safe").load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]


def profiles(value):
    """QoS profiles with their policies as numbers, whatever the version spells."""
    names = {
        "history": ["system_default", "keep_last", "keep_all", "unknown"],
        "reliability": ["system_default", "reliable", "best_effort", "unknown", "best_available"],
        "durability": ["system_default", "transient_local", "volatile", "unknown", "best_available"],
        "liveliness": ["system_default", "automatic", "manual_by_node", "manual_by_topic", "unknown"],
    }
    value = YAML(typ="safe").load(value) if isinstance(value, str) and value else value
    numbered = [dict(profile) for profile in value or []]
    for profile in numbered:
        for policy, known in names.items():
            if isinstance(profile[policy], str):
                profile[policy] = known.index(profile[policy])
    return numbered


def fields(bag, with_hash=True):
    """metadata.yaml without what a conversion changes: version, storage, files' names, compression, accounts. A hash
    that the source has not may be filled in: RIHS01 of its definition."""
    said = metadata(bag)
    topics = {}
    for entry in said["topics_with_message_count"]:
        topic = entry["topic_metadata"]
        topics[topic["name"]] = (topic["type"], topic["serialization_format"], entry["message_count"],
                                 profiles(topic.get("offered_qos_profiles")),
                                 topic.get("type_description_hash", "") if with_hash else None)
    return {"starting_time": said["starting_time"], "duration": said["duration"],
            "message_count": said["message_count"], "topics": topics,
            "custom_data": {key: value for key, value in (said.get("custom_data") or {}).items()
                            if not key.startswith("livebag.account/")},
            "ros_distro": said.get("ros_distro", "")}


def check_files(bag):
    """`files` says of each file what is in it, and of all what the bag says."""
    said = metadata(bag)
    files = said["files"]
    assert [file["path"] for file in files] == said["relative_file_paths"]
    assert all((bag / file["path"]).is_file() for file in files)
    assert sum(file["message_count"] for file in files) == said["message_count"]
    starts = [file["starting_time"]["nanoseconds_since_epoch"] for file in files]
    ends = [start + file["duration"]["nanoseconds"] for start, file in zip(starts, files)]
    assert min(starts) == said["starting_time"]["nanoseconds_since_epoch"]
    assert max(ends) - min(starts) == said["duration"]["nanoseconds"]


def span(found):
    """When messages begin and how long they take: metadata.yaml of a split bag may tell of its last file alone
    (`wbag`)."""
    times = [time for _, _, time, _ in found]
    return {"starting_time": {"nanoseconds_since_epoch": min(times)}, "duration": {"nanoseconds": max(times) - min(times)}}


def info_counts(bag):
    info = json.loads(livebag("info", bag, "--json"))
    assert info["warnings"] == []
    return {topic["name"]: topic["message_count"] for topic in info["topics"]}


def convert(source, target, *options):
    said = json.loads(livebag("convert", source, target, "--json", *options))
    assert said["damaged"] == 0
    return said


def there_and_back(bag, folder):
    """To the other storage and back, with metadata.yaml of version 9."""
    original = messages(bag)
    assert original
    counts = info_counts(bag)
    assert sum(counts.values()) == len(original)
    storages = ["mcap", "sqlite3"]
    if metadata(bag)["storage_identifier"] == "mcap":
        storages.reverse()
    source = bag
    for number, storage in enumerate(storages):
        target = folder / f"{number}_{storage}"
        convert(source, target, "--storage", storage, "--metadata-version", "9")
        assert messages(target) == original
        assert fields(target) == fields(bag) | span(original)
        assert metadata(target)["storage_identifier"] == storage
        assert info_counts(target) == counts
        check_files(target)
        livebag("verify", target)
        source = target


@pytest.mark.parametrize("version, plugin, mode", KINDS, ids=kind_name)
def test_every_bag_that_rosbags_writes_goes_to_the_other_storage_and_back(tmp_path, version, plugin, mode):
    there_and_back(make(tmp_path / "bag", version, plugin, mode), tmp_path)


@pytest.mark.parametrize("bag", REAL, ids=lambda bag: f"{bag.parent.name}-{bag.name}")
def test_real_bags_go_to_the_other_storage_and_back(bag, tmp_path):
    there_and_back(bag, tmp_path)


@pytest.mark.parametrize("bag", REAL, ids=lambda bag: f"{bag.parent.name}-{bag.name}")
def test_a_lost_metadata_of_a_real_bag_is_made_anew(bag, tmp_path):
    copy = shutil.copytree(bag, tmp_path / "bag")
    (copy / "metadata.yaml").unlink()
    livebag("recover", copy)
    before, after = fields(bag), fields(copy)
    assert messages(copy) == messages(bag)
    check_files(copy)
    # What only metadata.yaml had of an old bag cannot come back; what files say is all there.
    for topic, said in after["topics"].items():
        assert said[:3] == before["topics"][topic][:3]
    assert after["message_count"] == before["message_count"]
    assert {key: after[key] for key in ("starting_time", "duration")} == span(messages(bag))


@pytest.mark.parametrize("version, plugin, mode", KINDS, ids=kind_name)
def test_a_lost_metadata_is_made_anew_field_for_field(tmp_path, version, plugin, mode):
    bag = make(tmp_path / "bag", version, plugin, mode)
    before, whole = fields(bag), metadata(bag)
    expected = messages(bag)
    (bag / "metadata.yaml").unlink()
    livebag("recover", bag)
    assert fields(bag) == before
    after = metadata(bag)
    assert after["relative_file_paths"] == whole["relative_file_paths"]
    assert after["compression_mode"].lower() == whole["compression_mode"]
    assert after["compression_format"] == whole["compression_format"]
    check_files(bag)
    assert messages(bag) == expected
    assert "nothing to recover" in livebag("recover", bag)


@pytest.mark.parametrize("mode, storage", [
    ("none", "mcap"), ("none", "sqlite3"), ("file", "mcap"), ("file", "sqlite3"), ("message", "sqlite3")])
@pytest.mark.parametrize("version", ["5", "7", "9"])
def test_every_kind_of_bag_that_is_written_is_read_by_rosbags(tmp_path, mode, storage, version):
    bag = make(tmp_path / "bag", 9, StoragePlugin.MCAP, CompressionMode.NONE)
    target = tmp_path / "written"
    convert(bag, target, "--storage", storage, "--compression-mode", mode, "--metadata-version", version, "-d", "1")
    said = metadata(target)
    assert said["version"] == int(version) and len(said["files"]) == 3
    assert said["compression_mode"].lower() == (mode if mode != "none" else "")
    assert isinstance(said["topics_with_message_count"][0]["topic_metadata"]["offered_qos_profiles"],
                      list if version == "9" else str)
    check_files(target)
    assert messages(target) == messages(bag)
    same = fields(target, with_hash=version != "5")
    lost = {"5": ("custom_data", "ros_distro"), "7": ("ros_distro",), "9": ()}[version]
    expected = fields(bag, with_hash=version != "5")
    assert {key: same[key] for key in same if key not in lost} == {
        key: expected[key] for key in expected if key not in lost}
    livebag("verify", target)
    if (mode, storage) == ("none", "mcap"):
        found = []
        for file in said["relative_file_paths"]:
            with (target / file).open("rb") as stream:
                found += [(channel.topic, schema.name, message.log_time, message.data)
                          for schema, channel, message in make_reader(stream).iter_messages()]
        assert sorted(found) == messages(bag)
    else:
        assert info_counts(target) == info_counts(bag)


def test_the_yaml_of_ros2_bag_convert(tmp_path):
    first = make(tmp_path / "first", 9, StoragePlugin.MCAP, CompressionMode.FILE)
    second = make(tmp_path / "second", 8, StoragePlugin.SQLITE3, CompressionMode.MESSAGE)
    options = tmp_path / "outputs.yaml"
    options.write_text(f"""\
output_bags:
- uri: {tmp_path}/both
  storage_id: sqlite3
  all_topics: true
  compression_mode: message
  compression_format: zstd
- uri: {tmp_path}/part
  topics: [/said]
  start_time_ns: {1_700_000_000_000_000_000 + 10 * 50_000_000}
  end_time_ns: {1_700_000_000_000_000_000 + 19 * 50_000_000}
  max_bagfile_size: 1000
- uri: {tmp_path}/ours
  storage_id: container
  all: true
  exclude: "^/said$"
""")
    said = json.loads(livebag("convert", "-i", first, "-i", second, "sqlite3", "-o", options, "--json"))
    assert [one["message_count"] for one in said] == [4 * COUNT, 20, 2 * COUNT]
    assert messages(tmp_path / "both") == sorted(messages(first) + messages(second))
    assert {topic for topic, *_ in messages(tmp_path / "part")} == {"/said"}
    assert len(metadata(tmp_path / "part")["files"]) > 1
    assert info_counts(tmp_path / "ours") == {"/seen": 2 * COUNT, "/silent": 0}
    times = [time for _, _, time, _ in messages(tmp_path / "both")]
    assert min(times) == 1_700_000_000_000_000_000


# --- ROS 1 ----------------------------------------------------------------------------------------

def as_ros2(bag, folder):
    """The same bag by rosbags-convert and by livebag."""
    theirs, ours = folder / "theirs", folder / "ours"
    # It registers the bag's own types there.
    store = get_typestore(Stores.ROS2_JAZZY)
    rosbags_convert([bag], theirs, "mcap", 9, None, "file", None, store, [], [], [], [])
    said = convert(bag, ours, "--to-ros2", "--storage", "mcap", "--metadata-version", "9")
    assert said["warnings"] == []
    return theirs, ours


def without_char(kind):
    """A field's type with `uint8` for `char`, which is the same to ROS 1 and to rosidl; livebag writes that."""
    if isinstance(kind, tuple):
        return tuple(without_char(part) for part in kind)
    return "uint8" if kind == "char" else kind


def definitions(bag):
    """Fields of each type in the bag, as rosbags parses the definition; and the hashes."""
    with AnyReader([bag]) as reader:
        used = {connection.msgtype for connection in reader.connections}
        found = {name: [(field.lower(), without_char(kind)) for field, kind in fields]
                 for name, (_, fields) in reader.typestore.fielddefs.items()}
        hashes = {name: reader.typestore.hash_rihs01(name) for name in used}
        digests = {connection.msgtype: connection.digest for connection in reader.connections}
    return found, hashes, digests


def has_char(store, name):
    """Whether a type has a `char`, which rosbags hashes as such and rosidl as `uint8`."""
    for _, (kind, *rest) in store[name][1]:
        inner = rest[0][0] if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE) else (kind, *rest)
        if inner[0] == Nodetype.BASE and inner[1][0] == "char":
            return True
        if inner[0] == Nodetype.NAME and has_char(store, inner[1]):
            return True
    return False


def compare_as_ros2(bag, folder):
    theirs, ours = as_ros2(bag, folder)
    assert messages(ours) == messages(theirs)
    (their_types, their_hashes, _), (our_types, our_hashes, digests) = definitions(theirs), definitions(ours)
    for name, found in our_types.items():
        assert found == their_types[name], name
    # The hash in the bag is that of the definition in the bag.
    with AnyReader([ours]) as reader:
        for name, digest in digests.items():
            if not has_char(reader.typestore.fielddefs, name):
                assert digest == our_hashes[name], name
    def qos(path):
        return {name: said[3] for name, said in fields(path)["topics"].items()}
    assert qos(ours) == qos(theirs)


@pytest.mark.parametrize("name", ["do.bag", "outdoor.bag"])
def test_real_ros1_bags_become_what_rosbags_makes_of_them(name, tmp_path):
    if not (SHARED / name).exists():
        pytest.skip(f"{SHARED / name} is not there")
    compare_as_ros2(SHARED / name, tmp_path)


ANVIL = """\
# A type that no bundle knows.
uint8 HEAVY = 9
string NAME = an #1 anvil
Header header
char letter
byte small
bool flag
float64[] weights
time[] struck
duration[2] waits
acme_msgs/Part[] parts
acme_msgs/Part[2] two
std_msgs/Empty nothing
string[3] names
string[] more
int64 last
================================================================================
MSG: std_msgs/Header
uint32 seq
time stamp
string frame_id
================================================================================
MSG: acme_msgs/Part
uint8 number
float64 length
string label
================================================================================
MSG: std_msgs/Empty
"""
INFO = """\
Header header
uint32 height
uint32 width
string distortion_model
float64[] D
float64[9] K
float64[9] R
float64[12] P
uint32 binning_x
uint32 binning_y
sensor_msgs/RegionOfInterest roi
================================================================================
MSG: std_msgs/Header
uint32 seq
time stamp
string frame_id
================================================================================
MSG: sensor_msgs/RegionOfInterest
uint32 x_offset
uint32 y_offset
uint32 height
uint32 width
bool do_rectify
"""


def test_a_made_ros1_bag_becomes_what_rosbags_makes_of_it(tmp_path):
    store = get_typestore(Stores.ROS1_NOETIC)
    types = get_types_from_msg(ANVIL, "acme_msgs/msg/Anvil")
    types = {name: definition for name, definition in types.items() if name.startswith("acme_msgs")}
    store.register(types)
    types, make_time = store.types, lambda s: store.types["builtin_interfaces/msg/Time"](s, 2 * s)
    bag = tmp_path / "made.bag"
    with Writer1(bag) as writer:
        anvils = writer.add_connection("/anvil", "acme_msgs/msg/Anvil", typestore=store)
        info = writer.add_connection("/info", "sensor_msgs/msg/CameraInfo", typestore=store, latching=1)
        other = writer.add_connection("/info", "sensor_msgs/msg/CameraInfo", typestore=store, callerid="/other",
                                      latching=1)
        empty = writer.add_connection("/empty", "std_msgs/msg/Empty", typestore=store)
        header = types["std_msgs/msg/Header"]
        part = types["acme_msgs/msg/Part"]
        span = types["builtin_interfaces/msg/Duration"]
        for number in range(7):
            parts = [part(index, index / 3, "p" * index) for index in range(number)]
            anvil = types["acme_msgs/msg/Anvil"](
                header(number, make_time(number), "f" * number), 65, 3, True, numpy.arange(number, dtype=float),
                [make_time(index) for index in range(number % 3)], [span(-1, 5), span(2, 3)], parts,
                [part(1, 2.5, ""), part(2, 3.5, "ab")], types["std_msgs/msg/Empty"](), ["", "é", "abc"],
                ["x" * index for index in range(number)], -number)
            writer.write(anvils, 1000 + number, store.serialize_ros1(anvil, "acme_msgs/msg/Anvil"))
            roi = types["sensor_msgs/msg/RegionOfInterest"](1, 2, 3, 4, True)
            camera = types["sensor_msgs/msg/CameraInfo"](
                header(0, make_time(3), "c"), 480, 640, "plumb_bob", numpy.arange(number, dtype=float),
                numpy.ones(9), numpy.zeros(9), numpy.ones(12), 1, 2, roi)
            data = store.serialize_ros1(camera, "sensor_msgs/msg/CameraInfo")
            writer.write(info if number % 2 else other, 2000 + number, data)
            writer.write(empty, 3000 + number, b"")
    theirs, ours = as_ros2(bag, tmp_path)
    assert messages(ours) == messages(theirs)
    assert len(messages(ours)) == 21
    qos = {name: said[3] for name, said in fields(ours)["topics"].items()}
    assert qos == {name: said[3] for name, said in fields(theirs)["topics"].items()}
    assert qos["/info"] and not qos["/anvil"]
    found, _, digests = definitions(ours)
    assert ("d", found["sensor_msgs/msg/CameraInfo"][4][1]) == found["sensor_msgs/msg/CameraInfo"][4]
    # ROS 2's own definition, with its own hash: rosbags keeps the names D, K, R, P.
    assert digests["sensor_msgs/msg/CameraInfo"] == JAZZY.hash_rihs01("sensor_msgs/msg/CameraInfo")
    # Without --to-ros2 messages stay as they are.
    kept = tmp_path / "kept"
    livebag("convert", bag, kept, "--storage", "mcap")
    with next(kept.glob("*.mcap")).open("rb") as stream:
        reader = make_reader(stream)
        assert reader.get_header().profile == "ros1"
        assert {channel.message_encoding for _, channel, _ in reader.iter_messages()} == {"ros1"}


def test_types_that_ros2_has_changed_become_what_rosbags_makes_of_them(tmp_path):
    """BatteryState, Marker and MarkerArray have fields in ROS 2 that they have not in ROS 1."""
    store = get_typestore(Stores.ROS1_NOETIC)
    types = store.types
    stamp, span = types["builtin_interfaces/msg/Time"](3, 4), types["builtin_interfaces/msg/Duration"](1, 2)
    point, colour = types["geometry_msgs/msg/Point"], types["std_msgs/msg/ColorRGBA"]
    names = ["sensor_msgs/msg/BatteryState", "visualization_msgs/msg/Marker", "visualization_msgs/msg/MarkerArray"]
    bag = tmp_path / "made.bag"
    with Writer1(bag) as writer:
        battery, marker, array = (writer.add_connection(f"/{at}", name, typestore=store) for at, name in enumerate(names))
        for number in range(5):
            header = types["std_msgs/msg/Header"](number, stamp, "f" * number)
            cells = numpy.ones(number, numpy.float32)
            state = types[names[0]](header, 12.5, 20.5, 1.5, 2.5, 3.5, 4.5, 0.5, 1, 2, 3, True, cells, cells,
                                    "here" * number, "serial")
            pose = types["geometry_msgs/msg/Pose"](point(1, 2, 3), types["geometry_msgs/msg/Quaternion"](0, 0, 0, 1))
            mark = types[names[1]](header, "ns" * number, 7, 1, 0, pose, types["geometry_msgs/msg/Vector3"](1, 2, 3),
                                   colour(1, 0, 1, 0.5), span, True, [point(at, 0, 0) for at in range(number)],
                                   [colour(0, 0, 0, 1)] * number, "text", "mesh", True)
            marks = types[names[2]]([mark] * number)
            for at, (connection, message) in enumerate(zip((battery, marker, array), (state, mark, marks))):
                writer.write(connection, 1000 * at + number, store.serialize_ros1(message, names[at]))
    theirs, ours = as_ros2(bag, tmp_path)
    assert len(messages(ours)) == 15
    assert messages(ours) == messages(theirs)
    _, _, digests = definitions(ours)
    assert digests == {name: JAZZY.hash_rihs01(name) for name in names}


def test_hashes_are_those_of_rosbags(tmp_path):
    """Every type of Jazzy through a bag without hashes in its definition: rosbags computes them itself."""
    # A message of each type, recorded as ROS 1: the hash is then livebag's own.
    store = get_typestore(Stores.ROS2_JAZZY)
    names = [name for name in store.fielddefs if not has_char(store.fielddefs, name)]
    assert len(names) > 150
    bag = tmp_path / "typed.bag"
    noetic = get_typestore(Stores.EMPTY)
    noetic.register(dict(store.fielddefs))
    checked = 0
    with Writer1(bag) as writer:
        connections = {}
        for number, name in enumerate(names):
            if "wstring" in noetic.generate_msgdef(name)[0] or "<=" in noetic.generate_msgdef(name)[0]:
                continue
            connections[f"/t{number}"] = name
            writer.add_connection(f"/t{number}", name, typestore=noetic)
        writer.write(writer.connections[0], 1, b"")
    target = tmp_path / "ros2"
    subprocess.run([os.environ["LIVEBAG"], "convert", bag, target, "--to-ros2"], capture_output=True, timeout=60)
    for entry in metadata(target)["topics_with_message_count"]:
        topic = entry["topic_metadata"]
        name = connections[topic["name"]]
        assert topic["type"] == name
        assert topic["type_description_hash"] == store.hash_rihs01(name), name
        checked += 1
    assert checked == len(connections) > 100
