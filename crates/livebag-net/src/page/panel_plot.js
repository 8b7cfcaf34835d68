// Numeric fields over time, under the lanes and on their axis. The server sends no more than there are pixels.

/** @import { Session } from "./session.js" */
/** @import { PanelSpec, Series, SeriesField } from "./types.js" */

import * as api from "./api.js";
import { addDrop, replacePanel } from "./choice.js";
import { colour, lineColour, onColours } from "./colours.js";
import { fill, h, onceAFrame, say } from "./dom.js";
import { plain } from "./format.js";
import { addGestures, alongAxis } from "./gestures.js";
import { sayAt } from "./hover.js";
import { isAbort } from "./loader.js";

const HEIGHT = 132;
const MARGIN = 10;
/** Points of exact values are drawn where they are this far apart, in pixels. */
const DOT_PIXELS = 6;

/**
 * A line: the times of its points, and between which values the field was.
 * @typedef {{topic: string, field: string, times: Float64Array, low: (number | null)[], high: (number | null)[], first: (number | null)[], last: (number | null)[], isExact: boolean}} Line
 */

/** @param {Session} session @param {Series} series @param {SeriesField} field @returns {Line} */
function lineOf(session, series, field) {
  const start = session.since(series.start_time);
  const { topic } = series;
  if (series.exact) {
    const values = field.values ?? [];
    const times = Float64Array.from(field.times ?? [], (time) => session.since(time));
    return { topic, field: field.field, times, low: values, high: values, first: values, last: values, isExact: true };
  }
  const [low, high] = [field.min ?? [], field.max ?? []];
  const times = Float64Array.from(low, (_, at) => start + (at + 0.5) * series.bin_nanos);
  return { topic, field: field.field, times, low, high, first: field.first ?? low, last: field.last ?? high, isExact: false };
}

/** @param {Session} session @param {PanelSpec} spec @param {AbortSignal} signal */
export function plotPanel(session, spec, signal) {
  const canvas = h("canvas", { className: "plot", role: "img", "aria-label": `Plot of ${spec.sources.map(({ topic, field }) => `${topic} ${field}`).join(", ")}` });
  const problem = h("p", { className: "problem", hidden: true });
  const values = spec.sources.map(() => h("span", { className: "now" }));
  const drop = (/** @type {number} */ at) => {
    const sources = spec.sources.filter((_, other) => other !== at);
    replacePanel(session, spec, sources.length === 0 ? null : { kind: "plot", sources });
  };
  const names = spec.sources.map(({ topic, field }, at) => h("div", { className: "line-name", title: `${topic} ${field}` },
    h("i", { className: `swatch line-${at % 8}` }),
    h("span", { className: "field" }, h("span", { className: "of" }, `${topic} `), field), values[at],
    h("button", { type: "button", className: "icon", title: "Remove this line", "aria-label": `Remove ${topic} ${field}`, onclick: () => drop(at) }, "×")));
  const note = h("p", { className: "quiet", hidden: true });
  const scale = h("div", { className: "figures scale" });
  const element = h("div", { className: "row plot-row", "aria-label": "Plot" }, h("div", { className: "line-names" }, ...names, note, problem), canvas, scale);

  /** @type {Line[]} */
  let lines = [];
  const draw = onceAFrame(() => {
    const context = alongAxis(canvas, session, HEIGHT);
    const [low, high] = extent(session, lines);
    const y = (/** @type {number} */ value) => HEIGHT - MARGIN - ((value - low) / (high - low)) * (HEIGHT - 2 * MARGIN);
    drawGrid(context, session.axis.width, low, high, y);
    lines.forEach((line) => {
      const at = spec.sources.findIndex(({ topic, field }) => topic === line.topic && field === line.field);
      drawLine(context, session, line, y, lineColour(at));
    });
    fill(scale, ...(lines.length > 0 && Number.isFinite(low) ? [h("span", {}, plain(shortened(high))), h("span", {}, plain(shortened(low)))] : []));
    tell();
  });

  const tell = () => spec.sources.forEach(({ topic, field }, at) => {
    const line = lines.find((one) => one.topic === topic && one.field === field);
    const value = line ? valueAt(line, session.head) : null;
    say(/** @type {Element} */ (values[at]), value === null ? "" : plain(shortened(value)));
  });

  let asking = new AbortController();
  const load = async () => {
    asking.abort();
    const own = (asking = new AbortController());
    const both = AbortSignal.any([own.signal, signal]);
    const { axis } = session;
    const between = { from: session.at(Math.max(axis.from, axis.start)).toString(), to: session.at(Math.min(axis.to, axis.end)).toString(), bins: session.bins };
    const topics = [...new Set(spec.sources.map(({ topic }) => topic))];
    try {
      const answers = await Promise.all(topics.map((topic) => {
        const field = spec.sources.filter((source) => source.topic === topic).map((source) => source.field);
        return api.series(session.info.name, { topic, field, ...between }, both);
      }));
      lines = answers.flatMap((series) => series.fields.map((field) => lineOf(session, series, field)));
      problem.hidden = true;
      const every = Math.max(...answers.map((series) => series.every ?? 1));
      note.hidden = every === 1;
      say(note, `one message of ${every}: zoom in for all`);
    } catch (error) {
      if (isAbort(error)) return;
      say(problem, error instanceof Error ? error.message : String(error));
      problem.hidden = false;
    }
    if (own === asking) element.ariaBusy = String(session.isBehind);
    draw();
  };

  const on = (/** @type {string} */ kind, /** @type {() => void} */ listener) => session.addEventListener(kind, listener, { signal });
  on("view", () => {
    if (session.isBehind) element.ariaBusy = "true";
    draw();
  });
  on("timeline", () => void load());
  on("head", tell);
  onColours(draw, signal);
  addGestures(canvas, session, "pan");
  sayAt(canvas, (x) => lines.flatMap((line) => {
    const value = valueAt(line, session.axis.time(x));
    return value === null ? [] : [`${line.field} ${plain(shortened(value))}`];
  }));
  addDrop(element, session, (dropped) => {
    const fields = dropped.sources.filter(({ field }) => field !== "");
    if (fields.length > 0) replacePanel(session, spec, { kind: "plot", sources: [...spec.sources, ...fields] });
  });
  element.ariaBusy = "true";
  // Before the axis has its width, the lanes' first answer is waited for.
  if (session.timeline) void load();
  return element;
}

