// What the tests look at in a recording's view, and where.

import assert from "node:assert/strict";
import { colours, until } from "./browser.mjs";

/** Length of the drive that most tests look at. */
export const SECONDS = 30;
export const FRONT = "/camera_front/image";

/** @param {any} page @param {string} topic */
export const lane = (page, topic) => page.locator(`.row[data-topic="${topic}"] canvas.lane`);
/** The playhead, in seconds after the start. @param {any} page */
export const head = async (page) => {
  const text = await page.locator(".player .since").textContent();
  const [seconds, minutes = "0"] = text.slice(1).split(":").reverse();
  return Number(minutes) * 60 + Number(seconds);
};
/**
 * Where a moment is on a canvas along the axis, when all is in view.
 * @param {any} canvas
 * @param {number} seconds
 * @param {number} [end] the last message; without it that of the drive: the last of 200 IMU messages a second
 */
export const placeOf = async (canvas, seconds, end = SECONDS - 0.005) => {
  const box = await canvas.boundingBox();
  return { x: box.x + ((seconds + 0.005 * end) / (1.01 * end)) * box.width, y: box.y + box.height / 2, box };
};
/** Waits until the lanes show what the server said of this view. @param {any} page @param {string} [topic] */
export const drawn = async (page, topic = FRONT) => {
  await page.locator('.timeline[aria-busy="false"]').waitFor();
  await until(async () => (await colours(lane(page, topic))) > 1, "lanes are drawn");
};
/** Losses of a lane that have a place. @param {{lost: {count: number}[]}} row */
export const placed = (row) => row.lost.reduce((/** @type {number} */ sum, loss) => sum + loss.count, 0);
/** That the timeline's losses are those of the recording's description. @param {string} at @param {string} name */
export const sumsAgree = async (at, name) => {
  const timeline = await (await fetch(`${at}/v1/bags/${name}/timeline`)).json();
  const info = await (await fetch(`${at}/v1/bags/${name}`)).json();
  for (const row of timeline.topics) {
    const told = info.topics.find((/** @type {{name: string}} */ topic) => topic.name === row.topic);
    assert.equal(placed(row) + row.lost_unplaced.total, told.lost.total, row.topic);
    assert.equal(row.message_counts.reduce((/** @type {number} */ sum, /** @type {number} */ count) => sum + count, 0), told.message_count, row.topic);
  }
  return { timeline, info };
};
/** Names of the open panels, once none shows an earlier moment. @param {any} page */
export const settled = (page) => until(async () => (await page.locator('.panel[aria-busy="true"], .plot-row[aria-busy="true"]').count()) === 0, "all panels show the moment");
/** Lets the browser draw that often. @param {any} page @param {number} count */
export const frames = (page, count) => page.evaluate(async (/** @type {number} */ left) => {
  for (; left > 0; left -= 1) await new Promise(requestAnimationFrame);
}, count);
/** @param {any} page */
export const hash = (page) => new URLSearchParams(page.url().split("?")[1] ?? "");
