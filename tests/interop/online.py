"""Servers, and files that are read by their URL."""

import contextlib
import hashlib
import io
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

from mcap.reader import make_reader

from tools import HERE, run

SECONDS_MAX = 60


class HttpFile(io.RawIOBase):
    """A file behind a URL, seekable, over HTTP ranges. Its length is asked for once."""

    def __init__(self, url):
        super().__init__()
        self.url, self.offset = url, 0
        head = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(head, timeout=SECONDS_MAX) as response:
            assert response.headers["Accept-Ranges"] == "bytes"
            self.length = int(response.headers["Content-Length"])

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.offset

    def seek(self, offset, whence=io.SEEK_SET):
        self.offset = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.offset, io.SEEK_END: self.length}[whence]
        return self.offset

    def readinto(self, buffer):
        count = min(len(buffer), self.length - self.offset)
        if count <= 0:
            return 0
        headers = {"Range": f"bytes={self.offset}-{self.offset + count - 1}"}
        request = urllib.request.Request(self.url, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as response:
            assert response.status == 206
            data = response.read()
        assert len(data) == count
        buffer[:count] = data
        self.offset += count
        return count


def messages(file):
    """{topic: [[log time, publish time, sequence, SHA-256 of the message], …]}, times as text."""
    topics = {}
    for _, channel, message in make_reader(file, validate_crcs=True).iter_messages():
        times = [str(number) for number in (message.log_time, message.publish_time, message.sequence)]
        topics.setdefault(channel.topic, []).append([*times, hashlib.sha256(message.data).hexdigest()])
    return topics


def read_in_python(url):
    return messages(io.BufferedReader(HttpFile(url), 1 << 20))


def read_in_node(url):
    return json.loads(run(["node", HERE / "read_url.mjs", url]))


def read_bricks(container):
    """What is in the container's own files, splits included."""
    topics = {}
    # The first split lies beside the folders of the later ones.
    for path in sorted(container.rglob("*.mcap"), key=lambda path: (len(path.parts), path)):
        with open(path, "rb") as file:
            for topic, found in messages(file).items():
                topics.setdefault(topic, []).extend(found)
    return topics


@contextlib.contextmanager
def running(*arguments):
    """A livebag command in the background, interrupted at the end; gives its output line by line."""
    command = [os.environ["LIVEBAG"], *[str(part) for part in arguments]]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    lines = queue.SimpleQueue()
    threading.Thread(target=lambda: [lines.put(line) for line in process.stdout], daemon=True).start()
    try:
        yield process, lines
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=SECONDS_MAX)
        finally:
            process.kill()


def url_in(lines):
    """The first URL that a command says it answers at."""
    said = ""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            said += lines.get(timeout=1)
        except queue.Empty:
            continue
        if found := re.search(r"https?://[0-9.]+:[0-9]+", said):
            return found[0]
    raise AssertionError(f"no URL in: {said}")


def wait_for(what, is_so):
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.05)


def get(url):
    with urllib.request.urlopen(url, timeout=SECONDS_MAX) as response:
        return response.read()


def schemathesis():
    """The command of this Python's packages."""
    return [os.path.join(os.path.dirname(sys.executable), "schemathesis")]
