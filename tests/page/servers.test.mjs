// Who may look, and at whose recordings: tokens, viewers of the server's own origin, other robots.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { after, before, test } from "node:test";
import { browser, colours, endAll, folder, LIVEBAG, MAKE_DRIVE, open, run, serve, until } from "./browser.mjs";
import { drawn } from "./view.mjs";

/** @type {string} */
let runs;

before(async () => {
  runs = folder("guarded");
  await run(MAKE_DRIVE, path.join(runs, "drive"), "10");
});
after(async () => {
  await browser.close();
  endAll();
});

/** Whether the command takes part in Zenoh. */
function hasZenoh() {
  // An endpoint that is refused: the answer comes at once.
  const { stderr } = spawnSync(LIVEBAG, ["robots", "--zenoh-listen", "tcp/0.0.0.0:0"], { encoding: "utf8" });
  return !stderr.includes("without Zenoh");
}

/** A port that nobody listens at. @returns {Promise<number>} */
async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (listener.address());
  listener.close();
  return port;
}

test("with a token: a form, and the token in no address", async () => {
  const secret = "a-token-of-some-length-1234";
  const file = path.join(folder("secret"), "token");
  writeFileSync(file, secret, { mode: 0o600 });
  const { at, stop } = await serve(runs, "--token-file", file);
  const { page, asked, close } = await open(at, "#/drive");
  await page.locator(".login input").fill("not-the-token-of-this-server");
  await page.keyboard.press("Enter");
  await until(async () => /does not accept this token/.test(await page.locator(".login").textContent()), "a wrong token is refused");
  await page.locator(".login input").fill(secret);
  await page.keyboard.press("Enter");
  await drawn(page);
  await until(async () => (await colours(page.locator(".panel.image canvas").first())) > 8, "pictures with the token");
  await page.reload();
  await drawn(page);
  await page.keyboard.press("[");
  const range = page.locator(".range");
  await page.locator('.range[aria-busy="false"] tbody input[value="/odom"]').waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), (async () => {
    await range.locator('thead input[type="checkbox"]').uncheck();
    await range.locator('tbody input[value="/odom"]').check();
    await range.locator("button.main").click();
  })()]);
  assert.ok(readFileSync(await download.path()).subarray(0, 8).equals(Buffer.from("894d434150300d0a", "hex")));
  assert.deepEqual(asked.filter((url) => url.includes(secret)), []);
  assert.ok(!page.url().includes(secret));
  assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
  await close();
  stop();
});

