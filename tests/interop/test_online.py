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
    SECONDS_MAX, get, read_bricks, read_in_node, read_in_python, running, schemathesis, url_in, wait_for,
)

FRAMES = Path(os.environ["LIVEBAG_FRAMES"])
READERS = {"Python's mcap": read_in_python, "@mcap/core": read_in_node}


def published():
    """A container whose streams are played while another is recorded."""
    return next(path.parent for path in sorted(FRAMES.rglob("container.yaml")))


def count(url, name):
    return json.loads(get(f"{url}/v1/bags/{name}"))["message_count"]


def is_start_of(part, whole):
    """Each topic's messages are the first ones of all of them, times and bytes."""
    for topic, found in part.items():
        assert found == whole[topic][:len(found)], topic


@pytest.mark.parametrize("beside", [False, True], ids=["livebag serve", "record --serve"])
def test_a_live_container_is_read_by_its_url(tmp_path, beside):
    container = tmp_path / "run1"
    options = ["--serve", "127.0.0.1:0"] if beside else []
    with running("play", published(), "--loop"):
        with running("record", "--all", "-o", container, "--max-bag-duration", "2", *options) as (recorder, lines):
            wait_for("a recording", lambda: (container / "container.yaml").exists())
            with running("serve", tmp_path, "--listen", "127.0.0.1:0") as (_, served):
                url = url_in(lines if beside else served)
                # Two splits and what is still being written.
                wait_for("splits", lambda: len([*container.glob("split_*")]) >= 1)
                live, counts = [], []
                for read in READERS.values():
                    before = count(url, "run1")
                    live.append(read(f"{url}/bags/run1.mcap"))
                    counts.append((before, sum(len(found) for found in live[-1].values())))
                assert recorder.poll() is None, "it was read while it was recorded"
                assert json.loads(get(f"{url}/v1/bags/run1"))["state"] == "live"
                part = read_in_python(f"{url}/bags/run1.mcap?topic={next(iter(live[0]))}")
                assert list(part) == [next(iter(live[0]))]
    whole = read_bricks(container)
    for found, (before, read) in zip(live, counts):
        assert sorted(found) == sorted(whole), "all topics"
        # What could be read before the file was opened is in it; the server looks again each second.
        assert read > 0 and before > 0
        is_start_of(found, whole)
    with running("serve", tmp_path, "--listen", "127.0.0.1:0") as (_, served):
        url = url_in(served)
        for name, read in READERS.items():
            assert read(f"{url}/bags/run1.mcap") == whole, name


def test_the_server_answers_as_it_is_described(tmp_path):
    containers = [path.parent for path in sorted(FRAMES.rglob("container.yaml"))]
    with running("serve", *containers, "--listen", "127.0.0.1:0") as (server, lines):
        url = url_in(lines)
        bags = json.loads(get(f"{url}/v1/bags"))
        assert bags
        # Names that are there, or most examples would only ask for what is not.
        name = bags[0]["name"]
        topic = json.loads(get(f"{url}/v1/bags/{name}"))["topics"][0]["name"]
        config = tmp_path / "schemathesis.toml"
        config.write_text(f"[parameters]\nbag = [{name!r}]\nfile = ['{name}.mcap']\n")
        for options in (["--config-file", str(config)], []):
            done = subprocess.run(
                [*schemathesis(), *(options[:2]), "run", f"{url}/openapi.json", "--phases", "examples,coverage,fuzzing",
                 "--max-examples", "15", "--seed", "1", "--generation-database", "none", "--request-timeout", "20",
                 "--checks", ",".join(CHECKS)],
                capture_output=True, text=True, timeout=SECONDS_MAX * 3, cwd=tmp_path, stdin=subprocess.DEVNULL)
            assert done.returncode == 0, f"{topic}\n{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
        assert server.poll() is None


CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
          "unsupported_method")
