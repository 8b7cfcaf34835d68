// The menu of a topic's name: its panels, its numeric fields to plot, and stepping through it.

/** @import { Session } from "./session.js" */
/** @import { FieldRow } from "./types.js" */

import * as api from "./api.js";
import { fill, h } from "./dom.js";
import { KIND_TITLES, kindsOf } from "./kinds.js";
import { isAbort } from "./loader.js";
import { addPanel, FIELD_DATA } from "./choice.js";

/** Items of an array that the menu lists. */
const ITEMS_MAX = 9;

/**
 * Numeric fields of a topic; asked for once.
 * @type {WeakMap<Session, Map<string, Promise<FieldRow[]>>>}
 */
const known = new WeakMap();

/** Of an array the first items: a message panel offers the others. @param {FieldRow} row @returns {FieldRow[]} */
function items(row) {
  const [first, ...rest] = row.field.split("[]");
  if (rest.length === 0) return [row];
  const most = Math.min(row.lengths?.[0] ?? ITEMS_MAX, ITEMS_MAX);
  return Array.from({ length: most }, (_, at) => ({ ...row, field: `${first}[${at}]${rest.join("[0]")}` }));
}

/** @param {Session} session @param {string} topic */
function numericFields(session, topic) {
  /** @type {Map<string, Promise<FieldRow[]>>} */
  const topics = known.get(session) ?? new Map();
  known.set(session, topics);
  const fields = topics.get(topic) ?? api.fields(session.info.name, topic, session.signal).then((answer) => answer.fields.filter((row) => row.numeric).flatMap(items));
  topics.set(topic, fields);
  fields.catch(() => topics.delete(topic));
  return fields;
}

/**
 * @param {Session} session
 * @param {string} topic
 * @param {HTMLElement} anchor
 */
export function openMenu(session, topic, anchor) {
  const type = session.type(topic);
  const fields = h("div", { className: "fields" });
  const filter = h("input", { type: "search", placeholder: "Find a field", "aria-label": "Find a field", hidden: true });
  const item = (/** @type {string} */ text, /** @type {() => void} */ act) => h("button", { type: "button", role: "menuitem", onclick: () => {
    menu.hidePopover();
    act();
  } }, text);
  const menu = h("div", { className: "menu", popover: "auto", role: "menu", "aria-label": `Panels of ${topic}` },
    h("p", { className: "menu-title" }, topic, h("span", {}, type)),
    ...kindsOf(type).filter((kind) => kind !== "plot").map((kind) => item(KIND_TITLES[kind], () => addPanel(session, { kind, sources: [{ topic, field: "" }] }))),
    item("Step on this topic", () => session.setTopic(topic)),
    h("p", { className: "menu-title" }, "Plot"), filter, fields);
  void listFields();

  async function listFields() {
    fill(fields, h("p", { className: "quiet" }, "…"));
    try {
      const rows = await numericFields(session, topic);
      filter.hidden = rows.length < 8;
      const show = () => {
        const found = rows.filter((row) => row.field.toLowerCase().includes(filter.value.toLowerCase()));
        fill(fields, ...found.slice(0, 200).map((row) => {
          const button = item(row.field, () => addPanel(session, { kind: "plot", sources: [{ topic, field: row.field }] }));
          button.draggable = true;
          button.title = row.type;
          button.addEventListener("dragstart", (event) => event.dataTransfer?.setData(FIELD_DATA, JSON.stringify({ topic, field: row.field })));
          return button;
        }), found.length === 0 && h("p", { className: "quiet" }, "No numeric field"));
      };
      filter.addEventListener("input", show);
      show();
    } catch (error) {
      if (!isAbort(error)) fill(fields, h("p", { className: "problem" }, error instanceof Error ? error.message : String(error)));
    }
    place();
  }

  function place() {
    const box = anchor.getBoundingClientRect();
    menu.style.left = `${Math.max(4, Math.min(box.left + 8, innerWidth - menu.offsetWidth - 8))}px`;
    menu.style.top = `${Math.max(4, Math.min(box.bottom + 2, innerHeight - menu.offsetHeight - 8))}px`;
  }

  menu.addEventListener("toggle", (event) => {
    if (/** @type {ToggleEvent} */ (event).newState !== "closed") return;
    menu.remove();
    if (document.activeElement === document.body) anchor.focus();
  });
  menu.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const items = [...menu.querySelectorAll("button")];
    const at = items.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    items[(at + step + items.length) % items.length]?.focus();
  });
  menu.addEventListener("keydown", (event) => event.stopPropagation());
  document.body.append(menu);
  menu.showPopover();
  place();
  menu.querySelector("button")?.focus();
}
