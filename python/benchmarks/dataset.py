"""livebag's datasets beside `ray.data.read_mcap` and `daft.read_mcap`.

A folder of recordings with a camera and an imu, each as a livebag container and as one MCAP file (uncompressed, as
livebag exports it for others). Three questions:

- imu: all messages of the imu (livebag decodes them; the others give the encoded bytes).
- second: one second of the camera out of each recording.
- camera: all messages of the camera.

Asked of each reader in turn, in a process of its own each time, all repeats interleaved. Files are in the page cache.
Rows of all readers are compared. `read` are the bytes that the process read (of Ray's workers unknown). The result is
one JSON document: every time, medians, and the ratio to livebag.

    python dataset.py --recordings 100 --repeats 5 --out result.json

With --bucket the recordings are in a bucket of versitygw on this machine, pushed there by livebag, and `read` are the
bytes that the server sent, also to Ray's workers: a proxy counts them. LIVEBAG and LIVEBAG_VERSITYGW name the programs.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

START = 1_700_000_000_000_000_000
SECONDS, CAMERA_RATE, IMU_RATE = 10, 20, 200
WIDTH, HEIGHT = 320, 240
READERS = {"livebag-daft": "daft", "daft": "daft", "livebag-ray": "ray", "ray": "ray"}
QUESTIONS = ("imu", "second", "camera")


def make(folder, count):
    import livebag
    import numpy as np
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    T = types.types
    vector, time_type = T["geometry_msgs/msg/Vector3"], T["builtin_interfaces/msg/Time"]
    message = T["sensor_msgs/msg/Imu"](
        T["std_msgs/msg/Header"](time_type(0, 0), "imu"), T["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0),
        np.zeros(9), vector(0.1, 0.2, 0.3), np.zeros(9), vector(0.0, 0.0, 9.81), np.zeros(9))
    encoded = bytearray(types.serialize_cdr(message, "sensor_msgs/msg/Imu"))
    for number in range(count):
        with livebag.Recorder(folder / "containers" / f"drive{number}", overflow="block") as recorder:
            camera = recorder.topic("/camera", "sensor_msgs/msg/Image")
            imu = recorder.topic("/imu", "sensor_msgs/msg/Imu")
            for k in range(SECONDS * IMU_RATE):
                t = START + k * 10**9 // IMU_RATE
                struct.pack_into("<iI", encoded, 4, t // 10**9, t % 10**9)
                imu.write(bytes(encoded), log_time=t)
                if k % (IMU_RATE // CAMERA_RATE) == 0:
                    image = np.full((HEIGHT, WIDTH, 3), k % 251, np.uint8)
                    camera.write_image(image, encoding="rgb8", frame_id="camera", log_time=t)
        livebag.convert(folder / "containers" / f"drive{number}", folder / "export", storage="mcap")
        (file,) = (folder / "export").glob("*.mcap")
        file.rename(folder / "mcap" / f"drive{number}.mcap")
        for rest in (folder / "export").iterdir():
            rest.unlink()
        (folder / "export").rmdir()


class Proxy:
    """Passes connections on to a server, and counts the bytes that it sends."""

    def __init__(self, port):
        self.sent = 0
        self._lock = threading.Lock()
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._port))
            for source, sink, is_counted in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=(source, sink, is_counted), daemon=True).start()

    def _pass(self, source, sink, is_counted):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                if is_counted:
                    with self._lock:
                        self.sent += len(data)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def bucket_of(folder, recordings):
    """Pushes the recordings into a bucket; gives its proxy, and the variables with which it is reached."""
    sys.path.append(str(Path(__file__).parents[2] / "tests" / "interop"))
    import s3_server

    root = folder / "store"
    (root / "fleet").mkdir(parents=True)
    with s3_server.serving(root) as variables:
        for number in range(recordings):
            for kind, name in (("containers", f"drive{number}"), ("mcap", f"drive{number}.mcap")):
                path = folder / kind / name
                push = [os.environ["LIVEBAG"], "push", path, f"s3://fleet/{kind}"]
                subprocess.run(push, check=True, capture_output=True, env=os.environ | variables)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        proxy = Proxy(int(variables["AWS_ENDPOINT_URL"].rpartition(":")[2]))
        yield proxy, variables | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}


def ask(folder, reader, question, recordings):
    """(seconds, rows, bytes read by this process). The folder is local or `s3://fleet`."""
    topic = "/imu" if question == "imu" else "/camera"
    times = (START + 4 * 10**9, START + 5 * 10**9 - 1) if question == "second" else (None, None)
    is_bucket = folder == "s3://fleet"
    containers = f"{folder}/containers"
    files = [f"{folder}/mcap/drive{number}.mcap" for number in range(int(recordings))]
    key, secret, endpoint = (os.environ.get(f"AWS_{name}", "")
                             for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL"))
    if reader.endswith("ray"):
        import ray.data

        ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        ray.data.range(1).materialize()  # a worker has started
    else:
        import daft

        if reader == "daft":
            import mcap.reader  # noqa: F401  (what it imports by itself, not counted)
    import livebag
    import pyarrow.compute  # noqa: F401

    before, began = bytes_read(), time.perf_counter()
    if reader.startswith("livebag"):
        data = livebag.dataset(containers, topic, from_=times[0], to=times[1])
        rows = data.to_ray().materialize().count() if reader.endswith("ray") else len(data.to_daft().collect())
    elif reader == "ray":
        span = None if times[0] is None else (times[0], times[1] + 1)
        system = None
        if is_bucket:
            import pyarrow.fs

            system = pyarrow.fs.S3FileSystem(access_key=key, secret_key=secret, region="us-east-1",
                                             endpoint_override=endpoint.removeprefix("http://"), scheme="http")
            files = [file.removeprefix("s3://") for file in files]
        read = ray.data.read_mcap(files, topics={topic}, time_range=span, filesystem=system)
        rows = read.materialize().count()
    else:
        # File by file: with more files than threads Daft 0.7.26 waits for itself for ever.
        end = None if times[1] is None else times[1] + 1
        config = None
        if is_bucket:
            config = daft.io.IOConfig(s3=daft.io.S3Config(
                key_id=key, access_key=secret, endpoint_url=endpoint, region_name="us-east-1"))
        rows = sum(len(daft.read_mcap(file, topics=[topic], start_time=times[0], end_time=end,
                                      io_config=config).collect()) for file in files)
    return time.perf_counter() - began, rows, bytes_read() - before


def bytes_read():
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--ask", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        print(json.dumps(ask(*args.ask)))
        return
    with contextlib.ExitStack() as within:
        name = within.enter_context(tempfile.TemporaryDirectory(prefix="livebag-dataset-", dir="/var/tmp"))
        folder = Path(name)
        (folder / "mcap").mkdir()
        (folder / "containers").mkdir()
        make(folder, args.recordings)
        proxy, variables = None, {}
        if args.bucket:
            proxy, variables = within.enter_context(bucket_of(folder, args.recordings))
        answers = {(reader, question): [] for question in QUESTIONS for reader in READERS}
        for _ in range(args.repeats):
            for reader, question in answers:
                place = "s3://fleet" if args.bucket else name
                run = [sys.executable, __file__, "--ask", place, reader, question, str(args.recordings)]
                before = proxy.sent if proxy else 0
                told = subprocess.run(run, capture_output=True, text=True, env=os.environ | variables)
                if told.returncode:
                    sys.exit(f"{reader}, {question}: {told.stderr[-2000:]}")
                took, rows, read = json.loads(told.stdout.splitlines()[-1])
                answers[reader, question].append((took, rows, proxy.sent - before if proxy else read))
    result = {"machine": platform.processor() or platform.machine(), "recordings": args.recordings,
              "bucket": args.bucket,
              "versions": {name: importlib.metadata.version(name) for name in ("livebag", "ray", "daft", "mcap")},
              "answers": []}
    for question in QUESTIONS:
        for reader, package in READERS.items():
            told = answers[reader, question]
            ours = answers["livebag-" + package, question]
            if {rows for _, rows, _ in told} != {rows for _, rows, _ in ours}:
                sys.exit(f"{question}: {reader} has {told[0][1]} rows, livebag {ours[0][1]}")
            seconds = [took for took, _, _ in told]
            result["answers"].append({
                "question": question, "reader": reader, "rows": told[0][1], "seconds": seconds,
                "median": statistics.median(seconds), "read": None if package == "ray" and not args.bucket else told[0][2],
                "ratio": statistics.median(seconds) / statistics.median(took for took, _, _ in ours)})
            print("{question:8} {reader:14} {rows:8} rows  {median:8.3f} s  x{ratio:6.2f}  {read} bytes read".format(
                **result["answers"][-1]))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
