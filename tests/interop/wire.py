"""An MCAP file's own consistency, record by record.

The official readers trust a file where they need not look; this checks what each of them would
have to believe: every offset, count, time and checksum of the summary against the data section.
Written from the MCAP specification, sharing no code with any reader.
"""

import struct
import zlib
from dataclasses import dataclass, field

MAGIC = b"\x89MCAP0\r\n"
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX, CHUNK_INDEX = range(1, 9)
ATTACHMENT, ATTACHMENT_INDEX, STATISTICS, METADATA, METADATA_INDEX, SUMMARY_OFFSET, DATA_END = range(9, 16)
PRIVATE_FIRST = 0x80


class Broken(Exception):
    """The file contradicts itself or the specification."""


def require(condition, text):
    if not condition:
        raise Broken(text)


class Cursor:
    """Reads the fields of one record."""

    def __init__(self, data, offset=0):
        self.data, self.offset = data, offset

    def take(self, count):
        piece = self.data[self.offset : self.offset + count]
        require(len(piece) == count, f"a field of {count} bytes runs past the end of its record")
        self.offset += count
        return piece

    def number(self, width):
        return int.from_bytes(self.take(width), "little")

    def text(self):
        return bytes(self.take(self.number(4))).decode()

    def pairs(self, key_width, value_width):
        end = self.number(4) + self.offset
        found = {}
        while self.offset < end:
            key = self.number(key_width)
            require(key not in found, f"the key {key} stands twice in one map")
            found[key] = self.number(value_width)
        return found


def records(data, offset, end):
    """Yields (offset of the record, opcode, its content) between two offsets."""
    while offset < end:
        require(offset + 9 <= end, f"a record at {offset} runs past {end}")
        opcode, length = struct.unpack_from("<BQ", data, offset)
        require(offset + 9 + length <= end, f"the record at {offset} (opcode {opcode:#x}) runs past {end}")
        require(opcode != 0, f"opcode 0 at {offset}")
        yield offset, opcode, memoryview(data)[offset + 9 : offset + 9 + length]
        offset += 9 + length


def decompress(kind, data):
    if kind == "":
        return data
    if kind == "zstd":
        import zstandard

        return zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 32)
    if kind == "lz4":
        import lz4.frame

        return lz4.frame.decompress(data)
    raise Broken(f"unknown chunk compression '{kind}'")


@dataclass
class Contents:
    """The contents of the data section, from walking it."""

    schemas: dict = field(default_factory=dict)
    channels: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)
    chunks: dict = field(default_factory=dict)  # offset of the chunk: its expected index entry
    times: list = field(default_factory=list)
    metadata: list = field(default_factory=list)
    attachments: list = field(default_factory=list)
    outside_chunks: int = 0
    private: int = 0

    def definition(self, opcode, content):
        kept = self.schemas if opcode == SCHEMA else self.channels
        number = int.from_bytes(content[:2], "little")
        earlier = kept.setdefault(number, bytes(content))
        require(earlier == bytes(content), f"two definitions with opcode {opcode} share the id {number}")

    def message(self, content):
        channel, _sequence, log_time, _publish_time = struct.unpack_from("<HIQQ", content)
        require(channel in self.channels, f"a message precedes the definition of its channel {channel}")
        schema = int.from_bytes(self.channels[channel][2:4], "little")
        require(schema == 0 or schema in self.schemas, f"channel {channel} precedes its schema {schema}")
        self.counts[channel] = self.counts.get(channel, 0) + 1
        self.times.append(log_time)
        return channel, log_time


