"""Streams across processes, the cycle board, and what is said of them."""

import datetime
import signal
import subprocess
import sys
import threading
import time

import livebag
import numpy as np
import pytest
from conftest import POINT, cloud, imu, pixels

PUBLISH = """
import livebag, sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from conftest import pixels
with livebag.Stream.image(sys.argv[1], 64, 48, encoding="bgr8", frame_id="cam", slots=32) as camera:
    print("ready", flush=True)
    for k in range(1, 1 + int(sys.stdin.readline())):
        with camera.loan(64, 48, stamp=k) as image:
            image[...] = pixels(k, (48, 64, 3), np.uint8)
    sys.stdin.readline()
"""


def publisher(name):
    here = str(__import__("pathlib").Path(__file__).parent)
    process = subprocess.Popen([sys.executable, "-c", PUBLISH, name, here], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def say(process, text):
    process.stdin.write(text + "\n")
    process.stdin.flush()


def end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_images_of_another_process_come_whole_and_in_order(stream_name):
    process = publisher(stream_name)
    try:
        reader = livebag.Stream.open(stream_name)
        assert reader.is_live and reader.kind == "image" and reader.latest() is None
        assert reader.next(timeout=0.01) is None
        say(process, "20")
        for k in range(1, 21):
            frame = reader.next(timeout=60)
            assert (frame.sequence, frame.publish_time, frame.frame_id, frame.kind) == (k, k, "cam", "image")
            assert np.array_equal(frame.image, pixels(k, (48, 64, 3), np.uint8))
            assert np.shares_memory(frame.image, np.frombuffer(frame.data, np.uint8))
        assert reader.latest().sequence == 20 and reader.lapped == 0
        assert frame.channel.type_name == "sensor_msgs/msg/Image"
        with pytest.raises(livebag.Unsupported):
            frame.points
        with pytest.raises(livebag.Unsupported):
            frame.decode()
        # The oldest that is still there; then the end, since the writer ends.
        late = livebag.Stream.open(stream_name, from_oldest=True)
        say(process, "")
        assert process.wait(timeout=60) == 0
        assert [frame.sequence for frame in late] == list(range(1, 21))
        assert not reader.is_live and reader.next() is None
        reader.close()
        with pytest.raises(ValueError, match="closed"):
            reader.next()
    finally:
        end(process)


def test_waiting_gives_the_lock_back_and_hears_ctrl_c(stream_name):
    with livebag.Stream.bytes(stream_name, 16, remove_on_close=True) as stream:
        reader = livebag.Stream.open(stream_name)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(reader.next(timeout=60)))
        thread.start()
        stream.publish(b"hello")  # Would wait for the thread if that held Python's lock.
        thread.join(timeout=60)
        assert seen[0].data == b"hello"
    code = f"""
import livebag, signal
# A shell's background jobs begin with it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
stream = livebag.Stream.bytes({stream_name!r} + "-2", 16, remove_on_close=True)
reader = livebag.Stream.open({stream_name!r} + "-2")
try:
    print("waiting", flush=True)
    reader.next()
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "waiting\n"
        # A signal that comes before the wait is heard at once, one during it within 50 ms.
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        process.kill()
        process.wait()


def test_points_and_messages(stream_name, types):
    with livebag.Stream.points(stream_name, 1000, POINT, frame_id="lidar", remove_on_close=True) as lidar:
        reader = livebag.Stream.open(stream_name)
        lidar.publish(cloud(3, 700), stamp=datetime.datetime.fromtimestamp(5, datetime.timezone.utc))
        with lidar.loan(10) as points:
            points[...] = cloud(4, 10)
        first, second = reader.next(1), reader.next(1)
        assert first.points.dtype == POINT and first.publish_time == 5_000_000_000
        assert all(np.array_equal(first.points[name], cloud(3, 700)[name]) for name in POINT.names)
        assert second.points["x"].tolist() == cloud(4, 10)["x"].tolist()
        assert not points.flags.writeable
        with pytest.raises(TypeError, match="the stream's points are"):
            lidar.publish(np.zeros(3, [("x", "f4")]))
        with pytest.raises(ValueError, match="holds"):
            lidar.publish(cloud(1, 1001))
    name = stream_name + "-imu"
    with livebag.Stream.messages(name, 1000, "sensor_msgs/msg/Imu", topic="/imu", remove_on_close=True) as stream:
        reader = livebag.Stream.open(name)
        stream.publish(imu(types, 4))
        assert reader.next(1).decode().linear_acceleration.y == -4
        assert reader.channel.name == "/imu" and stream.topic == "/imu"


def test_a_loan_that_fails_publishes_nothing_and_views_outlive_the_stream(stream_name):
    camera = livebag.Stream.image(stream_name, 4, 4, encoding="mono8", remove_on_close=True)
    reader = livebag.Stream.open(stream_name)
    with pytest.raises(ZeroDivisionError), camera.loan(4, 4) as image:
        image[...] = 1
        1 / 0
    assert reader.next(0.01) is None
    with camera.loan(4, 2) as image:
        image[...] = 7
    frame = reader.next(1)
    assert frame.sequence == 1 and frame.image.shape == (2, 4) and frame.image.min() == 7
    camera.close()
    # The memory stays as long as somebody can look at it.
    assert image.sum() == 56
    del image
    assert reader.next() is None
    with pytest.raises(livebag.StreamError, match="closed"):
        camera.publish(np.zeros((2, 4), np.uint8))


def test_streams_are_listed_and_refusals_say_why(stream_name):
    with pytest.raises(livebag.NotFound, match="no stream"):
        livebag.Stream.open(stream_name)
    with livebag.Stream.image(stream_name, 4, 4) as camera:
        (found,) = [stream for stream in livebag.streams() if stream.name == stream_name]
        assert found.kind == "image" and found.is_live and found.type_name == "sensor_msgs/msg/Image"
        with pytest.raises(livebag.StreamError, match="live writer"):
            livebag.Stream.image(stream_name, 4, 4)
        with pytest.raises(livebag.StreamError):
            livebag.remove_stream(stream_name)
        for image in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.uint16), np.zeros(4, np.uint8)):
            with pytest.raises(TypeError, match="image"):
                camera.publish(image)
    livebag.remove_stream(stream_name)
    with pytest.raises(livebag.NotFound):
        livebag.remove_stream(stream_name)
    with pytest.raises(livebag.StreamError, match="contains '/'"):
        livebag.Stream.bytes("a/b", 3)


def test_the_cycle_board_sees_what_computes():
    board = f"pytest-{time.time_ns()}"
    cycle = livebag.cycle("planner", weight=3, board=board)
    with cycle:
        pass

    @cycle
    def plan(way):
        """Plans."""
        return way

    assert plan("there") == "there" and plan.__doc__ == "Plans."
    cycle.begin()
    cycle.end()
    cycle.close()
    with pytest.raises(livebag.StreamError, match="closed"):
        cycle.begin()
    with pytest.raises(livebag.StreamError, match="1 to 128"):
        livebag.cycle("", board=board)
    for path in __import__("pathlib").Path("/dev/shm").glob(f"livebag-cycles.*{board}"):
        path.unlink()
