"""Live sockets, read by foreign clients of Foxglove's protocol: @foxglove/ws-protocol, which Foxglove's and
Lichtblick's applications are made of, and robo-ws-bridge.

run.sh builds the command and makes the containers; LIVEBAG is the command, LIVEBAG_FRAMES the folder with the containers."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from online import read_bricks, running, url_in, wait_for
from tools import HERE, livebag, run

FRAMES = Path(os.environ["LIVEBAG_FRAMES"])


def in_node(*arguments):
    return json.loads(run(["node", "--experimental-websocket", HERE / "view_live.mjs", *arguments]))


def in_python(*arguments):
    if importlib.util.find_spec("robo_ws_bridge") is None:
        pytest.skip("SKIPPED: robo-ws-bridge is not installed")
    return json.loads(run([sys.executable, HERE / "view_live.py", *arguments]))


@pytest.mark.parametrize("view", [in_node, in_python], ids=["@foxglove/ws-protocol", "robo-ws-bridge"])
def test_a_recording_is_shown_whole(view):
    container = next(path.parent for path in sorted(FRAMES.rglob("container.yaml")))
    whole = {topic: [[str(message[0]), message[3]] for message in messages]
             for topic, messages in read_bricks(container).items()}
    with running("serve", container, "--listen", "127.0.0.1:0") as (_, lines):
        url = url_in(lines).replace("http://", "ws://")
        end = max(int(messages[-1][0]) for messages in whole.values() if messages)
        told = view(f"{url}/live/{container.name}", sum(map(len, whole.values())), end)["topics"]
    assert sorted(told) == sorted(whole)
    for topic, messages in whole.items():
        # It was made in some milliseconds: what a tick has no room for is left out, but never the newest.
        assert told[topic][-1:] == messages[-1:], topic
        assert [message for message in messages if message in told[topic]] == told[topic], topic


@pytest.mark.parametrize("view", [in_node, in_python], ids=["@foxglove/ws-protocol", "robo-ws-bridge"])
def test_a_recording_is_shown_while_it_is_written(tmp_path, view):
    published = next(path.parent for path in sorted(FRAMES.rglob("container.yaml")))
    info = json.loads(livebag("info", published, "--json"))
    topics = [topic["name"] for topic in info["topics"]]
    rate = f"{info['duration_nanos'] / 4e9:.6f}"
    with running("play", published, "--loop", "--rate", rate):
        with running("record", *topics, "-o", tmp_path / "run1", "--serve", "127.0.0.1:0") as (_, lines):
            wait_for("a recording", lambda: (tmp_path / "run1/container.yaml").exists())
            url = url_in(lines).replace("http://", "ws://")
            told = view(f"{url}/live/run1", 50)
    whole = read_bricks(tmp_path / "run1")
    assert set(told["topics"]) <= set(whole)
    for topic, messages in told["topics"].items():
        recorded = [[str(message[0]), message[3]] for message in whole[topic]]
        assert all(message in recorded for message in messages), topic
