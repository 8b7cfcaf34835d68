// The page, open for long on a recording that is being written: `run.sh watch MINUTES`. Prints the memory of the page,
// the browser and the server once a minute; the last line says whether it stayed flat.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { browser, drive, folder, open, serve, until } from "./browser.mjs";
import { drawn } from "./view.mjs";

const minutes = Number(process.argv[2] ?? 60);
/** After so many minutes it has settled. */
const SETTLED = Math.min(10, Math.ceil(minutes / 4));

/** Resident memory of a process without what it shares with files, MB. @param {string} pid */
function anonymousMegabytes(pid) {
  try {
    const line = /^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    return Number(line?.[1] ?? 0) / 1024;
  } catch {
    return 0; // It has ended.
  }
}

/** A process and all that it has begun. @param {string} pid @returns {string[]} */
function family(pid) {
  const parents = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((child) => {
    try {
      return [child, readFileSync(`/proc/${child}/stat`, "utf8").split(") ")[1]?.split(" ")[1]];
    } catch {
      return [child, ""];
    }
  });
  const grown = [pid];
  for (const one of grown) grown.push(...parents.filter(([, parent]) => parent === one).map(([child]) => String(child)));
  return grown;
}

/** @param {string} name of the browser's processes below this one */
const browsers = (name) => family(String(process.pid)).filter((pid) => {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").startsWith(name);
  } catch {
    return false;
  }
});

const runs = folder("watch");
const recorder = drive(path.join(runs, "now"), "live-slow");
try {
  await until(async () => existsSync(path.join(runs, "now", "container.yaml")), "the recorder has begun");
  const { at, pid, stop } = await serve(runs);
  const { page, close } = await open(at, "#/now?p=image+/camera_front/image&p=points+/lidar/points&p=message+/imu/data&p=log+/rosout&p=plot+/imu/data+angular_velocity.z");
  await drawn(page);
  const session = await page.context().newCDPSession(page);
  console.log("minute\tpage_heap_mb\tnodes\tlisteners\tbrowser_mb\tserver_mb\tmessages\tverdict");
  /** @type {{heap: number, nodes: number, browser: number, server: number}[]} */
  const rows = [];
  for (let minute = 0; minute <= minutes; minute += 1) {
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
    const row = { heap: usedSize / 1e6, nodes, browser: browsers("chrom").reduce((sum, one) => sum + anonymousMegabytes(one), 0), server: anonymousMegabytes(String(pid)) };
    rows.push(row);
    const info = await (await fetch(`${at}/v1/bags/now`)).json();
    const verdict = await page.locator(".verdict").textContent();
    console.log([minute, row.heap.toFixed(2), nodes, jsEventListeners, row.browser.toFixed(0), row.server.toFixed(1), info.message_count, verdict].join("\t"));
    if (minute < minutes) await page.waitForTimeout(60000);
  }
  const median = (/** @type {typeof rows} */ some, /** @type {keyof typeof rows[number]} */ of) => some.map((row) => row[of]).sort((a, b) => a - b)[some.length >> 1] ?? NaN;
  const [early, late] = [rows.slice(SETTLED, SETTLED + 5), rows.slice(-5)];
  const said = /** @type {const} */ (["heap", "nodes", "browser", "server"]).map((of) => `${of} ${median(early, of).toFixed(1)} then ${median(late, of).toFixed(1)}`);
  const isFlat = median(late, "heap") < median(early, "heap") + 5 && median(late, "browser") < median(early, "browser") * 1.15 + 20 && median(late, "server") < median(early, "server") * 1.15 + 10;
  console.log(`${isFlat ? "flat" : "GROWING"}: ${said.join(", ")}`);
  process.exitCode = isFlat ? 0 : 1;
  await close();
  stop();
} finally {
  await recorder.end();
  await browser.close();
}
