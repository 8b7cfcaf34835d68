"""Many recordings as one table."""

import datetime
import os
import pickle
import random
import shutil
import struct
import warnings

import livebag
import numpy as np
import pytest
from conftest import IMAGES, START, imu, pixels

pyarrow = pytest.importorskip("pyarrow")
import pyarrow.compute as pc  # noqa: E402

TENTH = 100_000_000


def number(value):
    """A std_msgs/msg/Float64."""
    return b"\0\1\0\0" + struct.pack("<d", value)


@pytest.fixture(scope="session")
def drives(tmp_path_factory, types):
    """Five recordings at two depths: containers, a rosbag2 folder, an MCAP file. /imu is in all, /extra in one."""
    folder = tmp_path_factory.mktemp("drives")
    for drive in range(4):
        path = folder / ("deeper" if drive % 2 else "") / f"drive{drive}"
        path.parent.mkdir(exist_ok=True)
        with livebag.Recorder(path) as recorder:
            topic = recorder.topic("/imu", "sensor_msgs/msg/Imu")
            speed = recorder.topic("/speed", "std_msgs/msg/Float64")
            for k in range(40 + drive):
                t = START + drive * 10**10 + k * TENTH
                topic.write(imu(types, k), log_time=t, publish_time=t - 5)
                if k % 3 == 0:
                    speed.write(number(drive + k / 100), log_time=t + drive)
            if drive == 1:
                recorder.topic("/extra", "std_msgs/msg/Float64").write(number(1.0), log_time=START + 10**10)
    livebag.convert(folder / "drive0", folder / "bag", storage="mcap")
    copy = folder / "copy"
    livebag.convert(folder / "drive2", copy, storage="mcap")
    (mcap,) = copy.glob("*.mcap")
    shutil.move(mcap, folder / "single.mcap")
    shutil.rmtree(copy)
    return folder


def one_by_one(folder, names, topic, start=0, end=2**64 - 1):
    """What `open` says: (recording, log time, publish time, x)."""
    rows = []
    for name in names:
        for message in livebag.open(folder / name).read_messages(topic, start, end):
            rows.append((name, message.log_time, message.publish_time, message.decode().angular_velocity.x))
    return rows


def rows_of(table):
    columns = [table[name].cast("int64") if name.endswith("_time") else table[name]
               for name in ("recording", "log_time", "publish_time", "angular_velocity.x")]
    return list(zip(*(column.to_pylist() for column in columns)))


NAMES = ["bag", "deeper/drive1", "deeper/drive3", "drive0", "drive2", "single.mcap"]


def test_rows_are_those_of_open(drives):
    data = livebag.dataset(drives, "/imu")
    assert data.recordings == NAMES
    assert rows_of(data.to_arrow()) == one_by_one(drives, NAMES, "/imu")
    assert data.count() == 40 + 41 + 43 + 40 + 42 + 42
    assert data.topics() == {"/imu": "sensor_msgs/msg/Imu"}
    assert data.time_range() == (START, START + 3 * 10**10 + 42 * TENTH)
    assert data.schema() == data.to_arrow().schema


def test_rows_do_not_depend_on_the_cut(drives):
    names = ["drive0", "drive2", "deeper/drive1"]
    generator = random.Random(7)
    for _ in range(60):
        start = START + generator.randrange(-(10**9), 3 * 10**10)
        end = start + generator.randrange(0, 2 * 10**10)
        data = livebag.dataset([drives / name for name in names], "imu", from_=start, to=end)
        wanted = [(os.path.basename(name), *rest) for name, *rest in one_by_one(drives, names, "/imu", start, end)]
        tasks = data.tasks(generator.choice([1, 300, 2_000, 10**9]))
        tables = [pyarrow.Table.from_batches(list(task.batches()), data.schema()) for task in tasks]
        assert rows_of(pyarrow.concat_tables([data.schema().empty_table(), *tables])) == wanted
        assert [task.count for task in tasks] == [table.num_rows for table in tables]
        assert data.count() == len(wanted)


def test_tasks_are_handed_to_others(drives):
    data = livebag.dataset(drives, "/imu", filter=pc.field("angular_velocity.x") > 20, columns=["log_time"])
    tasks = data.tasks(1000)
    assert len(tasks) > 50
    again = [pickle.loads(pickle.dumps(task)) for task in tasks]
    times = [batch.column(0).to_pylist() for task in again for batch in task.batches()]
    assert times == [batch.column(0).to_pylist() for task in tasks for batch in task.batches()]


def test_columns_and_filters(drives):
    data = livebag.dataset(drives, "/imu", filter=pc.field("angular_velocity.x") >= 30,
                           columns=["recording", "angular_velocity.x"])
    table = data.to_arrow()
    assert table.column_names == ["recording", "angular_velocity.x"] and table.schema == data.schema()
    wanted = [(name, x) for name, _, _, x in one_by_one(drives, NAMES, "/imu") if x >= 30]
    assert list(zip(*(column.to_pylist() for column in table.columns))) == wanted
    assert data.count() == len(wanted)
    with pytest.raises(livebag.Unsupported, match="there is no column speed; columns are: recording, topic"):
        livebag.dataset(drives, "/imu", columns=["speed"]).to_arrow()


