"""ROS 2 nodes of other implementations than livebag's: over DDS with PyPI's cyclonedds and with Fast DDS, in
a process of its own, as rmw_fastrtps sets it up; over Zenoh with PyPI's eclipse-zenoh as rmw_zenoh_cpp speaks
it. Messages are bytes, so that they can be wrong ones. All use only the loopback interface, separate from other
programs on this machine."""

import hashlib
import os
import socket
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count
from pathlib import Path

from rosbags.typesys import Stores, get_typestore

JAZZY = get_typestore(Stores.ROS2_JAZZY)
SECONDS_MAX = int(os.environ.get("LIVEBAG_ROS2_PATIENCE", 60))
UNKNOWN_HASH = "RIHS01_" + "0" * 64


@cache
def type_hash(type_name):
    """As rosbags computes it; zeros for types that it does not know."""
    return JAZZY.hash_rihs01(type_name) if type_name in JAZZY.types else UNKNOWN_HASH


def encode(type_name, *fields):
    """A message as CDR, with its encapsulation, padded to four bytes as Cyclone DDS' package does it."""
    data = bytes(JAZZY.serialize_cdr(JAZZY.types[type_name](*fields), type_name, little_endian=True))
    return data + bytes(-len(data) % 4)


def dds_type(type_name):
    package, kind, name = type_name.split("/")
    return f"{package}::{kind}::dds_::{name}_"


@dataclass(frozen=True)
class Topic:
    """How a topic is published or subscribed to."""

    name: str
    type_name: str = "std_msgs/msg/String"
    is_reliable: bool = True
    is_latched: bool = False
    depth: int = 10
    type_hash: str = ""

    @cached_property
    def hash(self):
        return self.type_hash or type_hash(self.type_name)


def wait_for(what, is_so, seconds=SECONDS_MAX):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.01)


class Received(bytes):
    """Bytes that can have attributes, as the package gives samples some."""


class Dds:
    """A separate domain for each, by its number and by a tag (RTPS distinguishes domains by both)."""

    numbers = count()

    def __init__(self):
        number = next(Dds.numbers)
        # Each domain number has separate ports; all below Linux' own ports.
        self.domain = 1 + (os.getpid() + number) % 100
        settings = ("<CycloneDDS><Domain><General><Interfaces><NetworkInterface address='127.0.0.1'/>"
                    "</Interfaces><AllowMulticast>false</AllowMulticast></General><Discovery>"
                    f"<ParticipantIndex>auto</ParticipantIndex><Tag>livebag-{os.getpid()}-{number}</Tag>"
                    "<Peers><Peer Address='127.0.0.1'/></Peers></Discovery></Domain></CycloneDDS>")
        self.settings = settings
        self.environment = {"CYCLONEDDS_URI": settings, "ROS_LOCALHOST_ONLY": "1"}
        self.arguments = ["--ros2", "dds", "--domain", str(self.domain)]
        self.other_arguments = self.arguments
        self.kept = None

    def node(self):
        from cyclonedds.domain import Domain
        # A domain that another test of this process has had: it has to be gone first.
        self.kept = self.kept or Domain(self.domain, self.settings)
        return DdsNode(self.domain)

    def close(self):
        self.kept = None


class DdsNode:
    def __init__(self, domain):
        from cyclonedds.domain import DomainParticipant
        self.participant = DomainParticipant(domain)
        self.topics = {}

    def _topic(self, topic):
        from cyclonedds.idl import make_idl_struct, types
        from cyclonedds.topic import Topic as DdsTopic
        key = (topic.name, topic.type_name)
        if key not in self.topics:
            # Writes are checked against this type, whatever its name: at least one byte.
            kind = make_idl_struct("Raw", dds_type(topic.type_name), {"data": types.uint8})
            kind.serialize = lambda self, *_, **__: self.data
            kind.deserialize = classmethod(lambda _, data, *__, **___: Received(data))
            self.topics[key] = DdsTopic(self.participant, "rt" + topic.name, kind)
        return self.topics[key]

    def _qos(self, topic):
        from cyclonedds.core import Policy, Qos
        from cyclonedds.util import duration
        policies = [
            Policy.Reliability.Reliable(duration(seconds=SECONDS_MAX)) if topic.is_reliable
            else Policy.Reliability.BestEffort,
            Policy.History.KeepLast(topic.depth) if topic.depth else Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
        ]
        if topic.is_latched:
            kept = Policy.History.KeepLast(topic.depth) if topic.depth else Policy.History.KeepAll
            policies += [Policy.Durability.TransientLocal, Policy.DurabilityService(0, kept, -1, -1, -1)]
        return policies, Qos

    def publisher(self, topic):
        from cyclonedds.core import Policy
        from cyclonedds.pub import DataWriter
        policies, qos = self._qos(topic)
        if topic.hash != UNKNOWN_HASH:
            policies.append(Policy.Userdata(f"typehash={topic.hash};".encode()))
        raw = self._topic(topic)
        return DdsPublisher(DataWriter(self.participant, raw, qos(*policies)), raw.data_type)

    def subscriber(self, topic):
        from cyclonedds.sub import DataReader
        policies, qos = self._qos(topic)
        return DdsSubscriber(DataReader(self.participant, self._topic(topic), qos(*policies)))

    def close(self):
        self.participant = self.topics = None


