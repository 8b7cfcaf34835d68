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
def root(tmp_path_factory):
    """The folder with the store's buckets: one called fleet."""
    root = tmp_path_factory.mktemp("store")
    (root / "fleet").mkdir()
    return root


@pytest.fixture(scope="module")
def store(root):
    """The variables with which the store is reached."""
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


@pytest.fixture(scope="module")
def fleet(store, tmp_path_factory):
    """Five recordings below s3://fleet/drives: of two robots, one without /speed, two as one file."""
    folder = tmp_path_factory.mktemp("drives")
    environment = os.environ | store
    for name, robot, topic in [("a", "r7", "/speed"), ("b", "r8", "/speed"), ("c", "r7", "/height"),
                               ("d.mcap", "r8", "/speed"), ("e.mcap", "r8", "/height")]:
        path = folder / name.partition(".")[0]
        # The first names its robot itself.
        metadata = {"custom_data": {"robot": "r7"}} if name == "a" else None
        with livebag.Recorder(path, metadata=metadata) as recorder:
            of = recorder.topic(topic, "std_msgs/msg/Float64")
            for k in range(10):
                of.write(b"\0\1\0\0" + struct.pack("<d", k), log_time=START + k * 1_000_000)
        if name.endswith(".mcap"):
            command = [os.environ["LIVEBAG"], "query", path, "history", "-o", folder / name]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
        command = [os.environ["LIVEBAG"], "push", folder / name, "s3://fleet/drives", "--robot", robot]
        subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    return folder


def test_a_dataset_of_a_prefix_opens_only_what_its_catalogue_says(fleet, monkeypatch):
    pytest.importorskip("pyarrow")
    from livebag import _dataset

    opened = []
    real = _dataset.open
    monkeypatch.setattr(_dataset, "open", lambda address: opened.append(address) or real(address))
    speeds = livebag.dataset("s3://fleet/drives/", "/speed")
    assert speeds.count() == 30 and speeds.recordings == ["a", "b", "c", "d.mcap", "e.mcap"]
    assert set(opened) == {f"s3://fleet/drives/{name}" for name in ("a", "b", "d.mcap")}
    rows = speeds.to_arrow()
    assert rows["recording"].unique().to_pylist() == ["a", "b", "d.mcap"]
    here = livebag.dataset([fleet / name for name in ("a", "b", "d.mcap")], "/speed")
    assert rows == here.to_arrow()

    opened.clear()
    of_one = livebag.dataset("s3://fleet/drives/_livebag", "speed", robots="r8")
    assert of_one.count() == 20 and of_one.recordings == ["b", "d.mcap", "e.mcap"]
    assert set(opened) == {"s3://fleet/drives/b", "s3://fleet/drives/d.mcap"}
    # A folder of robots stands for the catalogues in it.
    above = livebag.dataset("s3://fleet", "/height", robots=["r7"])
    assert above.to_arrow()["recording"].unique().to_pylist() == ["drives/c"]
    with pytest.raises(livebag.NoTopic, match="topics are: /height, /speed"):
        livebag.dataset("s3://fleet/drives", "/none").count()
    with pytest.raises(livebag.NotFound, match="no recording is of the robots r9; robots are: r7, r8"):
        livebag.dataset("s3://fleet/drives", robots="r9").count()


def test_a_dataset_of_a_prefix_without_a_catalogue_lists_it(fleet, root):
    pytest.importorskip("pyarrow")
    for name in ("a", "b"):
        command = [os.environ["LIVEBAG"], "push", fleet / name, f"s3://fleet/bare/{name}"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        for path in (root / "fleet" / "bare" / name / "_livebag").glob("*.parquet"):
            path.unlink()
    bare = livebag.dataset("s3://fleet/bare", "/speed")
    assert (bare.count(), bare.recordings) == (20, ["a/a", "b/b"])
    # Without a catalogue a recording says itself whose it is.
    assert livebag.dataset("s3://fleet/bare", "/speed", robots="r7").recordings == ["a/a"]
    assert livebag.dataset([fleet / "a", fleet / "b"], "/speed", robots="r*").count() == 10
    one = livebag.dataset("s3://fleet/bare/a/a", "/speed")
    assert (one.count(), one.recordings) == (10, ["a"])


def test_a_folder_that_was_pushed_to_has_a_catalogue_too(fleet, tmp_path):
    pytest.importorskip("pyarrow")
    for name in ("a", "c"):
        command = [os.environ["LIVEBAG"], "push", fleet / name, tmp_path, "--robot", "r9"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    heights = livebag.dataset(tmp_path, "/height")
    assert (heights.count(), heights.recordings) == (10, ["a", "c"])
    assert livebag.dataset(tmp_path, "/height", robots="r9").recordings == ["c"]


def test_a_place_without_recordings_and_one_that_refuses(fleet, monkeypatch):
    with pytest.raises(livebag.NotFound, match="no recording of that name"):
        livebag.dataset("s3://fleet/nothing").count()
    with pytest.raises(livebag.Error, match="no such bucket"):
        livebag.dataset("s3://nowhere/drives")
    with pytest.warns(RuntimeWarning, match="no such bucket"):
        some = livebag.dataset(["s3://nowhere/drives", "s3://fleet/drives"], "/speed", skip_failures=True)
        assert some.count() == 30
    assert list(some.failures) == ["drives"]
