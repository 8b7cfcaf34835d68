"""Recording from Python, read by livebag and by others."""

import time

import livebag
import numpy as np
import pytest
from conftest import POINT, cloud, imu, pixels


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_time_zero_is_a_time(tmp_path):
    with livebag.Recorder(tmp_path / "run") as recorder:
        topic = recorder.topic("/t", "T", encoding="json")
        topic.write(b"{}", log_time=0)
        topic.write(b"{}", log_time=5, publish_time=0)
        topic.write(b"{}")
    with livebag.open(tmp_path / "run") as bag:
        times = [(message.log_time, message.publish_time) for message in bag]
    assert times[:2] == [(0, 0), (5, 0)]
    assert times[2][0] == times[2][1] > 1_600_000_000_000_000_000


def test_events_are_added_and_listed(tmp_path):
    with livebag.Recorder(tmp_path / "run") as recorder:
        recorder.topic("/t", "T", encoding="json").write(b"{}", log_time=5)
        now = recorder.event("now", "a few words")
        assert now.from_time == now.to_time > 1_600_000_000_000_000_000
        recorder.event("then", start=5, end=7)
        assert recorder.event("since", start=6).to_time >= now.to_time
        with pytest.raises(ValueError):
            recorder.event("no start", end=7)
        with pytest.raises(livebag.RecordingError, match="before it begins"):
            recorder.event("backwards", start=7, end=5)
    run = livebag.open(tmp_path / "run")
    assert run.events[0] == livebag.Event("then", "", 5, 7)
    assert [event.name for event in run.events] == ["then", "since", "now"]
    livebag.convert(tmp_path / "run", tmp_path / "bag", storage="mcap")
    assert livebag.open(tmp_path / "bag").events == run.events


def test_streams_are_recorded_whole(tmp_path, stream_name):
    camera = livebag.Stream.image(stream_name, 320, 240, encoding="bgr8", topic="/camera", slots=32,
                                  remove_on_close=True)
    with camera, livebag.Recorder(tmp_path / "run", stream_name) as recorder:
        until(lambda: "/camera" in recorder.topics)
        for k in range(20):
            camera.publish(pixels(k, (240, 320, 3), np.uint8), stamp=k + 1)
            until(lambda: recorder.topics["/camera"].messages == k + 1)
        assert "recording: 1 topics, 20 messages" in repr(recorder)
    assert recorder.topics["/camera"].lost == 0 and recorder.failure is None
    assert "closed" in repr(recorder)
    bag = livebag.open(tmp_path / "run")
    for k, message in enumerate(bag.read_messages("/camera")):
        assert message.publish_time == k + 1
        assert np.array_equal(message.image, pixels(k, (240, 320, 3), np.uint8))
    assert len(bag) == 20 and bag.topics["/camera"].lost == 0


def test_what_is_recorded_decodes_everywhere(tmp_path, types):
    reader, ros2 = pytest.importorskip("mcap.reader"), pytest.importorskip("mcap_ros2.decoder")
    image, points = pixels(1, (5, 7), np.uint16), cloud(2, 12).reshape(3, 4)
    with livebag.Recorder(tmp_path / "run", one_file="run", compression="zstd") as recorder:
        recorder.topic("/image", "sensor_msgs/msg/Image").write_image(
            image[:, ::-1], encoding="mono16", frame_id="cam", stamp=1_500_000_000_000_000_001, log_time=7)
        recorder.topic("/points", "sensor_msgs/msg/PointCloud2").write_points(points, frame_id="l", is_dense=False)
        recorder.topic("/imu", "sensor_msgs/msg/Imu").write(memoryview(imu(types, 3)), sequence=9)
        recorder.topic("/own", "acme/msg/Own", schema="int32 a\nstring b\n").write(
            b"\0\1\0\0\7\0\0\0\3\0\0\0hi\0")
    bag = livebag.open(tmp_path / "run")
    assert np.array_equal(next(bag.read_messages("/image")).image, image[:, ::-1])
    assert np.array_equal(next(bag.read_messages("/points")).points["ring"], points["ring"])
    assert next(bag.read_messages("/points")).points.shape == (3, 4)
    own = next(bag.read_messages("/own")).decode()
    assert (own.a, own.b) == (7, "hi")
    (file,) = (tmp_path / "run").glob("*.mcap")
    with file.open("rb") as opened:
        decoded = {channel.topic: (message, ros) for _, channel, message, ros in
                   reader.make_reader(opened, decoder_factories=[ros2.DecoderFactory()]).iter_decoded_messages()}
    message, ros = decoded["/image"]
    assert message.log_time == 7 and ros.header.stamp.sec == 1_500_000_000 and ros.header.stamp.nanosec == 1
    assert (ros.width, ros.height, ros.step, ros.encoding) == (7, 5, 14, "mono16")
    assert bytes(ros.data) == image[:, ::-1].tobytes()
    message, ros = decoded["/points"]
    assert [field.name for field in ros.fields] == list(POINT.names)
    assert (ros.point_step, ros.row_step, ros.is_dense) == (32, 128, False)
    assert bytes(ros.data) == points.tobytes()
    assert decoded["/imu"][0].sequence == 9 and decoded["/own"][1].b == "hi"


def test_pause_splits_and_refusals(tmp_path):
    path = tmp_path / "run"
    with livebag.Recorder(path) as recorder:
        topic = recorder.topic("/n", "std_msgs/msg/UInt8")
        topic.write(b"\0\1\0\0\1")
        recorder.pause()
        topic.write(b"\0\1\0\0\2")
        recorder.resume()
        recorder.split()
        until(lambda: (path / "split-00001").exists() or len(list(path.glob("*/container.yaml"))) == 1)
        topic.write(b"\0\1\0\0\3")
    assert (recorder.topics["/n"].messages, recorder.topics["/n"].skipped) == (2, 1)
    assert [message.data[-1] for message in livebag.open(path)] == [1, 3]
    recorder.close()
    with pytest.raises(livebag.RecordingError, match="closed"):
        recorder.pause()
    with pytest.raises(livebag.RecordingError, match="takes no more messages"):
        topic.write(b"\0\1\0\0\4")
    with pytest.raises(livebag.RecordingError, match="exists already"):
        livebag.Recorder(path)
    with pytest.raises(livebag.RecordingError, match="does not exist"):
        livebag.Recorder(tmp_path / "no" / "run")
    with pytest.raises(livebag.RecordingError, match="expected block"):
        livebag.Recorder(tmp_path / "other", overflow="explode")
    with livebag.Recorder(tmp_path / "other") as other, pytest.raises(livebag.RecordingError, match="give one"):
        other.topic("/x", "acme/msg/Unknown")


def test_a_full_queue_says_so(tmp_path):
    with livebag.Recorder(tmp_path / "run", overflow="drop-newest", cache_bytes=1 << 20) as recorder:
        topic = recorder.topic("/bytes", "std_msgs/msg/UInt8MultiArray")
        dropped = 0
        for _ in range(200):
            try:
                topic.write(bytes(600_000))
            except livebag.QueueFull:
                dropped += 1
    assert dropped and recorder.topics["/bytes"].lost == dropped
    bag = livebag.open(tmp_path / "run")
    assert bag.topics["/bytes"].lost == dropped
    account = recorder.topics["/bytes"].account
    assert (account.lost["queue"], account.recorded) == (dropped, len(bag))
    assert account.published == dropped + len(bag) and account.unknown_since is None
    assert bag.account == account == bag.topics["/bytes"].account
    assert (account + account).published == 2 * account.published
