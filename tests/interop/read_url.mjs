// Reads an MCAP file by its URL with @mcap/core's indexed reader, over HTTP ranges, as Foxglove does:
//
//     node read_url.mjs URL
//
// Prints {TOPIC: [[log time, publish time, sequence, SHA-256 of the message], …]}, times as text.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const home = process.env.LIVEBAG_NPM ?? path.resolve(here, "../../build/npm");
const require = createRequire(path.join(home, "package.json"));
const { McapIndexedReader } = require("@mcap/core");
const { loadDecompressHandlers } = require("@mcap/support");

/** The length is asked for once, as readers of files by HTTP do: what is recorded later is not seen. */
class HttpReadable {
  constructor(url, length) {
    this.url = url;
    this.length = length;
  }

  static async open(url) {
    const response = await fetch(url, { method: "HEAD" });
    if (response.status !== 200 || response.headers.get("accept-ranges") !== "bytes") {
      throw new Error(`${url}: ${response.status}, ranges: ${response.headers.get("accept-ranges")}`);
    }
    return new HttpReadable(url, BigInt(response.headers.get("content-length")));
  }

  async size() {
    return this.length;
  }

  async read(offset, size) {
    const range = `bytes=${offset}-${offset + size - 1n}`;
    const response = await fetch(this.url, { headers: { range } });
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (response.status !== 206 || BigInt(bytes.length) !== size) {
      throw new Error(`${this.url}: ${range}: ${response.status} with ${bytes.length} bytes`);
    }
    return bytes;
  }
}

async function main(url) {
  const readable = await HttpReadable.open(url);
  const decompressHandlers = await loadDecompressHandlers();
  const reader = await McapIndexedReader.Initialize({ readable, decompressHandlers });
  const topics = {};
  for await (const message of reader.readMessages({ validateCrcs: true })) {
    const { topic } = reader.channelsById.get(message.channelId);
    const digest = createHash("sha256").update(message.data).digest("hex");
    const times = [message.logTime, message.publishTime, message.sequence].map(String);
    (topics[topic] ??= []).push([...times, digest]);
  }
  const stated = Number(reader.statistics.messageCount);
  const read = Object.values(topics).reduce((sum, messages) => sum + messages.length, 0);
  if (stated !== read) {
    throw new Error(`${url}: the statistics state ${stated} messages, the reader found ${read}`);
  }
  console.log(JSON.stringify(topics));
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(`error: ${error.message}`);
  process.exit(1);
});
