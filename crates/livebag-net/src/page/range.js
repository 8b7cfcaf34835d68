// What to do with a range: how much it is, download it, ask for it elsewhere, open it in a viewer.

/** @import { Session } from "./session.js" */
/** @import { Timeline } from "./types.js" */

import * as api from "./api.js";
import { copyButton, viewerButton } from "./buttons.js";
import { fill, h, say } from "./dom.js";
import * as format from "./format.js";
import { isAbort, settled } from "./loader.js";
import { lines, RERUN_BYTES_MAX, viewers } from "./elsewhere.js";

/** Without a file picker a download with a token is held in memory. */
const HELD_BYTES_MAX = 1e9;
/** Of a range, so that what its edges cut is little. */
const BINS = 4000;

/** @param {Session} session */
export function rangePanel(session) {
  const element = h("section", { className: "range", hidden: true, "aria-label": "Selected range" });
  /** @type {Set<string>} */
  const left = new Set();
  let asking = new AbortController();
  /** @type {Timeline | null} */
  let sums = null;

  // While the range moves its sums are those of an earlier one: busy, and drawn faintly.
  const load = settled(120, async () => {
    const { range } = session;
    if (!range) return;
    asking.abort();
    asking = new AbortController();
    try {
      const both = AbortSignal.any([asking.signal, session.signal]);
      sums = await api.timeline(session.info.name, { from: session.at(range.from).toString(), to: session.at(range.to).toString(), bins: BINS }, both);
      if (session.range === range) element.ariaBusy = "false";
      show();
    } catch (error) {
      if (!isAbort(error)) session.complain(error);
    }
  });

  const head = h("p", { className: "range-head" });
  const table = h("tbody");
  const rest = h("div", { className: "range-ways" });
  const all = h("input", { type: "checkbox", checked: true, "aria-label": "All topics", onchange: () => {
    left.clear();
    if (!all.checked) session.info.topics.forEach((topic) => left.add(topic.name));
    show();
  } });
  element.append(
    h("header", {}, head, h("button", { type: "button", title: "Show only the range", onclick: () => session.range && session.axis.show(session.range.from, session.range.to) }, "Zoom to it"),
      h("button", { type: "button", title: "Clear the range (Escape)", onclick: () => session.select(null) }, "Clear")),
    h("div", { className: "range-body" },
      h("div", { className: "range-topics" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, all), h("th", {}, "topic"), h("th", { title: "Counted in small bins: the edges may cut one" }, "messages"), h("th", {}, "bytes"))), table)), rest));

  const show = () => {
    const { range } = session;
    element.hidden = range === null;
    if (!range) return;
    say(head, `${format.clock(session.at(range.from))} to ${format.clock(session.at(range.to))}: ${format.span(range.to - range.from)}`);
    if (!sums) return;
    const { start_time, bin_nanos } = sums;
    // Bins whose middle is in the range.
    const start = session.since(start_time) + bin_nanos / 2;
    const [first, last] = [Math.ceil((range.from - start) / bin_nanos), Math.floor((range.to - start) / bin_nanos)];
    const sum = (/** @type {number[]} */ values) => values.slice(Math.max(0, first), Math.max(0, last + 1)).reduce((total, value) => total + value, 0);
    const rows = sums.topics.map((lane) => ({ topic: lane.topic, messages: sum(lane.message_counts), bytes: sum(lane.bytes) })).filter((row) => row.messages > 0);
    const focus = document.activeElement instanceof HTMLInputElement ? document.activeElement.value : null;
    fill(table, ...rows.map((row) => {
      const box = h("input", { type: "checkbox", value: row.topic, checked: !left.has(row.topic), "aria-label": row.topic, onchange: () => {
        if (box.checked) left.delete(row.topic);
        else left.add(row.topic);
        show();
      } });
      return h("tr", {}, h("td", {}, box), h("td", { title: row.topic }, row.topic), h("td", {}, format.count(row.messages)), h("td", {}, format.bytes(row.bytes)));
    }));
    if (focus) [...table.querySelectorAll("input")].find((box) => box.value === focus)?.focus();
    const chosen = rows.filter((row) => !left.has(row.topic));
    all.checked = chosen.length === rows.length;
    all.indeterminate = chosen.length > 0 && chosen.length < rows.length;
    const bytes = chosen.reduce((total, row) => total + row.bytes, 0);
    const messages = chosen.reduce((total, row) => total + row.messages, 0);
    const topics = chosen.length === session.info.topics.length ? [] : chosen.map((row) => row.topic);
    const question = { from: session.at(range.from).toString(), to: session.at(range.to).toString(), topic: topics };
    if (chosen.length === 0) return fill(rest, h("p", { className: "quiet" }, rows.length === 0 ? "There are no messages in this range." : "No topic is chosen."));
    fill(rest,
      h("div", { className: "buttons" }, downloadButton(session, question, bytes, `Download MCAP, ${format.bytes(bytes)}`), h("span", { className: "quiet" }, format.plural(messages, "message"))),
      h("div", { className: "buttons" }, h("span", { className: "quiet" }, "Copy as"), ...lines(session.info.name, question).map(({ name, text }) => copyButton(name, text))),
      h("div", { className: "buttons" }, h("span", { className: "quiet" }, "Open in"), ...viewers(session.info.name, question, bytes).map(viewerButton)),
      bytes > RERUN_BYTES_MAX && h("p", { className: "quiet" }, `Rerun loads a file whole: choose less than ${format.bytes(RERUN_BYTES_MAX)}.`),
      api.token() !== null && h("p", { className: "quiet" }, "This server needs a token. Viewers of other sites take it as &access_token=… at the end of the file's address; this page never writes it there."));
  };
  const changed = () => {
    element.ariaBusy = "true";
    show();
    load();
  };
  session.on("range", changed);
  if (session.range) changed();
  return element;
}

/**
 * Without a token the browser downloads on its own. With one the page fetches, since no address may have it.
 * @param {Session} session
 * @param {{from: string, to: string, topic: string[]}} question
 * @param {number} bytes
 * @param {string} text
 */
function downloadButton(session, question, bytes, text) {
  const url = api.historyAddress(session.info.name, question);
  const file = `${session.info.name}_${format.clock(session.at(session.since(question.from)), 0).replaceAll(":", "")}.mcap`;
  if (api.token() === null) return h("a", { className: "button main", href: url, download: file }, text);
  const button = h("button", { type: "button", className: "main", onclick: async () => {
    try {
      button.disabled = true;
      await fetchTo(url, file, bytes, session.signal);
    } catch (error) {
      if (!isAbort(error)) session.complain(error);
    } finally {
      button.disabled = false;
    }
  } }, text);
  return button;
}

/** @param {string} url @param {string} file @param {number} bytes @param {AbortSignal} signal */
async function fetchTo(url, file, bytes, signal) {
  const picker = /** @type {{showSaveFilePicker?: (options: object) => Promise<FileSystemFileHandle>}} */ (window).showSaveFilePicker;
  if (picker && bytes > HELD_BYTES_MAX / 10) {
    const handle = await picker.call(window, { suggestedName: file });
    const response = await api.download(url, signal);
    await response.body?.pipeTo(await handle.createWritable(), { signal });
    return;
  }
  if (bytes > HELD_BYTES_MAX) throw new Error("That is too much for this browser's memory: copy the curl line.");
  const blob = URL.createObjectURL(await (await api.download(url, signal)).blob());
  h("a", { href: blob, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(blob), 60000);
}
