"""Writes small MCAP files with the layout of livebag's bricks: each large frame in a separate chunk, its pixels on a
4,096-byte boundary behind a private padding record. So that the checkers can be tested without livebag, and against
files that are wrong on purpose."""

import struct
import zlib

import wire

IMAGE_SCHEMA = """std_msgs/Header header
uint32 height
uint32 width
string encoding
uint8 is_bigendian
uint32 step
uint8[] data
{line}
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
{line}
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
""".format(line="=" * 80)


def record(opcode, content):
    return struct.pack("<BQ", opcode, len(content)) + content


def text(value):
    return struct.pack("<I", len(value.encode())) + value.encode()


def pairs(items, form):
    packed = b"".join(struct.pack(form, *item) for item in items)
    return struct.pack("<I", len(packed)) + packed


def image_prefix(width, height, encoding, frame_id, step):
    """CDR up to the first pixel, little-endian."""
    body = struct.pack("<iI", 1, 2) + text(frame_id + "\0")
    body += b"\0" * (-len(body) % 4) + struct.pack("<II", height, width) + text(encoding + "\0")
    body += b"\0"
    body += b"\0" * (-len(body) % 4) + struct.pack("<II", step, step * height)
    return b"\x00\x01\x00\x00" + body


def image(width, height, seed):
    """One rgb8 frame with bytes that follow from the seed."""
    pixels = bytes((seed * 131 + i * 7 + i // 251) % 256 for i in range(width * height * 3))
    return image_prefix(width, height, "rgb8", "camera", width * 3), pixels


def brick(frames, aligned=True, chunk_crc=False, wrong=""):
    """The bytes of a brick with these (prefix, pixels) frames. `wrong` names one thing to get wrong:
    statistics, chunk_index, message_index, data_crc, chunk_crc, summary_crc, channel, times."""
    definition = text("sensor_msgs/msg/Image") + text("ros2msg") + text(IMAGE_SCHEMA)
    schema = record(wire.SCHEMA, struct.pack("<H", 1) + definition)
    channel_content = struct.pack("<HH", 1, 1) + text("/camera") + text("cdr") + pairs([], "")
    channel = record(wire.CHANNEL, channel_content)
    out = bytearray(wire.MAGIC + record(wire.HEADER, text("ros2") + text("livebag sample")) + schema + channel)
    chunk_indexes = b""
    for number, (prefix, pixels) in enumerate(frames):
        time = 1_000_000_000 + number * 33_000_000
        message = record(wire.MESSAGE, struct.pack("<HIQQ", 1, number + 1, time, time - 5) + prefix + pixels)
        crc = zlib.crc32(message) if chunk_crc else 0
        head = struct.pack("<QQQI", time + (wrong == "times"), time, len(message), crc ^ (wrong == "chunk_crc"))
        head += text("") + struct.pack("<Q", len(message))
        if aligned:
            before = len(out) + 9 + 9 + len(head) + (len(message) - len(pixels))
            out += record(wire.PRIVATE_FIRST, bytes(-before % 4096))
        start = len(out)
        out += record(wire.CHUNK, head + message)
        index_start = len(out)
        entry = pairs([(time, 9 if wrong == "message_index" else 0)], "<QQ")
        index = record(wire.MESSAGE_INDEX, struct.pack("<H", 1) + entry)
        out += index
        chunk_indexes += record(wire.CHUNK_INDEX, struct.pack(
            "<QQQQ", time, time, start + (wrong == "chunk_index"), index_start - start)
            + pairs([(1, index_start)], "<HQ") + struct.pack("<Q", len(index))
            + text("") + struct.pack("<QQ", len(message), len(message)))
    crc = zlib.crc32(out) ^ (wrong == "data_crc")
    out += record(wire.DATA_END, struct.pack("<I", crc))
    summary_start = len(out)
    count = len(frames) + (wrong == "statistics")
    out += schema + (channel.replace(b"/camera", b"/kamera") if wrong == "channel" else channel)
    out += record(wire.STATISTICS, struct.pack(
        "<QHIIIIQQ", count, 1, 1, 0, 0, len(frames), 1_000_000_000, 1_000_000_000 + (len(frames) - 1) * 33_000_000)
        + pairs([(1, len(frames))], "<HQ"))
    out += chunk_indexes
    footer = struct.pack("<BQQQ", wire.FOOTER, 20, summary_start, 0)
    crc = zlib.crc32(bytes(out[summary_start:]) + footer) ^ (wrong == "summary_crc")
    return bytes(out + footer + struct.pack("<I", crc) + wire.MAGIC)