class DdsPublisher:
    def __init__(self, writer, raw):
        self.writer, self.raw = writer, raw

    def write(self, data):
        self.writer.write(self.raw(data))

    def subscriptions(self):
        return len(self.writer.get_matched_subscriptions())

    def has_arrived(self):
        return self.writer.wait_for_acks(SECONDS_MAX * 1_000_000_000)

    def close(self):
        self.writer = None


class DdsSubscriber:
    def __init__(self, reader):
        self.reader, self.taken = reader, []

    def messages(self):
        """All messages received so far."""
        while found := self.reader.take(N=100):
            # A publisher that goes leaves a sample without a message.
            self.taken += [sample for sample in found if isinstance(sample, Received)]
        return self.taken

    def close(self):
        self.reader = None


class FastDds(Dds):
    """Nodes of Fast DDS. It knows no tags, so that a domain is one's own by its number alone."""

    peer = Path(__file__).parent.parent.parent / "build/dds/fast_peer"

    def __init__(self):
        super().__init__()
        tag = self.settings[self.settings.index("<Tag>"):self.settings.index("</Tag>") + len("</Tag>")]
        self.environment["CYCLONEDDS_URI"] = self.settings.replace(tag, "")

    def node(self):
        return FastNode(self.peer, self.domain)


class FastNode:
    """A process with a participant; crates/livebag-ros2/tests/dds/fast_peer.cpp has its commands."""

    def __init__(self, peer, domain):
        self.process = subprocess.Popen([peer, str(domain)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *what, data=b""):
        self.process.stdin.write(" ".join(str(part) for part in what).encode() + b"\n" + data)
        self.process.stdin.flush()
        return self.line()

    def line(self):
        line = self.process.stdout.readline()
        assert line, "the participant of Fast DDS has ended"
        return line.strip().decode()

    def _end(self, kind, topic, user_data):
        return self.ask(kind, "rt" + topic.name, dds_type(topic.type_name), user_data, int(topic.is_reliable),
                        int(topic.is_latched), topic.depth)

    def publisher(self, topic):
        known = topic.hash != UNKNOWN_HASH
        return FastPublisher(self, self._end("publisher", topic, f"typehash={topic.hash};" if known else "-"))

    def subscriber(self, topic):
        return FastSubscriber(self, self._end("subscriber", topic, "-"))

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=SECONDS_MAX)
        self.process.stdout.close()


class FastPublisher:
    def __init__(self, node, number):
        self.node, self.number = node, number

    def write(self, data):
        assert self.node.ask("write", self.number, len(data), data=data) == "ok"

    def subscriptions(self):
        return int(self.node.ask("matched", self.number))

    def incompatible(self):
        """Subscriptions that asked for more than it offers."""
        return int(self.node.ask("incompatible", self.number))

    def has_arrived(self):
        return self.node.ask("acked", self.number, SECONDS_MAX) == "1"

    def close(self):
        self.node.ask("close", self.number)


class FastSubscriber:
    def __init__(self, node, number):
        self.node, self.number, self.taken = node, number, []

    def messages(self):
        """All messages received until the node was closed."""
        count = 0 if self.node.process.stdin.closed else int(self.node.ask("take", self.number))
        for _ in range(count):
            self.taken.append(self.node.process.stdout.read(int(self.node.line())))
        return self.taken

    def close(self):
        self.node.ask("close", self.number)


