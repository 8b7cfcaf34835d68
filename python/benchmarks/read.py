"""livebag's Python package beside `rosbags` and `mcap` + `mcap-ros2-support`.

Two questions, asked of each reader in turn, in a process of its own each time, all repeats interleaved:

- images: iterate over N images of a real recording, each as a NumPy array, and touch one pixel of it
  (`view`), or all (`sum`).
- imu: N imu messages as an Arrow table of all their fields.

livebag reads a container; everybody reads the rosbag2 bag (MCAP, uncompressed) that livebag has
exported from it. Files are in the page cache (all are read once before). Answers of all readers are
compared. The result is one JSON document: every single time, medians, and the ratio to livebag for each
repeat.

    python read.py --data ../../../shared/data --out result.json
"""

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMAGES = {
    "rgb": ("do.bag", "/camera/rgb/image_color", 30),
    "depth": ("do.bag", "/camera/depth/image", 30),
    "mono752": ("outdoor.bag", "/visensor/left/image_raw", 20),
    "mono346": ("outdoor.bag", "/davis/left/image_raw", 44),
}
IMU = ("outdoor.bag", "/visensor/imu", 200)
START = 1_700_000_000_000_000_000


# --- The recordings ---


def make_images(folder, data, name, count):
    """A container of one real image, `count` times with new times, and its export."""
    import livebag

    bag, topic, rate = IMAGES[name]
    message = next(livebag.open(data / bag).read_messages(topic))
    image, encoding = message.image, message._image_place()[2]
    with livebag.Recorder(folder / name) as recorder:
        writer = recorder.topic(topic, "sensor_msgs/msg/Image")
        for k in range(count):
            t = START + k * 1_000_000_000 // rate
            writer.write_image(image, encoding=encoding, frame_id="camera", log_time=t, sequence=k + 1)
    export(folder, name)
    return topic


