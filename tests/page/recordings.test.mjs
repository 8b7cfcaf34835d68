// Recordings that are unlike the drive: flooded, long, real, and one that is watched for long.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { after, test } from "node:test";
import { browser, colours, drive, endAll, folder, LIVEBAG, MAKE_DRIVE, open, run, serve, until } from "./browser.mjs";
import { drawn, head, lane, placed, placeOf, sumsAgree } from "./view.mjs";

const DATA = path.resolve(import.meta.dirname, "../../../shared/data");

after(async () => {
  await browser.close();
  endAll();
});

test("a flooded queue is shown when it was flooded", async () => {
  const flooded = folder("flooded");
  const told = JSON.parse(await run(MAKE_DRIVE, path.join(flooded, "run"), "flood"));
  const { at, stop } = await serve(flooded);
  const { timeline, info } = await sumsAgree(at, "run");
  const row = timeline.topics.find((/** @type {{topic: string}} */ one) => one.topic === told.topic);
  assert.equal(placed(row), told.dropped, "each dropped message has a place");
  const start = BigInt(info.start_time);
  const [from, to] = [BigInt(told.from_time), BigInt(told.to_time)];
  for (const loss of row.lost) {
    assert.equal(loss.cause, "queue");
    assert.ok(BigInt(loss.from_time) <= to && BigInt(loss.to_time) >= from, "within the flood");
  }
  const { page, close } = await open(at, "#/run?p=");
  await drawn(page, told.topic);
  const seconds = (/** @type {bigint} */ time) => Number(time - start) / 1e9;
  const at_ = await placeOf(lane(page, told.topic), seconds((from + to) / 2n), seconds(BigInt(info.end_time)));
  await page.mouse.move(at_.x, at_.y);
  await until(async () => /lost \(queue\)/.test(await page.locator(".tip").textContent()), "the flood under the pointer");
  assert.match(await page.locator(".legend").textContent(), new RegExp(`${told.dropped} queue`));
  await page.keyboard.press("l");
  await until(async () => (await head(page)) > seconds(from) - 0.5 && (await head(page)) < seconds(to), "the next loss is the flood");
  await close();
  stop();
});

test("an hour of 78 topics", async () => {
  const long = folder("hour");
  await run(MAKE_DRIVE, path.join(long, "drive"), "hour");
  const { at, stop } = await serve(long);
  const { timeline, info } = await sumsAgree(at, "drive");
  assert.equal(timeline.topics.length, 78);
  const [row] = timeline.topics.filter((/** @type {{topic: string}} */ one) => one.topic === "/sensor_07");
  assert.equal(placed(row), 300);
  // Five messages a second: from number 9,000 on 300 are missing.
  const start = BigInt(info.start_time);
  assert.ok(Math.abs(Number(BigInt(row.lost[0].from_time) - start) / 1e9 - 1800) < 1);
  const { page, close } = await open(at, "#/drive?p=plot+/sensor_07+data");
  await drawn(page, "/sensor_00");
  assert.equal(await page.locator(".lanes .row").count(), 78);
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`an hour of 78 topics: ${info.message_count} messages, first paint after ${Math.round(paint ?? NaN)} ms`);
  await until(async () => (await colours(page.locator("canvas.plot"))) > 2, "an hour of a plot");
  await page.keyboard.press("l");
  await until(async () => Math.abs((await head(page)) - 1800) < 1, "the loss");
  for (let times = 0; times < 7; times += 1) await page.keyboard.press("+");
  await drawn(page, "/sensor_00");
  await lane(page, "/sensor_07").scrollIntoViewIfNeeded();
  await drawn(page, "/sensor_07");
  const box = await lane(page, "/sensor_07").boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  await until(async () => /300 lost \(transport\)/.test(await page.locator(".tip").textContent()), "the loss in view");
  await page.locator(".filter").fill("sensor_77");
  await until(async () => (await page.locator(".lanes .row:visible").count()) === 1, "one of them is found");
  await close();
  stop();
});

test("memory stays flat, however much is opened, scrubbed and zoomed", async () => {
  const live = folder("long");
  const recorder = drive(path.join(live, "now"));
  await until(async () => existsSync(path.join(live, "now", "container.yaml")), "the recorder has begun");
  const { at, stop } = await serve(live);
  const { page, close } = await open(at, "#/now");
  await drawn(page);
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
    return { megabytes: usedSize / 1e6, nodes, listeners: jsEventListeners };
  };
  /** What somebody does in a busy minute. */
  const busy = async () => {
    await page.keyboard.press("f");
    await page.locator('.row[data-topic="/imu/data"] button.topic').click();
    await page.getByRole("menuitem", { name: "Message" }).click();
    await page.locator(".panel.message").waitFor();
    await page.locator(".panel.message header button").last().click();
    for (let step = 0; step < 12; step += 1) await page.keyboard.press(step % 2 ? "+" : "Shift+ArrowLeft");
    await page.keyboard.press("0");
  };
  const rounds = Number(process.env.LIVEBAG_PAGE_ROUNDS ?? 6);
  for (let round = 0; round < Math.ceil(rounds / 3); round += 1) await busy();
  const early = await heap();
  for (let round = 0; round < rounds; round += 1) await busy();
  // The browser lets go of closed panels when it likes: waited for is that it has.
  let late = await heap();
  const isFlat = () => late.megabytes < early.megabytes + 3 && late.nodes < early.nodes * 1.3 + 200 && late.listeners < early.listeners * 1.3 + 50;
  await until(async () => isFlat() || ((late = await heap()), isFlat()), `memory as before: ${JSON.stringify(early)}`);
  console.log(`memory: ${JSON.stringify(early)}, then ${JSON.stringify(late)}`);
  await close();
  await recorder.end();
  stop();
});

test("real recordings", { skip: existsSync(DATA) ? false : "SKIPPED: ../shared/data is not here" }, async () => {
  const real = folder("real");
  const from = { do: "do.bag", outdoor: "outdoor.bag", wbag: "rosbag2/mcap/wbag", talker: "rosbag2/mcap/talker" };
  for (const [name, file] of Object.entries(from)) await run(LIVEBAG, "convert", path.join(DATA, file), path.join(real, name));
  const { at, stop } = await serve(real);
  for (const name of Object.keys(from)) {
    const { page, close } = await open(at, `#/${name}`);
    await page.locator(".lanes .row").first().waitFor();
    await page.keyboard.press("End");
    await until(async () => (await page.locator(".panel .note").first().textContent()) !== "", `${name} shows a message`);
    if (name === "do" || name === "outdoor") await until(async () => (await colours(page.locator(".panel.image canvas").first())) > 8, `${name} shows a picture`);
    await until(async () => (await page.locator(".problem:visible").count()) === 0, `nothing is wrong with ${name}`);
    await close();
  }
  stop();
});
