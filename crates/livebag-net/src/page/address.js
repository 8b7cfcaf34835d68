// The state that a link carries: `#/RECORDING?at=…&from=…&to=…&p=plot+/imu+angular_velocity.x`.

/** @import { PanelSpec, PanelKind } from "./types.js" */

/** @type {PanelKind[]} */
const KINDS = ["image", "plot", "points", "message", "log"];

/**
 * Times are absolute, as strings of digits; without `panels` the page chooses some.
 * @typedef {object} Place
 * @property {string | null} name the recording; without it the list
 * @property {string} search
 * @property {string | null} at
 * @property {[string, string] | null} view
 * @property {[string, string] | null} selection
 * @property {string | null} topic
 * @property {PanelSpec[] | null} panels
 */

/** @param {PanelSpec} panel */
function written(panel) {
  /** @type {string[]} */
  const words = [panel.kind];
  /** @type {string | null} */
  let topic = null;
  for (const source of panel.sources) {
    if (source.topic !== topic) words.push(source.topic);
    if (source.field !== "") words.push(source.field);
    topic = source.topic;
  }
  return words.map((word) => word.replace(/[% ]/g, encodeURIComponent)).join(" ");
}

/** A topic's name begins with `/`; one that does not is taken for a field after the first word. @param {string} text */
function panelOf(text) {
  const [kind, ...words] = text.split(" ").map(decodeURIComponent);
  const known = KINDS.find((one) => one === kind);
  if (!known) return null;
  /** @type {{topic: string, field: string}[]} */
  const sources = [];
  let topic = "";
  for (const word of words) {
    if (topic === "" || word.startsWith("/")) {
      topic = word;
      if (known !== "plot") sources.push({ topic, field: "" });
    } else sources.push({ topic, field: word });
  }
  return { kind: known, sources };
}

const isTime = (/** @type {string | undefined} */ text) => text !== undefined && /^\d{1,20}$/.test(text);

/** @param {string | null} text @returns {[string, string] | null} */
function pair(text) {
  const [from, to] = (text ?? "").split("-");
  return isTime(from) && isTime(to) ? [/** @type {string} */ (from), /** @type {string} */ (to)] : null;
}

/** @param {string} hash @returns {Place} */
export function placeOf(hash) {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const asked = new URLSearchParams(query);
  const panels = asked.has("p") ? asked.getAll("p").map(safely(panelOf)).filter((panel) => panel !== null) : null;
  const at = asked.get("at") ?? undefined;
  return {
    name: path === "" ? null : (safely(decodeURIComponent)(path) ?? path),
    search: asked.get("q") ?? "",
    at: isTime(at) ? /** @type {string} */ (at) : null,
    view: pair(asked.get("view")),
    selection: pair(asked.get("range")),
    topic: asked.get("topic"),
    panels,
  };
}

/**
 * The address may have been typed by hand and be wrong.
 * @template T
 * @param {(text: string) => T} read
 * @returns {(text: string) => T | null}
 */
const safely = (read) => (text) => {
  try {
    return read(text);
  } catch {
    return null;
  }
};

/** @param {Partial<Place>} place */
export function hashOf(place) {
  const query = new URLSearchParams();
  if (place.search) query.set("q", place.search);
  if (place.at) query.set("at", place.at);
  if (place.view) query.set("view", place.view.join("-"));
  if (place.selection) query.set("range", place.selection.join("-"));
  if (place.topic) query.set("topic", place.topic);
  if (place.panels?.length === 0) query.set("p", "");
  for (const panel of place.panels ?? []) query.append("p", written(panel));
  const text = query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
  return `#/${place.name ? encodeURIComponent(place.name) : ""}${text === "" ? "" : `?${text}`}`;
}

/** The hash that is shown. Another one in the address bar is a wish to go elsewhere. */
let own = "";

/** A view begins to show what the address bar says. */
export function adopt() {
  own = location.hash;
}

/**
 * Remembers a state in the address bar, without a new entry in the history; not while the address bar already
 * names another view.
 * @param {Partial<Place>} place
 */
export function remember(place) {
  const hash = hashOf(place);
  if (isElsewhere() || hash === own) return;
  history.replaceState(null, "", hash);
  own = location.hash;
}

/** Whether the address bar names something else than what is shown. */
export const isElsewhere = () => location.hash !== own;
