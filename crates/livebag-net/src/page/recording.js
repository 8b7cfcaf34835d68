// The view of a recording: lanes and plots on one axis, panels below, and what belongs to a moment.

/** @import { Place } from "./address.js" */

import * as api from "./api.js";
import { h, say } from "./dom.js";
import * as format from "./format.js";
import { health } from "./health.js";
import { hover } from "./hover.js";
import { addKeys } from "./keys.js";
import { lanes, legend } from "./lanes.js";
import { marks } from "./marks.js";
import { firstPanels, panels } from "./panels.js";
import { Player, transport } from "./player.js";
import { rangePanel } from "./range.js";
import { crossing, overview, ruler } from "./ruler.js";
import { Session } from "./session.js";

/** @param {HTMLElement} page @param {Place} place @param {AbortSignal} signal */
export async function showRecording(page, place, signal) {
  const name = place.name ?? "";
  document.title = `${name} – livebag`;
  const [info] = await Promise.all([api.bag(name, signal), api.lookAtServer(signal), api.shareLogin(signal)]);
  const session = new Session(info, place, signal);
  if (place.panels === null) session.panels = firstPanels(session);
  const player = new Player(session);
  const { plots, tiles } = panels(session);
  const { scroller, filter, titles } = lanes(session);
  const lines = crossing(session);

  const rulerCanvas = ruler(session);
  const timeline = h("section", { className: "timeline", "aria-label": "Timeline" },
    h("div", { className: "row" }, h("span", { className: "row-name" }, "whole recording"), overview(session), h("div", { className: "figures" })),
    h("div", { className: "axis" },
      h("div", { className: "row ruler-row" }, filter, rulerCanvas, titles),
      h("div", { className: "row marks-row" }, h("span", { className: "row-name" }, "events"), marks(session), h("div", { className: "figures" })),
      scroller, plots, lines.element));
  const problem = h("p", { className: "problem", role: "alert", hidden: true });
  page.append(summary(session), health(session), transport(session, player), problem, timeline, tiles, rangePanel(session));
  page.append(hover(timeline, session, lines));
  const busy = () => (timeline.ariaBusy = String(session.isBehind));
  busy();
  session.on("view", busy);
  session.on("timeline", () => {
    busy();
    say(problem, session.problem);
    problem.hidden = session.problem === "";
  });

  // The canvases of all rows are as wide as the ruler's.
  const measured = new ResizeObserver(() => {
    timeline.style.setProperty("--bar", `${scroller.offsetWidth - scroller.clientWidth}px`);
    session.axis.resize(rulerCanvas.clientWidth);
  });
  measured.observe(rulerCanvas);
  measured.observe(scroller);
  signal.addEventListener("abort", () => measured.disconnect());
  timeline.style.setProperty("--bar", `${scroller.offsetWidth - scroller.clientWidth}px`);
  session.axis.resize(rulerCanvas.clientWidth);
  addKeys(session, player, filter);
  session.tell("head");
  await session.run();
}

/** What a recording is, in one line. @param {Session} session */
function summary(session) {
  const { info } = session;
  const state = h("span", { className: `state ${info.state}` }, info.state);
  const [length, size, messages] = [h("span"), h("span"), h("span")];
  const show = () => {
    const { status, axis } = session;
    const now = status?.state ?? info.state;
    state.className = `state ${now}`;
    say(state, now);
    say(length, format.span(axis.end));
    say(size, format.bytes(status?.size_bytes ?? info.size_bytes ?? info.topics.reduce((sum, topic) => sum + topic.message_bytes, 0)));
    say(messages, format.plural(status?.topics.reduce((sum, topic) => sum + topic.message_count, 0) ?? info.message_count, "message"));
  };
  session.on("status", show);
  show();
  return h("div", { className: "summary" },
    h("h1", { title: info.name }, info.name), state,
    h("span", { title: format.exact(session.base) }, `${format.day(session.base)} ${format.clock(session.base, 0)}`), length, size, messages,
    h("span", {}, format.plural(info.topics.length, "topic")), legend(session),
    info.failure && h("span", { className: "problem" }, info.failure));
}
