"""`livebag push` to versitygw, an S3 server of another project."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import s3_server
from tools import run


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The folder that is the bucket, and the variables with which it is reached."""
    root = tmp_path_factory.mktemp("store")
    (root / "fleet").mkdir()
    with s3_server.serving(root) as variables:
        yield root / "fleet", variables


def push(bag, variables, *more, **others):
    command = [os.environ["LIVEBAG"], "push", bag, *(more or ["s3://fleet/robot7"])]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= variables | others
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """A recording with an object of several parts."""
    folder = tmp_path_factory.mktemp("bags") / "run1"
    shutil.copytree(Path(os.environ["LIVEBAG_FRAMES"]) / "frames", folder)
    with (folder / "large.mcap.damaged").open("wb") as large:
        large.write(os.urandom(20 << 20))
    return folder


def test_a_recording_is_whole_there_and_pushed_once(store, bag):
    bucket, variables = store
    first = push(bag, variables)
    assert first.returncode == 0, first
    again = push(bag, variables)
    assert again.returncode == 0 and "was there already, 0 B" in again.stdout, again
    there = bucket / "robot7" / "run1"
    run(["sh", "-c", f"cd '{there}' && sha256sum -c container.sha256"])
    files = {path.name: path.read_bytes() for path in bag.iterdir()
             if not path.name.startswith(".") and path.name != "container.lock"}
    stored = {path.name: path.read_bytes() for path in there.iterdir()}
    assert stored.keys() - files.keys() == {"container.claim", "container.sha256"}
    assert all(stored[name] == contents for name, contents in files.items())
    run([os.environ["LIVEBAG"], "verify", there])


def test_what_it_refuses_has_a_word(store, bag):
    _, variables = store
    for words, others, target in [
        ("does not accept the credentials", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "s3://fleet/robot7"),
        ("does not accept the credentials", {"AWS_ACCESS_KEY_ID": "nobody"}, "s3://fleet/robot7"),
        ("no such bucket", {}, "s3://nowhere/robot7"),
    ]:
        refused = push(bag, variables, target, **others)
        assert refused.returncode == 1 and words in refused.stderr and s3_server.SECRET not in str(refused), refused


def test_another_recording_of_the_name_is_refused(store, bag, tmp_path):
    bucket, variables = store
    assert push(bag, variables).returncode == 0
    other = tmp_path / "run1"
    run([os.environ["LIVEBAG"], "convert", bag, other])
    manifest = (bucket / "robot7" / "run1" / "container.yaml").read_bytes()
    refused = push(other, variables)
    assert refused.returncode == 1 and "belongs to another recording" in refused.stderr, refused
    assert (bucket / "robot7" / "run1" / "container.yaml").read_bytes() == manifest
