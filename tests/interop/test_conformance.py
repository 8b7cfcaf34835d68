"""MCAP's conformance suite, as @mcap/core writes it: every file through every verb and every storage and
back, compared with the official Python reader."""

import concurrent.futures
import io
import json
import os
import re

import pytest
import tools
from mcap.reader import NonSeekingReader

FILES = 416
STORAGES = ("container", "mcap", "sqlite3")


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conformance")
    assert int(tools.run(["node", tools.HERE / "conformance.mjs", folder])) == FILES
    files = sorted(folder.iterdir())
    assert len(files) == FILES
    return files


def said(path):
    """Messages, attachments and metadata, as the official reader has them."""
    read = lambda: NonSeekingReader(io.BytesIO(path.read_bytes()))  # noqa: E731
    messages = [
        (channel.topic, schema and schema.name, message.log_time, message.publish_time, bytes(message.data))
        for schema, channel, message in read().iter_messages(log_time_order=False)
    ]
    attachments = [(one.name, one.log_time, one.create_time, one.data) for one in read().iter_attachments()]
    metadata = [(one.name, dict(one.metadata)) for one in read().iter_metadata() if one.name == "myMetadata"]
    return messages, attachments, metadata


def held_by(file):
    """What a file holds: as much as the one of its input without any optional part. The official Python
    reader passes over chunks with bytes behind their fields."""
    return said(file.with_name(re.match(r"\w+", file.name).group() + ".mcap"))


def test_all_that_share_an_input_hold_the_same(suite):
    plain = [file for file in suite if "-pad" not in file.name]
    assert len({file.name for file in plain if file.stem.isalpha()}) == 6
    for file in plain:
        assert said(file) == held_by(file), file.name


def test_ls_calls_each_sound(suite):
    rows = json.loads(tools.livebag("ls", "--json", suite[0].parent))
    assert len(rows) == FILES
    assert [row["path"] for row in rows if row["state"] != "closed" or row["problem"]] == []


def each(files, act):
    """What an action gives for each file, as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        return list(pool.map(act, files))


def test_verify_calls_each_sound(suite):
    for file, out in zip(suite, each(suite, lambda file: tools.livebag("verify", "--json", file)), strict=True):
        report = json.loads(out)
        assert report["whole"] and report["message_count"] == len(held_by(file)[0]), file.name
        is_padded = "-pad" in file.name and file.name.startswith("OneAttachment")
        assert bool(report["warnings"]) == is_padded, file.name


def test_info_counts_each(suite):
    for file, out in zip(suite, each(suite, lambda file: tools.livebag("info", "--json", file)), strict=True):
        assert json.loads(out)["message_count"] == len(held_by(file)[0]), file.name


def test_query_gives_each_message(suite, tmp_path):
    def query(file):
        container, out = tmp_path / file.stem, tmp_path / f"{file.stem}.out.mcap"
        tools.livebag("convert", file, container)
        messages = held_by(file)[0]
        lines = tools.livebag("query", container, "history", "--json").splitlines()
        told = [(line["topic"], int(line["log_time"]), int(line["publish_time"]), line["bytes"]) for line in map(json.loads, lines)]
        assert told == [(topic, log, publish, len(data)) for topic, _, log, publish, data in messages], file.name
        text = tools.livebag("query", container, "history")
        assert re.search(rf"^{len(messages)} messages?, ", text, re.MULTILINE), f"{file.name}: {text}"
        if messages:
            tools.livebag("query", container, "history", "-o", out)
            assert said(out)[0] == messages, file.name

    each(suite, query)


@pytest.mark.parametrize("storage", STORAGES)
def test_each_goes_to_every_storage_and_back(suite, storage, tmp_path):
    def there_and_back(file):
        there, back = tmp_path / file.stem, tmp_path / f"{file.stem}.back"
        tools.livebag("convert", file, there, "--storage", storage)
        tools.livebag("verify", there)
        tools.livebag("convert", there, back, "--storage", "mcap")
        messages, attachments, metadata = held_by(file)
        again = [said(one) for one in sorted(back.glob("*.mcap"))]
        if storage == "sqlite3":
            # A database of rosbag2's has no place for publish times, attachments and metadata.
            messages = [(topic, schema, log, log, data) for topic, schema, log, _, data in messages]
        else:
            assert [one for part in again for one in part[1]] == attachments, file.name
            assert [one for part in again for one in part[2]] == metadata, file.name

        assert [message for one in again for message in one[0]] == messages, file.name

    each(suite, there_and_back)
