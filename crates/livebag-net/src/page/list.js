// The list of recordings, newest first, with a search over names, topics, types and days. Those of other robots are in
// it, too: they are asked for by livebag's command, since only their own robot has a page for them.

/** @import { BagRow, BagInfo, RobotRow } from "./types.js" */
/** @import { Place } from "./address.js" */

import { hashOf, remember } from "./address.js";
import * as api from "./api.js";
import { copyButton } from "./buttons.js";
import { fill, h, prepared, say } from "./dom.js";
import { quoted } from "./elsewhere.js";
import * as format from "./format.js";
import { isImage } from "./kinds.js";
import { isAbort, pause, Turns } from "./loader.js";

/** The list is asked for again after this long. */
const AGAIN_MILLIS = 3000;
const THUMBS = 5;
const THUMB = { width: 72, height: 45 };

/** A recording of this server, or of another robot. @typedef {{bag: BagRow, robot: string | null}} Entry */

const NOTHING_LOST = { transport: 0, queue: 0, lapped: 0, disk: 0, abandoned: 0 };

/** @param {RobotRow} row @returns {Entry} */
const entryOf = ({ robot, name, recording }) => ({ robot, bag: recording ? { ...recording, name }
  : { name, state: "silent", profile: "", started_time: "0", start_time: null, end_time: null, message_count: 0, topic_count: 0, lost: { ...NOTHING_LOST, total: null } } });

/** Names of recordings have no `/`. @param {Entry} entry */
const keyOf = ({ bag, robot }) => (robot === null ? bag.name : `zenoh/${robot}/${bag.name}`);

class Row {
  /** @type {BagInfo | null} */
  info = null;
  #thumbs = h("span", { className: "thumbs", "aria-hidden": "true" });
  #hasThumbs = false;
  #cells = { start: h("td"), length: h("td"), size: h("td"), topics: h("td"), lost: h("td") };
  #state = h("span");

