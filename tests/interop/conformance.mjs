// Writes the files of MCAP's conformance suite with @mcap/core: every input with every combination of
// optional parts that changes its file, 416 in all, into FOLDER:
//
//     node conformance.mjs FOLDER
//
// A name is INPUT-PART-PART….mcap: ch chunks, mx message indexes, chx chunk indexes, st statistics,
// rsh and rch repeated schemas and channels, ax and mdx indexes of attachments and metadata, sum summary
// offsets, pad bytes behind the fields of each record, which readers are to ignore.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const home = process.env.LIVEBAG_NPM ?? path.resolve(here, "../../build/npm");
const { McapRecordBuilder } = createRequire(path.join(home, "package.json"))("@mcap/core");

const bytes = (...values) => Uint8Array.from(values);
const schema = { id: 1, name: "Example", encoding: "c", data: bytes(4, 5, 6) };
const channel = { id: 1, schemaId: 1, topic: "example", messageEncoding: "a", metadata: new Map([["foo", "bar"]]) };
const message = (number) =>
  ({ channelId: 1, sequence: number, logTime: BigInt(number), publishTime: BigInt(number), data: bytes(1, 2, 3) });
const attachment = { name: "myFile", logTime: 2n, createTime: 1n, mediaType: "application/octet-stream", data: bytes(1, 2, 3) };
const metadata = { name: "myMetadata", metadata: new Map([["foo", "bar"]]) };

const INPUTS = {
  NoData: { messages: [] },
  OneAttachment: { messages: [], attachments: [attachment] },
  OneMetadata: { messages: [], metadata: [metadata] },
  OneMessage: { messages: [{ ...message(10), logTime: 2n, publishTime: 1n }], schemas: [schema], channels: [channel] },
  OneSchemalessMessage: { messages: [{ ...message(10), logTime: 2n, publishTime: 1n }], channels: [{ ...channel, schemaId: 0 }] },
  TenMessages: { messages: [...Array(10).keys()].map(message), schemas: [schema], channels: [channel] },
};

/** The parts that change the file of an input. */
function partsOf({ messages, schemas, attachments, metadata }) {
  const parts = ["st"];
  if (messages.length > 0) parts.push("ch", "mx", "chx", "rch");
  if (schemas) parts.push("rsh");
  if (attachments) parts.push("ax");
  if (metadata) parts.push("mdx");
  return [...parts, "sum", "pad"];
}

function* combinations(parts) {
  for (let bits = 0; bits < 1 << parts.length; bits++) {
    const chosen = new Set(parts.filter((_, at) => bits & (1 << at)));
    const hasSummary = ["st", "rsh", "rch", "ax", "mdx", "chx"].some((part) => chosen.has(part));
    if (!chosen.has("ch") && (chosen.has("mx") || chosen.has("chx"))) continue;
    if (chosen.has("sum") && !hasSummary) continue;
    yield chosen;
  }
}

/** A file being written: records one after the other, and where each begins. */
class File {
  constructor(padRecords) {
    this.records = new McapRecordBuilder({ padRecords });
  }
  get length() {
    return BigInt(this.records.length);
  }
  /** Writes a record; its place and length. */
  put(kind, fields) {
    const offset = this.length;
    this.records[`write${kind}`](fields);
    return { offset, length: this.length - offset };
  }
}

function chunkOf(input, pad) {
  const chunk = new File(pad);
  for (const one of input.schemas ?? []) chunk.put("Schema", one);
  for (const one of input.channels ?? []) chunk.put("Channel", one);
  const records = input.messages.map((one) => [one.logTime, chunk.put("Message", one).offset]);
  const times = input.messages.map((one) => one.logTime);
  const data = chunk.records.buffer.slice();
  const size = BigInt(data.byteLength);
  const fields = { messageStartTime: times[0], messageEndTime: times[times.length - 1], uncompressedSize: size };
  return { ...fields, uncompressedCrc: 0, compression: "", records: data, index: { channelId: 1, records } };
}