def test_times_count_from_each_beginning(drives):
    data = livebag.dataset(drives, "/imu", from_="+1s", to=datetime.timedelta(seconds=1.95))
    # A foreign recording begins where its first message is, as a container does.
    assert data.count() == sum(len(batch) for batch in data.to_batches()) == 10 * len(NAMES)


def test_several_topics_of_one_type_make_a_table(drives):
    data = livebag.dataset(drives, ["/sp*", "extra"])
    assert data.topics() == {"/speed": "std_msgs/msg/Float64", "/extra": "std_msgs/msg/Float64"}
    table = data.to_arrow()
    assert set(table["topic"].to_pylist()) == {"/speed", "/extra"}
    assert table.num_rows == data.count() == 14 + 14 + 15 + 14 + 14 + 14 + 1


def test_what_makes_no_table_is_named(drives, tmp_path):
    with pytest.raises(livebag.Unsupported, match="different definitions, which make no one table"):
        livebag.dataset(drives, ["/imu", "/speed"]).to_arrow()
    with pytest.raises(livebag.NoTopic, match="no recording has the topic /lidar; topics are: /extra, /imu, /speed"):
        livebag.dataset(drives, "/lidar").count()
    with pytest.raises(livebag.NotFound, match="there is no recording in this folder"):
        livebag.dataset(tmp_path, "/imu")
    with pytest.raises(livebag.NotFound):
        livebag.dataset(tmp_path / "nothing", "/imu").count()
    with pytest.raises(ValueError, match="images is one of"):
        livebag.dataset(drives, images="jpeg")


def test_a_damaged_recording_is_named_and_the_rest_goes_on(drives, tmp_path):
    shutil.copytree(drives / "drive0", tmp_path / "good")
    (tmp_path / "cut.mcap").write_bytes((drives / "single.mcap").read_bytes()[5:1000])
    with pytest.raises(livebag.Error):
        livebag.dataset(tmp_path, "/imu").count()
    data = livebag.dataset(tmp_path, "/imu", skip_failures=True)
    with pytest.warns(RuntimeWarning, match="cut.mcap is left out"):
        assert data.count() == 40
    assert list(data.failures) == ["cut.mcap"]


def test_a_recording_that_goes_away_is_named(drives, tmp_path):
    shutil.copytree(drives / "drive0", tmp_path / "stays")
    shutil.copytree(drives / "drive0", tmp_path / "vanishes")
    for skip in (False, True):
        data = livebag.dataset(tmp_path, "/imu", skip_failures=skip)
        tasks = data.tasks()
        os.rename(tmp_path / "vanishes", tmp_path.parent / "away")
        if skip:
            with pytest.warns(RuntimeWarning, match="vanishes, /imu: the rest of this part is left out"):
                assert sum(batch.num_rows for task in tasks for batch in task.batches()) == 40
        else:
            with pytest.raises(livebag.NotFound):
                [list(task.batches()) for task in tasks]
        os.rename(tmp_path.parent / "away", tmp_path / "vanishes")


def test_a_live_recording_is_what_it_was_when_planned(tmp_path):
    with livebag.Recorder(tmp_path / "run") as recorder:
        topic = recorder.topic("/speed", "std_msgs/msg/Float64")
        for k in range(10):
            topic.write(number(k), log_time=k)
        while len(livebag.open(tmp_path / "run")) < 10:
            pass
        data = livebag.dataset(tmp_path, "/speed")
        tasks = data.tasks()
        for k in range(10, 20):
            topic.write(number(k), log_time=k)
        while len(livebag.open(tmp_path / "run")) < 20:
            pass
        assert [value for task in tasks for batch in task.batches() for value in batch["data"].to_pylist()] == list(
            range(10))
        assert data.count() == 10 and livebag.dataset(tmp_path, "/speed").count() == 20


@pytest.mark.parametrize("topic, encoding, shape, dtype", IMAGES)
def test_images_as_bytes_and_tensors(sample, topic, encoding, shape, dtype):
    data = livebag.dataset(sample, topic, images="bytes")
    assert data.schema().field("data").type == pyarrow.binary()
    first = data.to_arrow()
    assert first.schema == data.schema()
    assert first["data"][3].as_py() == pixels(3, shape, dtype).tobytes()
    tensors = livebag.dataset(sample, topic, images="tensor", from_=START + 50_000_000)
    table = tensors.to_arrow()
    assert table.schema == tensors.schema() and "data" not in table.column_names
    images = table["image"].combine_chunks().to_numpy_ndarray()
    assert images.dtype == dtype and np.array_equal(images[0].reshape(shape), pixels(5, shape, dtype))


# --- Joins in time ---


