// A message: its values as a tree, its definition, the topic's QoS.

/** @import { PanelPlace } from "./panels.js" */
/** @import { BagInfo } from "./types.js" */
/** @import { Session } from "./session.js" */

import * as api from "./api.js";
import { fill, h, say } from "./dom.js";
import { bytes, plain } from "./format.js";
import { Newest } from "./loader.js";
import { addPanel, FIELD_DATA } from "./choice.js";
import { sayTime } from "./panel_time.js";

/** Items of an array that are asked for. */
const ITEMS = 64;
/** Branches that are open at first: those of the first levels. */
const OPEN_DEPTH = 2;

/** @type {WeakMap<Session, Promise<BagInfo>>} */
const described = new WeakMap();

/** @param {Session} session */
function definitions(session) {
  const answer = described.get(session) ?? api.bag(session.info.name, session.signal, true);
  described.set(session, answer);
  answer.catch(() => described.delete(session));
  return answer;
}

/** @param {PanelPlace} place */
export function messagePanel({ session, spec, body, note, tools, signal, on, busy }) {
  const topic = spec.sources[0]?.topic ?? "";
  const tree = h("div", { className: "tree" });
  const text = h("pre", { className: "definition", hidden: true, tabIndex: 0 });
  const problem = h("p", { className: "problem", hidden: true });
  body.append(problem, tree, text);
  /** Branches that the user opened or closed. @type {Map<string, boolean>} */
  const opened = new Map();

  /** @param {string} name @param {string} path @param {unknown} value @param {number} depth @returns {HTMLElement} */
  function branch(name, path, value, depth) {
    if (value === null || typeof value !== "object") return leaf(name, path, value);
    const items = Array.isArray(value) ? value.map((item, at) => /** @type {const} */ ([`[${at}]`, `${path}[${at}]`, item]))
      : Object.entries(value).map(([key, item]) => /** @type {const} */ ([key, path === "" ? key : `${path}.${key}`, item]));
    const isOpen = opened.get(path) ?? (depth < OPEN_DEPTH && items.length <= 16);
    const details = h("details", { open: isOpen }, h("summary", {}, name, h("span", { className: "size" }, Array.isArray(value) ? ` [${value.length}]` : "")));
    const show = () => {
      if (details.open && details.children.length === 1) details.append(...items.map(([key, inner, item]) => branch(key, inner, item, depth + 1)));
    };
    show();
    details.addEventListener("toggle", () => {
      opened.set(path, details.open);
      show();
    });
    return details;
  }

  /** @param {string} name @param {string} path @param {unknown} value */
  function leaf(name, path, value) {
    const isNumber = typeof value === "number" || typeof value === "bigint";
    const row = h("div", { className: "leaf" }, h("span", { className: "key" }, name), h("span", { className: `value ${typeof value}` }, plain(value)));
    if (!isNumber) return row;
    row.draggable = true;
    row.title = "Drag onto a plot";
    row.addEventListener("dragstart", (event) => event.dataTransfer?.setData(FIELD_DATA, JSON.stringify({ topic, field: path })));
    row.append(h("button", { type: "button", className: "icon", title: `Plot ${path}`, "aria-label": `Plot ${path}`, onclick: () => addPanel(session, { kind: "plot", sources: [{ topic, field: path }] }) }, "∿"));
    return row;
  }

  let time = "";
  const loader = new Newest(
    (/** @type {string | undefined} */ at) => api.message(session.info.name, { topic, at, array_items: ITEMS }, signal),
    (message) => {
      sayTime(note, session, message.log_time);
      problem.hidden = true;
      if (message.log_time === time) return;
      time = message.log_time;
      const scrolled = body.scrollTop;
      const focused = tree.contains(document.activeElement);
      fill(tree, h("p", { className: "quiet" }, `#${message.sequence}, ${bytes(message.bytes)}, log time ${message.log_time}`),
        message.error ? h("p", { className: "problem" }, message.error) : top(message.value));
      body.scrollTop = scrolled;
      if (focused) body.focus();
    },
    (error) => {
      say(problem, error instanceof api.ApiError && error.status === 404 ? "No message up to here." : error instanceof Error ? error.message : String(error));
      problem.hidden = false;
      say(note, "");
    },
    busy,
  );
  /** @param {unknown} value */
  const top = (value) => value !== null && typeof value === "object" ? Object.entries(value).map(([key, item]) => branch(key, key, item, 1)) : leaf("value", "", value);

  const views = { Values: () => {}, Definition: showDefinition, QoS: showQos };
  const choose = h("select", { "aria-label": `What to show of ${topic}` }, ...Object.keys(views).map((name) => h("option", {}, name)));
  choose.addEventListener("change", () => {
    tree.hidden = choose.value !== "Values";
    text.hidden = !tree.hidden;
    views[/** @type {keyof typeof views} */ (choose.value)]();
  });
  tools.append(choose);

  async function row() {
    try {
      return (await definitions(session)).topics.find((one) => one.name === topic);
    } catch (error) {
      text.textContent = error instanceof Error ? error.message : String(error);
      return undefined;
    }
  }

  async function showDefinition() {
    const found = await row();
    if (found) text.textContent = `${found.type} (${found.schema_encoding || "no schema"}, messages in ${found.message_encoding})\n\n${found.schema?.text ?? found.schema?.hex ?? ""}`;
  }

  async function showQos() {
    const found = await row();
    if (!found) return;
    const lines = Object.entries(found.metadata ?? {}).map(([key, value]) => `${key}:\n${value}`);
    text.textContent = lines.length === 0 ? "The recording has no QoS of this topic." : lines.join("\n\n");
  }

  let asked = /** @type {string | undefined} */ ("");
  const want = () => {
    if (session.asked === asked && !session.follows) return;
    asked = session.asked;
    loader.want(asked);
  };
  on("head", want);
  on("newest", want);
  want();
}
