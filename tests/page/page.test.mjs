// The page in a real browser, on real servers: recordings with known losses, and one that is being written.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { browser, colours, drive, endAll, folder, LIVEBAG, MAKE_DRIVE, open, run, serve, until } from "./browser.mjs";
import { drawn, frames, FRONT, hash, head, lane, placeOf, SECONDS, settled, sumsAgree } from "./view.mjs";

/** What make_drive loses: seconds after the start. */
const LOST = { from: 10, to: 11.2, count: 12 };

/** @type {{at: string, stop: () => void}} */
let server;
/** @type {string} */
let runs;
/** @type {bigint} */
let began;

before(async () => {
  runs = folder("runs");
  await run(MAKE_DRIVE, path.join(runs, "drive"), String(SECONDS));
  server = await serve(runs);
  began = BigInt((await (await fetch(`${server.at}/v1/bags/drive`)).json()).start_time);
});
after(async () => {
  server.stop();
  await browser.close();
  endAll();
});

test("the list shows recordings, their pictures, and finds them by topic, type and day", async () => {
  const { page, close } = await open(server.at, "");
  const row = page.locator(".bags tbody tr", { hasText: "drive" });
  await row.waitFor();
  assert.match(await row.textContent(), /closed/);
  assert.match(await row.textContent(), /30\.0 s/);
  assert.equal(await row.locator("td").nth(4).textContent(), "79");
  assert.equal(await row.locator("td").nth(4).getAttribute("title"), "79 transport");
  const thumbs = row.locator(".thumbs canvas");
  await until(async () => (await thumbs.count()) === 5 && (await colours(thumbs.nth(4))) > 8, "five pictures");
  for (const [words, finds] of /** @type {const} */ ([["imu", true], ["PointCloud2 odom", true], [new Date(Number(began / 1000000n)).toISOString().slice(0, 10), true], ["nothing like it", false]])) {
    await page.locator(".search").fill(words);
    await until(async () => (await row.isVisible()) === finds, `${words} is found: ${finds}`);
  }
  await page.locator(".search").fill("");
  await row.locator("a").click();
  await lane(page, FRONT).waitFor();
  await page.goBack();
  await row.waitFor();
  await close();
});

