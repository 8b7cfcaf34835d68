// What nodes said: /rosout, /diagnostics. Lines of the messages in view, or of those around the playhead if there are
// very many; the playhead's line is marked.

/** @import { PanelPlace } from "./panels.js" */
/** @import { MessageRow } from "./types.js" */
/** @import { Session } from "./session.js" */

import * as api from "./api.js";
import { fill, h, say } from "./dom.js";
import { clock, plural } from "./format.js";
import { isAbort, settled } from "./loader.js";

/** Messages before and after the playhead. */
const BEFORE_MAX = 600;
const AFTER_MAX = 300;
const LEVELS = ["debug", "info", "warn", "error", "fatal"];
/** Of `rcl_interfaces` and `rosgraph_msgs`, whose numbers differ: 10, 20, … and 1, 2, 4, 8, 16. */
const LOG_LEVELS = new Map([[1, 0], [2, 1], [4, 2], [8, 3], [16, 4], [10, 0], [20, 1], [30, 2], [40, 3], [50, 4]]);
/** Of `diagnostic_msgs`: OK, WARN, ERROR, STALE. */
const DIAGNOSTIC_LEVELS = [1, 2, 3, 2];

/** @typedef {{time: number, level: number, name: string, text: string}} Line */

/** @param {MessageRow} message @param {number} time @returns {Line[]} */
export function linesOf(message, time) {
  const value = message.value;
  if (!value || typeof value !== "object") return [{ time, level: 3, name: "", text: message.error ?? "" }];
  if (Array.isArray(value.status)) return value.status.map((/** @type {any} */ status) => diagnostic(status, time));
  if (typeof value.message === "string" && "hardware_id" in value) return [diagnostic(value, time)];
  return [{ time, level: LOG_LEVELS.get(Number(value.level)) ?? 1, name: String(value.name ?? ""), text: String(value.msg ?? "") }];
}

/** @param {any} status @param {number} time @returns {Line} */
function diagnostic(status, time) {
  const level = typeof status.level === "string" ? status.level.charCodeAt(0) : Number(status.level);
  return { time, level: DIAGNOSTIC_LEVELS[level] ?? 1, name: String(status.name ?? ""), text: String(status.message ?? "") };
}

/**
 * The range in view, unless it has too many messages; the lane knows their number.
 * @param {Session} session
 * @param {string} topic
 */
export function around(session, topic) {
  const { axis, timeline, head } = session;
  let [from, to] = [axis.inBounds(axis.from), axis.inBounds(axis.to)];
  const counts = timeline?.topics.find((lane) => lane.topic === topic)?.message_counts;
  if (!counts || !timeline) return { from, to, isAll: true };
  const start = session.since(timeline.start_time);
  const middle = Math.min(Math.max(Math.floor((head - start) / timeline.bin_nanos), 0), counts.length - 1);
  let isAll = true;
  for (let at = middle, sum = 0; at >= 0; at -= 1) {
    sum += counts[at] ?? 0;
    if (sum <= BEFORE_MAX) continue;
    from = Math.max(from, start + Math.min(at + 1, middle) * timeline.bin_nanos);
    isAll = false;
    break;
  }
  for (let at = middle + 1, sum = 0; at < counts.length; at += 1) {
    sum += counts[at] ?? 0;
    if (sum <= AFTER_MAX) continue;
    to = Math.min(to, start + at * timeline.bin_nanos);
    isAll = false;
    break;
  }
  return { from, to: Math.max(to, from), isAll };
}

/** @param {PanelPlace} place */
export function logPanel({ session, spec, body, note, tools, signal, on, busy }) {
  const topic = spec.sources[0]?.topic ?? "";
  const list = h("ol", { className: "log-lines", tabIndex: 0, "aria-label": `Lines of ${topic}` });
  const problem = h("p", { className: "problem", hidden: true });
  body.append(problem, list);
  const level = h("select", { "aria-label": "Lowest level" }, ...LEVELS.map((name, at) => h("option", { value: String(at), selected: at === 1 }, name)));
  tools.append(level);

  /** @type {Line[]} */
  let lines = [];
  let asking = new AbortController();
  /** What the lines are of. */
  let loaded = { from: 0, to: 0, isAll: true };

  const load = async () => {
    asking.abort();
    const own = (asking = new AbortController());
    const asked = around(session, topic);
    const [from, to] = [session.at(asked.from).toString(), session.at(asked.to).toString()];
    /** @type {Line[]} */
    const found = [];
    try {
      const both = AbortSignal.any([own.signal, signal]);
      for await (const message of api.history(session.info.name, { topic: [topic], from, to }, both)) {
        found.push(...linesOf(message, session.since(message.log_time)));
        if (found.length > 10 * (BEFORE_MAX + AFTER_MAX)) break;
      }
      problem.hidden = true;
    } catch (error) {
      if (isAbort(error)) return;
      say(problem, error instanceof Error ? error.message : String(error));
      problem.hidden = false;
    }
    if (own.signal.aborted) return;
    lines = found;
    loaded = asked;
    show();
    busy(false);
  };

  /** @type {{line: Line, element: HTMLElement}[]} */
  let shown = [];
  const show = () => {
    const wasAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
    const scrolled = list.scrollTop;
    shown = lines.filter((line) => line.level >= Number(level.value)).map((line) => ({ line, element: h("li", { className: LEVELS[line.level] ?? "info" },
      h("button", { type: "button", onclick: () => session.moveHead(line.time), title: "Move the playhead here" }, clock(session.at(line.time))),
      h("span", { className: "level" }, LEVELS[line.level] ?? ""), h("span", { className: "from" }, line.name), h("span", { className: "text" }, line.text)) }));
    fill(list, ...shown.map(({ element }) => element));
    say(note, `${plural(shown.length, "line")} ${loaded.isAll ? "in view" : "around the playhead"}`);
    list.scrollTop = session.follows && wasAtEnd ? list.scrollHeight : scrolled;
    mark();
  };

  const mark = () => {
    let last = -1;
    shown.forEach(({ line }, at) => {
      if (line.time <= session.head) last = at;
    });
    shown.forEach(({ element }, at) => {
      element.classList.toggle("now", at === last);
      element.classList.toggle("later", at > last);
    });
  };

  const settle = settled(150, () => void load());
  const reload = () => {
    busy(true);
    settle();
  };
  level.addEventListener("change", show);
  on("view", () => session.isGrowing || reload());
  on("timeline", () => session.isLive && reload());
  on("head", () => {
    mark();
    if (!loaded.isAll && !session.follows && (session.head < loaded.from || session.head > loaded.to)) reload();
  });
  void load();
}
