#!/usr/bin/env python3
"""Emulates power cuts of a filesystem while livebag records on it, and checks the remaining data.

A recording runs on an ext4 filesystem in a loop device with direct I/O. Its image is on XFS, where a reflink copy is a
snapshot of one instant: the data written to the device, in order, without data that the kernel still cached. Each
snapshot is mounted, recovered, verified and compared with the whole recording:

- every message that `container.synced` promised before the snapshot is there;
- every message that is served is, byte by byte, one that was recorded. With --checksum also a frame that was in
  flight counts, which the recorder gave up later because its slot was written over: its checksum proves it, and
  the player sends the same bytes again. These are counted as `proven`;
- `livebag verify` finds no damage after the recovery.

Half of the snapshots get another boot id in `container.lock`, as after a real restart; the others stand for a
device error and a remount within one boot. Needs root, xfsprogs, and the Python package `mcap`:

    LIVEBAG=target/debug/livebag power_cuts.py FRAMES [--snapshots 30] [--storage container|mcap] [--checksum]

FRAMES is a recording that is played in a loop as the sensors (tests/interop makes one: build/interop/frames/frames).
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import zlib
from pathlib import Path

from mcap.reader import make_reader

LIVEBAG = os.environ["LIVEBAG"]


def run(*command, codes=(0,)):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Mount:
    """An image, mounted during the context."""

    def __init__(self, image, where, *options):
        self.image, self.where, self.options = image, where, options

    def __enter__(self):
        self.where.mkdir(exist_ok=True)
        self.device = run("losetup", "--find", "--show", *self.options, self.image).stdout.strip()
        run("mount", self.device, self.where)
        return self.where

    def __exit__(self, *_):
        for _ in range(50):
            if subprocess.run(["umount", self.where], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        run("losetup", "--detach", self.device)


def messages(container, scratch):
    """(topic, log time, publish time, sequence) -> checksum of the data, of all that `query` gives."""
    answer = scratch / "answer.mcap"
    answer.unlink(missing_ok=True)
    run(LIVEBAG, "query", container, "latest", "--last", "1000000s", "-o", answer, codes=(0, 1, 3))
    found = {}
    if answer.exists():
        with answer.open("rb") as stream:
            for _, channel, message in make_reader(stream).iter_messages(log_time_order=False):
                key = (channel.topic, message.log_time, message.publish_time, message.sequence)
                found[key] = zlib.crc32(message.data)
        answer.unlink()
    return found


def synced_keys(run_folder):
    """Entries promised by each split's `container.synced`: {(split, index): count}."""
    promised = {}
    for mark in [run_folder / "container.synced", *run_folder.glob("split_*/container.synced")]:
        try:
            text = mark.read_text()
        except OSError:
            continue
        for count, name in re.findall(r"^(\d+) (\S+\.idx)$", text, re.MULTILINE):
            promised[(str(mark.parent.relative_to(run_folder)), name)] = int(count)
    return promised


def entries(index, count=None):
    """The first entries of a time index, each by its times and sequence (docs/container-layout.md)."""
    ends = len(index) if count is None else 48 * (count + 1)
    return {index[at:at + 24] for at in range(48, ends, 48)}


