"""Tables say what decoded messages say."""

import dataclasses
import json
import os
import pathlib
import subprocess

import livebag
import numpy as np
import pytest
from conftest import BAGS_WITH_DEFINITIONS, shared

pa = pytest.importorskip("pyarrow")


def flat(value, name=""):
    """A decoded message's leaves by dotted name; arrays and lists as they are."""
    if not dataclasses.is_dataclass(value):
        return {name: plain(value)}
    leaves = {}
    for field in members(value):
        leaves.update(flat(getattr(value, field), f"{name}.{field}" if name else field))
    return leaves


def members(value):
    """Fields, without the constants, which rosbags keeps beside them. (CameraInfo has fields D, K, R, P.)"""
    names = (field.name for field in dataclasses.fields(value))
    return [name for name in names if name != "__msgtype__" and not (len(name) > 1 and name.isupper())]


def plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {field: plain(getattr(value, field)) for field in members(value)}
    return value


def check(bag, topic):
    """Every value of every message: exact, NaN equal to itself."""
    table = bag.to_arrow(topic)
    messages = list(bag.read_messages(topic))
    assert table.num_rows == len(messages)
    for row, message in zip(table.to_pylist(), messages):
        assert row.pop("log_time").value == message.log_time
        assert row.pop("publish_time").value == message.publish_time
        leaves = flat(message.decode())
        assert list(row) == list(leaves)
        assert repr(row) == repr(leaves)


def test_every_field_of_every_message(sample, exported):
    for path in (sample, exported):
        bag = livebag.open(path)
        for topic in ("/imu", "/tf", "/camera/mono16", "/lidar"):
            check(bag, topic)


@pytest.mark.parametrize("name", BAGS_WITH_DEFINITIONS)
def test_every_field_of_real_recordings(name):
    bag = livebag.open(shared(name))
    for topic in bag.topics:
        if not bag.topics[topic].type_name.endswith("/Image"):
            check(bag, topic)


def test_types_names_and_pandas(sample, notes):
    bag = livebag.open(sample)
    schema = bag.to_arrow("/imu").schema
    assert schema.names[:6] == ["log_time", "publish_time", "header.stamp.sec", "header.stamp.nanosec",
                                "header.frame_id", "orientation.x"]
    assert schema.field("log_time").type == pa.timestamp("ns", "UTC")
    assert schema.field("header.stamp.sec").type == pa.int32()
    assert schema.field("orientation_covariance").type.list_size == 9
    assert pa.types.is_list(bag.to_arrow("/tf").schema.field("transforms").type)
    part = bag.to_arrow("/imu", 0, bag.start_time)
    assert part.num_rows == 1 and bag.to_arrow("/imu", 0, 0).schema == schema
    with pytest.raises(livebag.Unsupported, match="makes no table"):
        livebag.open(notes).to_arrow("/notes")

    pytest.importorskip("pandas")
    frame = bag.to_pandas("/imu")
    assert frame.index.name == "log_time" and len(frame) == 30
    assert frame["orientation_covariance[8]"].iloc[2] == 16.0
    assert frame["linear_acceleration.y"].tolist() == [-k for k in range(30)]


def test_streams_of_batches_are_read_again_and_by_anyone(sample):
    bag = livebag.open(sample)
    columns = bag.arrow_stream("/imu")
    assert pa.table(columns).equals(bag.to_arrow("/imu"))
    # DuckDB asks once for the columns and once for the rows.
    assert pa.table(columns).equals(bag.to_arrow("/imu"))
    # One that nobody reads is released all the same.
    bag.arrow_stream("/imu").__arrow_c_stream__()


def test_many_batches(tmp_path):
    count = 150_000
    with livebag.Recorder(tmp_path / "run") as recorder:
        topic = recorder.topic("/count", "std_msgs/msg/UInt32")
        for k in range(count):
            topic.write(b"\0\1\0\0" + k.to_bytes(4, "little"), log_time=k + 1)
    table = livebag.open(tmp_path / "run").to_arrow("/count")
    assert table["data"].num_chunks == 3
    assert np.array_equal(table["data"].to_numpy(), np.arange(count))
    assert np.array_equal(table["log_time"].to_numpy().astype("int64"), np.arange(count) + 1)


