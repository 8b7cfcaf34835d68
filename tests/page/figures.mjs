// What the page costs: first paint, and bytes and requests of one view beside @mcap/core, the reader of Foxglove and
// Lichtblick, over HTTP ranges. `run.sh figures`; prints a line for each.

import { createRequire } from "node:module";
import path from "node:path";
import { browser, folder, LIVEBAG, MAKE_DRIVE, open, run, serve } from "./browser.mjs";
import { drawn, placeOf, settled } from "./view.mjs";

const require = createRequire(path.join(process.env.LIVEBAG_NPM ?? path.resolve(import.meta.dirname, "../../build/npm"), "package.json"));
const { McapIndexedReader } = require("@mcap/core");
const { loadDecompressHandlers } = require("@mcap/support");

const OPENED = 10;
const DRIVE_SECONDS = 60;
/** Seconds after the start that are looked at. */
const MOMENTS = [5, 17, 29, 41, 53];
const TOPICS = ["/camera_front/image", "/camera_rear/image", "/lidar/points"];

/** @param {number[]} values */
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;
/** @param {string} what @param {{requests: number, bytes: number}} sum */
const tell = (what, { requests, bytes }) => console.log(`${what}: ${requests} requests, ${(bytes / 1e6).toFixed(2)} MB`);

/** The page's view: lanes of all topics, pictures and a cloud. @param {string} at */
async function ofPage(at) {
  const { page, close } = await open(at, "#/drive");
  let sum = { requests: 0, bytes: 0 };
  /** @type {Promise<void>[]} */
  const counted = [];
  page.on("requestfinished", (/** @type {any} */ request) => counted.push((async () => {
    const { responseBodySize, responseHeadersSize } = await request.sizes();
    sum.requests += 1;
    sum.bytes += responseBodySize + responseHeadersSize;
  })()));
  await page.reload();
  await drawn(page);
  await settled(page);
  await Promise.all(counted);
  tell("page, opened with its own files", sum);
  sum = { requests: 0, bytes: 0 };
  for (const seconds of MOMENTS) {
    const place = await placeOf(page.locator("canvas.ruler"), seconds, DRIVE_SECONDS - 0.005);
    await page.mouse.click(place.x, place.y);
    await settled(page);
  }
  await Promise.all(counted);
  tell(`page, ${MOMENTS.length} moments, by clicks on the ruler`, sum);
  await close();
}

/** The same by @mcap/core. @param {string} url @param {bigint} began */
async function ofReader(url, began) {
  let sum = { requests: 0, bytes: 0 };
  const ask = async (/** @type {RequestInit} */ question) => {
    const response = await fetch(url, question);
    const bytes = new Uint8Array(await response.arrayBuffer());
    sum.requests += 1;
    sum.bytes += bytes.length;
    return { response, bytes };
  };
  const { response } = await ask({ method: "HEAD" });
  const length = BigInt(response.headers.get("content-length") ?? 0);
  const readable = {
    size: async () => length,
    read: async (/** @type {bigint} */ offset, /** @type {bigint} */ size) =>
      (await ask({ headers: { range: `bytes=${offset}-${offset + size - 1n}` } })).bytes,
  };
  const reader = await McapIndexedReader.Initialize({ readable, decompressHandlers: await loadDecompressHandlers() });
  tell("@mcap/core, opened", sum);
  sum = { requests: 0, bytes: 0 };
  for (const seconds of MOMENTS) {
    for (const topic of TOPICS) {
      const endTime = began + BigInt(seconds * 1e9);
      for await (const _ of reader.readMessages({ topics: [topic], endTime, reverse: true })) break;
    }
  }
  tell(`@mcap/core, ${MOMENTS.length} moments`, sum);
  sum = { requests: 0, bytes: 0 };
  let messages = 0;
  for await (const _ of reader.readMessages()) messages += 1;
  tell(`@mcap/core, how dense every topic is (it reads all ${messages} messages)`, sum);
}

try {
  const runs = folder("figures");
  await run(MAKE_DRIVE, path.join(runs, "hour"), "hour");
  await run(MAKE_DRIVE, path.join(runs, "drive"), String(DRIVE_SECONDS));
  const { at, stop } = await serve(runs);
  console.log(`${(await run(LIVEBAG, "--version")).trim()}, Chromium ${browser.version()}`);
  for (const [name, topic] of /** @type {const} */ ([["drive", "/imu/data"], ["hour", "/sensor_00"]])) {
    const [paints, lanes] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
    for (let time = 0; time < OPENED; time += 1) {
      const { page, close } = await open(at, `#/${name}`);
      await drawn(page, topic);
      const [paint, now] = await page.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN, performance.now()]);
      paints.push(paint);
      lanes.push(now);
      await close();
    }
    console.log(`${name}: first paint after ${median(paints).toFixed(0)} ms (most ${Math.max(...paints).toFixed(0)}), all lanes drawn after ${median(lanes).toFixed(0)} ms (most ${Math.max(...lanes).toFixed(0)}), ${OPENED} times in a new profile`);
  }
  const began = BigInt((await (await fetch(`${at}/v1/bags/drive`)).json()).start_time);
  await ofPage(at);
  await ofReader(`${at}/bags/drive.mcap`, began);
  stop();
} finally {
  await browser.close();
}
