"""LeRobot datasets, judged by lerobot-doctor and read as lerobot reads them."""

import json
import os
import struct
from pathlib import Path

import pytest
from mcap.writer import Writer
from tools import livebag, run

RULES = """\
fps: 20
task: pick the cube
features:
  observation.state: {topic: /state, fields: [position], resample: linear}
  action: {topic: /cmd, fields: [linear.x, angular.z], resample: hold}
  gripper: {topic: /state, fields: ['position[0]']}
  observation.images.front: {topic: /camera}
"""
# What `load_nested_dataset` and `get_hf_features_from_features` of lerobot 0.4.4 do, and pandas with the tasks.
LOAD = """\
import json, sys, av, datasets, numpy, pandas
from pathlib import Path
root = Path(sys.argv[1])
info = json.loads((root / "meta/info.json").read_text())
def kind(feature):
    value = datasets.Value(dtype=feature["dtype"])
    return value if feature["shape"] == [1] else datasets.Sequence(length=feature["shape"][0], feature=value)
features = {key: kind(feature) for key, feature in info["features"].items() if feature["dtype"] != "video"}
def load(folder, features=None):
    paths = sorted(map(str, (root / folder).glob("*/*.parquet")))
    return datasets.Dataset.from_parquet(paths, features=features, cache_dir=sys.argv[2])
data, episodes = load("data", datasets.Features(features)), load("meta/episodes")
tasks = pandas.read_parquet(root / "meta/tasks.parquet")
# `decode_video_frames` asks for an episode's start in its file plus the row's time, to 0.1 ms.
camera, reds, files = "observation.images.front", [], {}
for row in data:
    episode = episodes[row["episode_index"]]
    at = [episode[f"videos/{camera}/{name}"] for name in ("chunk_index", "file_index", "from_timestamp")]
    path = root / info["video_path"].format(video_key=camera, chunk_index=at[0], file_index=at[1])
    if path not in files:
        frames = list(av.open(str(path)).decode(video=0))
        files[path] = {round(float(frame.pts * frame.time_base) * 1e4): frame for frame in frames}
    frame = files[path][round((at[2] + row["timestamp"]) * 1e4)]
    reds.append(int(frame.to_ndarray(format="rgb24")[10, 10, 0]))
stats = json.loads((root / "meta/stats.json").read_text())[camera]
shapes = sorted({str(numpy.array(value).shape) for name, value in stats.items() if name != "count"})
print(json.dumps({"rows": len(data), "last": data[-1], "episodes": len(episodes), "task": tasks.iloc[0].name,
                  "reds": reds, "frames": sum(map(len, files.values())), "shapes": shapes}))
"""


@pytest.fixture(scope="module")
def python():
    """The interpreter that has lerobot-doctor."""
    found = Path(os.environ.get("LIVEBAG_LEROBOT_PYTHON", "/none"))
    if not found.exists():
        assert os.environ.get("LIVEBAG_REQUIRE") != "all", "LIVEBAG_LEROBOT_PYTHON names no Python"
        pytest.skip("no Python with lerobot-doctor (scripts/setup.sh lerobot)")
    return found


def image(red):
    """A sensor_msgs/msg/Image in CDR: 32 x 24 pixels of one colour."""
    head = struct.pack("<IIIBxxxIII4sxBxxII", 0, 0, 1, 0, 24, 32, 5, b"rgb8", 0, 96, 32 * 24 * 3)
    return b"\0\1\0\0" + head + bytes([red, 90, 160]) * (32 * 24)


def record(path, seed):
    """4 s of a robot's states at 100 Hz, images at 20 Hz and commands at 10 Hz."""
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="test")
        channels = {name: writer.register_channel(topic=name, message_encoding="json", schema_id=0)
                    for name in ("/state", "/cmd")}
        schema = writer.register_schema(name="sensor_msgs/msg/Image", encoding="ros2msg", data=b"")
        camera = writer.register_channel(topic="/camera", message_encoding="cdr", schema_id=schema)
        for at in range(400):
            nanos = 10**18 + at * 10_000_000
            messages = [("/state", {"position": [at / 100 + seed, (at % 50) / 7, seed - at / 200]})]
            if at % 5 == 0:
                writer.add_message(camera, log_time=nanos, publish_time=nanos, data=image(at // 5 + 50 * seed))
            if at % 10 == 0:
                messages.append(("/cmd", {"linear": {"x": at / 400}, "angular": {"z": (at % 70) / 9}}))
            for name, message in messages:
                data = json.dumps(message).encode()
                writer.add_message(channels[name], log_time=nanos, publish_time=nanos, data=data)
        writer.finish()


def doctor(python, dataset, *options):
    """What lerobot-doctor says; fails where it finds an error."""
    command = "from lerobot_doctor.cli import main; main()"
    return run([python, "-c", command, "check", dataset, "--ci", *options])


def test_the_doctor_finds_no_error_and_the_readers_read(tmp_path, python):
    bags = [tmp_path / f"run{seed}.mcap" for seed in range(3)]
    for seed, bag in enumerate(bags):
        record(bag, seed)
    rules, dataset = tmp_path / "rules.yaml", tmp_path / "dataset"
    rules.write_text(RULES)
    said = json.loads(livebag("export", *map(str, bags), "--lerobot", str(dataset), "--rules", str(rules), "--json"))
    # Commands end at 3.9 s; states hold on.
    assert (said["episode_count"], said["frame_count"], said["damaged"]) == (3, 240, 0)
    said = doctor(python, dataset, "--verbose")
    assert "observation.images.front: All video files present" in said
    read = json.loads(run([python, "-c", LOAD, dataset, tmp_path / "cache"]))
    assert (read["rows"], read["episodes"], read["task"]) == (240, 3, "pick the cube")
    last = read["last"]
    assert (last["episode_index"], last["frame_index"], last["index"]) == (2, 79, 239)
    assert last["observation.state"][0] == pytest.approx(2 + 3.95) and last["gripper"] == pytest.approx(2 + 3.95)
    assert (read["frames"], read["shapes"]) == (240, ["(3, 1, 1)"])
    wanted = [at + 50 * seed for seed in range(3) for at in range(80)]
    assert all(abs(found - red) <= 6 for found, red in zip(read["reds"], wanted, strict=True)), read["reds"]
    assert last["action"] == pytest.approx([390 / 400, (390 % 70) / 9])
