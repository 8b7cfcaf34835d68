"""Reads complete MCAP files with the official Python readers and with rosbags, and prints their contents.

    check_mcap.py FILE… [--expect expect.json] [--list]

Prints {FILE: {…, "topics": {TOPIC: {count, type, sha256, …}}}} as JSON. "sha256" is over the
messages' bytes in order of log_time, "times_sha256" over their log time, publish time and sequence,
"data_sha256" and "data_crc32" over the pixels or points of Image and PointCloud2 messages as decoded.
Exit code 1 when a file contradicts itself, readers disagree, or the expectation does not hold.
"""

import argparse
import hashlib
import json
import mmap
import struct
import sys
import warnings
import zlib
from pathlib import Path

from mcap.reader import NonSeekingReader, make_reader
from mcap_ros1.decoder import DecoderFactory as Ros1Decoder
from mcap_ros2.decoder import DecoderFactory as Ros2Decoder

import wire

IMAGE = ("sensor_msgs/msg/Image", "sensor_msgs/Image")
POINTS = ("sensor_msgs/msg/PointCloud2", "sensor_msgs/PointCloud2")
IMAGE_FIELDS = ("width", "height", "encoding", "step")
POINTS_FIELDS = ("width", "height", "point_step", "row_step")


class Disagreement(Exception):
    """Two readers, or a reader and the expectation, disagree."""


class Topic:
    """Digests of one topic's messages, fed in order."""

    def __init__(self, kind, listed=False):
        self.kind, self.count, self.decoded = kind, 0, 0
        self.bytes, self.times, self.data = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
        self.data_crc32, self.frame, self.messages = 0, {}, [] if listed else None

    def add(self, raw, times, message):
        self.count += 1
        self.bytes.update(raw)
        self.times.update(struct.pack("<QQQ", *times))
        entry = {"log_time": times[0], "publish_time": times[1], "sequence": times[2],
                 "sha256": hashlib.sha256(raw).hexdigest()}
        if message is not None:
            self.decoded += 1
            fields = IMAGE_FIELDS if self.kind in IMAGE else POINTS_FIELDS if self.kind in POINTS else ()
            if fields:
                pixels = bytes(message.data)
                self.data.update(pixels)
                self.data_crc32 = zlib.crc32(pixels, self.data_crc32)
                self.frame = {name: getattr(message, name) for name in fields}
                self.frame["frame_id"] = message.header.frame_id
                entry["data_sha256"] = hashlib.sha256(pixels).hexdigest()
        if self.messages is not None:
            self.messages.append(entry)

    def report(self):
        said = {"count": self.count, "type": self.kind, "decoded": self.decoded,
                "sha256": self.bytes.hexdigest(), "times_sha256": self.times.hexdigest()}
        if self.frame:
            said |= {"data_sha256": self.data.hexdigest(), "data_crc32": self.data_crc32, **self.frame}
        if self.messages is not None:
            said["messages"] = self.messages
        return said


def read_indexed(path, listed=False):
    """The indexed reader, decoding where possible."""
    factories, topics = [Ros1Decoder(), Ros2Decoder()], {}
    decoders = {}
    with open(path, "rb") as file:
        for schema, channel, message in make_reader(file, validate_crcs=True).iter_messages():
            topic = topics.setdefault(channel.topic, Topic(schema.name if schema else "", listed))
            if channel.id not in decoders:
                found = (f.decoder_for(channel.message_encoding, schema) for f in factories)
                decoders[channel.id] = next((d for d in found if d), None)
            decoder = decoders[channel.id]
            times = (message.log_time, message.publish_time, message.sequence)
            topic.add(message.data, times, decoder(message.data) if decoder else None)
    return {name: topic.report() for name, topic in topics.items()}


def read_streaming(path):
    """The reader that needs no index and checks every checksum."""
    topics = {}
    with open(path, "rb") as file:
        for schema, channel, message in NonSeekingReader(file, validate_crcs=True).iter_messages():
            topic = topics.setdefault(channel.topic, Topic(schema.name if schema else ""))
            topic.add(message.data, (message.log_time, message.publish_time, message.sequence), None)
    return {name: topic.report() for name, topic in topics.items()}


def read_rosbags(path):
    """rosbags, which accepts only the ros2 profile with CDR; a rosbag2 directory, a ROS 1 bag, or one file.

    It knows neither publish times nor sequences."""
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    topics = {}
    with AnyReader([Path(path)], default_typestore=get_typestore(Stores.LATEST)) as reader:
        for connection, log_time, raw in reader.messages():
            topic = topics.setdefault(connection.topic, Topic(connection.msgtype))
            message = reader.deserialize(raw, connection.msgtype) if connection.msgtype in IMAGE + POINTS else None
            topic.add(raw, (log_time, 0, 0), message)
    return {name: topic.report() for name, topic in topics.items()}


def agree(path, first, second, names, *keys):
    """Requires that two reports are equal; keys in only one of them are ignored."""
    if set(first) != set(second):
        raise Disagreement(f"{path}: {names[0]} finds topics {sorted(first)}, {names[1]} {sorted(second)}")
    for topic, said in first.items():
        for key in keys:
            other = second[topic].get(key, said.get(key))
            if said.get(key) != other:
                raise Disagreement(
                    f"{path}: {topic}: {key} is {said.get(key)} for {names[0]}, {other} for {names[1]}")


def check(path, listed=False):
    """Checks one file and returns its report."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        report = wire.check(data)
    report["topics"] = topics = read_indexed(path, listed)
    agree(path, topics, read_streaming(path), ("mcap indexed", "mcap streaming"),
          "count", "type", "sha256", "times_sha256")
    report["readers"] = ["mcap indexed", "mcap streaming"]
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    if {c.message_encoding for c in summary.channels.values()} == {"cdr"} and report["profile"] == "ros2":
        agree(path, topics, read_rosbags(path), ("mcap indexed", "rosbags"),
              "count", "type", "sha256", "data_sha256", "width", "height", "encoding", "step", "point_step")
        report["readers"].append("rosbags")
    return report


def compare(reports, expected):
    """Requires what expect.json says, over all the files together. Its form:
    {"topics": {TOPIC: {any of a report's keys}}}."""
    found = {}
    for path, report in reports.items():
        for topic, said in report["topics"].items():
            found.setdefault(topic, []).append((path, said))
    for topic, wanted in expected["topics"].items():
        if topic not in found:
            raise Disagreement(f"{topic} is expected and in none of the files; they hold {sorted(found)}")
        for path, said in found[topic]:
            for key, value in wanted.items():
                if key in ("type", "frame_id") and said.get(key) is None:
                    continue
                if said.get(key) != value:
                    raise Disagreement(f"{path}: {topic}: {key} is {said.get(key)}, expected {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--expect", type=Path, help="JSON file with what the topics must hold")
    parser.add_argument("--list", action="store_true", help="list every message with its times and digests")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    try:
        reports = {path: check(path, options.list) for path in options.files}
        if options.expect:
            compare(reports, json.loads(options.expect.read_text()))
    except Exception as error:  # any reader may raise anything on a bad file; all of it is a verdict
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    json.dump(reports, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
