"""The catalogue that `livebag push` writes, as DuckDB and Polars read it (docs/catalog.md)."""

import importlib
import json
import os
import subprocess
from pathlib import Path

import pytest


def engine(name):
    """DuckDB or Polars."""
    try:
        return importlib.import_module(name)
    except ImportError:
        assert os.environ.get("LIVEBAG_REQUIRE") != "all", f"LIVEBAG_REQUIRE=all, but {name} is not there"
        pytest.skip(f"SKIPPED: {name} is not there")


def livebag(*arguments):
    done = subprocess.run([os.environ["LIVEBAG"], *arguments], capture_output=True, text=True, timeout=300)
    if "built without object stores" in done.stderr:
        pytest.skip("SKIPPED: this livebag was built without object stores")
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    """A folder that a recording was pushed to, and the rows that `livebag find` prints."""
    folder = tmp_path_factory.mktemp("nas")
    for name in ("run1", "run2"):
        livebag("push", Path(os.environ["LIVEBAG_FRAMES"]) / "frames", folder, "--name", name, "--robot", "r7")
    return folder, json.loads(livebag("find", folder, "--json"))


def expected(rows):
    return sorted((row["recording"], row["topic"], row["message_count"], int(row["start_time"])) for row in rows)


def test_duckdb_reads_the_rows(catalogue):
    duckdb = engine("duckdb")
    folder, rows = catalogue
    found = duckdb.sql(f"SELECT recording, topic, message_count, epoch_ns(start_time)"
                       f" FROM read_parquet('{folder}/_livebag/**/*.parquet') WHERE robot = 'r7'").fetchall()
    assert sorted(found) == expected(rows)
    bytes_of_files = duckdb.sql(f"SELECT sum(file.bytes) FROM (SELECT unnest(files) AS file"
                                f" FROM read_parquet('{folder}/_livebag/**/*.parquet'))").fetchall()[0][0]
    assert bytes_of_files == sum(file["bytes"] for row in rows for file in row["files"])


def test_polars_reads_the_rows(catalogue):
    polars = engine("polars")
    folder, rows = catalogue
    table = polars.scan_parquet(f"{folder}/_livebag/**/*.parquet").filter(polars.col("robot") == "r7").collect()
    times = table["start_time"].dt.epoch("ns")
    assert sorted(zip(table["recording"], table["topic"], table["message_count"], times)) == expected(rows)
    assert table["files"].list.len().to_list() == [
        len(row["files"]) for name, topic in zip(table["recording"], table["topic"])
        for row in rows if (row["recording"], row["topic"]) == (name, topic)]
