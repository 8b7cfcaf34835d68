"""Recordings of robots on Zenoh are one recording."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import livebag
import numpy as np
import pytest

#: Of the robot that dies: some five pages of an answer.
FRAMES, FRAME_BYTES = 640, 64 << 10


@contextlib.contextmanager
def serving(name, folder):
    """A robot that serves a folder: its process, and where it listens."""
    command = os.environ.get("LIVEBAG")
    if not command:
        pytest.skip("LIVEBAG names no command to serve with: python/test.sh sets it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    line = [command, "serve", str(folder), "--listen", "127.0.0.1:0", "--zenoh", "--robot", name,
            "--zenoh-listen", endpoint, "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        json.loads(process.stdout.readline())
        yield process, endpoint
        # One that a test has stopped ends, too.
        process.kill()


@pytest.fixture(scope="module")
def robots(sample, notes):
    """Two robots: where they listen."""
    with serving("r1", sample.parent) as (_, first), serving("r2", notes.parent) as (_, second):
        yield [first, second]


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """A recording of several pages."""
    path = tmp_path_factory.mktemp("frames") / "run"
    with livebag.Recorder(path) as recorder:
        topic = recorder.topic("/frames", "acme/Frame", encoding="raw")
        for k in range(FRAMES):
            topic.write(k.to_bytes(2, "little") * (FRAME_BYTES // 2), log_time=1_000_000_000 + k)
    return path


def everything(messages):
    return [(m.topic, m.log_time, m.publish_time, m.sequence, bytes(m.data)) for m in messages]


def test_a_robots_recording_is_what_it_is_there(sample, robots):
    here = livebag.open(sample)
    with livebag.open(f"zenoh/r1/{sample.name}", zenoh_connect=robots) as there:
        assert there.kind == "livebag robots" and there.state == "closed" and there.warnings == []
        assert list(there.topics) == list(here.topics) and len(there) == len(here)
        for name, topic in here.topics.items():
            other = there.topics[name]
            assert (topic.type_name, topic.count, topic.size, topic.start_time, topic.end_time, topic.lost) == (
                other.type_name, other.count, other.size, other.start_time, other.end_time, other.lost)
            assert topic.channels[0].schema == other.channels[0].schema
        messages = there.read_messages()
        assert everything(messages) == everything(here) and messages.lost == [] and messages.damaged == 0
        assert everything(there.latest(0.05, "/imu")) == everything(here.latest(0.05, "/imu"))
        start = here.start_time + 20_000_000
        assert everything(there.history(start, topics=["/tf"])) == everything(here.history(start, topics=["/tf"]))
        assert everything(there.read_messages([])) == []
        newest = everything(there.auto(30, "/imu"))
        assert newest == everything(here.read_messages("/imu"))[::-1]
        assert len(list(there.auto(30, "/imu", decimate={"/imu": 10}))) == 3
        images = zip(here.read_messages("/camera/rgb"), there.read_messages("/camera/rgb"))
        assert all(np.array_equal(a.image, b.image) for a, b in images)
        assert "livebag robots" in repr(there) and "/imu" in there._repr_html_()
        with pytest.raises(livebag.NoTopic, match="/none"):
            there.read_messages("/none")


def test_tables_come_from_robots_too(sample, robots):
    pytest.importorskip("pyarrow")
    with livebag.open(f"zenoh/r1/{sample.name}", zenoh_connect=robots) as there:
        assert there.to_arrow("/imu").equals(livebag.open(sample).to_arrow("/imu"))


def test_several_robots_are_merged(sample, notes, robots):
    with livebag.open("zenoh", zenoh_connect=robots) as both:
        ours, theirs = livebag.open(sample), livebag.open(notes)
        assert set(both.topics) == {f"/r1{name}" for name in ours.topics} | {f"/r2{name}" for name in theirs.topics}
        messages = everything(both)
        assert len(messages) == len(both) == len(ours) + len(theirs)
        assert [m[1] for m in messages] == sorted(m[1] for m in messages)
        assert [m[1:] for m in messages if m[0] == "/r2/notes"] == [m[1:] for m in everything(theirs)]
        # By the name it has in the answer, and by its own.
        asked = everything(both.read_messages("/r2/notes"))
        assert len(asked) == len(theirs) and asked == everything(both.read_messages("/notes"))
        assert len(list(both.auto(30, "/imu", decimate={"/r1/imu": 10}))) == 3


def test_who_is_not_there_is_said(robots):
    with pytest.raises(livebag.NotFound, match="livebag robots"):
        livebag.open("zenoh/r9/run", zenoh_connect=robots)
    with pytest.raises(livebag.Error, match="zenoh/ROBOT/NAME"):
        livebag.open("zenoh/a/b/c")
    with pytest.raises(livebag.Error, match="tls/"):
        livebag.open("zenoh", zenoh_listen="tcp/0.0.0.0:0")


def test_a_robot_that_dies_is_told_and_the_others_answer(sample, frames, robots):
    with serving("r3", frames.parent) as (dying, endpoint):
        with livebag.open("zenoh", zenoh_connect=[*robots, endpoint]) as all_of_them:
            messages = all_of_them.read_messages()
            first = next(messages)
            dying.kill()
            dying.wait()
            with pytest.warns(RuntimeWarning, match="zenoh/r3/run ended early"):
                answered = [first.topic, *(message.topic for message in messages)]
            assert len(messages.lost) == 1 and "zenoh/r3/run" in messages.lost[0]
            assert 0 < answered.count("/r3/frames") < FRAMES
            ours = livebag.open(sample)
            assert all(answered.count(f"/r1{name}") == topic.count for name, topic in ours.topics.items())
            assert any("zenoh/r3/run" in text for text in all_of_them.warnings)


INTERRUPTED = """
import livebag, signal, sys
# A shell's background jobs begin with it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
bag = livebag.open("zenoh/r3/run", zenoh_connect=[sys.argv[1]])
messages = bag.read_messages()
next(messages)
try:
    print("asking", flush=True)
    sys.stdin.readline()
    print(sum(1 for _ in messages), "more", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_question_is_interrupted(frames):
    with serving("r3", frames.parent) as (robot, endpoint):
        line = [sys.executable, "-c", INTERRUPTED, endpoint]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asker:
            assert asker.stdout.readline() == "asking\n"
            # It answers no more and does not end, either.
            robot.send_signal(signal.SIGSTOP)
            asker.stdin.write("\n")
            asker.stdin.flush()
            asker.send_signal(signal.SIGINT)
            assert asker.stdout.read() == "interrupted\n"
