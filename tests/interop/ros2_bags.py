"""The livebag command on ROS 2 networks, and its recordings."""

import contextlib
import json
import os
import pty
import queue
import signal
import subprocess
import threading
from dataclasses import dataclass

from mcap.reader import make_reader
from rosbags.highlevel import AnyReader

from ros2_nodes import SECONDS_MAX, wait_for


class Running:
    """A livebag command in the background."""

    def __init__(self, network, *arguments, stdin=subprocess.DEVNULL):
        command = [os.environ["LIVEBAG"], *[str(part) for part in arguments]]
        environment = os.environ | network.environment
        self.process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment)
        self.out, self.said = [], []
        self.threads = [threading.Thread(target=lambda to=to, pipe=pipe: to.extend(pipe), daemon=True)
                        for to, pipe in ((self.out, self.process.stdout), (self.said, self.process.stderr))]
        for thread in self.threads:
            thread.start()

    def wait_for(self, text):
        def is_said():
            assert self.process.poll() is None or self._all(text), f"ended before `{text}`: {self.said}"
            return self._all(text)
        wait_for(f"`{text}`", is_said)

    def _all(self, text):
        return any(text in line for line in self.said + self.out)

    def end(self, seconds=SECONDS_MAX):
        """Waits for its end; returns its exit code."""
        code = self.process.wait(timeout=seconds)
        for thread in self.threads:
            thread.join()
        assert not self._all("panicked"), self.said
        return code

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def json(self):
        return json.loads("".join(self.out))


@contextlib.contextmanager
def running(network, *arguments, **options):
    """The same, interrupted at the end of its test."""
    command = Running(network, *arguments, **options)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.send_signal(signal.SIGINT)
            try:
                command.process.wait(timeout=SECONDS_MAX)
            finally:
                command.process.kill()


@contextlib.contextmanager
def recording(network, path, *options):
    with running(network, "record", *network.arguments, "--storage", "mcap", "-o", path, "--json", *options) as recorder:
        recorder.wait_for("recording into")
        yield recorder


@dataclass
class Recorded:
    """A topic of a recording."""

    type_name: str
    definition: str
    metadata: dict
    messages: list

    def data(self):
        return [message.data for message in self.messages]

    def times(self):
        return [message.log_time for message in self.messages]


def read(path):
    """Every topic, with the official reader of MCAP; those of one name by name, type and hash."""
    topics = {}
    for file in sorted(path.rglob("*.mcap")):
        with open(file, "rb") as opened:
            for schema, channel, message in make_reader(opened, validate_crcs=True).iter_messages():
                kind = schema.name if schema else ""
                key = (channel.topic, kind, channel.metadata.get("topic_type_hash", ""))
                if key not in topics:
                    topics[key] = Recorded(kind, schema.data.decode() if schema else "", dict(channel.metadata), [])
                topics[key].messages.append(message)
    return topics


def by_name(path):
    """The same where no name has two types."""
    topics = read(path)
    assert len({name for name, _, _ in topics}) == len(topics), sorted(topics)
    return {name: topic for (name, _, _), topic in topics.items()}


def read_with_rosbags(path):
    """Messages by topic as rosbags reads them, all decoded whose definition it has."""
    topics = {}
    with AnyReader([path]) as reader:
        for connection, _, data in reader.messages():
            if connection.msgtype in reader.typestore.fielddefs:
                reader.deserialize(data, connection.msgtype)
            topics.setdefault(connection.topic, []).append(bytes(data))
    return topics



class Player:
    """`livebag play`, paused, with a terminal whose keys a test presses."""

    NEXT, PAUSE, BACK = b"\x1b[C", b" ", b","

    def __init__(self, command, terminal):
        self.command, self.terminal = command, terminal

    def press(self, key):
        os.write(self.terminal, key)


@contextlib.contextmanager
def playing(network, bag, *options):
    own, other = pty.openpty()
    arguments = ["play", bag, *network.other_arguments, "--json", "--start-paused", *options]
    try:
        with running(network, *arguments, stdin=other) as command:
            command.wait_for("keys: ")
            yield Player(command, own)
    finally:
        os.close(own)
        os.close(other)
