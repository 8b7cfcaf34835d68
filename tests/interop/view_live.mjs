// Looks at a recording by Foxglove's own client of its WebSocket protocol (@foxglove/ws-protocol):
//
//     node --experimental-websocket view_live.mjs URL COUNT [END]
//
// Subscribes to every channel, and prints {"name", "subprotocol", "topics": {TOPIC: [[log time, SHA-256 of the message], …]}}
// once it has COUNT messages, or is told that the log time END is shown.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const home = process.env.LIVEBAG_NPM ?? path.resolve(here, "../../build/npm");
const require = createRequire(path.join(home, "package.json"));
const { FoxgloveClient } = require("@foxglove/ws-protocol");

const [url, count, end] = process.argv.slice(2);
const socket = new WebSocket(url, [FoxgloveClient.SUPPORTED_SUBPROTOCOL]);
const client = new FoxgloveClient({ ws: socket });
const topics = {};
const bySubscription = new Map();
let name;
let seen = 0;

function fail(error) {
  console.error(`error: ${error?.message ?? error}`);
  process.exit(1);
}

function conclude() {
  console.log(JSON.stringify({ name, subprotocol: socket.protocol, topics }));
  process.exit(0);
}

client.on("error", fail);
client.on("close", () => fail("the server has closed the socket"));
client.on("serverInfo", (info) => {
  name = info.name;
});
client.on("status", (status) => status.level === 2 && fail(status.message));
client.on("advertise", (channels) => {
  for (const channel of channels) {
    if (channel.encoding === "cdr" && !(channel.schemaEncoding && channel.schema)) {
      fail(`${channel.topic} has no schema`);
    }
    topics[channel.topic] ??= [];
    bySubscription.set(client.subscribe(channel.id), channel.topic);
  }
});
client.on("message", ({ subscriptionId, timestamp, data }) => {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const digest = createHash("sha256").update(bytes).digest("hex");
  topics[bySubscription.get(subscriptionId)].push([String(timestamp), digest]);
  seen += 1;
  if (seen === Number(count)) {
    conclude();
  }
});
client.on("time", ({ timestamp }) => end !== undefined && timestamp >= BigInt(end) && conclude());