test("losses are red at their times, and their sums are those of the recording", async () => {
  const { page, close } = await open(server.at, "#/drive");
  await drawn(page);
  const at = await placeOf(lane(page, FRONT), (LOST.from + LOST.to) / 2);
  await page.mouse.move(at.x, at.y);
  await until(async () => /12 lost \(transport\)/.test(await page.locator(".tip").textContent()), "the loss under the pointer");
  const painted = () => lane(page, FRONT).evaluate((/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ x) => {
    const ratio = canvas.width / canvas.clientWidth;
    return [.../** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")).getImageData(Math.round(x * ratio), 8, 1, 1).data];
  }, at.x - at.box.x);
  await until(async () => {
    const [red = 0, green = 0, blue = 0] = await painted();
    return red > 180 && green < 120 && blue < 120;
  }, "the loss is red");
  const before = await placeOf(lane(page, FRONT), LOST.from - 2);
  await page.mouse.move(before.x, before.y);
  await until(async () => !/lost/.test(await page.locator(".tip").textContent()), "no loss two seconds before");
  // Losses without a place are at the lane's end.
  const end = await lane(page, "/tf").boundingBox();
  await page.mouse.move(end.x + end.width - 12, end.y + 10);
  await until(async () => /7 messages lost at a time that is not known \(7 transport\)/.test(await page.locator(".tip").textContent()), "unplaced losses");
  // A silence is not a loss.
  const silence = await placeOf(lane(page, "/gps/fix"), 16);
  await page.mouse.move(silence.x, silence.y);
  await until(async () => /silent for/.test(await page.locator(".tip").textContent()), "the silence");

  const { timeline } = await sumsAgree(server.at, "drive");
  const loss = timeline.topics.find((/** @type {{topic: string}} */ row) => row.topic === FRONT).lost[0];
  const since = Number(BigInt(loss.from_time) - began) / 1e9;
  assert.ok(Math.abs(since - (LOST.from - 0.1)) < 0.01, `the loss begins after the message before it, not at ${since}`);
  await close();
});

test("keys, wheel and drags move the playhead and the view", async () => {
  const { page, close } = await open(server.at, "#/drive");
  await drawn(page);
  await until(async () => (await head(page)) === 0, "the start");
  await page.keyboard.press("l");
  await until(async () => Math.abs((await head(page)) - 9.9) < 0.02, "the first loss");
  await page.keyboard.press("l");
  await until(async () => Math.abs((await head(page)) - 21.995) < 0.02, "the second loss");
  await page.keyboard.press("Shift+L");
  await until(async () => Math.abs((await head(page)) - 9.9) < 0.02, "back at the first");
  await page.keyboard.press("ArrowRight");
  await until(async () => Math.abs((await head(page)) - 11.2) < 0.02, "the message after the loss");
  await page.keyboard.press("ArrowLeft");
  await until(async () => Math.abs((await head(page)) - 9.9) < 0.02, "the message before it");
  await page.keyboard.press("Shift+ArrowRight");
  await until(async () => Math.abs((await head(page)) - 10.9) < 0.02, "a second later");
  await page.keyboard.press("End");
  await until(async () => (await head(page)) > SECONDS - 0.1, "the end");
  await page.keyboard.press("Home");
  await until(async () => (await head(page)) === 0, "the start");

  const view = async () => hash(page).get("view")?.split("-").map((text) => Number(BigInt(text) - began) / 1e9) ?? null;
  const length = async () => {
    const range = await view();
    return range ? (range[1] ?? 0) - (range[0] ?? 0) : SECONDS;
  };
  const middle = await placeOf(lane(page, FRONT), 15);
  await page.mouse.move(middle.x, middle.y);
  await page.mouse.wheel(0, -400);
  await until(async () => (await length()) < 20, "the wheel zooms in");
  const [from, to] = /** @type {[number, number]} */ (await view());
  assert.ok(from < 15 && to > 15, "around the pointer");
  await page.mouse.down();
  await page.mouse.move(middle.x - 200, middle.y, { steps: 4 });
  await page.mouse.up();
  await until(async () => (/** @type {any} */ (await view()))[0] > from + 0.5, "a drag pans");
  await page.keyboard.press("0");
  await until(async () => (await view()) === null, "0 shows all");
  await page.keyboard.press("+");
  await until(async () => (await length()) < SECONDS * 0.6, "+ zooms in");
  await page.keyboard.press("0");
  await until(async () => (await view()) === null, "all again");
  const ruler = page.locator("canvas.ruler");
  const [a, b] = [await placeOf(ruler, 5), await placeOf(ruler, 12)];
  await page.mouse.move(a.x, a.y);
  await until(async () => (await page.locator(".thumb").isVisible()) && (await colours(page.locator(".thumb"))) > 8, "a thumbnail over the ruler");
  await page.mouse.down();
  await page.mouse.move(b.x, b.y, { steps: 5 });
  await page.mouse.up();
  await until(async () => Math.abs((await head(page)) - 12) < 0.2, "the playhead follows the drag");
  await page.mouse.move(5, 5);
  await page.keyboard.press(" ");
  await until(async () => (await head(page)) > 12.5, "it plays");
  await page.keyboard.press(" ");
  await page.getByRole("button", { name: "Play (Space)" }).waitFor();
  await frames(page, 3);
  const paused = await head(page);
  await frames(page, 20);
  assert.equal(await head(page), paused, "it is paused");
  await close();
});

test("panels open by drop, menu and keyboard, show the moment, and are in the link", async () => {
  const { page, close } = await open(server.at, "#/drive?p=");
  await drawn(page);
  assert.ok(await page.locator(".hint").isVisible());
  const topic = (/** @type {string} */ name) => page.locator(`.row[data-topic="${name}"] button.topic`);
  await topic(FRONT).dragTo(page.locator(".tile-area"));
  await until(async () => (await colours(page.locator(".panel.image canvas"))) > 8, "a picture by drop");
  await topic("/lidar/points").dragTo(page.locator(".tile-area"));
  await until(async () => /9,600 points, frame lidar/.test(await page.locator(".panel.points .corner").textContent()), "points by drop");
  await settled(page);
  const cloud = page.locator(".panel.points canvas");
  const shot = async () => (await cloud.screenshot()).toString("base64");
  const still = await shot();
  await cloud.focus();
  await page.keyboard.press("ArrowLeft");
  await until(async () => (await shot()) !== still, "the cloud turns");

  // By keyboard alone: the menu of a topic, a field of it.
  await topic("/imu/data").focus();
  await page.keyboard.press("Enter");
  await page.locator(".menu .fields button").first().waitFor();
  await page.locator('.menu input[type="search"]').focus();
  await page.keyboard.type("angular_velocity.z");
  await until(async () => (await page.locator(".menu .fields button").count()) === 1, "one field");
  await page.locator(".menu .fields button").first().press("Enter");
  const plot = page.locator("canvas.plot");
  await until(async () => (await colours(plot)) > 2, "a plot");
  await topic("/rosout").click();
  await page.getByRole("menuitem", { name: "Log" }).click();
  await page.locator(".log-lines li.warn").first().waitFor();
  await page.locator(".panel.log select").selectOption({ label: "error" });
  await until(async () => (await page.locator(".log-lines li.warn").count()) === 0 && (await page.locator(".log-lines li.error").count()) > 0, "errors only");
  await topic("/imu/data").click();
  await page.getByRole("menuitem", { name: "Message" }).click();
  const leaf = page.locator(".leaf", { hasText: "9.8" }).or(page.locator(".leaf", { hasText: "9.7" })).or(page.locator(".leaf", { hasText: "9.9" })).first();
  await leaf.waitFor();
  await leaf.dragTo(page.locator(".plot-row"));
  await until(async () => (await page.locator(".line-name").count()) === 2, "a second line by dropping a value");
  await page.locator(".panel.message select").selectOption("Definition");
  await until(async () => /geometry_msgs\/Quaternion orientation/.test(await page.locator(".definition").textContent()), "the definition");
  await page.locator(".panel.message select").selectOption("QoS");
  await until(async () => /offered_qos_profiles/.test(await page.locator(".definition").textContent()), "the QoS");

  // The same moment elsewhere, from the link.
  await page.keyboard.press("Escape");
  await page.locator(".ruler").focus();
  await page.keyboard.press("l");
  await until(async () => hash(page).get("at") !== null && Math.abs(Number(BigInt(/** @type {string} */ (hash(page).get("at"))) - began) / 1e9 - 9.9) < 0.02, "the moment is in the link");
  assert.deepEqual(hash(page).getAll("p").map((text) => text.split(" ")[0]), ["image", "points", "log", "message", "plot"].sort((a, b) => order(page, a) - order(page, b)));
  const link = page.url().slice(server.at.length + 1);
  await close();
  const other = await open(server.at, link);
  await until(async () => (await colours(other.page.locator(".panel.image canvas"))) > 8 && (await colours(other.page.locator("canvas.plot"))) > 2, "the same panels");
  await settled(other.page);
  assert.ok(Math.abs((await head(other.page)) - 9.9) < 0.02);
  assert.equal(await other.page.locator(".panel, .plot-row").count(), 5);
  await other.page.locator(".panel.log header button").last().click();
  await until(async () => hash(other.page).getAll("p").length === 4, "a closed panel leaves the link");
  await other.close();
});

/** @param {any} page @param {string} kind */
const order = (page, kind) => hash(page).getAll("p").findIndex((text) => text.startsWith(kind));

test("a range: its sums, its file, and lines that do what they say", async () => {
  const { page, close } = await open(server.at, "#/drive?p=");
  await drawn(page);
  const [a, b] = [await placeOf(lane(page, FRONT), 5), await placeOf(lane(page, FRONT), 8)];
  await page.keyboard.down("Shift");
  await page.mouse.move(a.x, a.y);
  await page.mouse.down();
  await page.mouse.move(b.x, b.y, { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  const range = page.locator(".range");
  const imu = page.locator('.range[aria-busy="false"] tbody tr', { hasText: "/imu/data" }).locator("td").nth(2);
  await until(async () => (await imu.count()) === 1 && Math.abs(Number(await imu.textContent()) - 600) < 20, "three seconds of 200 Hz");
  await range.locator('thead input[type="checkbox"]').uncheck();
  await range.locator('tbody input[value="/imu/data"]').check();
  const link = range.locator("a.main");
  await link.waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
  const file = path.join(folder("download"), "range.mcap");
  await download.saveAs(file);
  const info = JSON.parse(await run(LIVEBAG, "info", file, "--json"));
  assert.deepEqual(info.topics.map((/** @type {{name: string}} */ topic) => topic.name), ["/imu/data"]);
  const count = info.topics[0].message_count;
  assert.ok(Math.abs(Number(await imu.textContent()) - count) <= 2, "the file has what the table says");

  const copied = async (/** @type {string} */ name) => {
    await page.evaluate(() => navigator.clipboard.writeText(""));
    await range.getByRole("button", { name, exact: true }).click();
    let text = "";
    await until(async () => (text = await page.evaluate(() => navigator.clipboard.readText())) !== "", `${name} is copied`);
    return text;
  };
  const shell = path.join(folder("shell"), "bin");
  writeFileSync(shell, `#!/bin/sh\nexec "${LIVEBAG}" "$@"\n`, { mode: 0o755 });
  const query = (await copied("livebag query")).replace(/^livebag/, shell).replace(/-o \S+$/, `-o ${file}.query`);
  execFileSync("sh", ["-c", query], { stdio: "ignore" });
  assert.equal(JSON.parse(await run(LIVEBAG, "info", `${file}.query`, "--json")).message_count, count, query);
  const python = await copied("Python");
  assert.match(python, /livebag\.open\("http:\/\/127\.0\.0\.1:\d+\/drive"\)\n.*run\.history\(\d+, \d+, \["\/imu\/data"\]\)/);
  const curl = (await copied("curl")).replace(/-o \S+$/, `-s -o ${file}.curl`);
  if (existsSync("/usr/bin/curl")) {
    execFileSync("sh", ["-c", curl]);
    assert.equal(statSync(`${file}.curl`).size, statSync(file).size, curl);
  }
  const foxglove = new URL(await range.getByRole("link", { name: "Foxglove" }).getAttribute("href"));
  const source = foxglove.searchParams.get("ds.url") ?? "";
  const head = await fetch(source, { headers: { Range: "bytes=0-7" } });
  assert.equal(Buffer.from(await head.arrayBuffer()).toString("hex"), "894d434150300d0a", "viewers find an MCAP file");
  assert.ok(await range.getByRole("link", { name: "Rerun" }).getAttribute("href"));
  await page.locator(".ruler").focus();
  await page.keyboard.press("Escape");
  await until(async () => !(await range.isVisible()), "Escape forgets the range");
  await close();
});

test("a live recording: the newest, its age, and within a second what is wrong", async () => {
  const live = folder("live");
  const recorder = drive(path.join(live, "now"));
  await until(async () => existsSync(path.join(live, "now", "container.yaml")), "the recorder has begun");
  const { at, stop } = await serve(live);
  const { page, close } = await open(at, "#/now");
  const verdict = page.locator(".verdict");
  await until(async () => /Recording well/.test(await verdict.textContent()), "it is recording well");
  const row = page.locator('.row[data-topic="/gps/fix"]');
  await until(async () => /^[45]\.\d Hz$/.test(await row.locator(".figures span").first().textContent()), "a rate now");
  await until(async () => /newest, .* old/.test(await page.locator(".follow").textContent()), "it follows");
  const picture = page.locator(".panel.image canvas").first();
  const pixels = () => picture.evaluate((/** @type {HTMLCanvasElement} */ canvas) => canvas.toDataURL().length);
  const first = await pixels();
  await until(async () => (await pixels()) !== first, "the picture moves");
  const push = page.locator(".health .pushed");
  assert.equal(await push.isVisible(), false, "nothing is said of a push that there is not");
  // What a recorder tells that pushes.
  await page.route("**/v1/bags/now/events", async (route) => {
    const reader = (await fetch(`${at}/v1/bags/now/events`)).body?.getReader();
    let event = "";
    while (!event.includes("\n\n")) event += new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
    const status = JSON.parse(/data: (.*)/.exec(event)?.[1] ?? "");
    status.push = { target: "s3://fleet/robot7", state: "failed", paused: true, size_bytes: 3.4e9, stored_bytes: 1.2e9, error: "the store is full" };
    await route.fulfill({ contentType: "text/event-stream", body: `event: status\ndata: ${JSON.stringify(status)}\n\n` });
  });
  await page.reload();
  await until(async () => /pushed: 1\.20? GB of 3\.40? GB to s3:\/\/fleet\/robot7; paused/.test(await push.textContent()) && /pushing fails: the store is full/.test(await verdict.textContent()), "it tells how far it is pushed, and why no further");
  await page.unroute("**/v1/bags/now/events");
  await until(async () => /Recording well/.test(await verdict.textContent()) && !(await push.isVisible()), "a push that is none is not told");
  recorder.tell("lose /imu/data 25");
  await until(async () => /lost/.test(await verdict.textContent()) && (await page.locator('.row[data-topic="/imu/data"] .lost').textContent()) === "25", "losses are told");
  recorder.tell("stall /gps/fix");
  await until(async () => /stalled: \/gps\/fix/.test(await verdict.textContent()), "a stalled stream is told");
  recorder.tell("go /gps/fix");
  await until(async () => !/stalled/.test(await verdict.textContent()), "and that it goes on");
  // Nothing moves but the live edge: a playhead that was set stays.
  await page.keyboard.press("Home");
  await until(async () => (await head(page)) === 0 && /Follow/.test(await page.locator(".follow").textContent()), "it stays where it was set");
  await page.keyboard.press("f");
  await until(async () => (await head(page)) > 1, "it follows again");
  await recorder.end();
  await until(async () => (await page.locator(".summary .state").textContent()) === "closed" && !(await page.locator(".health").isVisible()), "it ended");
  await close();
  stop();
});

test("a phone: nothing is wider than the screen, and fingers scrub", async () => {
  const { page, close } = await open(server.at, "#/drive", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
  await drawn(page);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
  const ruler = await page.locator("canvas.ruler").boundingBox();
  await page.touchscreen.tap(ruler.x + ruler.width / 2, ruler.y + 12);
  await until(async () => Math.abs((await head(page)) - SECONDS / 2) < 1, "a tap moves the playhead");
  await page.locator(".home").click();
  await page.locator(".bags a").first().waitFor();
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
  await close();
});

test("everything has a name for those who do not see it, and can be reached by Tab", async () => {
  const { page, close } = await open(server.at, "#/drive");
  await drawn(page);
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("button, select, input, a, canvas[role]")]
    .filter((element) => !(element.getAttribute("aria-label") ?? element.textContent ?? "").trim() && !element.closest("label"))
    .map((element) => element.outerHTML));
  assert.deepEqual(unnamed, []);
  const reached = new Set();
  for (let step = 0; step < 60; step += 1) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent?.trim()));
  }
  for (const name of ["Play (Space)", "Playhead", "Filter topics by name or type", FRONT, `Close ${FRONT}`]) assert.ok(reached.has(name), `${name} is reached`);
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await close();
});
