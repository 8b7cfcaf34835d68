"""Recordings and streams for the tests. The data of ../shared is optional."""

import os
import uuid
from pathlib import Path

import livebag
import numpy as np
import pytest

SHARED = Path(os.environ.get("LIVEBAG_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
START = 1_700_000_000_000_000_000
BAGS = ["do.bag", "outdoor.bag", "rosbag2/mcap/talker", "rosbag2/mcap/wbag", "rosbag2/sqlite3/talker",
        "rosbag2/sqlite3/wbag"]
POINT = np.dtype({"names": ["x", "y", "z", "intensity", "ring"], "formats": ["<f4", "<f4", "<f4", "<f4", "<u2"],
                  "offsets": [0, 4, 8, 16, 20], "itemsize": 32})
#: rosbag2's databases had none, and their messages are older than the types that readers know.
BAGS_WITH_DEFINITIONS = [name for name in BAGS if "sqlite3" not in name]


def pixels(k, shape, dtype):
    """Image number k: no two alike."""
    return np.random.default_rng(k).integers(0, 200, shape).astype(dtype)


def cloud(k, count):
    """Cloud number k."""
    points = np.zeros(count, POINT)
    for number, name in enumerate(POINT.names):
        points[name] = np.random.default_rng(100 * k + number).integers(0, 1000, count)
    return points


#: Topic, pixel encoding, shape, dtype, by kinds of pixel that views must know.
IMAGES = [
    ("/camera/rgb", "rgb8", (48, 64, 3), np.uint8),
    ("/camera/mono16", "mono16", (33, 21), np.uint16),
    ("/camera/depth", "32FC1", (120, 161), np.float32),
    ("/camera/large", "bgra8", (240, 320, 4), np.uint8),
]


@pytest.fixture(scope="session")
def types():
    """rosbags' types of ROS 2, to write messages with."""
    typesys = pytest.importorskip("rosbags.typesys")
    return typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)


def imu(types, k):
    """Imu number k, encoded."""
    T = types.types
    time = T["builtin_interfaces/msg/Time"](1_700_000_000 + k, k)
    header = T["std_msgs/msg/Header"](time, f"imu_{k % 3}")
    vector = T["geometry_msgs/msg/Vector3"]
    message = T["sensor_msgs/msg/Imu"](
        header, T["geometry_msgs/msg/Quaternion"](0.1 * k, 0.0, -1.0, float("inf")), np.arange(9) * float(k),
        vector(k, 1.0, 2.0), np.ones(9), vector(9.81, -k, 0.5), -np.arange(9.0))
    return bytes(types.serialize_cdr(message, "sensor_msgs/msg/Imu"))


def tf(types, k):
    """A TFMessage of k % 3 transforms."""
    T = types.types
    header = T["std_msgs/msg/Header"](T["builtin_interfaces/msg/Time"](k, 7), "map")
    transform = T["geometry_msgs/msg/Transform"](T["geometry_msgs/msg/Vector3"](1.0, k, 3.0),
                                                 T["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0))
    stamped = T["geometry_msgs/msg/TransformStamped"]
    message = T["tf2_msgs/msg/TFMessage"]([stamped(header, f"frame_{n}", transform) for n in range(k % 3)])
    return bytes(types.serialize_cdr(message, "tf2_msgs/msg/TFMessage"))


@pytest.fixture(scope="session")
def sample(tmp_path_factory, types):
    """A container with images, clouds, imu and transforms: 30 of each, 10 ms apart."""
    path = tmp_path_factory.mktemp("sample") / "run"
    with livebag.Recorder(path, metadata={"site": {"name": "lab"}}) as recorder:
        cameras = [recorder.topic(topic, "sensor_msgs/msg/Image") for topic, *_ in IMAGES]
        lidar = recorder.topic("/lidar", "sensor_msgs/msg/PointCloud2")
        inertial = recorder.topic("/imu", "sensor_msgs/msg/Imu")
        transforms = recorder.topic("/tf", "tf2_msgs/msg/TFMessage")
        for k in range(30):
            t = START + k * 10_000_000
            for camera, (_, encoding, shape, dtype) in zip(cameras, IMAGES):
                camera.write_image(pixels(k, shape, dtype), encoding=encoding, frame_id="cam", log_time=t)
            lidar.write_points(cloud(k, 500 + k), frame_id="lidar", log_time=t)
            inertial.write(imu(types, k), log_time=t, publish_time=t - 5, sequence=k + 1)
            transforms.write(tf(types, k), log_time=t)
    return path


@pytest.fixture(scope="session")
def exported(sample, tmp_path_factory):
    """The same as a rosbag2 bag: its directory."""
    target = tmp_path_factory.mktemp("exported") / "bag"
    assert livebag.convert(sample, target, storage="mcap") == len(livebag.open(sample))
    return target


@pytest.fixture(scope="session")
def notes(tmp_path_factory):
    """A container of JSON, which not every reader takes."""
    path = tmp_path_factory.mktemp("notes") / "run"
    with livebag.Recorder(path) as recorder:
        topic = recorder.topic("/notes", "acme/Note", encoding="json")
        for k in range(30):
            topic.write(b'{"k": %d}' % k, log_time=START + k * 10_000_000)
    return path


@pytest.fixture
def stream_name():
    """A name that nobody else has; the stream is removed afterwards."""
    name = f"pytest-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    yield name
    for stream in livebag.streams():
        if stream.name.startswith(name) and not stream.is_live:
            livebag.remove_stream(stream.name)


def shared(name):
    """A recording of ../shared, or a reason to skip."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path