function putChunk(file, input, has, indexes) {
  const chunk = chunkOf(input, has("pad"));
  const { offset, length } = file.put("Chunk", chunk);
  const messageIndexOffsets = new Map();
  const indexesAt = file.length;
  if (has("mx")) messageIndexOffsets.set(1, file.put("MessageIndex", chunk.index).offset);
  const { messageStartTime, messageEndTime, compression, uncompressedSize } = chunk;
  const sizes = { compressedSize: uncompressedSize, uncompressedSize, compression };
  const place = { chunkStartOffset: offset, chunkLength: length, messageIndexOffsets };
  const more = { messageIndexLength: file.length - indexesAt, messageStartTime, messageEndTime };
  if (has("chx")) indexes.push(["ChunkIndex", { ...place, ...more, ...sizes }]);
}

/** What the summary repeats and tells, in groups by kind. */
function summaryOf(input, has, indexes) {
  const groups = [];
  const add = (kind, all) => all.length > 0 && groups.push([kind, all]);
  if (has("rsh")) add("Schema", input.schemas ?? []);
  if (has("rch")) add("Channel", input.channels ?? []);
  const times = input.messages.map((one) => one.logTime);
  const count = input.messages.length;
  if (has("st")) {
    add("Statistics", [{
      messageCount: BigInt(count),
      schemaCount: input.schemas?.length ?? 0,
      channelCount: input.channels?.length ?? 0,
      attachmentCount: input.attachments?.length ?? 0,
      metadataCount: input.metadata?.length ?? 0,
      chunkCount: has("ch") ? 1 : 0,
      messageStartTime: times[0] ?? 0n,
      messageEndTime: times[count - 1] ?? 0n,
      channelMessageCounts: new Map(count > 0 ? [[1, BigInt(count)]] : []),
    }]);
  }
  for (const kind of ["ChunkIndex", "AttachmentIndex", "MetadataIndex"]) {
    add(kind, indexes.filter(([of]) => of === kind).map(([, fields]) => fields));
  }
  return groups;
}

const OPCODES = { Schema: 3, Channel: 4, ChunkIndex: 8, AttachmentIndex: 10, Statistics: 11, MetadataIndex: 13 };

function write(input, parts) {
  const has = (part) => parts.has(part);
  const file = new File(has("pad"));
  const indexes = [];
  file.records.writeMagic();
  file.put("Header", { profile: "", library: "" });
  if (has("ch")) putChunk(file, input, has, indexes);
  else {
    for (const one of input.schemas ?? []) file.put("Schema", one);
    for (const one of input.channels ?? []) file.put("Channel", one);
    for (const one of input.messages) file.put("Message", one);
  }
  for (const one of input.attachments ?? []) {
    const { data, ...told } = one;
    const index = { ...told, ...file.put("Attachment", one), dataSize: BigInt(data.byteLength) };
    if (has("ax")) indexes.push(["AttachmentIndex", index]);
  }
  for (const one of input.metadata ?? []) {
    const index = { name: one.name, ...file.put("Metadata", one) };
    if (has("mdx")) indexes.push(["MetadataIndex", index]);
  }
  file.put("DataEnd", { dataSectionCrc: 0 });
  const start = file.length;
  const offsets = summaryOf(input, has, indexes).map(([kind, all]) => {
    const groupStart = file.length;
    for (const one of all) file.put(kind, one);
    return { groupOpcode: OPCODES[kind], groupStart, groupLength: file.length - groupStart };
  });
  const offsetsAt = file.length;
  if (has("sum")) for (const one of offsets) file.put("SummaryOffset", one);
  file.put("Footer", {
    summaryStart: offsets.length > 0 ? start : 0n,
    summaryOffsetStart: has("sum") ? offsetsAt : 0n,
    summaryCrc: 0,
  });
  file.records.writeMagic();
  return file.records.buffer;
}

const folder = process.argv[2];
let count = 0;
for (const [name, input] of Object.entries(INPUTS)) {
  for (const parts of combinations(partsOf(input))) {
    writeFileSync(path.join(folder, `${[name, ...parts].join("-")}.mcap`), write(input, parts));
    count++;
  }
}
console.log(count);