@pytest.fixture(scope="session")
def rigs(tmp_path_factory):
    """Two recordings of /camera (10 Hz), /odom (about 7 Hz, uneven), /cmd (seldom), all of numbers."""
    folder = tmp_path_factory.mktemp("rigs")
    generator = random.Random(3)
    for name in ("one", "two"):
        with livebag.Recorder(folder / name) as recorder:
            writers = {topic: recorder.topic(topic, "std_msgs/msg/Float64") for topic in ("/camera", "/odom", "/cmd")}
            times = {
                "/camera": [START + k * TENTH for k in range(60)],
                "/odom": sorted(START + generator.randrange(6 * 10**9) for _ in range(40)) + [START + 6 * 10**9],
                "/cmd": [START + 10**9, START + 10**9, START + 3 * 10**9 + 1],
            }
            for topic, writer in writers.items():
                for k, time in enumerate(times[topic]):
                    writer.write(number(k), log_time=time)
    livebag.convert(folder / "one", folder / "foreign", storage="mcap")
    return folder


def expected(bag, how, span):
    """For each camera message what belongs to it, by the plain definition."""
    rows = []
    there = [(message.log_time, struct.unpack_from("<d", message.data, 4)[0]) for message in bag.read_messages(how[0])]
    for camera in bag.read_messages("/camera"):
        t = camera.log_time
        if how[1] == "window":
            rows.append([value for time, value in there if t - span < time <= t])
            continue
        near = [(abs(time - t), time, -k, value) for k, (time, value) in enumerate(there)
                if (how[1] == "nearest" or time <= t) and (span is None or abs(time - t) <= span)]
        rows.append(min(near)[3] if near else None)
    return rows


@pytest.mark.parametrize("tolerance", [None, 20_000_000, 10**9])
@pytest.mark.parametrize("size", [1, 150, 1 << 30])
def test_joins_are_by_the_definition(rigs, tolerance, size):
    joined = livebag.dataset(rigs).align(
        "/camera", {"/odom": "nearest", "cmd": "hold"}, tolerance=None if tolerance is None else tolerance / 1e9)
    table = pyarrow.Table.from_batches([b for task in joined.tasks(size) for b in task.batches()], joined.schema())
    assert joined.count() == table.num_rows == 180
    at = 0
    for name in ("foreign", "one", "two"):
        bag = livebag.open(rigs / name)
        part = table.slice(at, 60)
        at += 60
        assert part["recording"].to_pylist() == [name] * 60
        assert part["/odom.data"].to_pylist() == expected(bag, ("/odom", "nearest"), tolerance)
        assert part["/cmd.data"].to_pylist() == expected(bag, ("/cmd", "hold"), tolerance)
    nearest = livebag.dataset(rigs / "one").align(
        "/camera", {"/cmd": "nearest"}, tolerance=None if tolerance is None else tolerance / 1e9)
    wanted = expected(livebag.open(rigs / "one"), ("/cmd", "nearest"), tolerance)
    assert nearest.to_arrow()["/cmd.data"].to_pylist() == wanted


@pytest.mark.parametrize("size", [1, 1 << 30])
def test_windows(rigs, size):
    joined = livebag.dataset(rigs).align("/camera", {"/odom": "window 350ms", "/cmd": "window 1s"})
    table = pyarrow.Table.from_batches([b for task in joined.tasks(size) for b in task.batches()], joined.schema())
    wanted = [row for name in ("foreign", "one", "two")
              for row in expected(livebag.open(rigs / name), ("/odom", "window"), 350_000_000)]
    assert table["/odom.data"].to_pylist() == wanted
    assert sum(map(len, table["/cmd.data"].to_pylist())) == 3 * (10 + 10 + 10)


def test_a_topic_that_a_recording_lacks_is_null(drives):
    joined = livebag.dataset(drives).align("/speed", {"/extra": "nearest"})
    table = joined.to_arrow()
    values = {}
    for name, value in zip(table["recording"].to_pylist(), table["/extra.data"].to_pylist()):
        values.setdefault(name, set()).add(value)
    assert values.pop("deeper/drive1") == {1.0}
    assert all(rest == {None} for rest in values.values())
    kept = livebag.dataset(drives, filter=pc.field("/extra.data").is_valid(), columns=["recording"]).align(
        "/speed", {"/extra": "nearest"})
    assert kept.count() == kept.to_arrow().num_rows == 14


def test_joins_that_are_none(rigs):
    data = livebag.dataset(rigs)
    for how in ("exact", "window", "nearest 1s"):
        with pytest.raises(ValueError, match="joined by 'nearest', 'hold' or 'window 100ms'"):
            data.align("/camera", {"/odom": how})
    with pytest.raises(livebag.NoTopic):
        data.align("/camera", {"/lidar": "hold"})
    with pytest.raises(ValueError, match="with itself"):
        data.align("/camera", {"/camera": "hold"})


def test_no_warning_without_cause(drives):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        livebag.dataset(drives, "/imu", skip_failures=True).to_arrow()
