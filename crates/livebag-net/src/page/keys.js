// The keyboard of a recording's view, and the list of it that `?` shows.

/** @import { Session } from "./session.js" */
/** @import { Player } from "./player.js" */

import { h } from "./dom.js";
import { SECOND } from "./format.js";

const KEYS = /** @type {[string, string][]} */ ([
  ["Space", "play, pause"],
  ["← →", "previous, next message of the chosen topic (the one with the mark; its menu chooses)"],
  ["Shift ← →", "one second back, forth"],
  ["L, Shift L", "next, previous loss"],
  ["E, Shift E", "next, previous event"],
  ["+ −", "zoom in, out around the playhead"],
  ["A D", "pan left, right"],
  ["0", "the whole recording"],
  ["Home, End", "first, last moment"],
  ["F", "follow the newest message (live)"],
  ["[ ]", "begin, end a range at the playhead"],
  ["Escape", "forget the range"],
  ["/", "filter topics"],
  ["?", "this list"],
]);

const MOUSE = /** @type {[string, string][]} */ ([
  ["ruler", "drag moves the playhead; hovering shows a picture"],
  ["lanes, plots", "click sets the playhead, drag pans, wheel zooms, Shift and wheel pans"],
  ["Shift and drag", "selects a range"],
  ["topic, field", "drag it below for a panel, onto a plot for one more line; or click it"],
]);

export function showHelp() {
  const list = (/** @type {[string, string][]} */ rows) => h("dl", { className: "keys" }, ...rows.flatMap(([key, what]) => [h("dt", {}, key), h("dd", {}, what)]));
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { className: "help", "aria-label": "Keys and mouse", onclose: () => dialog.remove() }, h("h2", {}, "Keys"), list(KEYS), h("h2", {}, "Mouse and touch"), list(MOUSE), close);
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}

/** @param {EventTarget | null} target whether it takes keys itself */
const takesKeys = (target) => target instanceof HTMLElement && (target.matches("input:not([type=checkbox]), select, textarea") || target.closest("dialog, [popover]") !== null);

/** @param {Session} session @param {Player} player @param {HTMLInputElement} filter */
export function addKeys(session, player, filter) {
  const { axis } = session;
  /** @type {{[key: string]: (event: KeyboardEvent) => void}} */
  const acts = {
    " ": () => player.toggle(),
    ArrowLeft: (event) => (event.shiftKey ? session.moveHead(session.head - SECOND) : void player.step("previous")),
    ArrowRight: (event) => (event.shiftKey ? session.moveHead(session.head + SECOND) : void player.step("next")),
    l: () => void player.jump("loss", 1),
    L: () => void player.jump("loss", -1),
    e: () => void player.jump("event", 1),
    E: () => void player.jump("event", -1),
    "+": () => axis.zoom(0.5, session.head),
    "=": () => axis.zoom(0.5, session.head),
    "-": () => axis.zoom(2, session.head),
    a: () => axis.pan(-axis.length * 0.2),
    d: () => axis.pan(axis.length * 0.2),
    0: () => axis.showAll(),
    Home: () => session.moveHead(axis.start),
    End: () => session.moveHead(axis.end),
    f: () => {
      if (!session.isLive) return;
      player.stop();
      session.follow();
    },
    "[": () => session.select({ from: session.head, to: session.range && session.range.to > session.head ? session.range.to : axis.end }),
    "]": () => session.select({ from: session.range && session.range.from < session.head ? session.range.from : axis.start, to: session.head }),
    Escape: () => session.range && session.select(null),
    "/": () => filter.focus(),
    "?": () => showHelp(),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || takesKeys(event.target)) return;
    // Space on a button presses the button.
    if (event.key === " " && event.target instanceof Element && event.target.matches("button, a, summary, input")) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  }, { signal: session.signal });
}
