"""Datasets read by Ray, Daft, Polars and DuckDB: their rows equal those of `livebag.open`, with and without filters,
columns and limits.

Named so that pytest finds it only where these engines are: ../test.sh runs it in an environment of its own.
"""

import os
import random
import signal

import daft
import duckdb
import livebag
import polars
import pyarrow
import pyarrow.compute as pc
import pytest
import ray
import ray.cluster_utils
from conftest import START
from test_dataset import NAMES, drives, one_by_one, rigs  # noqa: F401  (fixtures)

X = "angular_velocity.x"
COLUMNS = ["recording", "log_time", "publish_time", X]


@pytest.fixture(scope="module")
def cluster():
    """A cluster of three nodes on this machine."""
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    here = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(2):
        here.add_node(num_cpus=1)
    ray.init(address=here.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield here
    ray.shutdown()
    here.shutdown()


def rows(table):
    """(recording, log time, publish time, x), in order."""
    columns = [table[name].cast("int64") if name.endswith("_time") else table[name] for name in COLUMNS]
    return sorted(zip(*(column.to_pylist() for column in columns)))


def by_ray(data, low, limit):
    found = data.to_ray()
    if low is not None:
        found = found.filter(expr=ray.data.expressions.col(X) > low)
    found = found.select_columns(COLUMNS)
    if limit is not None:
        found = found.limit(limit)
    tables = [pyarrow.table(block) for block in found.iter_batches(batch_format="pyarrow", batch_size=None)]
    return pyarrow.concat_tables([table.select(COLUMNS) for table in tables if table.num_rows] or
                                 [data.schema().empty_table().select(COLUMNS)])


def by_daft(data, low, limit):
    found = data.to_daft()
    if low is not None:
        found = found.where(daft.col(X) > low)
    found = found.select(*COLUMNS)
    return (found if limit is None else found.limit(limit)).to_arrow()


def by_polars(data, low, limit):
    found = data.to_polars()
    if low is not None:
        found = found.filter(polars.col(X) > low)
    found = found.select(COLUMNS)
    return (found if limit is None else found.head(limit)).collect().to_arrow()


def by_duckdb(data, low, limit):
    messages = pyarrow.RecordBatchReader.from_stream(data)  # noqa: F841  (DuckDB finds it by name)
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    condition = "" if low is None else f'where "{X}" > {low}'
    first = "" if limit is None else f"limit {limit}"
    return duckdb.sql(f"select {names} from messages {condition} {first}").to_arrow_table()


ENGINES = [by_ray, by_daft, by_polars, by_duckdb]


@pytest.mark.parametrize("read", ENGINES)
def test_rows_are_those_of_open(cluster, drives, read, monkeypatch):  # noqa: F811
    generator = random.Random(11)
    for case in range(6):
        start = START + generator.randrange(-(10**9), 2 * 10**10)
        end = start + generator.randrange(0, 3 * 10**10)
        low = generator.choice([None, 5, 20, 10**6])
        limit = generator.choice([None, None, 7])
        monkeypatch.setattr(livebag.Dataset, "TASK_BYTES", generator.choice([700, 5_000, 1 << 26]))
        data = livebag.dataset(drives, "/imu", from_=start, to=end,
                               filter=None if case % 2 else pc.field(X) < 35)
        wanted = [row for row in one_by_one(drives, NAMES, "/imu", start, end)
                  if (low is None or row[3] > low) and (case % 2 or row[3] < 35)]
        found = rows(read(data, low, limit))
        if limit is None:
            assert found == sorted(wanted)
        else:
            assert len(found) == min(limit, len(wanted)) and set(found) <= set(wanted)


@pytest.mark.parametrize("read", ["ray", "daft", "polars"])
def test_counts_are_those_of_the_index(cluster, drives, read, monkeypatch):  # noqa: F811
    data = livebag.dataset(drives, "/imu")
    wanted = data.count()
    if read == "ray":
        assert data.to_ray().count() == wanted
    elif read == "daft":
        # Of recordings with an index that is answered without a message.
        indexed = livebag.dataset([drives / "drive0", drives / "deeper"], "/imu")
        for batches in ("_decoded", "batches"):
            monkeypatch.setattr("livebag._dataset.Task." + batches, None)
        assert indexed.to_daft().count_rows() == indexed.count() == 40 + 41 + 43
        monkeypatch.undo()
        assert data.to_daft().count_rows() == wanted
        assert data.to_daft().where(daft.col(X) > 20).count_rows() == data.to_polars().filter(
            polars.col(X) > 20).select(polars.len()).collect().item()
    else:
        assert data.to_polars().select(polars.len()).collect().item() == wanted


@pytest.mark.parametrize("read", ["ray", "daft", "polars"])
def test_joined_rows_are_the_same(cluster, rigs, read):  # noqa: F811
    data = livebag.dataset(rigs).align("/camera", {"/odom": "nearest", "/cmd": "window 1s"}, tolerance="100ms")
    wanted = data.to_arrow().select(["recording", "data", "/odom.data", "/cmd.data"]).to_pylist()
    if read == "ray":
        found = data.to_ray().take_all()
        found = [{name: row[name] for name in wanted[0]} for row in found]
        found = [{name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}
                 for row in found]
    elif read == "daft":
        found = data.to_daft().select(*wanted[0]).to_pylist()
    else:
        found = data.to_polars().select(list(wanted[0])).collect().to_dicts()
    key = lambda row: (row["recording"], row["data"])  # noqa: E731
    none = lambda row: {name: None if value != value else value for name, value in row.items()}  # noqa: E731
    assert sorted(map(none, found), key=key) == sorted(wanted, key=key)


def test_daft_on_ray_reads_the_same(cluster, drives):  # noqa: F811
    daft.set_runner_ray(noop_if_initialized=True)
    data = livebag.dataset(drives, "/imu")
    assert rows(by_daft(data, 20, None)) == sorted(
        row for row in one_by_one(drives, NAMES, "/imu") if row[3] > 20)


def test_a_worker_that_dies_costs_no_row(cluster, drives, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(livebag.Dataset, "TASK_BYTES", 2_000)
    flag = tmp_path / "died"

    def die_once(batch):
        # The first worker that comes here.
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return batch
        os.kill(os.getpid(), signal.SIGKILL)

    data = livebag.dataset(drives, "/imu")
    found = data.to_ray().map_batches(die_once, batch_format="pyarrow").take_all()
    assert flag.exists()
    names = sorted((row["recording"], row["log_time"].value) for row in found)
    assert names == sorted((row[0], row[1]) for row in one_by_one(drives, NAMES, "/imu"))