  /** @param {Entry} entry */
  constructor({ bag, robot }) {
    this.bag = bag;
    this.robot = robot;
    const { start, length, size, topics, lost } = this.#cells;
    const name = robot === null ? h("a", { href: hashOf({ name: bag.name }) }, bag.name)
      : h("span", { className: "name", title: `Robot ${robot}, by Zenoh` }, h("b", {}, robot), ` ${bag.name}`);
    this.element = h("tr", { className: robot === null ? "" : "of-robot" }, h("th", { scope: "row" }, name, this.#state),
      start, length, size, topics, lost, h("td", { className: "strip" }, robot === null ? this.#thumbs
        : copyButton("livebag query", `livebag query ${quoted(keyOf({ bag, robot }))} latest --last 10s -o ${quoted(`${robot}_${bag.name}.mcap`)}`)));
    this.show(bag);
    if (robot !== null) return;
    // The whole row leads there, as the link does.
    this.element.addEventListener("click", (event) => {
      if (event.target instanceof Element && !event.target.closest("a") && getSelection()?.isCollapsed) location.hash = hashOf({ name: bag.name });
    });
  }

  /** @param {BagRow} bag */
  show(bag) {
    this.bag = bag;
    const { start, length, size, topics, lost } = this.#cells;
    this.#state.className = `state ${bag.state}`;
    say(this.#state, bag.state);
    if (bag.state === "silent") return;
    const begin = BigInt(bag.start_time ?? bag.started_time);
    say(start, `${format.day(begin)} ${format.clock(begin, 0)}`);
    start.title = format.exact(begin);
    say(length, bag.end_time ? format.span(Number(BigInt(bag.end_time) - begin)) : "–");
    say(size, format.bytes(bag.size_bytes ?? this.info?.topics.reduce((sum, topic) => sum + topic.message_bytes, 0)));
    say(topics, format.count(bag.topic_count));
    topics.title = this.info?.topics.map((topic) => topic.name).join("\n") ?? "";
    const sum = format.lostSum(bag.lost);
    say(lost, bag.lost.total === null && sum === 0 ? "not known" : format.count(sum));
    lost.title = format.causes(bag.lost);
    lost.classList.toggle("some", sum > 0);
  }

  /** Whether all words are somewhere in its names, types or day. @param {string[]} words */
  has(words) {
    const topics = this.info?.topics.map((topic) => `${topic.name} ${topic.type}`).join(" ") ?? "";
    const begin = BigInt(this.bag.start_time ?? this.bag.started_time);
    const text = `${this.robot ?? ""} ${this.bag.name} ${this.bag.state} ${format.day(begin)} ${format.clock(begin, 0)} ${topics}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }

  /** Topics and sizes; of a live recording as they are now. @param {AbortSignal} signal @param {Turns} turns */
  async load(signal, turns) {
    if (this.robot !== null) return;
    if (this.bag.state === "live" || !this.info) this.info = await turns.run(() => api.bag(this.bag.name, signal));
    this.show(this.bag);
  }

  /** Pictures of five moments of the first camera. @param {AbortSignal} signal @param {Turns} turns */
  async loadThumbs(signal, turns) {
    const camera = this.info?.topics.find((topic) => isImage(topic.type) && topic.message_count > 0);
    if (this.#hasThumbs || !camera?.start_time || !camera.end_time) return;
    this.#hasThumbs = true;
    const [start, end] = [BigInt(camera.start_time), BigInt(camera.end_time)];
    for (let at = 0; at < THUMBS; at += 1) {
      const time = start + ((end - start) * BigInt(2 * at + 1)) / BigInt(2 * THUMBS);
      const canvas = h("canvas");
      this.#thumbs.append(canvas);
      const { bitmap } = await turns.run(() => api.picture(this.bag.name, { topic: camera.name, at: time.toString(), width: THUMB.width * 2 }, signal));
      const scale = Math.max(THUMB.width / bitmap.width, THUMB.height / bitmap.height);
      const [width, height] = [bitmap.width * scale, bitmap.height * scale];
      prepared(canvas, THUMB.width, THUMB.height).drawImage(bitmap, (THUMB.width - width) / 2, (THUMB.height - height) / 2, width, height);
      bitmap.close();
    }
  }
}

/** @param {HTMLElement} page @param {Place} place @param {AbortSignal} signal */
export async function showList(page, place, signal) {
  document.title = "livebag";
  const turns = new Turns(3);
  /** @type {Map<string, Row>} */
  const rows = new Map();
  const search = h("input", { type: "search", value: place.search, placeholder: "Search by name, topic, type or day", "aria-label": "Search recordings", className: "search" });
  const said = h("span", { className: "quiet", role: "status" });
  const body = h("tbody");
  const nothing = h("p", { className: "nothing", hidden: true });
  const titles = ["recording", "start", "length", "size", "topics", "lost", ""];
  const table = h("table", { className: "bags" }, h("thead", {}, h("tr", {}, ...titles.map((title) => h("th", { scope: "col" }, title)))), body);
  page.append(h("div", { className: "summary" }, h("h1", {}, "Recordings"), search, said), table, nothing);

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    let found = 0;
    for (const row of rows.values()) {
      row.element.hidden = !row.has(words);
      found += row.element.hidden ? 0 : 1;
    }
    say(said, words.length === 0 ? format.plural(rows.size, "recording") : `${found} of ${format.plural(rows.size, "recording")}`);
    nothing.hidden = found > 0;
    say(nothing, rows.size === 0 ? "There are no recordings here yet." : "No recording has such a name, topic, type or day.");
  };
  search.addEventListener("input", () => {
    show();
    remember({ search: search.value });
  });
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const row = entry.isIntersecting && [...rows.values()].find((one) => one.element === entry.target);
      if (!row) continue;
      seen.unobserve(row.element);
      // A recording that cannot be described still has its line.
      void row.load(signal, turns).then(show).then(() => row.loadThumbs(signal, turns)).catch(() => {});
    }
  }, { rootMargin: "200px" });
  signal.addEventListener("abort", () => seen.disconnect());

  /** @type {BagRow[]} */
  let own = [];
  /** @type {RobotRow[]} */
  let others = [];
  const take = () => {
    const entries = new Map([...own.map((bag) => ({ bag, robot: null })), ...others.map(entryOf)].map((entry) => [keyOf(entry), entry]));
    const sorted = [...entries].sort(([, a], [, b]) => (BigInt(b.bag.started_time) > BigInt(a.bag.started_time) ? 1 : -1));
    for (const [key, row] of rows) {
      if (entries.has(key)) continue;
      row.element.remove();
      rows.delete(key);
    }
    for (const [key, entry] of sorted) {
      const row = rows.get(key);
      if (row) row.show(entry.bag);
      else {
        const made = new Row(entry);
        rows.set(key, made);
        seen.observe(made.element);
      }
    }
    sorted.forEach(([key], at) => {
      const element = rows.get(key)?.element;
      if (element && body.children[at] !== element) body.insertBefore(element, body.children[at] ?? null);
    });
    show();
  };
  own = await api.bags(signal);
  take();
  void watchOthers();
  // Topics of recordings outside the view are needed for a search.
  search.addEventListener("focus", () => {
    for (const row of rows.values()) void row.load(signal, turns).then(show).catch(() => {});
  }, { once: true });
  if (place.search !== "") search.focus();
  while (await pause(AGAIN_MILLIS, signal)) {
    if (document.hidden) continue;
    try {
      own = await api.bags(signal);
      take();
      for (const row of rows.values()) if (row.info && row.bag.state === "live") await row.load(signal, turns);
    } catch (error) {
      if (isAbort(error)) return;
      fill(said, `The server does not answer: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** Recordings of other robots come when they come: nobody waits for them. */
  async function watchOthers() {
    await api.lookAtServer(signal);
    if (!api.server.robots) return;
    do {
      if (document.hidden) continue;
      try {
        others = await api.robots(signal);
        take();
      } catch (error) {
        if (isAbort(error)) return;
      }
    } while (await pause(AGAIN_MILLIS, signal));
  }
}
