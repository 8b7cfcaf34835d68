// The panels that are open: kept in the URL, added by menu or by dropping a topic or a field.

/** @import { Session } from "./session.js" */
/** @import { PanelSpec } from "./types.js" */

import { addDrop, addPanel, replacePanel } from "./choice.js";
import { h } from "./dom.js";
import { KIND_TITLES, isImage, kindsOf } from "./kinds.js";
import { imagePanel } from "./panel_image.js";
import { logPanel } from "./panel_log.js";
import { messagePanel } from "./panel_message.js";
import { plotPanel } from "./panel_plot.js";
import { pointsPanel } from "./panel_points.js";

/**
 * What a panel gets: where to draw, where to say what it shows, a signal that ends with it, and a way to say that it
 * shows an earlier moment or view than the one that is asked for.
 * @typedef {{session: Session, spec: PanelSpec, body: HTMLElement, note: HTMLElement, tools: HTMLElement, signal: AbortSignal, on: (kind: string, listener: () => void) => void, busy: (isBusy: boolean) => void}} PanelPlace
 */

const MAKERS = { image: imagePanel, points: pointsPanel, message: messagePanel, log: logPanel };

/** What a recording shows at first: its cameras, or the first topic's message. @param {Session} session @returns {PanelSpec[]} */
export function firstPanels(session) {
  const topics = session.info.topics.filter((topic) => topic.message_count > 0);
  const shown = topics.filter((topic) => isImage(topic.type)).slice(0, 2);
  const rest = topics.find((topic) => kindsOf(topic.type)[0] === "points") ?? (shown.length === 0 ? topics[0] : undefined);
  return [...shown, ...(rest ? [rest] : [])].map((topic) => ({ kind: kindsOf(topic.type)[0] ?? "message", sources: [{ topic: topic.name, field: "" }] }));
}

/**
 * Plots lie under the lanes, on their axis; all others in tiles below.
 * @param {Session} session
 */
export function panels(session) {
  const plots = h("div", { className: "plots" });
  const grid = h("div", { className: "tiles" });
  const hint = h("p", { className: "hint" }, "Drop a topic here, or click its name, to see its messages.");
  const tiles = h("section", { className: "tile-area", "aria-label": "Panels" }, grid, hint);
  /** @type {Map<PanelSpec, {element: HTMLElement, end: AbortController}>} */
  const open = new Map();

  const show = () => {
    for (const [spec, panel] of open) {
      if (session.panels.includes(spec)) continue;
      panel.end.abort();
      panel.element.remove();
      open.delete(spec);
    }
    for (const spec of session.panels) {
      if (open.has(spec)) continue;
      const end = new AbortController();
      const signal = AbortSignal.any([end.signal, session.signal]);
      const element = spec.kind === "plot" ? plotPanel(session, spec, signal) : tile(session, spec, signal);
      open.set(spec, { element, end });
    }
    for (const kind of ["plot", "tile"]) {
      const parent = kind === "plot" ? plots : grid;
      const wanted = session.panels.filter((spec) => (spec.kind === "plot") === (kind === "plot")).map((spec) => open.get(spec)?.element);
      wanted.forEach((element, at) => element && parent.children[at] !== element && parent.insertBefore(element, parent.children[at] ?? null));
    }
    hint.hidden = session.panels.some((spec) => spec.kind !== "plot");
  };
  session.on("panels", show);
  show();
  addDrop(tiles, session, (spec) => addPanel(session, spec));
  addDrop(plots, session, (spec) => addPanel(session, spec));
  return { plots, tiles };
}

/** @param {Session} session @param {PanelSpec} spec @param {AbortSignal} signal */
function tile(session, spec, signal) {
  const kind = /** @type {Exclude<typeof spec.kind, "plot">} */ (spec.kind);
  const topic = spec.sources[0]?.topic ?? "";
  const [body, note, tools] = [h("div", { className: "panel-body" }), h("span", { className: "note" }), h("span", { className: "tools" })];
  const element = h("article", { className: `panel ${kind}`, "aria-label": `${KIND_TITLES[kind]} ${topic}`, tabIndex: -1 },
    h("header", {}, h("b", { title: `${topic} (${session.type(topic)})` }, topic), note, tools,
      h("button", { type: "button", className: "icon", title: "Close this panel", "aria-label": `Close ${topic}`, onclick: () => replacePanel(session, spec, null) }, "×")),
    body);
  const busy = (/** @type {boolean} */ isBusy) => (element.ariaBusy = String(isBusy));
  busy(true);
  MAKERS[kind]({ session, spec, body, note, tools, signal, busy, on: (event, listener) => session.addEventListener(event, listener, { signal }) });
  return element;
}