class Zenoh:
    """A separate place for each: one listens at a port, and the others connect to it."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.endpoint = f"tcp/127.0.0.1:{free.getsockname()[1]}"
        self.domain = 7
        self.environment = {}
        self.arguments = ["--ros2", "zenoh", "--domain", str(self.domain), "--zenoh-listen", self.endpoint]
        # Of a second livebag, which meets the first.
        self.other_arguments = ["--ros2", "zenoh", "--domain", str(self.domain), "--zenoh-connect", self.endpoint]
        self.number = count()

    def node(self):
        return ZenohNode(self.endpoint, self.domain, next(self.number))

    def close(self):
        pass


class ZenohNode:
    def __init__(self, endpoint, domain, number):
        import zenoh
        config = zenoh.Config()
        for key, value in [
            ("mode", '"peer"'),
            # Zenoh keeps trying: the other one may not have started yet.
            ("connect/endpoints", f'["{endpoint}"]'),
            ("connect/timeout_ms", "-1"),
            ("connect/exit_on_failure", "false"),
            ("connect/retry", "{period_init_ms: 50, period_max_ms: 200}"),
            ("listen/endpoints", "[]"),
            ("scouting/multicast/enabled", "false"),
            ("timestamping/enabled", "true"),
        ]:
            config.insert_json5(key, value)
        self.session = zenoh.open(config)
        self.domain, self.number, self.ends, self.kept = domain, number, count(10), []

    def announce(self, kind, topic):
        """A liveliness token for one end of a topic or service."""
        qos = "{}:{}:{}:,:,:,,".format(
            "" if topic.is_reliable else "2", "1" if topic.is_latched else "",
            f",{topic.depth}" if topic.depth else "2,")
        token = (f"@ros2_lv/{self.domain}/{self.session.info.zid()}/0/{next(self.ends)}/{kind}/%/%/peer{self.number}"
                 f"/{topic.name.replace('/', '%')}/{dds_type(topic.type_name)}/{topic.hash}/{qos}")
        return token, self.session.liveliness().declare_token(token)

    def key(self, topic):
        return f"{self.domain}/{topic.name[1:]}/{dds_type(topic.type_name)}/{topic.hash}"

    def publisher(self, topic):
        import zenoh
        from zenoh import ext
        options = {"congestion_control": zenoh.CongestionControl.BLOCK if topic.is_reliable
                   else zenoh.CongestionControl.DROP}
        if topic.is_latched:
            options |= {"cache": ext.CacheConfig(topic.depth), "publisher_detection": True,
                        "sample_miss_detection": ext.MissDetectionConfig(sporadic_heartbeat=0.5)}
            publisher = ext.declare_advanced_publisher(self.session, self.key(topic), **options)
        else:
            publisher = self.session.declare_publisher(self.key(topic), **options)
        return ZenohPublisher(publisher, *self.announce("MP", topic))

    def subscriber(self, topic):
        return ZenohSubscriber(self, topic)

    def describe(self, answer):
        """Offers the node's service `~/get_type_description`, which gives this answer (CDR)."""
        service = Topic(f"/peer{self.number}/get_type_description", "type_description_interfaces/srv/GetTypeDescription",
                        type_hash="RIHS01_" + "cd" * 32)
        key = self.key(service)
        self.kept.append(self.session.declare_queryable(
            key, lambda query: query.reply(key, answer, attachment=query.attachment), complete=True))
        self.kept.append(self.announce("SS", service))

    def close(self):
        self.session.close()


class ZenohPublisher:
    def __init__(self, publisher, token, kept):
        self.publisher, self.token = publisher, kept
        self.gid, self.sequence = hashlib.sha256(token.encode()).digest()[:16], 0

    def write(self, data):
        self.sequence += 1
        attachment = struct.pack("<qqB", self.sequence, time.time_ns(), 16) + self.gid
        self.publisher.put(data, attachment=attachment)

    def skip(self, messages):
        """Counts messages that are never sent, as if they had been dropped on their way."""
        self.sequence += messages

    def subscriptions(self):
        return int(self.publisher.matching_status.matching)

    def has_arrived(self):
        # Zenoh acknowledges nothing.
        return True

    def close(self):
        self.token.undeclare()
        self.publisher.undeclare()


class ZenohSubscriber:
    def __init__(self, node, topic):
        from zenoh import ext
        self.taken, self.lock = [], threading.Lock()
        options = {}
        if topic.is_latched:
            options = {"history": ext.HistoryConfig(detect_late_publishers=True, max_samples=topic.depth),
                       "recovery": ext.RecoveryConfig(heartbeat=True), "subscriber_detection": True}
        key = node.key(topic)
        self.subscriber = ext.declare_advanced_subscriber(node.session, key, self._hear, **options)
        _, self.token = node.announce("MS", topic)

    def _hear(self, sample):
        with self.lock:
            self.taken.append(sample.payload.to_bytes())

    def messages(self):
        with self.lock:
            return list(self.taken)

    def close(self):
        self.token.undeclare()
        self.subscriber.undeclare()
