#!/usr/bin/env python3
"""`livebag push` beside rclone and awscli, beside a recorder, and through kills and damage; `livebag find` over 10,000
recordings.

    LIVEBAG=… LIVEBAG_VERSITYGW=… push_bench.py rate  [--rates 10,50,200,0] [--repeats 5]
    LIVEBAG=… LIVEBAG_VERSITYGW=… push_bench.py kills [--kills 200]
    LIVEBAG=… LIVEBAG_VERSITYGW=… push_bench.py find  [--recordings 10000]
    LIVEBAG=… LIVEBAG_VERSITYGW=… push_bench.py beside [--cameras 8] [--max-rate 200Mbit/s] [--repeats 5]

The store is versitygw (scripts/setup.sh s3 builds it), behind a relay that counts bytes. The result is a JSON document.

`rate`: the same recording by livebag, rclone and awscli in turn, each to an empty bucket, through a token bucket of so
many Mbit/s (0: straight to the server). `link` is the part of the link's time that the files' bytes need;
`cpu_s_per_gb` is the processor time of the client. rclone and awscli send several parts at once, with their own sizes
of parts.

`kills`: pushes through a relay that damages a byte in one of a hundred parts. Client or server is killed with signal 9
at a random moment until the push is through; the copy is then verified (`livebag verify`, `sha256sum -c`) and the next
recording is pushed. It fails if anything does not verify, or if more than one part (8 MiB) was sent again for each kill
and each damaged part. A server that is killed while it joins parts may forget them all: such pushes are counted.

`find`: a catalogue with one pushed recording of 78 topics, many times with other names. `livebag find` for a topic, and
for one within an hour, as the catalogue is after the pushes and after `livebag catalog compact`; the same rows by
DuckDB from the server's folder.

`beside`: `livebag demo` (its recorder, its cameras) alone, and beside pushes of another recording from the same disk,
in turn: messages lost, and the recorder's processor time for each GB.

Python packages: mcap; for `find` also pyarrow and duckdb.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from mcap.writer import CompressionType, Writer

KEY, SECRET = "robot7key", "robot7secretrobot7secret"
PART, CHUNK = 8 << 20, 16 << 10
SEED = 6726


class Link:
    """A relay on a thread of its own: counts what the client sends, slows it down, damages it."""

    def __init__(self, bits_per_s=0, damage_every=0):
        self.rate, self.damage_every = bits_per_s / 8, damage_every
        self.port, self.server_port, self.sent, self.damaged = 0, 0, 0, 0
        self.next_turn, self.random = 0.0, random.Random(SEED)
        ready = threading.Event()

        async def serve():
            # A small buffer: what the client has written is soon on the link.
            listener = socket.create_server(("127.0.0.1", 0))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * CHUNK)
            self.port = listener.getsockname()[1]
            await asyncio.start_server(self.relay, sock=listener, limit=CHUNK)
            ready.set()
            await asyncio.Event().wait()

        threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
        ready.wait()

    async def relay(self, reader, writer):
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.carry(reader, server_writer, True), self.carry(server_reader, writer, False))

    async def carry(self, reader, writer, upwards):
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if upwards:
                    self.sent += len(data)
                    if self.damage_every and self.random.random() < len(data) / (PART * self.damage_every):
                        self.damaged += 1
                        place = self.random.randrange(len(data))
                        data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1:]
                    if self.rate:
                        # A sleep that was too long is made up for, up to 20 ms.
                        now = time.monotonic()
                        self.next_turn = max(self.next_turn, now - 0.02) + len(data) / self.rate
                        await asyncio.sleep(max(0, self.next_turn - now))
                writer.write(data)
                await writer.drain()
        writer.close()


class Store:
    """versitygw over a folder."""

    def __init__(self, root):
        self.root, self.log = root, (root.parent / "versitygw.log").open("w")
        (root / "fleet").mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    def start(self):
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        command = [os.environ["LIVEBAG_VERSITYGW"], "--port", f"127.0.0.1:{self.port}", "posix", self.root]
        self.server = subprocess.Popen(command, env=os.environ | keys, stdout=self.log, stderr=self.log)
        while socket.socket().connect_ex(("127.0.0.1", self.port)) != 0:
            assert self.server.poll() is None, "versitygw ended"
            time.sleep(0.05)

    def kill(self):
        self.server.kill()
        self.server.wait()

    def clear(self):
        for path in (self.root / "fleet").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def variables(port):
    others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return others | {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_EC2_METADATA_DISABLED": "true",
        "RCLONE_CONFIG": "/dev/null", "RCLONE_S3_PROVIDER": "Other", "RCLONE_S3_ENV_AUTH": "true",
        "RCLONE_S3_ENDPOINT": f"http://127.0.0.1:{port}", "RCLONE_S3_REGION": "us-east-1",
    }


def make(bag, size, small_topics=20):
    """A container of about `size` bytes: a camera and small topics."""
    path = bag.parent / "made.mcap"
    content = random.Random(SEED)
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start()
        schema = writer.register_schema("raw", "", b"")
        topics = ["/camera", *(f"/small{k}" for k in range(small_topics))]
        camera, *small = [writer.register_channel(topic, "raw", schema) for topic in topics]
        for frame in range(size // 1_000_000):
            log_time = 1_700_000_000_000_000_000 + frame * 33_000_000
            for channel in small:
                writer.add_message(channel, log_time, struct.pack("<q", frame) * 40, log_time)
            writer.add_message(camera, log_time, content.randbytes(1_000_000), log_time)
        writer.finish()
    subprocess.run([os.environ["LIVEBAG"], "convert", path, bag], check=True, capture_output=True)
    path.unlink()
    return sum(file.stat().st_size for file in bag.iterdir())


def livebag(bag, target):
    return [os.environ["LIVEBAG"], "push", bag, f"s3://fleet/{target}", "--json"]


CLIENTS = {
    "livebag": livebag,
    "rclone": lambda bag, target: [
        "rclone", "copy", "--s3-upload-cutoff=8Mi", "--s3-chunk-size=8Mi", bag, f":s3:fleet/{target}/{bag.name}"],
    "awscli": lambda bag, target: ["aws", "s3", "cp", "--recursive", "--quiet", bag, f"s3://fleet/{target}/{bag.name}"],
}


def timed(command, environment):
    """(seconds, processor seconds) of a command that succeeds."""
    begin = time.monotonic()
    child = subprocess.Popen([str(part) for part in command], env=environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, errors.decode()
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime


def rate(store, folder, args):
    rows = []
    for mbit in args.rates:
        bag = folder / f"run{mbit}"
        size = make(bag, int(mbit * 1e6 / 8 * args.seconds) if mbit else args.unlimited_mb * 1_000_000)
        link = Link(mbit * 1e6)
        link.server_port = store.port
        environment = variables(link.port if mbit else store.port)
        for repeat in range(args.repeats):
            for name, client in CLIENTS.items():
                store.clear()
                os.sync()
                before = link.sent
                seconds, cpu = timed(client(bag, f"r{repeat}"), environment)
                rows.append({
                    "mbit": mbit, "client": name, "size": size, "seconds": round(seconds, 2),
                    "cpu_s_per_gb": round(cpu / size * 1e9, 2), "sent": link.sent - before if mbit else None,
                    "link": round(size * 8 / (mbit * 1e6) / seconds, 3) if mbit else None,
                })
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        shutil.rmtree(bag)
    return {"runs": rows, "summary": summary(rows)}


def summary(rows):
    table = []
    for mbit, client in sorted({(row["mbit"], row["client"]) for row in rows}):
        runs = [row for row in rows if (row["mbit"], row["client"]) == (mbit, client)]
        seconds = [row["seconds"] for row in runs]
        table.append({
            "mbit": mbit, "client": client, "seconds": statistics.median(seconds), "worst": max(seconds),
            "mb_per_s": round(runs[0]["size"] / statistics.median(seconds) / 1e6, 1),
            "cpu_s_per_gb": statistics.median(row["cpu_s_per_gb"] for row in runs),
            "link": statistics.median(row["link"] for row in runs) if mbit else None,
        })
    return table


def kills(store, folder, args):
    chance = random.Random(SEED)
    link = Link(damage_every=100)
    link.server_port = store.port
    environment = variables(link.port)
    bag = folder / "run"
    size = make(bag, args.push_mb * 1_000_000)
    done, client_kills, server_kills, forgotten, most_again = 0, 0, 0, 0, 0.0
    while client_kills + server_kills < args.kills:
        store.clear()
        sent, damaged, killed, server_killed = link.sent, link.damaged, 0, server_kills
        while True:
            command = [str(part) for part in livebag(bag, "robot7")]
            child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                child.wait(chance.uniform(0.05, args.until))
            except subprocess.TimeoutExpired:
                killed += 1
                if chance.random() < 0.7:
                    client_kills += 1
                    child.send_signal(signal.SIGKILL)
                    child.wait()
                    continue
                server_kills += 1
                store.kill()
                store.start()
                child.wait(300)
            assert child.returncode == 0, child.stderr.read().decode()
            break
        there = store.root / "fleet" / "robot7" / "run"
        subprocess.run(["sha256sum", "--quiet", "-c", "container.sha256"], cwd=there, check=True)
        subprocess.run([os.environ["LIVEBAG"], "verify", there], check=True, capture_output=True)
        again, causes = link.sent - sent - size, killed + link.damaged - damaged
        # Heads of requests, and the lists that are asked for once more, are not parts.
        parts = max(0, again - (1 << 20)) / PART
        if parts > causes:
            assert server_kills > server_killed, f"{parts:.1f} parts were sent again for {causes} kills and damages"
            forgotten += 1
        else:
            most_again = max(most_again, parts / max(causes, 1))
        done += 1
        print(f"push {done}: {killed} kills, {link.damaged - damaged} damaged, {parts:.2f} parts again",
              file=sys.stderr, flush=True)
    return {"kills_of_client": client_kills, "kills_of_server": server_kills, "damaged": link.damaged, "pushes": done,
            "all_verified": True, "forgotten_by_server": forgotten, "size": size,
            "most_parts_again_for_a_kill": round(most_again, 2)}


def find(store, folder, args):
    import duckdb
    import pyarrow
    import pyarrow.parquet

    environment = variables(store.port)
    bag = folder / "run"
    make(bag, 2_000_000, small_topics=77)
    subprocess.run([str(part) for part in livebag(bag, "robot7")], env=environment, check=True, capture_output=True)
    catalogue = store.root / "fleet" / "robot7" / "_livebag"
    (one,) = catalogue.iterdir()
    table = pyarrow.parquet.read_table(one)
    hour = pyarrow.scalar(3600 * 10**9, pyarrow.duration("ns"))
    for number in range(1, args.recordings):
        name = f"run{number}"
        recording_id = f"{number:032x}"
        columns = {"recording": name, "recording_id": recording_id}
        copy = table
        for column, text in columns.items():
            place = table.schema.get_field_index(column)
            copy = copy.set_column(place, table.schema.field(place), pyarrow.array([text] * table.num_rows))
        for column in ("start_time", "end_time"):
            place = table.schema.get_field_index(column)
            later = pyarrow.compute.add(table[column], pyarrow.scalar(number * hour.value, hour.type))
            copy = copy.set_column(place, table.schema.field(place), later.cast(table.schema.field(place).type))
        # With the columns exactly as livebag writes them.
        with pyarrow.parquet.ParquetWriter(catalogue / f"{recording_id}.parquet", copy.schema, compression="zstd",
                                           store_schema=False, use_compliant_nested_type=False) as writer:
            writer.write_table(copy)
            writer.add_key_value_metadata({"livebag.recordings": recording_id})
    address = "s3://fleet/robot7"
    times = ["--from", "2023-12-01T00:00:00Z", "--to", "2023-12-01T01:00:00Z"]
    questions = {"topic": ["--topic", "/camera"], "topic_in_an_hour": ["--topic", "/camera", *times]}

    def ask(question):
        seconds = []
        for _ in range(args.repeats):
            begin = time.monotonic()
            command = [os.environ["LIVEBAG"], "find", address, *questions[question], "--json"]
            done = subprocess.run(command, env=environment, check=True, capture_output=True)
            seconds.append(round(time.monotonic() - begin, 3))
        return {"seconds": statistics.median(seconds), "worst": max(seconds), "rows": len(json.loads(done.stdout))}

    def ask_duckdb():
        seconds = []
        for _ in range(args.repeats):
            begin = time.monotonic()
            query = f"SELECT * FROM read_parquet('{catalogue}/**/*.parquet') WHERE topic = '/camera'"
            rows = duckdb.sql(query).fetchall()
            seconds.append(round(time.monotonic() - begin, 3))
        return {"seconds": statistics.median(seconds), "worst": max(seconds), "rows": len(rows)}

    answers = {"pushed": {question: ask(question) for question in questions} | {"duckdb_topic": ask_duckdb()}}
    begin = time.monotonic()
    subprocess.run([os.environ["LIVEBAG"], "catalog", "compact", address], env=environment, check=True,
                   capture_output=True)
    answers["compact_seconds"] = round(time.monotonic() - begin, 1)
    answers["compacted"] = {question: ask(question) for question in questions} | {"duckdb_topic": ask_duckdb()}
    compacted = list((catalogue / "compacted").iterdir())
    answers["compacted_bytes"] = [file.stat().st_size for file in compacted]
    return answers


def beside(store, folder, args):
    environment = variables(store.port)
    bag = folder / "run"
    size = make(bag, args.push_mb * 1_000_000)
    rows = []
    for repeat in range(args.repeats):
        for pushes in (False, True):
            store.clear()
            os.sync()
            demo = folder / "demo"
            command = [os.environ["LIVEBAG"], "demo", "--json", "-o", demo, "--cameras", args.cameras,
                       "--duration", args.record_seconds]
            recorder = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
            count = 0
            while pushes and recorder.poll() is None:
                push = [*livebag(bag, f"r{repeat}-{count}"), *([f"--max-rate={args.max_rate}"] if args.max_rate else [])]
                pusher = subprocess.Popen([str(part) for part in push], env=environment, stdout=subprocess.DEVNULL)
                while pusher.poll() is None and recorder.poll() is None:
                    time.sleep(0.02)
                pusher.kill()
                count += pusher.wait() == 0
            said = json.loads(recorder.communicate()[0])
            assert recorder.returncode in (0, 3), said
            stored = sum(file.stat().st_size for file in (store.root / "fleet").rglob("*") if file.is_file())
            rows.append({
                "beside_pushes": pushes, "lost": said["lost"]["total"], "recorded_bytes": said["message_bytes"],
                "recorder_cpu_s_per_gb": round(said["recorder_cpu_s"] / said["message_bytes"] * 1e9, 4),
                "pushed_bytes": stored if pushes else 0,
            })
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            shutil.rmtree(demo)

    def of(pushes):
        runs = [row for row in rows if row["beside_pushes"] == pushes]
        cpu = [row["recorder_cpu_s_per_gb"] for row in runs]
        return {"lost": sum(row["lost"] for row in runs), "recorder_cpu_s_per_gb": statistics.median(cpu),
                "worst": max(cpu), "pushed_bytes": statistics.median(row["pushed_bytes"] for row in runs)}

    return {"cameras": args.cameras, "size": size, "runs": rows, "alone": of(False), "beside_pushes": of(True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["rate", "kills", "find", "beside"])
    parser.add_argument("--rates", type=lambda text: [int(rate) for rate in text.split(",")], default=[10, 50, 200, 0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15, help="that a full link needs for a recording")
    parser.add_argument("--unlimited-mb", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--recordings", type=int, default=10_000)
    parser.add_argument("--push-mb", type=int, default=120)
    parser.add_argument("--cameras", type=int, default=8)
    parser.add_argument("--record-seconds", type=int, default=5)
    parser.add_argument("--max-rate", help="of the pushes beside a recorder")
    parser.add_argument("--until", type=float, default=1.0, help="the latest moment of a kill, in seconds")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("LIVEBAG_SCRATCH")) as folder:
        store = Store(Path(folder) / "store")
        try:
            questions = {"rate": rate, "kills": kills, "find": find, "beside": beside}
            answer = questions[args.question](store, Path(folder), args)
        finally:
            store.kill()
    version = subprocess.run([os.environ["LIVEBAG"], "--version"], capture_output=True, text=True).stdout.strip()
    print(json.dumps({"question": args.question, "livebag": version, **answer}, indent=1))


if __name__ == "__main__":
    main()