/** @param {number} value */
const shortened = (value) => Number(value.toPrecision(5));

/** Lowest and highest value in view, with some air. @param {Session} session @param {Line[]} lines @returns {[number, number]} */
function extent(session, lines) {
  let [low, high] = [Infinity, -Infinity];
  const { from, to } = session.axis;
  for (const line of lines) {
    line.times.forEach((time, at) => {
      const [least, most] = [line.low[at], line.high[at]];
      if (time < from || time > to || least === null || least === undefined || most === null || most === undefined) return;
      low = Math.min(low, least);
      high = Math.max(high, most);
    });
  }
  if (low > high) return [0, 1];
  const air = (high - low) * 0.04 || Math.abs(high) * 0.05 || 1;
  return [low - air, high + air];
}

/** @param {Line} line @param {number} time the last value up to then */
function valueAt(line, time) {
  let [low, high] = [0, line.times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((line.times[middle] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  return line.last[low - 1] ?? null;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} width
 * @param {number} low
 * @param {number} high
 * @param {(value: number) => number} y
 */
function drawGrid(context, width, low, high, y) {
  const rough = (high - low) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  context.font = "10px system-ui, sans-serif";
  context.fillStyle = colour("muted");
  context.strokeStyle = colour("grid");
  context.beginPath();
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
    const at = Math.round(y(value)) + 0.5;
    context.moveTo(0, at);
    context.lineTo(width, at);
    context.fillText(plain(Number(value.toPrecision(6))), 4, at - 3);
  }
  context.stroke();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Session} session
 * @param {Line} line
 * @param {(value: number) => number} y
 * @param {string} stroke
 */
function drawLine(context, session, line, y, stroke) {
  const { axis } = session;
  context.strokeStyle = stroke;
  context.fillStyle = stroke;
  context.lineWidth = 1.25;
  context.beginPath();
  let [isDown, before, dots] = [false, -Infinity, 0];
  // A line does not cross gaps: an empty bin, or a pause much longer than the usual interval.
  const usual = line.times.length > 2 ? median(line.times) : Infinity;
  line.times.forEach((time, at) => {
    const [low, high, first, last] = [line.low[at], line.high[at], line.first[at], line.last[at]];
    if (low === null || low === undefined || high === null || high === undefined) {
      isDown = false;
      return;
    }
    const x = axis.x(time);
    if (x < -50 || x > axis.width + 50) {
      isDown = false;
      before = time;
      return;
    }
    if (time - before > usual * 4) isDown = false;
    before = time;
    dots += 1;
    if (isDown) context.lineTo(x, y(first ?? low));
    else context.moveTo(x, y(first ?? low));
    isDown = true;
    if (line.isExact) return;
    context.lineTo(x, y(low));
    context.lineTo(x, y(high));
    context.lineTo(x, y(last ?? high));
  });
  context.stroke();
  context.lineWidth = 1;
  if (!line.isExact || dots === 0 || axis.width / dots < DOT_PIXELS) return;
  line.times.forEach((time, at) => {
    const [x, value] = [axis.x(time), line.low[at]];
    if (value !== null && value !== undefined && x >= -2 && x <= axis.width + 2) context.fillRect(x - 1.5, y(value) - 1.5, 3, 3);
  });
}

/** The usual distance of two times. @param {Float64Array} times */
function median(times) {
  const steps = Float64Array.from(times.subarray(1), (time, at) => time - (times[at] ?? 0)).sort();
  return steps[steps.length >> 1] ?? Infinity;
}