def check(image, whole, work, number, promised, another_boot, indexes):
    """Recovers one snapshot; returns its faults."""
    faults, proven = [], 0
    recorded = {(topic, published, checksum) for (topic, _, published, _), checksum in whole.items()}
    with Mount(image, work / "snapshot") as mounted:
        container = mounted / "run"
        if not (container / "container.yaml").exists():
            return ["no container.yaml"] if promised else []
        if another_boot:
            for lock in [container / "container.lock", *container.glob("split_*/container.lock")]:
                lock.write_text(re.sub(r"^boot .*$", f"boot {uuid.uuid4()}", lock.read_text(), flags=re.MULTILINE))
        recovered = run(LIVEBAG, "recover", container, codes=(0, 1, 3))
        if recovered.returncode == 1:
            faults.append(f"recover: {recovered.stderr.strip()[-300:]}")
        verified = subprocess.run([LIVEBAG, "verify", str(container)], capture_output=True, text=True)
        if verified.returncode != 0:
            faults.append(f"verify: exit code {verified.returncode}: {(verified.stdout + verified.stderr)[-800:]}")
        found = messages(container, work)
        for key, checksum in found.items():
            if key not in whole and (key[0], key[2], checksum) in recorded:
                proven += 1
            elif key not in whole:
                faults.append(f"served, never recorded: {key}")
            elif whole[key] != checksum:
                faults.append(f"served with other bytes: {key}")
        for (split, index), count in promised.items():
            path = container / split / index
            there = entries(path.read_bytes()) if path.exists() else set()
            lost = [entry for entry in entries(indexes[(split, index)], count) if entry not in there]
            if lost:
                faults.append(f"{split}/{index}: {len(lost)} of {count} synced entries are gone")
    print(json.dumps({"snapshot": number, "another_boot": another_boot, "messages": len(found),
                      "promised": sum(promised.values()), "recover": recovered.returncode, "proven": proven,
                      "faults": faults[:5], "fault_count": len(faults)}), flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frames", type=Path)
    parser.add_argument("--snapshots", type=int, default=30)
    parser.add_argument("--storage", default="container", choices=["container", "mcap"])
    parser.add_argument("--checksum", action="store_true")
    parser.add_argument("--rate", default="1", help="speed of the player; the recording has to fit into 2 GB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    chance = random.Random(options.seed)
    work = Path(tempfile.mkdtemp(prefix="livebag-power-", dir=options.dir))
    faults = 0
    try:
        outer = work / "outer.img"
        run("truncate", "-s", "8G", outer)
        run("mkfs.xfs", "-q", "-m", "reflink=1", outer)
        with Mount(outer, work / "outer") as store:
            image = store / "disk.img"
            run("truncate", "-s", "2G", image)
            run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
            snapshots = []
            with Mount(image, work / "disk", "--direct-io=on") as disk:
                topics = [topic["name"] for topic in json.loads(run(LIVEBAG, "info", options.frames, "--json").stdout)["topics"]]
                prefix = f"/power_{os.getpid()}"
                player = subprocess.Popen([LIVEBAG, "play", options.frames, "--loop", "--rate", options.rate, "-m", *(f"{name}:={prefix}{name}" for name in topics)],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                recorder = subprocess.Popen(
                    [LIVEBAG, "record", "-e", f"^{prefix}/", "-o", disk / "run", "--sync-interval", "200ms", "--storage", options.storage,
                     "--max-bag-size", "100MB", *(["--checksum"] if options.checksum else [])],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(work / "recorder.log").open("w"))
                try:
                    for number in range(options.snapshots):
                        time.sleep(chance.uniform(0.2, 1.5))
                        promised = synced_keys(disk / "run")
                        copy = store / f"cut_{number:03}.img"
                        run("cp", "--reflink=always", image, copy)
                        snapshots.append((copy, promised))
                        assert recorder.poll() is None, f"the recorder has ended: {(work / 'recorder.log').read_text()}"
                finally:
                    recorder.send_signal(signal.SIGINT)
                    code = recorder.wait(timeout=120)
                    player.send_signal(signal.SIGINT)
                    player.wait(timeout=60)
                print(f"recorded: exit code {code}", flush=True)
                whole = messages(disk / "run", work)
                indexes = {(str(path.parent.relative_to(disk / "run")), path.name): path.read_bytes()
                           for path in (disk / "run").rglob("*.idx")}
            for number, (copy, promised) in enumerate(snapshots):
                found = check(copy, whole, work, number, promised, number % 2 == 0, indexes)
                faults += len(found)
                copy.unlink()
            print(f"{len(snapshots)} snapshots, {len(whole)} messages in the whole recording, {faults} faults")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
