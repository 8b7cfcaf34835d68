// How many messages there are where, as bars.

import { colour } from "./colours.js";

/** Messages in a bin below which each is a bar of its own, and above which one more or less does not show. */
const MEAN_SINGLE = 0.3;
const MEAN_MANY = 4;

/**
 * Where some bins have one message more than their neighbours only because of where they begin, the mean of some of
 * them: an even rate looks even. Single messages, and bins of many, stay as they are.
 * @param {number[]} counts
 * @returns {ArrayLike<number>}
 */
export function smoothed(counts) {
  const first = counts.findIndex((value) => value > 0);
  const last = counts.findLastIndex((value) => value > 0);
  const sums = new Float64Array(counts.length + 1);
  counts.forEach((value, at) => (sums[at + 1] = (sums[at] ?? 0) + value));
  const mean = (sums[counts.length] ?? 0) / Math.max(1, last - first + 1);
  if (mean < MEAN_SINGLE || mean > MEAN_MANY) return counts;
  const reach = Math.ceil(MEAN_MANY / mean / 2);
  return Float32Array.from(counts, (_, at) => {
    if (at < first || at > last) return 0;
    const [from, to] = [Math.max(first, at - reach), Math.min(last, at + reach) + 1];
    return ((sums[to] ?? 0) - (sums[from] ?? 0)) / (to - from);
  });
}

/**
 * Bars of messages per bin, relative to the fullest bin in view.
 * @param {CanvasRenderingContext2D} context
 * @param {ArrayLike<number>} counts
 * @param {(at: number) => number} left of a bin
 * @param {number} width
 * @param {number} height
 */
export function drawDensity(context, counts, left, width, height) {
  let most = 0;
  for (let at = 0; at < counts.length; at += 1) most = Math.max(most, counts[at] ?? 0);
  context.fillStyle = colour("density");
  context.beginPath();
  for (let at = 0; at < counts.length; at += 1) {
    const value = counts[at] ?? 0;
    if (value === 0) continue;
    const [from, to] = [left(at), left(at + 1)];
    if (to < 0 || from > width) continue;
    const bar = 3 + Math.round((value / most) * (height - 9));
    context.rect(from, height - bar, Math.max(1, to - from), bar);
  }
  context.fill();
}