def make_imu(folder, data, count):
    """The same of an imu message."""
    import livebag
    from rosbags.typesys import Stores, get_typestore

    bag, topic, rate = IMU
    real = next(livebag.open(data / bag).read_messages(topic)).decode()
    types = get_typestore(Stores.ROS2_HUMBLE)
    header = types.types["std_msgs/msg/Header"](real.header.stamp, real.header.frame_id)
    fields = [getattr(real, field) for field in ("orientation", "orientation_covariance", "angular_velocity",
                                                 "angular_velocity_covariance", "linear_acceleration",
                                                 "linear_acceleration_covariance")]
    message = types.types["sensor_msgs/msg/Imu"](header, *fields)
    message = bytearray(types.serialize_cdr(message, "sensor_msgs/msg/Imu"))
    with livebag.Recorder(folder / "imu") as recorder:
        writer = recorder.topic(topic, "sensor_msgs/msg/Imu")
        for k in range(count):
            t = START + k * 1_000_000_000 // rate
            struct.pack_into("<iI", message, 4, t // 1_000_000_000, t % 1_000_000_000)
            writer.write(bytes(message), log_time=t, sequence=k + 1)
    export(folder, "imu")
    return topic


def export(folder, name):
    import livebag

    livebag.convert(folder / name, folder / f"{name}_recording", storage="mcap")


# --- The readers: each gives (seconds, answer) ---


def mcap_file(folder, name):
    (path,) = (folder / f"{name}_recording").glob("*.mcap")
    return path


def touch(image, how):
    return int(image[image.shape[0] // 2, image.shape[1] // 2].sum()) if how == "view" else float(image.sum())


def images_livebag(topic, how, path, **options):
    import livebag
    import livebag._views  # noqa: F401  (imports NumPy, as the peers below have done by then)

    began = time.perf_counter()
    total, count = 0, 0
    with livebag.open(path, **options) as bag:
        for message in bag.read_messages(topic):
            total += touch(message.image, how)
            count += 1
    return time.perf_counter() - began, [count, total]


def images_livebag_container(folder, name, topic, how):
    return images_livebag(topic, how, folder / name)


def images_livebag_mapped(folder, name, topic, how):
    return images_livebag(topic, how, folder / name, mapped=True)


def images_livebag_mcap(folder, name, topic, how):
    return images_livebag(topic, how, mcap_file(folder, name))


def as_array(message):
    import numpy as np

    dtype, channels = {"bgr8": ("u1", 3), "32FC1": ("<f4", 1), "mono8": ("u1", 1)}[message.encoding]
    array = np.frombuffer(message.data, dtype)
    return array.reshape((message.height, message.width, 3) if channels == 3 else (message.height, message.width))


def images_rosbags(folder, name, topic, how):
    import numpy  # noqa: F401  (not part of anybody's time)
    from rosbags.highlevel import AnyReader

    began = time.perf_counter()
    total, count = 0, 0
    with AnyReader([folder / f"{name}_recording"]) as reader:
        chosen = [connection for connection in reader.connections if connection.topic == topic]
        for connection, _, raw in reader.messages(chosen):
            total += touch(as_array(reader.deserialize(raw, connection.msgtype)), how)
            count += 1
    return time.perf_counter() - began, [count, total]


def images_mcap(folder, name, topic, how):
    import numpy  # noqa: F401
    from mcap_ros2.reader import read_ros2_messages

    began = time.perf_counter()
    total, count = 0, 0
    for message in read_ros2_messages(str(mcap_file(folder, name)), topics=[topic]):
        total += touch(as_array(message.ros_msg), how)
        count += 1
    return time.perf_counter() - began, [count, total]


SCALARS = [
    ("orientation", "xyzw"),
    ("angular_velocity", "xyz"),
    ("linear_acceleration", "xyz"),
]
COVARIANCES = ["orientation_covariance", "angular_velocity_covariance", "linear_acceleration_covariance"]


def imu_table(messages):
    """What a careful user writes: rows of scalars, turned into columns once; arrays stacked once."""
    import numpy as np
    import pyarrow as pa

    rows, covariances = [], ([], [], [])
    for log_time, m in messages:
        o, w, a, stamp = m.orientation, m.angular_velocity, m.linear_acceleration, m.header.stamp
        rows.append((log_time, stamp.sec, stamp.nanosec, m.header.frame_id, o.x, o.y, o.z, o.w,
                     w.x, w.y, w.z, a.x, a.y, a.z))
        for into, name in zip(covariances, COVARIANCES):
            into.append(getattr(m, name))
    names = ["log_time", "header.stamp.sec", "header.stamp.nanosec", "header.frame_id"]
    names += [f"{name}.{part}" for name, parts in SCALARS for part in parts]
    columns = [pa.array(column) for column in zip(*rows)]
    for into, name in zip(covariances, COVARIANCES):
        names.append(name)
        flat = np.asarray(into, dtype=np.float64).reshape(-1)
        columns.append(pa.FixedSizeListArray.from_arrays(pa.array(flat), 9))
    return pa.table(columns, names=names)


def imu_answer(table):
    import numpy as np
    import pyarrow.compute as pc

    sums = [float(pc.sum(table[f"{name}.{part}"]).as_py()) for name, parts in SCALARS for part in parts]
    flat = [np.asarray(table[name].combine_chunks().flatten()).sum() for name in COVARIANCES]
    seconds = pc.sum(table["header.stamp.sec"]).as_py() * 10**9 + pc.sum(table["header.stamp.nanosec"]).as_py()
    return [table.num_rows, seconds, [round(value, 3) for value in (*sums, *map(float, flat))]]


def imu_livebag(topic, path):
    import livebag
    import pyarrow  # noqa: F401  (not part of anybody's time)

    began = time.perf_counter()
    with livebag.open(path) as bag:
        table = bag.to_arrow(topic)
    return time.perf_counter() - began, imu_answer(table)


def imu_livebag_container(folder, name, topic, how):
    return imu_livebag(topic, folder / name)


def imu_livebag_mcap(folder, name, topic, how):
    return imu_livebag(topic, mcap_file(folder, name))


def imu_rosbags(folder, name, topic, how):
    import pyarrow  # noqa: F401
    from rosbags.highlevel import AnyReader

    began = time.perf_counter()
    with AnyReader([folder / f"{name}_recording"]) as reader:
        messages = ((t, reader.deserialize(raw, connection.msgtype)) for connection, t, raw in reader.messages())
        table = imu_table(messages)
    return time.perf_counter() - began, imu_answer(table)


def imu_mcap(folder, name, topic, how):
    import pyarrow  # noqa: F401
    from mcap_ros2.reader import read_ros2_messages

    began = time.perf_counter()
    messages = read_ros2_messages(str(mcap_file(folder, name)), topics=[topic])
    table = imu_table((m.log_time_ns, m.ros_msg) for m in messages)
    return time.perf_counter() - began, imu_answer(table)


READERS = {
    "images": {
        "livebag": images_livebag_container,
        "livebag, mapped": images_livebag_mapped,
        "livebag, exported MCAP": images_livebag_mcap,
        "rosbags": images_rosbags,
        "mcap + mcap-ros2-support": images_mcap,
    },
    "imu": {
        "livebag": imu_livebag_container,
        "livebag, exported MCAP": imu_livebag_mcap,
        "rosbags": imu_rosbags,
        "mcap + mcap-ros2-support": imu_mcap,
    },
}


# --- The order of things ---


def child(arguments):
    question, reader, folder, name, topic, how = arguments
    seconds, answer = READERS[question][reader](Path(folder), name, topic, how)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "answer": answer, "peak_bytes": peak}))


