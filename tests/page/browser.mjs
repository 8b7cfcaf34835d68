// Shared by the page's tests: servers, recordings, and a browser that reports errors.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { createInterface } from "node:readline";

/** @param {string} name */
function wanted(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: run tests/page/run.sh`);
  return value;
}

export const LIVEBAG = wanted("LIVEBAG");
export const MAKE_DRIVE = wanted("LIVEBAG_MAKE_DRIVE");
export const FOLDER = wanted("LIVEBAG_PAGE_FOLDER");
const { chromium } = createRequire(path.join(wanted("LIVEBAG_PAGE_NPM"), "package.json"))("playwright-core");

/** WebGL by SwiftShader: machines that test have no graphics card. */
const FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-background-networking", "--disable-component-update"];

/** @type {{kill: (signal?: NodeJS.Signals) => unknown}[]} */
const processes = [];
process.on("exit", endAll);

/** Ends what a test that failed has left running: Node would wait for it. */
export function endAll() {
  processes.forEach((one) => one.kill("SIGKILL"));
}

/** A process that ends with the tests. @param {string} program @param {string[]} args */
export function start(program, args) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  processes.push(child);
  return child;
}

/** Runs a program to its end. @param {string} program @param {...string} args @returns {Promise<string>} what it printed */
export async function run(program, ...args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  let [said, errors] = ["", ""];
  child.stdout.on("data", (data) => (said += data));
  child.stderr.on("data", (data) => (errors += data));
  const [code] = await once(child, "close");
  assert.ok(code === 0 || code === 3, `${program} ${args.join(" ")} ended with ${code}: ${errors}`);
  return said;
}

/** An empty folder. @param {string} name */
export function folder(name) {
  const made = path.join(FOLDER, name);
  rmSync(made, { recursive: true, force: true });
  mkdirSync(made, { recursive: true });
  return made;
}

/** A server on a port of its own. @param {string} served @param {...string} more @returns {Promise<{at: string, pid: number, stop: () => void}>} */
export async function serve(served, ...more) {
  const child = start(LIVEBAG, ["serve", served, "--listen", "127.0.0.1:0", "--json", ...more]);
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /https?:\/\/127\.0\.0\.1:\d+/.exec(line);
    if (found) return { at: found[0], pid: child.pid ?? 0, stop: () => child.kill("SIGINT") };
  }
  throw new Error("the server ended before it said where it listens");
}

/** A live drive; `tell` gives it a command. @param {string} directory @param {"live" | "live-slow"} [mode] */
export function drive(directory, mode = "live") {
  const child = start(MAKE_DRIVE, [directory, mode]);
  return {
    /** @param {string} line */
    tell: (line) => child.stdin.write(`${line}\n`),
    async end() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}

/** No test depends on it: it only ends one that would hang, on a machine that is busy with others. */
const DEADLINE_MILLIS = 90000;

export const browser = await chromium.launch({ executablePath: wanted("LIVEBAG_BROWSER"), args: FLAGS, timeout: DEADLINE_MILLIS });

/**
 * A tab at an address of the page. Errors in the browser, and requests to other servers, fail the test in `close`.
 * @param {string} at
 * @param {string} hash
 * @param {object} [options]
 */
export async function open(at, hash, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, timezoneId: "UTC", colorScheme: "dark", ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: at });
  const page = await context.newPage();
  /** @type {string[]} */
  const complaints = [];
  /** @type {string[]} */
  const asked = [];
  page.on("console", (/** @type {any} */ said) => {
    // The page shows requests that a server refuses; the browser logs them, too.
    if (said.type() === "error" && !/Failed to load resource/.test(said.text())) complaints.push(said.text());
  });
  page.on("pageerror", (/** @type {Error} */ error) => complaints.push(error.stack ?? String(error)));
  page.on("request", (/** @type {any} */ request) => asked.push(request.url()));
  page.setDefaultTimeout(DEADLINE_MILLIS);
  await page.goto(`${at}/${hash}`);
  return {
    page,
    asked,
    async close() {
      await context.close();
      assert.deepEqual(complaints, [], "the browser complained");
      assert.deepEqual(asked.filter((url) => !url.startsWith(at) && !url.startsWith("blob:")), [], "the page asked another server");
    },
  };
}

/** Waits until something holds. @param {() => Promise<unknown>} holds @param {string} what @param {number} [millis] */
export async function until(holds, what, millis = DEADLINE_MILLIS) {
  const end = Date.now() + millis;
  for (;;) {
    if (await holds()) return;
    assert.ok(Date.now() < end, `not within ${millis} ms: ${what}`);
    await new Promise((done) => setTimeout(done, 25));
  }
}

/** Different colours in a canvas: 1 where nothing is drawn. @param {any} canvas */
export const colours = (canvas) => canvas.evaluate((/** @type {HTMLCanvasElement} */ element) => {
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [64, 64];
  const context = /** @type {CanvasRenderingContext2D} */ (copy.getContext("2d"));
  context.drawImage(element, 0, 0, 64, 64);
  return new Set(new Uint32Array(context.getImageData(0, 0, 64, 64).data.buffer)).size;
});
