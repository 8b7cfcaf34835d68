// The style sheet's colours, for canvases.

/** @import { Cause } from "./types.js" */

/** @type {Map<string, string>} */
const known = new Map();
/** @type {Set<() => void>} */
const listeners = new Set();

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", changed);

function changed() {
  known.clear();
  for (const listener of listeners) listener();
}

/** A custom property of the style sheet as a colour. @param {string} name */
export function colour(name) {
  let value = known.get(name);
  if (value === undefined) {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    value = getComputedStyle(probe).color;
    probe.remove();
    known.set(name, value);
  }
  return value;
}

/** @param {Cause | null} cause */
export const causeColour = (cause) => colour(`lost-${cause ?? "unknown"}`);

/** The colour of the nth line of a plot. @param {number} at */
export const lineColour = (at) => colour(`line-${at % 8}`);

/** Calls back when dark turns light, or light dark. @param {() => void} listener @param {AbortSignal} signal */
export function onColours(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

/** `system`, `light` or `dark`. */
export const theme = () => localStorage.getItem("livebag.theme") ?? "system";

/** @param {string} value */
export function setTheme(value) {
  if (value === "system") localStorage.removeItem("livebag.theme");
  else localStorage.setItem("livebag.theme", value);
  applyTheme();
}

export function applyTheme() {
  const value = theme();
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  changed();
}