def read_chunk(found, offset, content):
    """Checks one chunk against its own header; returns what its message indexes and its index entry
    must say."""
    c = Cursor(content)
    start, end, size, crc = c.number(8), c.number(8), c.number(8), c.number(4)
    compression, packed = c.text(), c.take(c.number(8))
    inner = decompress(compression, packed)
    require(len(inner) == size, f"the chunk at {offset} says {size} bytes and holds {len(inner)}")
    require(crc in (0, zlib.crc32(inner)), f"the chunk at {offset} fails its checksum")
    index, times = {}, []
    for place, opcode, record in records(inner, 0, len(inner)):
        if opcode in (SCHEMA, CHANNEL):
            found.definition(opcode, record)
        elif opcode == MESSAGE:
            channel, time = found.message(record)
            index.setdefault(channel, []).append((time, place))
            times.append(time)
        else:
            require(opcode >= PRIVATE_FIRST, f"opcode {opcode:#x} inside the chunk at {offset}")
    require(times, f"the chunk at {offset} holds no message")
    require((start, end) == (min(times), max(times)), f"the chunk at {offset} states wrong times")
    entry = {"start": start, "end": end, "length": 9 + len(content), "compression": compression,
             "packed": len(packed), "size": size, "indexes": {}, "indexes_length": 0}
    return entry, index


