// An open recording: the state shared by its views and panels. Events: `view` (the axis), `head` (the playhead),
// `newest` (look again), `range`, `timeline`, `status`, `panels`, `topic`.

/** @import { BagInfo, Timeline, Status, Range, Mark, LaneRow, PanelSpec } from "./types.js" */
/** @import { Place } from "./address.js" */

import { remember } from "./address.js";
import * as api from "./api.js";
import { Axis } from "./axis.js";
import { isAbort, pause, settled } from "./loader.js";

/** A live recording's lanes are asked for again after this long. */
const LIVE_MILLIS = 1000;
/** Panels ask for the newest message this often, if the answer before has come. */
const NEWEST_MILLIS = 100;
const OVERVIEW_BINS = 400;

export class Session extends EventTarget {
  axis = new Axis(() => this.#viewChanged());
  /** Where the playhead is; while `follows` the newest message. */
  head = 0;
  follows = false;
  /** @type {Range | null} */
  range = null;
  /** The topic that steps are taken on. */
  topic = "";
  /** @type {PanelSpec[]} */
  panels = [];
  /** Lanes of what is in view. @type {Timeline | null} */
  timeline = null;
  /** Lanes of the whole recording, in few bins. @type {Timeline | null} */
  overview = null;
  /** @type {Status | null} */
  status = null;
  /** When it came, by the browser's clock. */
  statusMillis = 0;
  /** The view changes because the recording grew: what is shown of it is loaded once a second anyway. */
  isGrowing = false;
  /** The lanes are those of an earlier view: others are asked for. */
  isBehind = true;
  /** Settled once losses and marks of the whole recording are known, or cannot be had. @type {PromiseWithResolvers<void>} */
  #whole = Promise.withResolvers();
  problem = "";
  /** What the user wished and cannot have. */
  complaint = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #quiet;
  #asking = new AbortController();
  #reload = settled(60, () => void this.#loadTimeline());
  #remember = settled(250, () => this.#write());

  /**
   * @param {BagInfo} info
   * @param {Place} place
   * @param {AbortSignal} signal ends with the view
   */
  constructor(info, place, signal) {
    super();
    this.info = info;
    this.signal = signal;
    this.base = BigInt(info.start_time ?? info.started_time);
    this.axis.end = Math.max(this.since(info.end_time ?? info.started_time), 1);
    this.isLive = info.state === "live";
    this.follows = this.isLive && place.at === null;
    this.head = this.follows ? this.axis.end : place.at === null ? 0 : this.axis.inBounds(this.since(place.at));
    this.range = place.selection && { from: this.since(place.selection[0]), to: this.since(place.selection[1]) };
    this.panels = place.panels ?? [];
    this.topic = place.topic ?? info.topics[0]?.name ?? "";
    if (place.view) this.axis.show(this.since(place.view[0]), this.since(place.view[1]));
    else this.axis.showAll();
  }

  /** Nanoseconds after the first message. @param {string} time */
  since(time) {
    return Number(BigInt(time) - this.base);
  }

  /** @param {number} time */
  at(time) {
    return this.base + BigInt(Math.round(time));
  }

  /** Now by the recorder's clock, after the first message; null until its server told it. */
  get nowNanos() {
    return this.status && this.since(this.status.now_time) + (performance.now() - this.statusMillis) * 1e6;
  }

  /** The playhead as the API takes it; none while it is at the newest message. */
  get asked() {
    return this.follows ? undefined : this.at(this.head).toString();
  }

  /** @param {string} topic */
  type(topic) {
    return this.info.topics.find((row) => row.name === topic)?.type ?? "";
  }

  /** @param {string} kind @param {() => void} listener */
  on(kind, listener) {
    this.addEventListener(kind, listener, { signal: this.signal });
  }

  /** @param {string} kind */
  tell(kind) {
    this.dispatchEvent(new Event(kind));
    this.#remember();
  }

  /** @param {number} time */
  moveHead(time) {
    this.follows = false;
    this.head = Math.round(this.axis.inBounds(time));
    this.tell("head");
  }

  /** Keeps the playhead at the newest message. */
  follow() {
    this.follows = true;
    this.head = this.axis.end;
    this.axis.reveal(this.head);
    this.tell("head");
  }

  /** @param {Range | null} range */
  select(range) {
    const { start, end } = this.axis;
    this.range = range && { from: Math.max(Math.round(range.from), start), to: Math.min(Math.round(range.to), end) };
    if (this.range && this.range.to <= this.range.from) this.range = null;
    this.tell("range");
  }

  /** @param {PanelSpec[]} panels */
  setPanels(panels) {
    this.panels = panels;
    this.tell("panels");
  }

  /** @param {string} topic */
  setTopic(topic) {
    this.topic = topic;
    this.tell("topic");
  }

  /** Says for some seconds why a wish came to nothing. @param {unknown} why */
  complain(why) {
    this.complaint = why instanceof Error ? why.message : String(why);
    this.dispatchEvent(new Event("complaint"));
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => {
      this.complaint = "";
      this.dispatchEvent(new Event("complaint"));
    }, 4000);
  }

