"""A ROS 2 node over Zenoh as rmw_zenoh_cpp speaks it, written with PyPI's eclipse-zenoh alone.

Is told what to do by lines on its standard input and says `ready` after each, `heard TEXT` for each
message. Ends with its input. `talk TOPIC`, `talk-latched TOPIC`, `say TEXT`, `skip COUNT` (counts
messages without sending them), `bytes LENGTH` (sends that many zeros as text), `old` (attachments
of before 2025), `leave` (the publisher goes), `listen TOPIC`, `listen-latched TOPIC`, `serve NAME`.
"""

import faulthandler
import hashlib
import struct
import sys
import time

import zenoh
from zenoh import ext

STRING = "std_msgs::msg::dds_::String_"
STRING_HASH = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
ADD = "example_interfaces::srv::dds_::AddTwoInts_"
ADD_HASH = "RIHS01_e118de6bf5eeb66a2491b5bda11202e7b68f198d6f67922cf30364858239c81a"


def open_session(endpoint):
    config = zenoh.Config()
    for key, value in [
        ("mode", '"peer"'),
        ("connect/endpoints", f'["{endpoint}"]'),
        ("listen/endpoints", "[]"),
        ("scouting/multicast/enabled", "false"),
        ("timestamping/enabled", "true"),
    ]:
        config.insert_json5(key, value)
    return zenoh.open(config)


def encoded(text):
    """A std_msgs/msg/String as CDR, little-endian."""
    data = text.encode() + b"\0"
    return b"\x00\x01\x00\x00" + struct.pack("<I", len(data)) + data


def decoded(data):
    assert data[:4] == b"\x00\x01\x00\x00", data[:8]
    (length,) = struct.unpack_from("<I", data, 4)
    assert len(data) == 8 + length and data[-1] == 0, (len(data), length)
    return data[8:-1].decode()


def attached(sequence, gid, is_old=False):
    now = struct.pack("<q", time.time_ns())
    count = struct.pack("<q", sequence)
    if not is_old:
        return count + now + b"\x10" + gid
    fields = [(b"sequence_number", count), (b"source_timestamp", now), (b"source_gid", b"\x10" + gid)]
    return b"".join(bytes([len(name)]) + name + value for name, value in fields)


class Node:
    def __init__(self, endpoint):
        self.session = open_session(endpoint)
        self.zid = str(self.session.info.zid())
        self.ends = 10
        self.kept = []
        self.publisher = None
        self.is_old = False

    def announce(self, kind, name, type_name, type_hash, qos):
        self.ends += 1
        mangled = name.replace("/", "%")
        token = (
            f"@ros2_lv/0/{self.zid}/0/{self.ends}/{kind}/%/%elsewhere/python_peer/{mangled}/{type_name}"
            f"/{type_hash}/{qos}"
        )
        return token, self.session.liveliness().declare_token(token)

    def talk(self, topic, is_latched):
        key = f"0/{topic[1:]}/{STRING}/{STRING_HASH}"
        options = {"congestion_control": zenoh.CongestionControl.BLOCK}
        if is_latched:
            options |= {
                "cache": ext.CacheConfig(3),
                "publisher_detection": True,
                "sample_miss_detection": ext.MissDetectionConfig(sporadic_heartbeat=0.5),
            }
        self.publisher = ext.declare_advanced_publisher(self.session, key, **options)
        qos = "1::,3:,:,:,," if is_latched else "::,10:,:,:,,"
        qos = ":1:,3:,:,:,," if is_latched else qos
        token, self.token = self.announce("MP", topic, STRING, STRING_HASH, qos)
        self.gid = hashlib.sha256(token.encode()).digest()[:16]
        self.sequence = 0

    def say(self, text):
        self.sequence += 1
        attachment = attached(self.sequence, self.gid, self.is_old)
        self.publisher.put(encoded(text), attachment=attachment)

    def leave(self):
        self.token.undeclare()
        self.publisher.undeclare()
        self.publisher = None

    def listen(self, topic, is_latched):
        def hear(sample):
            said = sample.attachment.to_bytes()
            count, nanos = struct.unpack_from("<qq", said)
            assert len(said) == 33 and said[16] == 16 and count >= 1 and nanos > 0, said
            text = decoded(sample.payload.to_bytes())
            print("heard", text if len(text) < 100 else f"{len(text)} signs", flush=True)

        options = {}
        if is_latched:
            options = {
                "history": ext.HistoryConfig(detect_late_publishers=True, max_samples=10),
                "recovery": ext.RecoveryConfig(heartbeat=True),
                "subscriber_detection": True,
            }
        key = f"0/{topic[1:]}/{STRING}/{STRING_HASH}"
        self.kept.append(ext.declare_advanced_subscriber(self.session, key, hear, **options))
        self.kept.append(self.announce("MS", topic, STRING, STRING_HASH, "::,10:,:,:,,"))

    def serve(self, name):
        key = f"0/{name[1:]}/{ADD}/{ADD_HASH}"

        def answer(query):
            _, a, b = struct.unpack("<4sqq", query.payload.to_bytes())
            reply = b"\x00\x01\x00\x00" + struct.pack("<q", a + b)
            query.reply(key, reply, attachment=query.attachment)

        self.kept.append(self.session.declare_queryable(key, answer, complete=True))
        self.kept.append(self.announce("SS", name, ADD, ADD_HASH, "::,10:,:,:,,"))

    def do(self, word, rest):
        if word in ("talk", "talk-latched"):
            self.talk(rest, word.endswith("-latched"))
        elif word in ("listen", "listen-latched"):
            self.listen(rest, word.endswith("-latched"))
        elif word == "skip":
            self.sequence += int(rest)
        elif word == "bytes":
            self.say("0" * int(rest))
        elif word == "old":
            self.is_old = True
        elif word in ("say", "serve"):
            getattr(self, word)(rest)
        elif word == "leave":
            self.leave()
        else:
            raise ValueError(word)


def main():
    node = Node(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        # Who hangs says where.
        faulthandler.dump_traceback_later(10, exit=False)
        node.do(word, rest)
        faulthandler.cancel_dump_traceback_later()
        print("ready", flush=True)


main()
