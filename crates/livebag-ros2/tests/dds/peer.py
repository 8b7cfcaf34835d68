"""A foreign participant for tests/dds.rs: Cyclone DDS' Python package with ROS 2's names and types.

peer.py ROLE DOMAIN [ARGUMENT…]. Says on standard output what it has done, one JSON line each; ends
when its standard input does.
"""

import json
import os
import sys
import time
import zlib
from dataclasses import dataclass

domain = int(sys.argv[2])
os.environ["CYCLONEDDS_URI"] = (
    "<CycloneDDS><Domain><General><Interfaces><NetworkInterface address='127.0.0.1'/></Interfaces>"
    "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto"
    f"</ParticipantIndex><Tag>{os.environ['LIVEBAG_DDS_TAG']}</Tag><Peers><Peer Address='127.0.0.1'/></Peers></Discovery></Domain></CycloneDDS>"
)

import cyclonedds.idl.annotations as annotations  # noqa: E402
import cyclonedds.idl.types as types  # noqa: E402
from cyclonedds.builtin import (  # noqa: E402
    BuiltinDataReader,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import Policy, Qos  # noqa: E402
from cyclonedds.domain import DomainParticipant  # noqa: E402
from cyclonedds.idl import IdlStruct  # noqa: E402
from cyclonedds.pub import DataWriter  # noqa: E402
from cyclonedds.sub import DataReader  # noqa: E402
from cyclonedds.topic import Topic  # noqa: E402
from cyclonedds.util import duration  # noqa: E402


@dataclass
class String(IdlStruct, typename="std_msgs::msg::dds_::String_"):
    data: str


@dataclass
class Bytes(IdlStruct, typename="std_msgs::msg::dds_::ByteMultiArray_"):
    number: types.uint32
    data: types.sequence[types.uint8]


@dataclass
class ShapeType(IdlStruct, typename="ShapeType"):
    color: str
    annotations.key("color")
    x: types.int32


@dataclass
class Request(IdlStruct, typename="example::srv::dds_::Add_Request_"):
    client: types.uint64
    number: types.int64
    a: types.int64
    b: types.int64


@dataclass
class Response(IdlStruct, typename="example::srv::dds_::Add_Response_"):
    client: types.uint64
    number: types.int64
    sum: types.int64


RELIABLE = Policy.Reliability.Reliable(duration(seconds=30))
BEST_EFFORT = Policy.Reliability.BestEffort


def qos(*policies):
    return Qos(*policies, Policy.DataRepresentation(use_cdrv0_representation=True))


def say(**what):
    print(json.dumps(what), flush=True)


def digest(messages):
    """One number for messages in their order."""
    whole = 0
    for message in messages:
        whole = zlib.crc32(len(message).to_bytes(4, "little"), whole)
        whole = zlib.crc32(message, whole)
    return whole


def wait_for_reader(writer, count=1):
    while len(writer.get_matched_subscriptions()) < count:
        time.sleep(0.01)


def publish(participant, topics, count):
    """`count` messages on each of `topics` topics, of sizes that grow and are odd."""
    policies = qos(RELIABLE, Policy.History.KeepAll, Policy.Userdata(b"typehash=RIHS01_" + b"ab" * 32 + b";"))
    writers = [
        DataWriter(participant, Topic(participant, f"rt/peer/topic_{i}", Bytes), policies)
        for i in range(topics)
    ]
    say(ready=True)
    for writer in writers:
        wait_for_reader(writer)
    sent = [[] for _ in writers]
    for number in range(count):
        for index, writer in enumerate(writers):
            # The first topics publish more often than the last ones.
            if number % (index + 1) == 0:
                message = Bytes(number, bytes([number % 251]) * (number * (index + 1) % 5000))
                writer.write(message)
                encoded = message.serialize()
                # This package pads to a multiple of four and tells nobody.
                sent[index].append(encoded + bytes(-len(encoded) % 4))
    say(sent={f"/peer/topic_{i}": [len(s), digest(s)] for i, s in enumerate(sent)})
    return writers


def latch(participant, topic, texts):
    policies = qos(
        RELIABLE,
        Policy.Durability.TransientLocal,
        Policy.History.KeepLast(len(texts)),
        Policy.DurabilityService(0, Policy.History.KeepLast(len(texts)), -1, -1, -1),
    )
    writer = DataWriter(participant, Topic(participant, "rt" + topic, String), policies)
    for text in texts:
        writer.write(String(text))
    say(ready=True)
    return writer


def shapes(participant, count):
    """A keyed topic, none of ROS 2's, whose instances end now and then."""
    writer = DataWriter(participant, Topic(participant, "Square", ShapeType), qos(RELIABLE, Policy.History.KeepAll))
    say(ready=True)
    wait_for_reader(writer)
    for x in range(count):
        shape = ShapeType(["RED", "GREEN"][x % 2], x)
        writer.write(shape)
        if x % 10 == 0:
            writer.dispose(shape)
    say(sent=count)
    return writer


def flood(participant, count, size):
    """As fast as can be, best effort. The last message is repeated until the reader tells, on standard
    input, that it came: what is lost after the last that arrives, nobody can know."""
    writer = DataWriter(
        participant, Topic(participant, "rt/peer/flood", Bytes), qos(BEST_EFFORT, Policy.History.KeepLast(1))
    )
    say(ready=True)
    sys.stdin.readline()
    wait_for_reader(writer)
    payload = bytes(size)
    for number in range(count):
        writer.write(Bytes(number, payload))
    while True:
        writer.write(Bytes(count, b""))
        count += 1
        say(sent=count)
        if sys.stdin.readline().strip() == "enough":
            return writer


def listen(participant, topic, count):
    """Takes so many messages and says what they were."""
    reader = DataReader(
        participant, Topic(participant, "rt" + topic, Bytes), qos(RELIABLE, Policy.History.KeepAll)
    )
    say(ready=True)
    taken = []
    while len(taken) < count:
        for message in reader.take(N=100):
            taken.append([message.number, zlib.crc32(bytes(message.data))])
        time.sleep(0.005)
    say(taken=taken)
    return reader


def serve(participant):
    policies = qos(RELIABLE, Policy.History.KeepLast(10))
    reader = DataReader(participant, Topic(participant, "rq/peer/addRequest", Request), policies)
    writer = DataWriter(participant, Topic(participant, "rr/peer/addReply", Response), policies)
    say(ready=True)
    while True:
        for request in reader.take(N=10):
            wait_for_reader(writer)
            # Somebody else's answer first.
            writer.write(Response(request.client ^ 1, request.number, 0))
            writer.write(Response(request.client, request.number, request.a + request.b))
            say(served=True)
        time.sleep(0.005)


def crowd(participant, count):
    """Topics and names without end."""
    kept = []
    for index in range(count):
        topic = Topic(participant, f"rt/crowd/topic_{index}", String)
        kept.append(DataWriter(participant, topic, qos(RELIABLE)))
    kept.append(DataWriter(participant, Topic(participant, "rt/" + "x" * 10_000, String), qos(RELIABLE)))
    say(ready=True)
    return kept


def look(participant):
    """Says, for each line on standard input, what every endpoint but its own announces."""
    readers = [
        BuiltinDataReader(participant, kind)
        for kind in (BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription)
    ]
    own, found = participant.guid, {}
    say(ready=True)
    for _ in sys.stdin:
        for reader in readers:
            for sample in reader.take(N=1000):
                if not hasattr(sample, "topic_name") or sample.participant_key == own:
                    continue
                history, text = sample.qos[Policy.History], sample.qos[Policy.Userdata]
                found[str(sample.key)] = {
                    "topic": sample.topic_name,
                    "is_writer": reader is readers[0],
                    "depth": getattr(history, "depth", 0),
                    "user_data": text.data.decode() if text else "",
                }
        say(seen=list(found.values()))


def main():
    participant = DomainParticipant(domain)
    role, arguments = sys.argv[1], sys.argv[3:]
    if role == "publish":
        kept = publish(participant, int(arguments[0]), int(arguments[1]))
    elif role == "latch":
        kept = latch(participant, arguments[0], arguments[1:])
    elif role == "flood":
        kept = flood(participant, int(arguments[0]), int(arguments[1]))
    elif role == "shapes":
        kept = shapes(participant, int(arguments[0]))
    elif role == "listen":
        kept = listen(participant, arguments[0], int(arguments[1]))
    elif role == "serve":
        kept = serve(participant)
    elif role == "crowd":
        kept = crowd(participant, int(arguments[0]))
    elif role == "look":
        kept = look(participant)
    else:
        sys.exit(f"peer.py knows no role {role}")
    sys.stdin.read()
    del kept


main()
