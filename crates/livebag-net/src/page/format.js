// Numbers and times as people read them.

/** @import { Lost, Cause } from "./types.js" */

export const SECOND = 1e9;

/** @type {Cause[]} */
export const CAUSES = ["transport", "queue", "lapped", "disk", "abandoned"];

/** What a cause means, for those who read it the first time. */
export const CAUSE_TEXT = /** @type {const} */ ({
  transport: "missing in the source's sequence: lost before the recorder",
  queue: "the recorder's queue was full",
  lapped: "overwritten in the stream before the disk had it",
  disk: "refused by the disk",
  abandoned: "given up at the end on request",
});

const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** @param {number} value */
export const count = (value) => integers.format(value);

/** "1 message", "2 messages". @param {number} value @param {string} noun */
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Three digits that count. @param {number} value */
function three(value) {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 999.5 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return at === 0 ? `${Math.round(value)} B` : `${three(value)} ${units[at]}`;
}

/** @param {number | null | undefined} value */
export const bytesPerSecond = (value) => (value === null || value === undefined ? "–" : `${bytes(value)}/s`);

/** @param {number | null | undefined} value */
export function hertz(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? `${three(value / 1000)} kHz` : `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} Hz`;
}

/** A span of time. @param {number | null | undefined} nanos */
export function span(nanos) {
  if (nanos === null || nanos === undefined) return "–";
  const sign = nanos < 0 ? "−" : "";
  const size = Math.abs(nanos);
  if (size < 1e3) return `${sign}${Math.round(size)} ns`;
  if (size < 1e6) return `${sign}${three(size / 1e3)} µs`;
  if (size < SECOND) return `${sign}${three(size / 1e6)} ms`;
  if (size < 60 * SECOND) return `${sign}${three(size / SECOND)} s`;
  const seconds = Math.floor(size / SECOND);
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days > 0) return `${sign}${days} d ${hours} h`;
  if (hours > 0) return `${sign}${hours} h ${String(minutes).padStart(2, "0")} min`;
  return `${sign}${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
}

/** A time after the start: "1:02.100". @param {number} nanos */
export function offset(nanos) {
  const millis = Math.floor(nanos / 1e6);
  const [hours, minutes, seconds] = [Math.floor(millis / 3600000), Math.floor(millis / 60000) % 60, Math.floor(millis / 1000) % 60];
  const rest = `${padded(seconds, 2)}.${padded(millis % 1000, 3)}`;
  return hours > 0 ? `${hours}:${padded(minutes, 2)}:${rest}` : `${minutes}:${rest}`;
}

/** @param {number} value @param {number} digits */
const padded = (value, digits) => String(value).padStart(digits, "0");

/** The time of day here. @param {bigint} time @param {number} [digits] of the second's fraction */
export function clock(time, digits = 3) {
  const date = new Date(Number(time / 1000000n));
  const whole = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => padded(part, 2)).join(":");
  if (digits === 0) return whole;
  const nanos = ((time % 1000000000n) + 1000000000n) % 1000000000n;
  return `${whole}.${nanos.toString().padStart(9, "0").slice(0, digits)}`;
}

/** The day here. @param {bigint} time */
export function day(time) {
  const date = new Date(Number(time / 1000000n));
  return `${date.getFullYear()}-${padded(date.getMonth() + 1, 2)}-${padded(date.getDate(), 2)}`;
}

/** With the day, in UTC, to the nanosecond. @param {bigint} time */
export function exact(time) {
  const iso = new Date(Number(time / 1000000n)).toISOString().slice(0, 19);
  return `${iso}.${(time % 1000000000n).toString().padStart(9, "0")}Z`;
}

/** "36 queue, 3 transport". @param {Lost} lost */
export function causes(lost) {
  return CAUSES.filter((cause) => lost[cause] > 0).map((cause) => `${count(lost[cause])} ${cause}`).join(", ");
}

/** Losses of all causes, also where the sum is not known. @param {Lost} lost */
export const lostSum = (lost) => CAUSES.reduce((sum, cause) => sum + (lost[cause] ?? 0), 0);

/** A value of a message. @param {unknown} value */
export function plain(value) {
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(9)));
  return typeof value === "string" ? value : String(value);
}
