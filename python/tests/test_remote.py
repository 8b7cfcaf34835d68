"""A recording on a server is what it is here."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading

import livebag
import numpy as np
import pytest

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def server(sample, tmp_path_factory):
    """The address of the sample's folder on a server that asks for a token."""
    command = os.environ.get("LIVEBAG")
    if not command:
        pytest.skip("LIVEBAG names no command to serve with: python/test.sh sets it")
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    serving = [command, "serve", str(sample.parent), "--listen", "127.0.0.1:0", "--token-file", str(token), "--json"]
    with subprocess.Popen(serving, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        yield json.loads(process.stdout.readline())["urls"][0]
        process.terminate()


@pytest.fixture
def both(sample, server):
    """The sample here, and on the server."""
    return livebag.open(sample), livebag.open(f"{server}/{sample.name}", token=TOKEN)


def everything(messages):
    return [(m.topic, m.log_time, m.publish_time, m.sequence, bytes(m.data)) for m in messages]


def test_a_recording_on_a_server_is_the_same(both):
    here, there = both
    assert there.kind == "livebag server" and there.state == "closed"
    assert list(there.topics) == list(here.topics) and len(there) == len(here)
    for name, topic in here.topics.items():
        other = there.topics[name]
        assert (topic.type_name, topic.count, topic.size, topic.start_time, topic.end_time, topic.lost) == (
            other.type_name, other.count, other.size, other.start_time, other.end_time, other.lost)
        assert topic.channels[0].schema == other.channels[0].schema
    assert everything(there) == everything(here)
    assert everything(there.latest(0.05, "/imu")) == everything(here.latest(0.05, "/imu"))
    start = here.start_time + 20_000_000
    assert everything(there.history(start, topics=["/tf"])) == everything(here.history(start, topics=["/tf"]))
    assert everything(there.read_messages([])) == []
    assert "livebag server" in repr(there) and "/imu" in there._repr_html_()


def test_views_values_and_tables_come_from_servers_too(both):
    pytest.importorskip("rosbags")
    pytest.importorskip("pyarrow")
    here, there = both
    images = zip(here.read_messages("/camera/rgb"), there.read_messages("/camera/rgb"))
    assert all(np.array_equal(a.image, b.image) for a, b in images)
    assert next(iter(there.latest(0, "/imu"))).decode().linear_acceleration.x == 9.81
    assert there.to_arrow("/imu").equals(here.to_arrow("/imu"))


def test_auto_gives_the_newest_first(both):
    here, there = both
    newest = everything(there.auto(30, "/imu"))
    assert newest == everything(here.read_messages("/imu"))[::-1]
    assert len(list(there.auto(30, "/imu", decimate={"/imu": 10}))) == 3


def test_what_a_server_refuses_is_said(both, server, sample):
    _, there = both
    with pytest.raises(livebag.Error, match="token"):
        livebag.open(f"{server}/{sample.name}")
    with pytest.raises(livebag.NotFound, match="no recording none"):
        livebag.open(f"{server}/none", token=TOKEN)
    with pytest.raises(livebag.NoTopic, match="/none"):
        there.read_messages("/none")


STALLED = """
import livebag, signal, sys
# A shell's background jobs begin with it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
bag = livebag.open(sys.argv[1])
try:
    print("asking", flush=True)
    print(sum(1 for _ in bag), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_server_that_stalls_is_interrupted():
    topic = {"name": "/a", "type": "", "message_encoding": "raw", "schema_encoding": "", "message_count": 1,
             "rate_hz": None, "start_time": "1", "end_time": "1", "skipped": 0, "message_bytes": 1,
             "lost": {"transport": 0, "queue": 0, "lapped": 0, "disk": 0, "total": 0}}
    info = {"name": "run", "state": "live", "profile": "", "started_time": "1", "start_time": "1", "end_time": "1",
            "message_count": 1, "topic_count": 1, "library": "", "failure": None,
            "lost": topic["lost"], "removed_splits": 0, "topics": [topic]}

    class Stalling(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(info).encode() if self.path.startswith("/v1/bags/run?") else b"\x89MCAP0\r\n"
            more = 0 if body[0] == ord("{") else 1000
            self.send_response(200)
            self.send_header("content-length", str(len(body) + more))
            self.end_headers()
            self.wfile.write(body)
            if more:
                over.wait()

        def log_message(self, *_):
            pass

    over = threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stalling) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        line = [sys.executable, "-c", STALLED, f"http://127.0.0.1:{server.server_address[1]}/run"]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as asker:
            assert asker.stdout.readline() == "asking\n"
            asker.send_signal(signal.SIGINT)
            assert asker.stdout.read() == "interrupted\n"
        over.set()
        server.shutdown()
