"""Recordings of every kind, compared with what the official readers say."""

import datetime
import itertools
import pickle
import shutil
import signal
import subprocess
import sys
import time

import livebag
import numpy as np
import pytest
from conftest import BAGS, BAGS_WITH_DEFINITIONS, IMAGES, START, cloud, imu, pixels, shared

MILLISECOND = 1_000_000


def told_by_rosbags(path):
    """Topic, log time and bytes of every message, as rosbags gives them."""
    highlevel, typesys = pytest.importorskip("rosbags.highlevel"), pytest.importorskip("rosbags.typesys")
    types = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    with highlevel.AnyReader([path], default_typestore=types) as reader:
        told = sorted((connection.topic, t, bytes(raw)) for connection, t, raw in reader.messages())
    if not told and path.is_dir():
        # Of a directory whose metadata.yaml lists no files (before version 5) it reads the file alone.
        (file,) = [*path.glob("*.mcap"), *path.glob("*.db3")]
        return told_by_rosbags(file)
    return told


def told_by_livebag(path):
    with livebag.open(path) as bag:
        return sorted((message.topic, message.log_time, message.data) for message in bag)


@pytest.mark.parametrize("name", BAGS)
def test_every_kind_of_recording_gives_the_bytes_that_rosbags_gives(name):
    path = shared(name)
    told = told_by_livebag(path)
    assert told and told == told_by_rosbags(path)


@pytest.mark.parametrize("name", BAGS_WITH_DEFINITIONS)
def test_every_stored_definition_decodes_and_makes_a_table(name):
    bag = livebag.open(shared(name))
    for topic in bag.topics:
        messages = list(bag.read_messages(topic))
        for message in messages[:20]:
            message.decode()
        if messages:
            assert bag.to_arrow(topic).num_rows == len(messages)


def test_a_container_gives_the_bytes_that_mcap_and_rosbags_give(sample, exported):
    reader = pytest.importorskip("mcap.reader")
    (file,) = exported.glob("*.mcap")
    with file.open("rb") as opened:
        of_mcap = sorted((channel.topic, message.log_time, message.data)
                         for _, channel, message in reader.make_reader(opened).iter_messages())
    assert told_by_livebag(sample) == of_mcap
    assert told_by_livebag(exported) == of_mcap
    assert told_by_livebag(file) == of_mcap


def test_messages_come_in_order_with_all_that_is_known_of_them(sample):
    with livebag.open(sample) as bag:
        messages = list(bag.read_messages("/imu"))
    assert [message.log_time for message in messages] == [START + k * 10 * MILLISECOND for k in range(30)]
    fifth = messages[5]
    assert (fifth.topic, fifth.type_name, fifth.sequence) == ("/imu", "sensor_msgs/msg/Imu", 6)
    assert fifth.publish_time == fifth.log_time - 5
    assert len(fifth) == len(fifth.data) and bytes(fifth) == fifth.data
    assert fifth.channel.message_encoding == "cdr" and fifth.channel.schema_encoding == "ros2msg"
    assert b"linear_acceleration" in fifth.channel.schema
    topic, message, t = fifth
    assert (topic, message, t) == ("/imu", fifth, fifth.log_time)
    assert "/imu" in repr(fifth)


