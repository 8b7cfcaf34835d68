"""The checkers themselves: they read a good file alike, and refuse each kind of bad one."""

import hashlib
import json
import zlib

import pytest
from tools import check, check_node

import sample

SIZES = [(640, 480), (641, 479), (1, 1), (37, 113)]


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_every_reader_reads_a_brick_alike(tmp_path, size, aligned):
    frames = [sample.image(*size, seed) for seed in range(3)]
    brick = tmp_path / "camera.mcap"
    brick.write_bytes(sample.brick(frames, aligned, chunk_crc=not aligned))
    said = check([brick])[str(brick)]
    topic = said["topics"]["/camera"]
    assert topic["count"] == topic["decoded"] == 3
    assert (topic["width"], topic["height"], topic["encoding"]) == (*size, "rgb8")
    assert topic["data_sha256"] == hashlib.sha256(b"".join(pixels for _, pixels in frames)).hexdigest()
    assert said["private_records"] == 3 * aligned
    assert "rosbags" in said["readers"]
    assert topic["data_crc32"] == zlib.crc32(b"".join(pixels for _, pixels in frames))
    in_node = check_node([brick])[str(brick)]["topics"]["/camera"]
    assert {key: topic[key] for key in in_node} == in_node


@pytest.mark.parametrize("wrong", [
    "statistics", "chunk_index", "message_index", "data_crc", "chunk_crc", "summary_crc", "channel", "times"])
def test_a_wrong_file_is_refused(tmp_path, wrong):
    brick = tmp_path / "camera.mcap"
    brick.write_bytes(sample.brick([sample.image(64, 48, 1)], chunk_crc=True, wrong=wrong))
    assert "error:" in check([brick], passes=False)


def test_a_truncated_file_is_refused_by_both(tmp_path):
    whole = sample.brick([sample.image(64, 48, 1)])
    for length in (0, 8, 300, len(whole) // 2, len(whole) - 1):
        brick = tmp_path / f"cut{length}.mcap"
        brick.write_bytes(whole[:length])
        assert "error:" in check([brick], passes=False)
        assert "error:" in check_node([brick], passes=False)


def test_an_expectation_that_does_not_hold_is_refused(tmp_path):
    brick, expect = tmp_path / "camera.mcap", tmp_path / "expect.json"
    prefix, pixels = sample.image(64, 48, 1)
    brick.write_bytes(sample.brick([(prefix, pixels)]))
    wanted = {"count": 1, "width": 64, "data_sha256": hashlib.sha256(pixels).hexdigest()}
    expect.write_text(json.dumps({"topics": {"/camera": wanted}}))
    check([brick], expect=expect)
    for topics in ({"/camera": wanted | {"count": 2}}, {"/camera": wanted | {"data_sha256": "0"}}, {"/other": wanted}):
        expect.write_text(json.dumps({"topics": topics}))
        assert "expected" in check([brick], expect=expect, passes=False)