  #viewChanged() {
    if (!this.isGrowing) this.isBehind = true;
    this.tell("view");
    if (!this.isGrowing) this.#reload();
  }

  #write() {
    if (this.signal.aborted) return;
    const { axis, info } = this;
    remember({
      name: info.name,
      at: this.follows ? null : this.at(this.head).toString(),
      view: axis.isWhole ? null : [this.at(axis.from).toString(), this.at(axis.to).toString()],
      selection: this.range && [this.at(this.range.from).toString(), this.at(this.range.to).toString()],
      topic: this.topic,
      panels: this.panels,
    });
  }

  /** How many bins are asked for: the server gives that many, or down to half of it. */
  get bins() {
    return Math.min(4000, Math.max(100, Math.round(this.axis.width * 1.5)));
  }

  /** Waits until losses and marks are known. */
  get whole() {
    return this.#whole.promise;
  }

  /** Losses in time, of all topics or one. @param {string} [topic] */
  losses(topic) {
    /** @param {LaneRow} lane */
    const timesOf = (lane) => lane.lost.map((loss) => this.since(loss.from_time));
    const lanes = this.overview?.topics.filter((lane) => topic === undefined || lane.topic === topic) ?? [];
    return lanes.flatMap(timesOf).sort((a, b) => a - b);
  }

  /** @returns {Mark[]} */
  get marks() {
    return this.overview?.marks ?? this.timeline?.marks ?? [];
  }

  async #loadTimeline() {
    this.#asking.abort();
    const asking = (this.#asking = new AbortController());
    const signal = AbortSignal.any([asking.signal, this.signal]);
    const { axis } = this;
    const question = { from: this.at(Math.max(axis.from, 0)).toString(), to: this.at(axis.to).toString(), bins: this.bins };
    try {
      this.timeline = await api.timeline(this.info.name, question, signal);
      this.isBehind = false;
      this.problem = "";
      this.tell("timeline");
    } catch (error) {
      if (isAbort(error)) return;
      this.problem = String(error instanceof Error ? error.message : error);
      this.tell("timeline");
    }
  }

  async #loadOverview() {
    try {
      this.overview = await api.timeline(this.info.name, { bins: OVERVIEW_BINS }, this.signal);
      this.tell("timeline");
    } catch {
      // The lanes' own request reports the error.
    }
    this.#whole.resolve();
  }

  /** Loads, and while the recording is live keeps up with it. */
  async run() {
    this.#reload();
    void this.#loadOverview();
    if (this.isLive) {
      void this.#reloadWhileLive();
      void this.#showNewest();
    }
    await this.#watch();
  }

  async #reloadWhileLive() {
    for (let round = 1; this.isLive && (await pause(LIVE_MILLIS, this.signal)); round += 1) {
      if (document.hidden) continue;
      if (this.axis.to >= this.axis.end) await this.#loadTimeline();
      if (round % 5 === 0) await this.#loadOverview();
    }
  }

  /** Panels that follow the newest message ask more often than states come. */
  async #showNewest() {
    while (this.isLive && (await pause(NEWEST_MILLIS, this.signal))) {
      if (this.follows && !document.hidden) this.dispatchEvent(new Event("newest"));
    }
  }

  async #watch() {
    do {
      try {
        for await (const status of api.statuses(this.info.name, this.signal)) {
          if (status === null) break;
          this.#take(status);
        }
      } catch (error) {
        if (isAbort(error)) return;
        this.problem = "the server does not answer";
        this.tell("status");
      }
    } while (this.isLive && (await pause(1000, this.signal)));
  }

  /** @param {Status} status */
  #take(status) {
    this.status = status;
    this.statusMillis = performance.now();
    this.problem = "";
    const wasLive = this.isLive;
    this.isLive = status.state === "live";
    this.isGrowing = true;
    if (status.end_time) this.axis.grow(this.since(status.end_time));
    this.isGrowing = false;
    if (this.follows) {
      this.head = this.axis.end;
      this.dispatchEvent(new Event("head"));
    }
    if (wasLive && !this.isLive) {
      this.follows = false;
      void this.#loadTimeline();
      void this.#loadOverview();
    }
    this.dispatchEvent(new Event("status"));
  }
}
