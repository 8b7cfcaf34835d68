"""Recordings in object stores, against versitygw, an S3 server of another project."""

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import livebag
import pytest

sys.path.append(str(Path(__file__).parents[2] / "tests" / "interop"))
import s3_server  # noqa: E402

START = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The variables with which the store is reached; its bucket is called fleet."""
    root = tmp_path_factory.mktemp("store")
    (root / "fleet").mkdir()
    with s3_server.serving(root) as variables:
        yield variables


@pytest.fixture(autouse=True)
def credentials(store, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in store.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """A container with two topics, one of large messages."""
    path = tmp_path_factory.mktemp("bags") / "run1"
    with livebag.Recorder(path) as recorder:
        note, blob = (recorder.topic(name, "note", encoding="json", schema_encoding="") for name in ("/note", "/blob"))
        for k in range(300):
            note.write(b'{"k": %d}' % k, log_time=START + k * 1_000_000)
            if k % 100 == 0:
                blob.write(os.urandom(200_000), log_time=START + k * 1_000_000)
    return path


@pytest.fixture
def there(store, bag):
    """Its address."""
    push(bag)
    return "s3://fleet/robot7/run1"


def push(path):
    command = [os.environ["LIVEBAG"], "push", path, "s3://fleet/robot7"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def messages(run, *arguments):
    return [(m.channel.name, m.log_time, m.sequence, bytes(m.data)) for m in run.read_messages(*arguments)]


def test_a_container_in_a_store_is_read_as_one_on_a_disk(bag, there):
    with livebag.open(there) as run, livebag.open(bag) as here:
        assert run.path == there
        assert (run.kind, run.state, len(run)) == ("livebag container", "closed", 303)
        assert messages(run) == messages(here)
        assert messages(run, "/note", START + 5_000_000, START + 9_000_000) == \
            messages(here, "/note", START + 5_000_000, START + 9_000_000)
        assert [m.data for m in run.latest("0s", "note")] == [b'{"k": 299}']
        assert run.topics["/blob"].count == 3
        assert run.account.recorded == here.account.recorded
        again = pickle.loads(pickle.dumps(run))
        assert len(again) == 303


def test_a_dataset_of_recordings_in_a_store(store, tmp_path):
    pytest.importorskip("pyarrow")
    for drive in range(2):
        with livebag.Recorder(tmp_path / f"drive{drive}") as recorder:
            topic = recorder.topic("/speed", "std_msgs/msg/Float64")
            for k in range(500):
                topic.write(b"\0\1\0\0" + struct.pack("<d", drive + k), log_time=START + k * 1_000_000)
        push(tmp_path / f"drive{drive}")
    there = livebag.dataset([f"s3://fleet/robot7/drive{drive}" for drive in range(2)], "/speed", from_="+100ms")
    here = livebag.dataset([tmp_path / f"drive{drive}" for drive in range(2)], "/speed", from_="+100ms")
    assert there.count() == here.count() == 800
    assert there.to_arrow() == here.to_arrow()
    tasks = [pickle.loads(pickle.dumps(task)) for task in there.tasks(1000)]
    assert len(tasks) == 10 and sum(batch.num_rows for task in tasks for batch in task.batches()) == 800


def test_one_file_in_a_store_is_read_too(bag, tmp_path):
    part = tmp_path / "drive.mcap"
    command = [os.environ["LIVEBAG"], "query", bag, "history", "-o", part]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    push(part)
    run = livebag.open("s3://fleet/robot7/drive.mcap")
    assert run.kind == "MCAP file"
    assert messages(run) == messages(livebag.open(bag))


def test_what_is_not_there_and_what_is_refused(there, monkeypatch):
    with pytest.raises(livebag.NotFound, match="no recording of that name"):
        livebag.open("s3://fleet/robot7/run2")
    with pytest.raises(livebag.Unsupported, match="give the address of one recording"):
        livebag.open("s3://fleet/robot7")
    with pytest.raises(livebag.Error, match="no such bucket"):
        livebag.open("s3://nowhere/run1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(livebag.Error, match="does not accept the credentials") as failure:
        livebag.open(there)
    assert s3_server.SECRET not in str(failure.value)
