// Which panels are open: added by menu, or by dropping a topic or a field.

/** @import { Session } from "./session.js" */
/** @import { PanelSpec } from "./types.js" */

import { kindsOf } from "./kinds.js";

/** What is dragged: a topic's name; a topic and a field as JSON. */
export const TOPIC_DATA = "application/x-livebag-topic";
export const FIELD_DATA = "application/x-livebag-field";

/** @param {Session} session @param {PanelSpec} spec */
export const addPanel = (session, spec) => session.setPanels([...session.panels, spec]);

/** @param {Session} session @param {PanelSpec} spec @param {PanelSpec | null} other */
export function replacePanel(session, spec, other) {
  session.setPanels(session.panels.flatMap((one) => (one === spec ? (other ? [other] : []) : [one])));
}

/** @param {DataTransfer | null} data @param {Session} session @returns {PanelSpec | null} */
export function dropped(data, session) {
  const topic = data?.getData(TOPIC_DATA);
  if (topic) return { kind: kindsOf(session.type(topic))[0] ?? "message", sources: [{ topic, field: "" }] };
  const field = data?.getData(FIELD_DATA);
  return field ? { kind: "plot", sources: [JSON.parse(field)] } : null;
}

/** @param {DragEvent} event */
const isOurs = (event) => event.dataTransfer?.types.some((type) => type === TOPIC_DATA || type === FIELD_DATA) ?? false;

/**
 * Lets topics and fields be dropped.
 * @param {HTMLElement} element
 * @param {Session} session
 * @param {(spec: PanelSpec) => void} take
 */
export function addDrop(element, session, take) {
  element.addEventListener("dragover", (event) => {
    if (!isOurs(event)) return;
    event.preventDefault();
    event.stopPropagation();
    element.classList.add("over");
  });
  element.addEventListener("dragleave", (event) => {
    if (!element.contains(/** @type {Node | null} */ (event.relatedTarget))) element.classList.remove("over");
  });
  element.addEventListener("drop", (event) => {
    element.classList.remove("over");
    const spec = dropped(event.dataTransfer, session);
    if (!spec) return;
    event.preventDefault();
    event.stopPropagation();
    take(spec);
  });
}