test("with a token: the server's own viewer reads files and live sockets by the login, and no other page does", async () => {
  const secret = "another-token-of-some-length";
  const file = path.join(folder("secret-viewer"), "token");
  writeFileSync(file, secret, { mode: 0o600 });
  const viewer = folder("viewer");
  writeFileSync(path.join(viewer, "index.html"), '<!doctype html><title>viewer</title><p id="file"></p><p id="socket"></p><script src="viewer.js"></script>');
  // As viewers do: a range of a remote file, a Foxglove WebSocket, and neither with a token.
  writeFileSync(path.join(viewer, "viewer.js"), `
    const source = new URLSearchParams(location.search).get("ds.url");
    const say = (id, text) => (document.getElementById(id).textContent = text);
    const socketUrl = source.startsWith("ws") ? source : location.origin.replace(/^http/, "ws") + "/live/drive";
    fetch(source.startsWith("ws") ? "/bags/drive.mcap" : source, { headers: { Range: "bytes=1-4" } })
      .then(async (answer) => say("file", answer.status + " " + (await answer.text())));
    const socket = new WebSocket(socketUrl, ["foxglove.websocket.v1"]);
    socket.onmessage = ({ data }) => typeof data === "string" && JSON.parse(data).op === "serverInfo" && say("socket", "open");
    socket.onerror = () => say("socket", "refused");`);
  const { at, stop } = await serve(runs, "--token-file", file, "--viewer", viewer);
  const { page, asked, close } = await open(at, "#/drive?p=");
  const shows = async (/** @type {any} */ tab, /** @type {string} */ id, /** @type {RegExp} */ what) =>
    until(async () => what.test(await tab.locator(`#${id}`).textContent()), `the viewer's ${id}: ${what}`);
  // Before the login nothing is open, whoever asks.
  const stranger = await page.context().newPage();
  await stranger.goto(`${at}/viewer/?ds.url=${encodeURIComponent(`${at}/bags/drive.mcap`)}`);
  await shows(stranger, "file", /^401 /);
  await shows(stranger, "socket", /refused/);
  await stranger.close();

  await page.locator(".login input").fill(secret);
  await page.keyboard.press("Enter");
  await drawn(page);
  await page.locator(".ruler").focus();
  await page.keyboard.press("[");
  const link = page.locator('.range[aria-busy="false"]').getByRole("link", { name: "Viewer" });
  const [tab] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
  await shows(tab, "file", /^206 MCAP$/);
  await shows(tab, "socket", /^open$/);
  assert.ok(!tab.url().includes(secret));
  await tab.close();

  // The same viewer on another port is of another origin: the browser sends the cookie there, and this server does
  // not take it.
  const other = await serve(runs, "--viewer", viewer);
  const foreign = await page.context().newPage();
  await foreign.goto(`${other.at}/viewer/?ds.url=${encodeURIComponent(`${at}/bags/drive.mcap`)}`);
  await shows(foreign, "file", /^401 /);
  await foreign.goto(`${other.at}/viewer/?ds.url=${encodeURIComponent(`${at.replace(/^http/, "ws")}/live/drive`)}`);
  await shows(foreign, "file", /^206 MCAP$/);
  await shows(foreign, "socket", /^refused$/);
  await foreign.close();
  other.stop();
  assert.deepEqual(asked.filter((url) => url.includes(secret)), []);
  await close();
  stop();
});

test("recordings of other robots are in the list, with the command that reads them", { skip: hasZenoh() ? false : "SKIPPED: this build has no Zenoh" }, async () => {
  const [here, there] = [folder("here"), folder("there")];
  await run(MAKE_DRIVE, path.join(here, "own"), "1");
  await run(MAKE_DRIVE, path.join(there, "patrol"), "2");
  const endpoint = `tcp/127.0.0.1:${await freePort()}`;
  const robot = await serve(there, "--zenoh", "--robot", "r2", "--zenoh-listen", endpoint);
  const { at, stop } = await serve(here, "--zenoh", "--robot", "r1", "--zenoh-connect", endpoint);
  const { page, close } = await open(at, "");
  const row = page.locator(".bags tbody tr.of-robot");
  await row.waitFor();
  assert.match(await row.locator("th").textContent(), /^r2 patrol/);
  await until(async () => /closed/.test(await row.locator("th").textContent()) && (await row.locator("td").nth(3).textContent()) === "9", "its state and topics");
  assert.equal(await page.locator(".bags tbody tr").count(), 2);
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await row.getByRole("button", { name: "livebag query" }).click();
  let command = "";
  await until(async () => (command = await page.evaluate(() => navigator.clipboard.readText())) !== "", "the command is copied");
  const file = path.join(folder("asked"), "patrol.mcap");
  const words = command.split(" ");
  assert.deepEqual(words.slice(0, 4), ["livebag", "query", "zenoh/r2/patrol", "latest"]);
  await run(LIVEBAG, ...words.slice(1, -1), file, "--zenoh-connect", endpoint);
  assert.equal(JSON.parse(await run(LIVEBAG, "info", file, "--json")).topics.length, 9);
  await page.locator(".search").fill("patrol");
  await until(async () => !(await page.locator(".bags tbody tr", { hasText: "own" }).isVisible()) && (await row.isVisible()), "it is found by name");
  robot.stop();
  await until(async () => (await row.count()) === 0, "a robot that has gone leaves the list");
  await close();
  stop();
});