def test_a_message_that_does_not_decode_is_named(tmp_path):
    with livebag.Recorder(tmp_path / "run") as recorder:
        topic = recorder.topic("/count", "std_msgs/msg/UInt32")
        topic.write(b"\0\1\0\0\1\0\0\0", log_time=5)
        topic.write(b"\0\1\0\0\1", log_time=6)
    with pytest.raises(livebag.DecodeError, match="/count.*log time 6 ns"):
        livebag.open(tmp_path / "run").to_arrow("/count")


def test_duckdb_reads_topics(sample):
    duckdb = pytest.importorskip("duckdb")
    bag = livebag.open(sample)
    imu = bag.arrow_stream("/imu")  # noqa: F841 (found by its name)
    found = duckdb.sql('SELECT count(*), max("linear_acceleration.x") FROM imu').fetchall()
    assert found == [(30, bag.to_arrow("/imu")["linear_acceleration.x"].to_numpy().max())]


def parquet_files(path, folder, *options, code=0):
    """What `livebag export --parquet` makes of a recording: the tables by the topics' names."""
    parquet = pytest.importorskip("pyarrow.parquet")
    command = os.environ.get("LIVEBAG")
    if not command:
        pytest.skip("LIVEBAG names no command to export with: python/test.sh sets it")
    done = subprocess.run([command, "export", path, folder, "--parquet", "--json", *options], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    summary = json.loads(done.stdout)
    files = {topic["name"]: topic["files"] for topic in summary["topics"]}
    assert sorted(map(str, pathlib.Path(folder).iterdir())) == sorted(file for of in files.values() for file in of)
    return summary, {name: parquet.ParquetFile(of[0]).read() for name, of in files.items() if of}


def check_same(table, expected):
    assert table.schema.equals(expected.schema)
    # Only one with NaN is not equal to itself; the slow way is right for it.
    assert table.equals(expected) or repr(table.to_pylist()) == repr(expected.to_pylist())


def test_parquet_files_have_every_value(sample, exported, tmp_path):
    for path in (sample, exported):
        bag = livebag.open(path)
        _, tables = parquet_files(path, tmp_path / f"{path.name}-parquet")
        assert set(tables) == set(bag.topics)
        for topic, table in tables.items():
            check_same(table, bag.to_arrow(topic))


@pytest.mark.parametrize("name", BAGS_WITH_DEFINITIONS)
def test_parquet_files_of_real_recordings(name, tmp_path):
    bag = livebag.open(shared(name))
    _, tables = parquet_files(shared(name), tmp_path / "out")
    alone = [topic for topic in bag.topics if len(bag.topics[topic].channels) == 1 and bag.topics[topic].count]
    assert alone
    for topic in alone:
        check_same(tables[topic], bag.to_arrow(topic))


def test_parquet_files_of_a_part_and_of_what_makes_no_table(sample, notes, tmp_path):
    bag = livebag.open(sample)
    until = bag.start_time + 50_000_000
    _, tables = parquet_files(sample, tmp_path / "part", "-t", "/imu", "--to", str(until))
    assert list(tables) == ["/imu"]
    check_same(tables["/imu"], bag.to_arrow("/imu", 0, until))
    summary, tables = parquet_files(notes, tmp_path / "notes", code=3)
    assert not tables and "not exported" in summary["warnings"][0]


def test_damaged_messages_have_no_row(tmp_path):
    with livebag.Recorder(tmp_path / "run") as recorder:
        topic = recorder.topic("/count", "std_msgs/msg/UInt32")
        topic.write(b"\0\1\0\0\1\0\0\0", log_time=5)
        topic.write(b"\0\1\0\0\1", log_time=6)
        topic.write(b"\0\1\0\0\2\0\0\0", log_time=7)
    summary, tables = parquet_files(tmp_path / "run", tmp_path / "out", code=3)
    assert tables["/count"]["data"].to_pylist() == [1, 2] and summary["damaged"] == 1
