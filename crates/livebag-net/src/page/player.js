// Play, pause, speed; steps by message; jumps to losses and events.

/** @import { Session } from "./session.js" */

import * as api from "./api.js";
import { h, onceAFrame, say } from "./dom.js";
import { clock, day, exact, offset, span } from "./format.js";
import { isAbort } from "./loader.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 100];

export class Player {
  isPlaying = false;
  speed = 1;
  #session;
  #stepping = false;
  #changed = () => {};

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
    session.signal.addEventListener("abort", () => (this.isPlaying = false));
  }

  /** @param {() => void} changed */
  onChange(changed) {
    this.#changed = changed;
  }

  toggle() {
    if (this.isPlaying) this.stop();
    else this.#play();
  }

  stop() {
    this.isPlaying = false;
    this.#changed();
  }

  #play() {
    const session = this.#session;
    const { axis, range } = session;
    if (session.head >= axis.end) session.moveHead(range?.from ?? axis.start);
    session.follows = false;
    this.isPlaying = true;
    let before = performance.now();
    const frame = (/** @type {number} */ now) => {
      if (!this.isPlaying) return;
      const nanos = Math.min(now - before, 250) * 1e6 * this.speed;
      before = now;
      session.moveHead(session.head + Math.max(0, nanos));
      if (session.head < axis.end) requestAnimationFrame(frame);
      else if (session.isLive) {
        this.stop();
        session.follow();
      } else this.stop();
    };
    requestAnimationFrame(frame);
    this.#changed();
  }

  /** To the next or previous message of the topic. @param {"next" | "previous"} step */
  async step(step) {
    const session = this.#session;
    if (this.#stepping || session.topic === "") return;
    this.#stepping = true;
    this.stop();
    try {
      const time = await api.timeOfMessage(session.info.name, { topic: session.topic, at: session.at(session.head).toString(), step }, session.signal);
      if (time !== null) this.#go(session.since(time));
    } catch (error) {
      if (!isAbort(error) && !(error instanceof api.ApiError && error.status === 404)) session.complain(error);
    } finally {
      this.#stepping = false;
    }
  }

  /** @param {"loss" | "event"} what @param {1 | -1} direction */
  async jump(what, direction) {
    const session = this.#session;
    await session.whole;
    const times = what === "loss" ? session.losses() : session.marks.filter((mark) => mark.kind === "event").map((mark) => session.since(mark.from_time)).sort((a, b) => a - b);
    const found = direction > 0 ? times.find((time) => time > session.head) : times.findLast((time) => time < session.head);
    if (found === undefined) return session.complain(`No ${direction > 0 ? "later" : "earlier"} ${what}.`);
    this.stop();
    this.#go(found);
  }

  /** @param {number} time */
  #go(time) {
    this.#session.moveHead(time);
    this.#session.axis.reveal(time);
  }
}

/** @param {string} text @param {string} title @param {() => void} act */
const button = (text, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, text);

/** The row of buttons, with the playhead's time. @param {Session} session @param {Player} player */
export function transport(session, player) {
  const play = button("▶", "Play (Space)", () => player.toggle());
  const speed = h("select", { "aria-label": "Speed", title: "Speed" }, ...SPEEDS.map((value) => h("option", { value: String(value), selected: value === 1 }, `${value}×`)));
  speed.addEventListener("change", () => (player.speed = Number(speed.value)));
  const [time, since] = [h("output", { className: "time" }), h("span", { className: "since" })];
  const follow = h("button", { type: "button", className: "follow", title: "Keep the playhead at the newest message (F)", onclick: () => {
    player.stop();
    session.follow();
  } });
  const select = h("button", { type: "button", title: "Select a range: drag along the lanes (Shift and drag, or [ and ] at the playhead)", "aria-pressed": "false", onclick: () => {
    select.setAttribute("aria-pressed", String(document.body.classList.toggle("selecting")));
  } }, "Select");
  session.on("range", () => setTimeout(() => select.setAttribute("aria-pressed", String(document.body.classList.contains("selecting")))));
  const said = h("span", { className: "said", role: "status" });
  session.on("complaint", () => say(said, session.complaint));

  const show = onceAFrame(() => {
    const at = session.at(session.head);
    say(time, `${day(at)} ${clock(at)}`);
    time.title = `${exact(at)}\n${at}`;
    say(since, `+${offset(session.head)}`);
    follow.hidden = !session.isLive;
    follow.setAttribute("aria-pressed", String(session.follows));
    const newest = session.status?.topics.reduce((/** @type {number | null} */ least, topic) => topic.newest_age_nanos === null ? least : Math.min(least ?? Infinity, topic.newest_age_nanos), null);
    say(follow, session.follows ? `● newest, ${span(newest ?? null)} old` : "Follow the newest");
  });
  for (const kind of ["head", "status"]) session.on(kind, show);
  player.onChange(() => {
    say(play, player.isPlaying ? "❚❚" : "▶");
    play.setAttribute("aria-label", player.isPlaying ? "Pause (Space)" : "Play (Space)");
  });
  show();
  const { axis } = session;
  return h("div", { className: "player", role: "toolbar", "aria-label": "Playing" },
    h("span", { className: "group" }, button("|‹", "Start (Home)", () => session.moveHead(axis.start)), button("‹", "Previous message of the topic (←)", () => void player.step("previous")),
      play, button("›", "Next message of the topic (→)", () => void player.step("next")), button("›|", "End (End)", () => session.moveHead(axis.end)), speed),
    time, since, follow,
    h("span", { className: "group" }, button("‹ loss", "Previous loss (Shift+L)", () => void player.jump("loss", -1)), button("loss ›", "Next loss (L)", () => void player.jump("loss", 1))),
    h("span", { className: "group" }, button("‹ event", "Previous event (Shift+E)", () => void player.jump("event", -1)), button("event ›", "Next event (E)", () => void player.jump("event", 1))),
    h("span", { className: "group" }, button("−", "Zoom out (−)", () => axis.zoom(2, session.head)), button("+", "Zoom in (+)", () => axis.zoom(0.5, session.head)), button("All", "The whole recording (0)", () => axis.showAll()), select),
    said);
}
