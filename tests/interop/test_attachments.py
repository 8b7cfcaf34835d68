"""Attachments and metadata records, written and read by the official Python mcap, through livebag and back."""

import json
import os
import subprocess

import pytest
from mcap.reader import NonSeekingReader, make_reader
from mcap.writer import IndexType, Writer
from online import get, running, url_in
from tools import livebag

SIZES = [0, 1, 3, 4095, 65_537, (2 << 20) + 11]
INDEXES = {"indexed": IndexType.ALL, "no index of attachments": IndexType.CHUNK | IndexType.MESSAGE,
           "no index": IndexType.NONE}
RECORDS = [("fleet", {"robot": "r2", "site": "Halle 7"}), ("fleet", {"robot": "r3"}), ("", {"": ""}),
           ("rosbag2", {"note": "not rosbag2's own"})]


def attachments():
    return [(1_000 + number, [0, 7][number % 2], ["a.yaml", "", "Plan (µm).pdf"][number % 3], ["text/yaml", ""][number % 2],
             os.urandom(size)) for number, size in enumerate(SIZES)]


def write(path, parts, index_types=IndexType.ALL, **options):
    with path.open("wb") as opened:
        writer = Writer(opened, index_types=index_types, **options)
        writer.start("ros2", "test")
        schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
        channel = writer.register_channel("/a", "cdr", schema)
        for number, (log_time, create_time, name, media_type, data) in enumerate(parts):
            writer.add_message(channel, number + 1, b"message", number, number)
            writer.add_attachment(create_time=create_time, log_time=log_time, name=name, media_type=media_type, data=data)
        for name, values in RECORDS:
            writer.add_metadata(name, values)
        writer.finish()


def read(path):
    """The official reader's results with the summary, and without it."""
    found = []
    for kind in (make_reader, NonSeekingReader):
        with path.open("rb") as opened:
            reader = kind(opened)
            files = [(a.log_time, a.create_time, a.name, a.media_type, a.data) for a in reader.iter_attachments()]
        with path.open("rb") as opened:
            records = [(m.name, m.metadata) for m in kind(opened).iter_metadata() if "serialized_metadata" not in m.metadata]
        found.append((files, records))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("indexes", INDEXES)
def test_they_come_back_byte_for_byte(indexes, tmp_path):
    parts = attachments()
    write(tmp_path / "first.mcap", parts, INDEXES[indexes])
    livebag("convert", tmp_path / "first.mcap", tmp_path / "container")
    assert read(tmp_path / "container" / "attachments.mcap") == (parts, [])
    livebag("convert", tmp_path / "container", tmp_path / "bag", "--compression", "zstd")
    livebag("convert", tmp_path / "first.mcap", tmp_path / "straight", "--storage", "mcap")
    for bag in ("bag", "straight"):
        assert read(tmp_path / bag / f"{bag}_0.mcap") == (parts, RECORDS)
    for path in ("first.mcap", "container", "bag"):
        told = json.loads(livebag("info", tmp_path / path, "--json"))["attachments"]
        assert [(int(a["log_time"]), int(a["create_time"]), a["name"], a["media_type"], a["bytes"]) for a in told] \
            == [(*a[:4], len(a[4])) for a in parts]
        livebag("verify", tmp_path / path)


def test_a_server_gives_them_in_the_file_that_it_makes(tmp_path):
    parts = attachments()
    write(tmp_path / "first.mcap", parts)
    livebag("convert", tmp_path / "first.mcap", tmp_path / "run1")
    with running("serve", tmp_path, "--listen", "127.0.0.1:0") as (_, lines):
        url = url_in(lines)
        for question in ("", "?topic=/a&from=1970-01-01T00:00:00Z&to=1970-01-01T00:00:01Z"):
            fetched = tmp_path / "fetched.mcap"
            fetched.write_bytes(get(f"{url}/bags/run1.mcap{question}"))
            assert read(fetched) == (parts, RECORDS)
            with fetched.open("rb") as opened:
                statistics = make_reader(opened).get_summary().statistics
            assert (statistics.attachment_count, statistics.metadata_count) == (len(parts), len(RECORDS))
            livebag("verify", fetched)


def test_a_bag_of_several_files_keeps_those_of_each(tmp_path):
    bag, parts = tmp_path / "bag", attachments()
    bag.mkdir()
    write(bag / "bag_0.mcap", parts[:4])
    write(bag / "bag_1.mcap", parts[4:])
    livebag("convert", bag, tmp_path / "container")
    livebag("convert", tmp_path / "container", tmp_path / "parts", "-b", "1")
    assert read(tmp_path / "parts" / "parts_0.mcap") == (parts, RECORDS)


def test_a_damaged_one_is_told_and_the_rest_converts(tmp_path):
    first, parts = tmp_path / "first.mcap", attachments()
    write(first, parts, enable_data_crcs=False)
    whole = first.read_bytes()
    at = whole.index(parts[4][4])
    first.write_bytes(whole[:at + 9] + bytes([whole[at + 9] ^ 1]) + whole[at + 10:])
    done = subprocess.run([os.environ["LIVEBAG"], "convert", first, tmp_path / "container"], capture_output=True, text=True)
    assert done.returncode == 3 and "checksum" in done.stderr and parts[4][2] in done.stderr, done.stderr
    rest = parts[:4] + parts[5:]
    assert read(tmp_path / "container" / "attachments.mcap") == (rest, [])
    assert json.loads(livebag("info", tmp_path / "container", "--json"))["message_count"] == len(parts)
    done = subprocess.run([os.environ["LIVEBAG"], "verify", first], capture_output=True, text=True)
    assert done.returncode == 1 and "attachment's checksum" in done.stdout, done.stdout
    told = livebag("convert", tmp_path / "container", tmp_path / "old", "--storage", "sqlite3", "--json")
    warnings = json.loads(told)["warnings"]
    assert sum("sqlite3 bags have none" in warning for warning in warnings) == len(rest) + len(RECORDS)
