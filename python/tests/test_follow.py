"""Recordings that are being written: followed here and on a server, and with sizes."""

import json
import os
import subprocess
import time

import livebag
import pytest


def until(condition):
    while not condition():
        time.sleep(0.005)


@pytest.fixture(params=["here", "server"])
def live(request, tmp_path):
    """A recorder, and how its recording is opened."""
    path = tmp_path / "run"
    with livebag.Recorder(path) as recorder:
        if request.param == "here":
            yield recorder, lambda: livebag.open(path)
            return
        command = os.environ.get("LIVEBAG")
        if not command:
            pytest.skip("LIVEBAG names no command to serve with: python/test.sh sets it")
        serving = [command, "serve", str(tmp_path), "--listen", "127.0.0.1:0", "--json"]
        with subprocess.Popen(serving, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            url = json.loads(process.stdout.readline())["urls"][0]
            yield recorder, lambda: livebag.open(f"{url}/run")
            process.terminate()


def test_new_messages_are_followed_until_the_recording_ends(live):
    recorder, opened = live
    notes = recorder.topic("/notes", "acme/Note", encoding="json")
    others = recorder.topic("/others", "acme/Note", encoding="json")
    notes.write(b"0", log_time=5)
    notes.write(b"1", log_time=5)
    others.write(b"else", log_time=9)
    until(lambda: len(opened()) == 3)
    bag = opened()
    assert [bytes(message) for message in bag.follow("notes", last="1h", timeout=0)] == [b"0", b"1"]
    assert list(bag.follow(timeout="0s")) == [], "nothing has come since"
    followed, late = bag.follow("notes"), bag.follow("/late")
    for k in range(2, 12):
        # Two of each time, and some of the time of those that had been there.
        notes.write(b"%d" % k, log_time=5 + k // 4)
        assert bytes(next(followed)) == b"%d" % k
    recorder.topic("/late", "acme/Note", encoding="json").write(b"here")
    assert bytes(next(late)) == b"here"
    recorder.close()
    assert list(followed) == [] and list(late) == []


def test_a_live_recording_tells_sizes(tmp_path):
    with livebag.Recorder(tmp_path / "run") as recorder:
        topic = recorder.topic("/notes", "acme/Note", encoding="json")
        for _ in range(3):
            topic.write(b"1234567")
        bag = livebag.open(tmp_path / "run")
        until(lambda: len(bag) == 3)
        assert bag.topics["notes"].size == 21
    assert bag.topics["notes"].size == 21


def test_what_does_not_grow_is_not_followed(exported, sample):
    with pytest.raises(livebag.Unsupported, match="does not grow"):
        livebag.open(exported).follow()
    assert list(livebag.open(sample).follow()) == []
    assert len(list(livebag.open(sample).follow("imu", last="1h"))) == 30
