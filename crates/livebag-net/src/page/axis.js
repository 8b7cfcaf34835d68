// The one time axis: which stretch of a recording is in view, and where a time is on the screen.
// Times are nanoseconds after the recording's first message: exact in a number for 104 days.

import { SECOND } from "./format.js";

const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** The shortest stretch that can be in view. */
const SHORTEST = 1000;

const STEPS = [
  ...Array.from({ length: 27 }, (_, at) => ([1, 2, 5][at % 3] ?? 1) * 10 ** Math.floor(at / 3)),
  ...[1, 2, 5, 10, 15, 30].map((value) => value * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((value) => value * MINUTE),
  ...[1, 2, 3, 6, 12].map((value) => value * HOUR),
  ...[1, 2, 7, 30, 90, 365].map((value) => value * DAY),
];

export class Axis {
  /** What is in view. */
  from = 0;
  to = SECOND;
  /** What there is. */
  start = 0;
  end = SECOND;
  /** CSS pixels. */
  width = 1;
  #changed;

  /** @param {() => void} changed */
  constructor(changed) {
    this.#changed = changed;
  }

  get length() {
    return this.to - this.from;
  }

  /** Whether all of the recording is in view. */
  get isWhole() {
    return this.from <= this.start && this.to >= this.end;
  }

  /** Position of a time in pixels. @param {number} time */
  x(time) {
    return ((time - this.from) / this.length) * this.width;
  }

  /** Time at a position. @param {number} x */
  time(x) {
    return this.from + (x / this.width) * this.length;
  }

  /** @param {number} time */
  inBounds(time) {
    return Math.min(Math.max(time, this.start), this.end);
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    const most = Math.max(this.end - this.start, SHORTEST);
    const length = Math.min(Math.max(to - from, SHORTEST), most * 1.04);
    const margin = Math.min(most * 0.02, length * 0.02);
    const middle = (from + to) / 2;
    const first = Math.min(Math.max(middle - length / 2, this.start - margin), this.end + margin - length);
    if (Math.round(first) === this.from && Math.round(first + length) === this.to) return;
    this.from = Math.round(first);
    this.to = Math.round(first + length);
    this.#changed();
  }

  showAll() {
    const margin = (this.end - this.start) * 0.005;
    this.show(this.start - margin, this.end + margin);
  }

  /** @param {number} nanos */
  pan(nanos) {
    this.show(this.from + nanos, this.to + nanos);
  }

  /** Below 1 shows less. @param {number} factor @param {number} around */
  zoom(factor, around) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  /** Brings a time into view, moving no further than needed. @param {number} time */
  reveal(time) {
    if (time < this.from) this.pan(time - this.from - this.length * 0.1);
    else if (time > this.to) this.pan(time - this.to + this.length * 0.1);
  }

  /**
   * The recording has grown. A view that showed the end follows it.
   * @param {number} end
   */
  grow(end) {
    const grown = end - this.end;
    if (grown <= 0) return;
    const [whole, showsEnd] = [this.isWhole, this.to >= this.end];
    this.end = end;
    if (whole) this.showAll();
    else if (showsEnd) this.pan(grown);
    else this.#changed();
  }

  /** @param {number} width */
  resize(width) {
    if (width === this.width || width < 1) return;
    this.width = width;
    this.#changed();
  }

  /**
   * Where labels stand: at full seconds, minutes, hours of the day here.
   * @param {bigint} base the time at 0
   * @param {number} apart pixels between two labels, at least
   */
  ticks(base, apart) {
    const wanted = (this.length / this.width) * apart;
    const step = STEPS.find((one) => one >= wanted) ?? /** @type {number} */ (STEPS.at(-1));
    const zone = BigInt(new Date(Number(base / 1000000n)).getTimezoneOffset()) * BigInt(MINUTE);
    // The part of the base that decides where full steps are.
    const phase = Number((base - zone) % BigInt(step));
    const first = Math.ceil((this.from + phase) / step) * step - phase;
    const times = [];
    for (let time = first; time <= this.to; time += step) times.push(time);
    const digits = step >= SECOND ? 0 : Math.min(9, Math.ceil(-Math.log10(step / SECOND) - 1e-9));
    return { times, digits, step };
  }
}
