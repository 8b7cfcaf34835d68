// The ruler with the hours and minutes, the whole recording above it, and the lines that cross all lanes.

/** @import { Session } from "./session.js" */

import { colour, onColours } from "./colours.js";
import { smoothed } from "./density.js";
import { h, onceAFrame } from "./dom.js";
import { clock, day, span } from "./format.js";
import { addGestures, alongAxis } from "./gestures.js";

const RULER_HEIGHT = 26;
const OVERVIEW_HEIGHT = 26;

/** @param {Session} session */
export function ruler(session) {
  const canvas = h("canvas", {
    className: "ruler", tabIndex: 0, role: "slider", "aria-label": "Playhead",
    title: "Drag to move the playhead, Shift and drag to select a range, wheel to zoom",
  });
  const draw = onceAFrame(() => {
    const { axis } = session;
    const context = alongAxis(canvas, session, RULER_HEIGHT);
    const { times, digits, step } = axis.ticks(session.base, 92);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colour("muted");
    context.strokeStyle = colour("line");
    context.beginPath();
    let dayBefore = "";
    for (const time of times) {
      const x = Math.round(axis.x(time)) + 0.5;
      context.moveTo(x, RULER_HEIGHT - 7);
      context.lineTo(x, RULER_HEIGHT);
      const at = session.at(time);
      const isNewDay = step >= 60e9 && day(at) !== dayBefore && dayBefore !== "";
      dayBefore = day(at);
      context.fillText(isNewDay ? dayBefore : clock(at, digits), x + 4, RULER_HEIGHT - 9);
    }
    context.stroke();
    canvas.setAttribute("aria-valuenow", String(Math.round(session.head / 1e6)));
    canvas.setAttribute("aria-valuetext", `${clock(session.at(session.head))}, ${span(session.head)} after the start`);
  });
  for (const kind of ["view", "head"]) session.on(kind, draw);
  onColours(draw, session.signal);
  addGestures(canvas, session, "scrub");
  return canvas;
}

/** All of the recording in one strip: what is in view is framed; a drag moves the frame. @param {Session} session */
export function overview(session) {
  const canvas = h("canvas", { className: "overview", title: "The whole recording: click or drag to look elsewhere" });
  const draw = onceAFrame(() => {
    const { axis } = session;
    const context = alongAxis(canvas, session, OVERVIEW_HEIGHT);
    const x = (/** @type {number} */ time) => ((time - axis.start) / Math.max(1, axis.end - axis.start)) * axis.width;
    const lanes = session.overview;
    if (lanes) {
      const start = session.since(lanes.start_time);
      const bins = lanes.topics[0]?.message_counts.length ?? 0;
      // Each topic has the same weight at any rate, so that gaps are visible.
      const heights = new Float32Array(bins);
      for (const lane of lanes.topics) {
        const counts = Array.from(smoothed(lane.message_counts));
        let most = 0;
        for (const value of counts) most = Math.max(most, value);
        counts.forEach((value, at) => (heights[at] = (heights[at] ?? 0) + value / (most || 1)));
      }
      let most = 0;
      for (const value of heights) most = Math.max(most, value);
      context.fillStyle = colour("density");
      heights.forEach((value, at) => {
        const [left, right] = [Math.floor(x(start + at * lanes.bin_nanos)), Math.floor(x(start + (at + 1) * lanes.bin_nanos))];
        const height = Math.round((value / (most || 1)) * (OVERVIEW_HEIGHT - 8));
        context.fillRect(left, OVERVIEW_HEIGHT - height, Math.max(1, right - left), height);
      });
      context.fillStyle = colour("lost");
      for (const time of session.losses()) context.fillRect(Math.round(x(time)) - 1, 0, 2, 7);
    }
    const [left, right] = [x(Math.max(axis.from, axis.start)), x(Math.min(axis.to, axis.end))];
    if (!axis.isWhole) {
      context.fillStyle = colour("veil");
      context.fillRect(0, 0, left, OVERVIEW_HEIGHT);
      context.fillRect(right, 0, axis.width - right, OVERVIEW_HEIGHT);
      context.strokeStyle = colour("accent");
      context.strokeRect(left + 0.5, 0.5, Math.max(3, right - left - 1), OVERVIEW_HEIGHT - 1);
    }
    context.fillStyle = colour("head");
    context.fillRect(Math.round(x(session.head)), 0, 1, OVERVIEW_HEIGHT);
  });
  for (const kind of ["view", "head", "timeline"]) session.on(kind, draw);
  onColours(draw, session.signal);

  const move = (/** @type {PointerEvent} */ event) => {
    const { axis } = session;
    const share = (event.clientX - canvas.getBoundingClientRect().left) / axis.width;
    const middle = axis.start + share * (axis.end - axis.start);
    if (axis.isWhole) session.moveHead(middle);
    else axis.show(middle - axis.length / 2, middle + axis.length / 2);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    move(event);
  });
  canvas.addEventListener("pointermove", (event) => event.buttons && move(event));
  return canvas;
}

/** Playhead, pointer and selection, drawn across ruler, lanes and plots. @param {Session} session */
export function crossing(session) {
  const head = h("div", { className: "head-line" });
  const pointer = h("div", { className: "pointer-line", hidden: true });
  const selected = h("div", { className: "selected", hidden: true });
  const element = h("div", { className: "crossing", "aria-hidden": "true" }, selected, pointer, head);
  const draw = onceAFrame(() => {
    const { axis, range } = session;
    const x = axis.x(session.head);
    head.hidden = x < -1 || x > axis.width + 1;
    head.style.transform = `translateX(${x.toFixed(1)}px)`;
    selected.hidden = range === null;
    if (!range) return;
    const [left, right] = [Math.max(-2, axis.x(range.from)), Math.min(axis.width + 2, axis.x(range.to))];
    selected.style.left = `${left}px`;
    selected.style.width = `${Math.max(1, right - left)}px`;
    selected.hidden = right < 0 || left > axis.width;
  });
  for (const kind of ["view", "head", "range"]) session.on(kind, draw);
  return {
    element,
    /** @param {number | null} x */
    point(x) {
      pointer.hidden = x === null;
      if (x !== null) pointer.style.transform = `translateX(${x}px)`;
    },
  };
}
