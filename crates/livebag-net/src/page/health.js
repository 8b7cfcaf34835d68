// Is it recording well? One line with the state, and its reasons.

/** @import { Session } from "./session.js" */
/** @import { Status } from "./types.js" */

import { viewerButton } from "./buttons.js";
import { fill, h, say } from "./dom.js";
import { liveViewers } from "./elsewhere.js";
import * as format from "./format.js";

/** Below this the disk is nearly full: ten minutes. */
const FULL_SOON_NANOS = 600e9;
/** A queue this full is about to lose. */
const QUEUE_SHARE_MANY = 0.75;
/** Losses count as happening now for this long. */
const LOSING_MILLIS = 5000;

/** How full the queue is, where the recorder tells. @param {Status} status */
const queueShare = ({ cache_bytes, cache_bytes_max }) => (cache_bytes !== null && cache_bytes_max ? cache_bytes / cache_bytes_max : null);

/** @typedef {{level: "good" | "warn" | "bad", text: string}} Finding */

/** What is not as it should be, worst first. @param {Status} status @param {boolean} isLosing @returns {Finding[]} */
export function findings(status, isLosing) {
  /** @type {Finding[]} */
  const found = [];
  const named = (/** @type {string} */ state) => status.topics.filter((topic) => topic.state === state);
  const list = (/** @type {{topic: string}[]} */ topics) => topics.slice(0, 3).map((topic) => topic.topic).join(", ") + (topics.length > 3 ? ` and ${topics.length - 3} more` : "");
  if (isLosing) found.push({ level: "bad", text: "messages are being lost now" });
  const [stalled, gone] = [named("stalled"), named("gone")];
  if (gone.length > 0) found.push({ level: "bad", text: `gone: ${list(gone)}` });
  if (stalled.length > 0) found.push({ level: "bad", text: `stalled: ${list(stalled)}` });
  if (status.full_in_nanos !== null && status.full_in_nanos < FULL_SOON_NANOS) found.push({ level: "bad", text: `the disk is full in ${format.span(status.full_in_nanos)}` });
  if ((queueShare(status) ?? 0) > QUEUE_SHARE_MANY) found.push({ level: "warn", text: "the queue is nearly full" });
  const lost = status.topics.reduce((sum, topic) => sum + format.lostSum(topic.lost), 0);
  if (status.push?.error) found.push({ level: "warn", text: `pushing fails: ${status.push.error}` });
  if (lost > 0 && !isLosing) found.push({ level: "warn", text: `${format.plural(lost, "message")} lost so far` });
  return found;
}

/** How far it is pushed, if it is. @param {import("./types.js").PushStatus | null} push */
const pushed = (push) => push === null ? "" : push.size_bytes === 0 ? `pushed: nothing yet, to ${push.target}`
  : `pushed: ${format.bytes(push.stored_bytes)} of ${format.bytes(push.size_bytes)} to ${push.target}${push.paused ? "; paused" : ""}`;

/** @param {Session} session */
export function health(session) {
  const verdict = h("p", { className: "verdict", role: "status" });
  const figures = h("dl", { className: "health-figures" });
  const push = h("p", { className: "pushed quiet" });
  const element = h("section", { className: "health", "aria-label": "Is it recording well?", hidden: !session.isLive }, verdict, figures, push,
    h("div", { className: "buttons" }, ...liveViewers(session.info.name).map(viewerButton)));
  let [lostBefore, losingUntil] = [-1, 0];
  const figure = (/** @type {string} */ name, /** @type {string} */ text, /** @type {number | null} */ share = null) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, text, share !== null && meter(name, share)));

  const show = () => {
    const { status } = session;
    element.hidden = !session.isLive;
    if (!session.isLive) return;
    if (session.problem !== "" || !status) {
      say(verdict, session.problem === "" ? "Asking the recorder…" : `The recorder does not answer: ${session.problem}.`);
      verdict.dataset.level = session.problem === "" ? "warn" : "bad";
      return;
    }
    const lost = status.topics.reduce((sum, topic) => sum + format.lostSum(topic.lost), 0);
    if (lostBefore >= 0 && lost > lostBefore) losingUntil = performance.now() + LOSING_MILLIS;
    lostBefore = lost;
    const found = findings(status, performance.now() < losingUntil);
    verdict.dataset.level = found[0]?.level ?? "good";
    const text = found.length === 0 ? "Recording well: every topic arrives, nothing lost."
      : `${found.some(({ level }) => level === "bad") ? "Look: " : "Recording; "}${found.map((finding) => finding.text).join("; ")}.`;
    say(verdict, text);
    say(push, pushed(status.push));
    const share = queueShare(status);
    fill(figures,
      figure("disk", format.bytesPerSecond(status.bytes_per_s)),
      figure("queue", share === null ? format.bytes(status.cache_bytes) : `${Math.round(share * 100)} %`, share),
      figure("free", format.bytes(status.free_bytes)),
      figure("full in", status.full_in_nanos === null ? "–" : format.span(status.full_in_nanos)),
      figure("recorded", format.bytes(status.size_bytes)),
      figure("lost", format.count(lost)));
  };
  session.on("status", show);
  show();
  return element;
}

/** @param {string} name @param {number} share */
function meter(name, share) {
  const bar = h("i", {});
  bar.style.width = `${Math.round(Math.min(1, share) * 100)}%`;
  return h("span", { className: `meter${share > QUEUE_SHARE_MANY ? " much" : ""}`, role: "meter", "aria-label": name, "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.round(share * 100)) }, bar);
}