@pytest.mark.parametrize("way", ["container", "directory", "file"])
def test_topics_and_times_choose(sample, exported, way):
    path = {"container": sample, "directory": exported, "file": next(exported.glob("*.mcap"))}[way]
    bag = livebag.open(path)
    assert bag.topics["/lidar"].count == 30 and len(bag) == 30 * (len(IMAGES) + 3)
    assert {message.topic for message in bag.read_messages(["/imu", "/tf"])} == {"/imu", "/tf"}
    assert list(bag.read_messages([])) == []
    second = [START + k * 10 * MILLISECOND for k in range(10, 21)]
    for start, end in [
        (second[0], second[-1]),
        (datetime.timedelta(milliseconds=100), datetime.timedelta(milliseconds=200)),
        (datetime.datetime.fromtimestamp(second[0] // 10**9, datetime.timezone.utc)
         + datetime.timedelta(microseconds=100_000), np.datetime64(second[-1], "ns")),
    ]:
        assert [message.log_time for message in bag.read_messages("/imu", start, end)] == second
    # A float has a precision of a quarter of a microsecond there.
    start, end = second[0] / 1e9 - 1e-6, second[-1] / 1e9 + 1e-6
    assert [message.log_time for message in bag.history(start, end, "/imu")] == second
    assert [message.log_time for message in bag.latest(0.1, "/imu")] == [
        START + k * 10 * MILLISECOND for k in range(19, 30)]
    assert (bag.start_time, bag.end_time) == (START, START + 290 * MILLISECOND)
    assert bag.duration == 0.29 and round(bag.topics["/imu"].rate, 3) == 100
    for question in (bag.read_messages, lambda topic: bag.latest(1, topic), bag.to_arrow,
                     lambda topic: next(bag.auto(1, topic))):
        with pytest.raises(livebag.NoTopic, match="/nothing"):
            question("/nothing")


def test_auto_gives_the_newest_first_and_stops_in_time(sample):
    bag = livebag.open(sample)
    everything = [(message.topic, message.log_time) for message in bag]
    assert [(message.topic, message.log_time) for message in bag.auto(60)] == everything[::-1]
    assert list(bag.auto(0)) == []
    newest = next(bag.auto(60, "/lidar"))
    assert (newest.topic, newest.log_time) == ("/lidar", START + 290 * MILLISECOND)


def test_images_and_points_are_views_of_the_message(sample, exported):
    for path, mapped in itertools.product((sample, exported), (False, True, None)):
        bag = livebag.open(path, mapped=mapped)
        for topic, _, shape, dtype in IMAGES:
            for k, message in enumerate(bag.read_messages(topic)):
                image = message.image
                assert image.dtype == dtype and np.array_equal(image, pixels(k, shape, dtype))
                assert mapped is None or shares_memory(image, message.data)
                assert not image.flags.writeable and not image.flags.owndata
        for k, message in enumerate(bag.read_messages("/lidar")):
            points = message.points
            expected = cloud(k, 500 + k)
            assert points.dtype == expected.dtype and not points.flags.owndata
            assert mapped is None or shares_memory(points, message.data)
            assert all(np.array_equal(points[name], expected[name]) for name in expected.dtype.names)


def shares_memory(array, data):
    return np.shares_memory(array, np.frombuffer(data, np.uint8)) and not array.flags.owndata


def test_mapped_messages_are_the_same_and_outlive_the_bag(sample):
    with livebag.open(sample, mapped=False) as bag, livebag.open(sample, mapped=True) as mapped:
        pairs = list(zip(bag, mapped))
    assert len(pairs) == 30 * (len(IMAGES) + 3)
    kinds = set()
    for own, other in pairs:
        assert bytes(other) == bytes(other.data) == own.data and other.data == own.data
        assert (other.topic, other.log_time, len(other)) == (own.topic, own.log_time, len(own))
        kinds.add(type(other.data))
        if other.topic == "/camera/large":
            assert np.array_equal(other.image, own.image) and not other.image.flags.writeable
            assert np.array_equal(other.decode().data, own.decode().data)
    assert kinds == {bytes, memoryview}
    image = [other for _, other in pairs if other.topic == "/camera/large"][29].image
    del pairs, own, other, bag, mapped
    assert np.array_equal(image, pixels(29, IMAGES[3][2], np.uint8))


def test_finished_containers_are_read_in_place_unless_told_not_to(sample):
    def frames(mapped):
        return [m for m in livebag.open(sample, mapped=mapped).read_messages("/camera/large")]

    for message, own in zip(frames(None), frames(False)):
        assert type(message.data) is bytes and message.data == own.data and message.data is message.data
        assert np.array_equal(message.image, own.image)
        # A view of the file, not of the copy that `data` is.
        assert not shares_memory(message.image, message.data) and shares_memory(own.image, own.data)
        first, again = message.image, message.image
        assert np.shares_memory(first, again)


def test_a_view_of_a_removed_recording_stays(sample, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(sample, copy)
    image = [message.image for message in livebag.open(copy).read_messages("/camera/large")][29]
    shutil.rmtree(copy)
    assert np.array_equal(image, pixels(29, IMAGES[3][2], np.uint8))


def test_pixels_and_points_are_those_that_rosbags_decodes(exported):
    highlevel = pytest.importorskip("rosbags.highlevel")
    bag = livebag.open(exported)
    ours = {(message.topic, message.log_time): message for message in bag}
    with highlevel.AnyReader([exported]) as reader:
        for connection, t, raw in reader.messages():
            message = ours[connection.topic, t]
            if connection.msgtype.endswith("/Image"):
                theirs = reader.deserialize(raw, connection.msgtype)
                assert message.image.shape[:2] == (theirs.height, theirs.width)
                assert message.image.tobytes() == theirs.data.tobytes()
                assert np.array_equal(message.decode().data, theirs.data)
            elif connection.msgtype.endswith("/PointCloud2"):
                theirs = reader.deserialize(raw, connection.msgtype)
                assert message.points.tobytes() == theirs.data.tobytes()


@pytest.mark.parametrize("name", ["do.bag", "outdoor.bag"])
def test_pictures_and_clouds_of_ros1_bags(name):
    highlevel = pytest.importorskip("rosbags.highlevel")
    path = shared(name)
    bag = livebag.open(path)
    checked = 0
    with highlevel.AnyReader([path]) as reader:
        for connection, _, raw in reader.messages():
            message = next(bag.read_messages(connection.topic))
            theirs = reader.deserialize(raw, connection.msgtype)
            if connection.msgtype.endswith("/Image"):
                assert message.image.shape[:2] == (theirs.height, theirs.width)
                assert message.image.tobytes() == theirs.data.tobytes()
                checked += 1
            elif connection.msgtype.endswith("/PointCloud2"):
                for field in theirs.fields:
                    at = np.frombuffer(theirs.data, np.uint8).reshape(-1, theirs.point_step)
                    at = at[:, field.offset:field.offset + 4].copy().view("<f4")[:, 0]
                    assert np.array_equal(message.points[field.name], at, equal_nan=True)
                checked += 1
    assert checked


def test_rows_with_padding_big_endian_and_damage(tmp_path, types):
    T = types.types
    header = T["std_msgs/msg/Header"](T["builtin_interfaces/msg/Time"](1, 2), "f")

    def image(encoding, big, width, height, step, data):
        message = T["sensor_msgs/msg/Image"](header, height, width, encoding, big, step, np.frombuffer(data, np.uint8))
        return bytes(types.serialize_cdr(message, "sensor_msgs/msg/Image"))

    with livebag.Recorder(tmp_path / "run") as recorder:
        writer = recorder.topic("/image", "sensor_msgs/msg/Image")
        writer.write(image("mono16", 1, 2, 2, 6, bytes([1, 0, 2, 0, 9, 9, 3, 0, 4, 0, 9, 9])))
        writer.write(image("rgb8", 0, 2, 2, 6, bytes(11)))
        writer.write(image("h264", 0, 2, 2, 6, bytes(12)))
        writer.write(b"\0\1\0\0\1")
    padded, cut, unknown, damaged = livebag.open(tmp_path / "run")
    assert padded.image.tolist() == [[256, 512], [768, 1024]] and shares_memory(padded.image, padded.data)
    for message, error in ((cut, livebag.Damaged), (unknown, livebag.Unsupported), (damaged, livebag.DecodeError)):
        with pytest.raises(error):
            message.image
    with pytest.raises(livebag.Unsupported, match="not sensor_msgs/msg/PointCloud2"):
        padded.points
    with pytest.raises(livebag.DecodeError):
        damaged.decode()


def test_decoded_messages(sample, notes):
    bag = livebag.open(sample)
    message = next(bag.read_messages("/imu", datetime.timedelta(milliseconds=70)))
    decoded = message.decode()
    assert decoded.header.frame_id == "imu_1" and decoded.header.stamp.sec == 1_700_000_007
    assert decoded.linear_acceleration.y == -7 and decoded.orientation_covariance[8] == 56
    assert len(bag.latest(0, "/tf").__next__().decode().transforms) == 29 % 3
    assert [note.decode() for note in livebag.open(notes).latest(0.01)] == [{"k": 28}, {"k": 29}]


def test_decoding_without_rosbags_says_what_to_install(sample):
    code = f"""
import sys
sys.modules["rosbags.typesys"] = None
import livebag
try:
    next(livebag.open({str(sample)!r}).read_messages("/imu")).decode()
except livebag.Unsupported as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "livebag[decode]" in said


def test_what_is_not_there_or_no_recording_is_said(tmp_path):
    with pytest.raises(livebag.NotFound, match="does not exist"):
        livebag.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        livebag.open(tmp_path / "nothing")
    other = tmp_path / "other.mcap"
    other.write_bytes(b"no recording at all")
    with pytest.raises(livebag.Unsupported, match="no recording"):
        livebag.open(other)
    with pytest.raises(livebag.Error, match="livebag serve"):
        livebag.open("http://127.0.0.1:1/run1")
    with pytest.raises(livebag.Error, match="no address of a recording"):
        livebag.open("http://127.0.0.1:1/")
    with pytest.raises(livebag.Unsupported, match="begin with http"):
        livebag.open("zenoh://robot/run1")


def test_what_is_closed_or_no_time_is_said(sample):
    closed = livebag.open(sample)
    closed.close()
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        len(closed)
    with pytest.raises(ValueError, match="expected"):
        livebag.open(sample).read_messages(start_time="yesterday")


def test_a_bag_goes_to_worker_processes(sample):
    bag = pickle.loads(pickle.dumps(livebag.open(sample, mapped=True)))
    assert [message.log_time for message in bag.latest(0, "/lidar")] == [bag.end_time]
    assert isinstance(next(bag.read_messages("/camera/large")).data, memoryview)


def test_damage_costs_what_it_hit(sample, tmp_path):
    damaged = tmp_path / "run"
    shutil.copytree(sample, damaged)
    (brick,) = damaged.glob("camera.large*.mcap")
    with brick.open("r+b") as file:
        file.truncate(brick.stat().st_size // 2)
    messages = livebag.open(damaged).read_messages("/camera/large")
    read = list(messages)
    assert 5 < len(read) < 25 and messages.damaged == 30 - len(read)
    assert np.array_equal(read[3].image, pixels(3, IMAGES[3][2], np.uint8))


def test_tables_in_text_and_html(sample, exported):
    bag = livebag.open(sample)
    assert "/camera/depth" in repr(bag) and "sensor_msgs/msg/PointCloud2" in repr(bag)
    assert "<table>" in bag._repr_html_() and "100.0 Hz" in bag._repr_html_()
    assert bag.metadata == {"site": {"name": "lab"}} and bag.kind == "livebag container"
    assert bag.state == "closed" and not bag.is_live and bag.topics["/imu"].lost == 0
    foreign = livebag.open(exported)
    # Showing a bag must not read it through.
    assert "?" in repr(foreign) and "<td" in foreign._repr_html_()
    assert len(foreign) == len(bag) and "?" not in repr(foreign)
    assert foreign.kind == "rosbag2 bag" and foreign.topics["/imu"].lost is None
    assert foreign.account is None and bag.account.recorded == len(bag)
    with pytest.raises(livebag.NoTopic, match="/imu"):
        bag.topics["/nothing"]
    assert bag.topics.get("/nothing") is None and "/nothing" not in bag.topics


def rot(path, found):
    """Flips a bit behind the first place of these bytes."""
    data = bytearray(path.read_bytes())
    at = data.index(found)
    data[at + len(found)] ^= 1
    path.write_bytes(data)


def test_damaged_messages_are_left_out_counted_and_said(tmp_path):
    with livebag.Recorder(tmp_path / "run") as recorder:
        topic = recorder.topic("/count", "std_msgs/msg/UInt32")
        for k in range(60):
            topic.write(b"\0\1\0\0" + (7_000_000 + k).to_bytes(4, "little"), log_time=k + 1)
    livebag.convert(tmp_path / "run", tmp_path / "bag", storage="mcap", compression="none")
    marker = b"\0\1\0\0" + (7_000_030).to_bytes(4, "little")
    (brick,) = (tmp_path / "run").glob("*.mcap")
    (exported,) = (tmp_path / "bag").glob("*.mcap")
    for path, file in [(tmp_path / "run", brick), (exported, exported), (tmp_path / "bag", exported)]:
        whole = file.read_bytes()
        rot(file, marker[:-1])
        messages = livebag.open(path).read_messages()
        with pytest.warns(RuntimeWarning, match="left out"):
            given = [message.data for message in messages]
        assert messages.damaged > 0 and len(given) + messages.damaged == 60
        assert all(data[4:] == (7_000_000 + k).to_bytes(4, "little") for k, data in
                   ((int.from_bytes(data[4:], "little") - 7_000_000, data) for data in given))
        with pytest.warns(RuntimeWarning, match="left out"):
            assert livebag.open(path).to_arrow("/count").num_rows == len(given)
        file.write_bytes(whole)


RECORD = """
import livebag, sys, time
sys.path.insert(0, sys.argv[2])
from conftest import imu
from rosbags.typesys import Stores, get_typestore
types = get_typestore(Stores.ROS2_HUMBLE)
with livebag.Recorder(sys.argv[1]) as recorder:
    topic = recorder.topic("/imu", "sensor_msgs/msg/Imu")
    k = 0
    print("begun", flush=True)
    while not sys.stdin.readline().startswith("end"):
        for _ in range(20):
            topic.write(imu(types, k), sequence=k + 1)
            k += 1
        print(k, flush=True)
    late = recorder.topic("/late", "std_msgs/msg/String")
    late.write(b"\\0\\1\\0\\0\\3\\0\\0\\0hi\\0")
"""


def test_a_recording_is_read_while_another_process_writes_it(tmp_path, types):
    path = tmp_path / "run"
    command = [sys.executable, "-c", RECORD, path, str((__import__("pathlib").Path(__file__)).parent)]
    recorder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert recorder.stdout.readline() == "begun\n"
        bag = None
        for turn in range(1, 4):
            recorder.stdin.write("more\n")
            recorder.stdin.flush()
            assert recorder.stdout.readline() == f"{20 * turn}\n"
            bag = bag or livebag.open(path)
            until(lambda: "/imu" in bag.topics and bag.topics["/imu"].count == 20 * turn)
            assert bag.is_live
            messages = list(bag.read_messages("/imu"))
            assert [message.data for message in messages] == [imu(types, k) for k in range(20 * turn)]
            newest = list(bag.latest(0, "/imu"))
            assert newest[-1].sequence == 20 * turn
            assert bag.to_arrow("/imu").num_rows == 20 * turn
        recorder.stdin.write("end\n")
        recorder.stdin.close()
        assert recorder.wait(timeout=60) == 0
    finally:
        recorder.kill()
        recorder.wait()
        recorder.stdout.close()
    assert not bag.is_live and list(bag.topics) == ["/imu", "/late"] and len(bag) == 61
    assert next(bag.read_messages("/late")).decode().data == "hi"


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.filterwarnings("ignore:.*left out")
def test_conversions_keep_every_message(sample, tmp_path):
    before = told_by_livebag(sample)
    for storage, compression in (("mcap", "zstd"), ("sqlite3", "none"), ("container", "none")):
        target = tmp_path / storage
        assert livebag.convert(sample, target, storage=storage, compression=compression) == len(before)
        assert told_by_livebag(target) == before
    with pytest.raises(livebag.Error, match="storage is .tar."):
        livebag.convert(sample, tmp_path / "tar", storage="tar")


def test_attachments_are_given_of_files_and_containers(tmp_path):
    writer = pytest.importorskip("mcap.writer")
    contents = {"calibration.yaml": b"k: 1", "empty": b"", "map.pgm": bytes(range(256)) * 9001}
    file = tmp_path / "file.mcap"
    with file.open("wb") as opened:
        mcap = writer.Writer(opened)
        mcap.start()
        for number, (name, data) in enumerate(contents.items()):
            mcap.add_attachment(create_time=number, log_time=START, name=name, media_type="text/x", data=data)
        mcap.finish()
    livebag.convert(file, tmp_path / "container")
    for path in (file, tmp_path / "container"):
        with livebag.open(path) as bag:
            assert {each.name: each.data for each in bag.attachments} == contents
            assert [(len(each), each.create_time, each.log_time, each.media_type) for each in bag.attachments] \
                == [(len(data), number, START, "text/x") for number, data in enumerate(contents.values())]
    spoilt = file.read_bytes().replace(b"k: 1", b"k: 2")
    file.write_bytes(spoilt)
    with pytest.raises(livebag.Damaged, match="calibration.yaml: .*checksum"):
        livebag.open(file).attachments[0].data


def test_a_copy_is_interrupted_and_nothing_is_left(tmp_path):
    source, target = tmp_path / "long", tmp_path / "copy"
    with livebag.Recorder(source) as recorder:
        topic = recorder.topic("/notes", "acme/Note", encoding="json")
        for k in range(100_000):
            topic.write(b"{}", log_time=k + 1)

    def give_up(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, give_up)
    try:
        with pytest.raises(KeyboardInterrupt):
            # Before a hundred thousand messages can be copied, wherever it strikes.
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            livebag.convert(source, target)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not target.exists()