def ask(*arguments):
    command = [sys.executable, __file__, "--child", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    return json.loads(done.stdout)


def warm(path):
    """Reads every file into the page cache, all in the same way: what a program has just written lies
    there in other pieces, from which copying can take three times as long."""
    for file in path.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while opened.read(1 << 20):
                    pass


def measure(question, folder, name, topic, how, repeats):
    """Every reader in turn, in another order each time."""
    for path in (folder / name, folder / f"{name}_recording"):
        warm(path)
    readers = list(READERS[question])
    runs = {reader: [] for reader in readers}
    for repeat in range(repeats):
        shift = repeat % len(readers)
        for reader in readers[shift:] + readers[:shift]:
            runs[reader].append(ask(question, reader, folder, name, topic, how))
            print(f"{name} {how} {reader}: {runs[reader][-1]['seconds']:.3f} s", file=sys.stderr, flush=True)
    answers = [json.dumps(run["answer"]) for all_runs in runs.values() for run in all_runs]
    if len(set(answers)) != 1:
        sys.exit(f"the readers disagree about {name}: {sorted(set(answers))}")
    result = {"workload": name, "how": how, "answer": json.loads(answers[0]), "readers": {}}
    for reader, all_runs in runs.items():
        seconds = [run["seconds"] for run in all_runs]
        ratios = [s / run["seconds"] for s, run in zip(seconds, runs["livebag"])]
        result["readers"][reader] = {
            "seconds": seconds,
            "median_s": statistics.median(seconds),
            "ratio_to_livebag": {
                "each": ratios,
                "median": statistics.median(ratios),
                "min": min(ratios),
                "max": max(ratios),
            },
            "peak_bytes": max(run["peak_bytes"] for run in all_runs),
        }
    return result


def machine():
    model = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    memory = int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) * 1024
    return {
        "processor": model[0] if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "kernel": platform.release(),
        "load_before": os.getloadavg(),
    }


def versions():
    packages = ["numpy", "pyarrow", "rosbags", "mcap", "mcap-ros2-support"]
    import livebag

    return {
        "python": platform.python_version(),
        "livebag": livebag.__version__,
        **{package: importlib.metadata.version(package) for package in packages},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data",
                        help="folder with do.bag and outdoor.bag")
    parser.add_argument("--folder", type=Path, help="where the recordings are made (default: a temporary folder)")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--imu", type=int, default=1_000_000, help="0: without")
    parser.add_argument("--workloads", nargs="*", default=["rgb", "depth", "mono752", "mono346"], choices=IMAGES)
    parser.add_argument("--how", nargs="*", default=["view", "sum"], choices=["view", "sum"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--imu-repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file (default: standard output)")
    arguments = parser.parse_args()
    report = {
        "command": " ".join(sys.argv),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(),
        "versions": versions(),
        "page_cache": "warm",
        "results": [],
    }
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        folder = Path(folder)
        for name in arguments.workloads:
            topic = make_images(folder, arguments.data, name, arguments.images)
            for how in arguments.how:
                report["results"].append(measure("images", folder, name, topic, how, arguments.repeats))
            shutil.rmtree(folder / name)
            shutil.rmtree(folder / f"{name}_recording")
        if arguments.imu:
            topic = make_imu(folder, arguments.data, arguments.imu)
            report["results"].append(measure("imu", folder, "imu", topic, "arrow", arguments.imu_repeats))
    report["machine"]["load_after"] = os.getloadavg()
    text = json.dumps(report, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    child(sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main()
