// Reads MCAP files whole with @mcap/core's indexed and streaming readers, and says what is in them
// in the form that check_mcap.py prints:
//
//     node check_mcap.mjs FILE…
//
// Exit code 1 when a file is refused or the two readers disagree.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

// The packages are installed outside this folder: build/npm, or where LIVEBAG_NPM says.
const here = path.dirname(fileURLToPath(import.meta.url));
const home = process.env.LIVEBAG_NPM ?? path.resolve(here, "../../build/npm");
const require = createRequire(path.join(home, "package.json"));
const { McapIndexedReader, McapStreamReader } = require("@mcap/core");
const { loadDecompressHandlers } = require("@mcap/support");
const { FileHandleReadable } = require("@mcap/nodejs");
const { parse } = require("@foxglove/rosmsg");
const { MessageReader } = require("@foxglove/rosmsg2-serialization");

const FRAME_FIELDS = {
  "sensor_msgs/msg/Image": ["width", "height", "encoding", "step"],
  "sensor_msgs/msg/PointCloud2": ["width", "height", "point_step", "row_step"],
};

/** Digests of one topic's messages, fed in order. */
class Topic {
  count = 0;
  bytes = createHash("sha256");
  times = createHash("sha256");
  data = createHash("sha256");
  frame = undefined;

  constructor(schema, channel) {
    this.type = schema?.name ?? "";
    this.fields = FRAME_FIELDS[this.type];
    if (this.fields && channel.messageEncoding === "cdr" && schema.encoding === "ros2msg") {
      const text = new TextDecoder().decode(schema.data);
      this.decoder = new MessageReader(parse(text, { ros2: true }));
    }
  }

  add(message) {
    this.count += 1;
    this.bytes.update(message.data);
    const times = Buffer.alloc(24);
    times.writeBigUInt64LE(message.logTime, 0);
    times.writeBigUInt64LE(message.publishTime, 8);
    times.writeBigUInt64LE(BigInt(message.sequence), 16);
    this.times.update(times);
    if (this.decoder) {
      const value = this.decoder.readMessage(message.data);
      const { buffer, byteOffset, byteLength } = value.data;
      this.data.update(Buffer.from(buffer, byteOffset, byteLength));
      this.frame = Object.fromEntries(this.fields.map((name) => [name, value[name]]));
      this.frame.frame_id = value.header.frame_id;
    }
  }

  report() {
    const said = {
      count: this.count,
      type: this.type,
      sha256: this.bytes.digest("hex"),
      times_sha256: this.times.digest("hex"),
    };
    return this.frame ? { ...said, data_sha256: this.data.digest("hex"), ...this.frame } : said;
  }
}

function reportOf(topics) {
  return Object.fromEntries([...topics].map(([name, topic]) => [name, topic.report()]));
}

async function readIndexed(file, decompressHandlers) {
  const handle = await open(file);
  try {
    const readable = new FileHandleReadable(handle);
    const reader = await McapIndexedReader.Initialize({ readable, decompressHandlers });
    const topics = new Map();
    for await (const message of reader.readMessages({ validateCrcs: true })) {
      const channel = reader.channelsById.get(message.channelId);
      if (!topics.has(channel.topic)) {
        topics.set(channel.topic, new Topic(reader.schemasById.get(channel.schemaId), channel));
      }
      topics.get(channel.topic).add(message);
    }
    const stated = Number(reader.statistics?.messageCount ?? -1);
    const read = [...topics.values()].reduce((sum, topic) => sum + topic.count, 0);
    if (stated !== read) {
      throw new Error(`${file}: the statistics state ${stated} messages, the indexed reader found ${read}`);
    }
    return reportOf(topics);
  } finally {
    await handle.close();
  }
}

/** In the order of the file, which within a topic of ours is the order of log_time. */
async function readStreaming(file, decompressHandlers) {
  const reader = new McapStreamReader({ decompressHandlers, validateCrcs: true });
  const [schemas, channels, topics] = [new Map(), new Map(), new Map()];
  for await (const piece of createReadStream(file, { highWaterMark: 1 << 22 })) {
    reader.append(piece);
    for (let record; (record = reader.nextRecord()); ) {
      if (record.type === "Schema") {
        schemas.set(record.id, record);
      } else if (record.type === "Channel") {
        channels.set(record.id, record);
      } else if (record.type === "Message") {
        const channel = channels.get(record.channelId);
        if (!topics.has(channel.topic)) {
          topics.set(channel.topic, new Topic(schemas.get(channel.schemaId), channel));
        }
        topics.get(channel.topic).add(record);
      }
    }
  }
  if (!reader.done()) {
    throw new Error(`${file}: the streaming reader is not done: ${reader.bytesRemaining()} bytes are left`);
  }
  return reportOf(topics);
}

async function main(files) {
  const handlers = await loadDecompressHandlers();
  const reports = {};
  for (const file of files) {
    const topics = await readIndexed(file, handlers);
    const streamed = await readStreaming(file, handlers);
    for (const name of new Set([...Object.keys(topics), ...Object.keys(streamed)])) {
      const [first, second] = [JSON.stringify(topics[name]), JSON.stringify(streamed[name])];
      if (first !== second) {
        throw new Error(`${file}: ${name}: the indexed reader finds ${first}, the streaming reader ${second}`);
      }
    }
    reports[file] = { readers: ["@mcap/core indexed", "@mcap/core streaming"], topics };
  }
  console.log(JSON.stringify(reports, null, 2));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});
