"""Containers over the network: read by their URL while they are recorded, by readers that know nothing
of livebag, and a server that answers as its OpenAPI description says.

run.sh builds the command and makes the containers; LIVEBAG is the command, LIVEBAG_FRAMES the folder
with the containers."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from online import (
    get, read_bricks, read_in_node, read_in_python, running, schemathesis, url_in, wait_for,
)
from tools import livebag

FRAMES = Path(os.environ["LIVEBAG_FRAMES"])
READERS = {"Python's mcap": read_in_python, "@mcap/core": read_in_node}


def published():
    """A container whose streams are played while another is recorded."""
    return next(path.parent for path in sorted(FRAMES.rglob("container.yaml")))


def by_topic(url, name):
    """Messages that can be read now."""
    topics = json.loads(get(f"{url}/v1/bags/{name}"))["topics"]
    return {topic["name"]: topic["message_count"] for topic in topics}


@pytest.mark.parametrize("beside", [False, True], ids=["livebag serve", "record --serve"])
def test_a_live_container_is_read_by_its_url(tmp_path, beside):
    container = tmp_path / "run1"
    # Only these: other tests publish on this machine.
    info = json.loads(livebag("info", published(), "--json"))
    topics = [topic["name"] for topic in info["topics"]]
    options = ["-o", container, "--max-bag-duration", "2", *(["--serve", "127.0.0.1:0"] if beside else [])]
    # All of it once in four seconds: it was made in some milliseconds, and a reader who takes long is not to fill the disk.
    rate = f"{info['duration_nanos'] / 4e9:.6f}"
    with running("play", published(), "--loop", "--rate", rate):
        with running("record", *topics, *options) as (recorder, lines):
            wait_for("a recording", lambda: (container / "container.yaml").exists())
            with running("serve", tmp_path, "--listen", "127.0.0.1:0") as (_, served):
                url = url_in(lines if beside else served)
                # A finished split and what is still being written, with a message on every topic.
                wait_for("splits", lambda: len([*container.glob("split_*")]) >= 1)
                wait_for("topics", lambda: all(count > 0 for count in by_topic(url, "run1").values()))
                live, counts = [], []
                for read in READERS.values():
                    counts.append(by_topic(url, "run1"))
                    live.append(read(f"{url}/bags/run1.mcap"))
                assert recorder.poll() is None, "it was read while it was recorded"
                assert json.loads(get(f"{url}/v1/bags/run1"))["state"] == "live"
                part = read_in_python(f"{url}/bags/run1.mcap?topic={next(iter(live[0]))}")
                assert list(part) == [next(iter(live[0]))]
    whole = read_bricks(container)
    # The first reader opened the file: what could be read before is in it. It goes on once a second.
    assert all(len(live[0][topic]) >= count for topic, count in counts[0].items())
    for found in live:
        assert sorted(found) == sorted(whole) == sorted(topics), "all topics"
        # Each topic's messages are the first ones of all of them, times and bytes.
        for topic, messages in found.items():
            assert messages and messages == whole[topic][:len(messages)], topic
    with running("serve", tmp_path, "--listen", "127.0.0.1:0") as (_, served):
        url = url_in(served)
        for name, read in READERS.items():
            assert read(f"{url}/bags/run1.mcap") == whole, name


# What a request that the description does not allow may be answered; 431 is its head's length.
REFUSALS = "[checks]\nnegative_data_rejection.expected-statuses = [400, 401, 404, 405, 416, 421, 422, 431]\n"
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "negative_data_rejection", "unsupported_method", "allow_header_conformance")


@pytest.mark.parametrize("named", [True, False], ids=["a recording that is there", "any name"])
def test_the_server_answers_as_it_is_described(tmp_path, named):
    containers = [path.parent for path in sorted(FRAMES.rglob("container.yaml"))]
    with running("serve", *containers, "--listen", "127.0.0.1:0") as (server, lines):
        url = url_in(lines)
        name = json.loads(get(f"{url}/v1/bags"))[0]["name"]
        names = f'[parameters]\nbag = "{name}"\nfile = "{name}.mcap"\n' if named else ""
        config = tmp_path / "schemathesis.toml"
        config.write_text(names + REFUSALS)
        done = subprocess.run(
            [*schemathesis(), "--config-file", config, "run", f"{url}/openapi.json", "--phases", "examples,coverage,fuzzing",
             "--max-examples", "10", "--seed", "1", "--generation-database", "none", "--request-timeout", "60",
             "--continue-on-failure", "--checks", ",".join(CHECKS)],
            capture_output=True, text=True, timeout=300, cwd=tmp_path, stdin=subprocess.DEVNULL)
        # Its examples can be very long.
        said = "\n".join(line[:300] for line in done.stdout.splitlines())
        assert done.returncode == 0, f"{said}\n{done.stderr[-2000:]}"
        assert server.poll() is None