def walk(data, end):
    """Walks the data section up to DataEnd; returns its contents and where DataEnd begins."""
    found, chunk, index = Contents(), None, {}
    for offset, opcode, content in records(data, len(MAGIC), end):
        if opcode != MESSAGE_INDEX and chunk is not None:
            require(not index, f"channels {sorted(index)} of a chunk before {offset} have no message index")
            chunk = None
        if opcode == CHUNK:
            chunk, index = read_chunk(found, offset, content)
            found.chunks[offset] = chunk
        elif opcode == MESSAGE_INDEX:
            require(chunk is not None, f"the message index at {offset} follows no chunk")
            c = Cursor(content)
            channel, size = c.number(2), c.number(4)
            entries = [(c.number(8), c.number(8)) for _ in range(size // 16)]
            require(entries == index.pop(channel, None), f"the message index at {offset} does not match its chunk")
            chunk["indexes"][channel] = offset
            chunk["indexes_length"] += 9 + len(content)
        elif opcode in (SCHEMA, CHANNEL):
            found.definition(opcode, content)
        elif opcode == MESSAGE:
            found.message(content)
            found.outside_chunks += 1
        elif opcode == METADATA:
            found.metadata.append((offset, 9 + len(content), Cursor(content).text()))
        elif opcode == ATTACHMENT:
            found.attachments.append((offset, 9 + len(content)))
        elif opcode == DATA_END:
            crc = int.from_bytes(content, "little")
            require(crc in (0, zlib.crc32(memoryview(data)[:offset])), "the data section fails its checksum")
            return found, offset
        elif opcode >= PRIVATE_FIRST:
            found.private += 1
        else:
            require(opcode == HEADER and offset == len(MAGIC), f"opcode {opcode:#x} at {offset} has no place there")
    raise Broken("the data section has no end record")


def check_statistics(content, found):
    c = Cursor(content)
    messages, schemas, channels = c.number(8), c.number(2), c.number(4)
    attachments, metadata, chunks = c.number(4), c.number(4), c.number(4)
    start, end, counts = c.number(8), c.number(8), c.pairs(2, 8)
    times = (min(found.times), max(found.times)) if found.times else (0, 0)
    for name, stated, counted in [
        ("messages", messages, len(found.times)), ("schemas", schemas, len(found.schemas)),
        ("channels", channels, len(found.channels)), ("attachments", attachments, len(found.attachments)),
        ("metadata records", metadata, len(found.metadata)), ("chunks", chunks, len(found.chunks)),
        ("start and end", (start, end), times),
        ("messages by channel", {k: v for k, v in counts.items() if v}, found.counts),
    ]:
        require(stated == counted, f"the statistics state {stated} {name}; the data section holds {counted}")


def check_chunk_index(content, found, listed):
    c = Cursor(content)
    start, end, offset, length = c.number(8), c.number(8), c.number(8), c.number(8)
    indexes, indexes_length = c.pairs(2, 8), c.number(8)
    stated = {"start": start, "end": end, "length": length, "compression": c.text(),
              "packed": c.number(8), "size": c.number(8), "indexes": indexes, "indexes_length": indexes_length}
    require(stated == found.chunks.get(offset), f"chunk index: {stated}; at {offset}: {found.chunks.get(offset)}")
    require(offset not in listed, f"the chunk at {offset} is indexed twice")
    listed.add(offset)


def check_summary(data, found, summary_start, footer_start):
    seen = {SCHEMA: {}, CHANNEL: {}}
    chunks, groups, order, statistics = set(), {}, [], 0
    metadata, offsets = [], []
    for offset, opcode, content in records(data, summary_start, footer_start):
        if not order or order[-1] != opcode:
            require(opcode not in order, f"records with opcode {opcode:#x} are not grouped in the summary")
            order.append(opcode)
        first, length = groups.get(opcode, (offset, 0))
        groups[opcode] = (first, length + 9 + len(content))
        if opcode in seen:
            seen[opcode][int.from_bytes(content[:2], "little")] = bytes(content)
        elif opcode == CHUNK_INDEX:
            check_chunk_index(content, found, chunks)
        elif opcode == STATISTICS:
            statistics += 1
            check_statistics(content, found)
        elif opcode == METADATA_INDEX:
            c = Cursor(content)
            metadata.append((c.number(8), c.number(8), c.text()))
        elif opcode == SUMMARY_OFFSET:
            c = Cursor(content)
            offsets.append((c.number(1), (c.number(8), c.number(8))))
        else:
            require(opcode == ATTACHMENT_INDEX or opcode >= PRIVATE_FIRST, f"opcode {opcode:#x} in the summary")
    require(statistics == 1, f"the summary has {statistics} statistics records; readers need one")
    require(seen[SCHEMA] == found.schemas, "the summary's schemas are not the data section's")
    require(seen[CHANNEL] == found.channels, "the summary's channels are not the data section's")
    require(chunks in (set(), set(found.chunks)), f"{len(found.chunks) - len(chunks)} chunks are not indexed")
    require(not chunks or not found.outside_chunks, "messages outside chunks in an indexed file are lost to readers")
    require(sorted(metadata) == sorted(found.metadata), "the metadata indexes do not match the metadata records")
    for opcode, group in offsets:
        require(groups.get(opcode) == group, f"the summary offset of opcode {opcode:#x} points elsewhere")
    return groups


def check(data):
    """Checks a whole file's bytes; returns figures about it, or raises Broken."""
    require(data[:8] == MAGIC, "no MCAP magic at the start")
    require(data[-8:] == MAGIC and len(data) >= 53, "no MCAP magic at the end: the file was not closed")
    footer_start = len(data) - 8 - 29
    opcode, length, summary_start, offset_start, crc = struct.unpack_from("<BQQQI", data, footer_start)
    require((opcode, length) == (FOOTER, 20), "no footer before the closing magic")
    found, data_end = walk(data, summary_start or footer_start)
    require(summary_start != 0, "the file has no summary")
    data_section_end = data_end + 13
    require(summary_start == data_section_end, f"the summary starts at {summary_start}, not {data_section_end}")
    stated = zlib.crc32(memoryview(data)[summary_start : footer_start + 25])
    require(crc in (0, stated), "the summary fails its checksum")
    groups = check_summary(data, found, summary_start, footer_start)
    if offset_start:
        first, _ = groups.get(SUMMARY_OFFSET, (footer_start, 0))
        require(first == offset_start, "the footer misplaces the summary offsets")
    header = Cursor(memoryview(data)[len(MAGIC) + 9 :])
    return {"profile": header.text(), "library": header.text(), "chunks": len(found.chunks),
            "messages": len(found.times), "private_records": found.private,
            "out_of_order": sum(a > b for a, b in zip(found.times, found.times[1:]))}
