// Buttons that copy, and links to other viewers.

/** @import { Viewer } from "./elsewhere.js" */

import { copied, h, say } from "./dom.js";

/** @param {string} name @param {string} text @param {string} [note] */
export function copyButton(name, text, note) {
  const button = h("button", { type: "button", title: `${note ? `${note}\n` : ""}Copies:\n${text}`, onclick: async () => {
    say(button, (await copied(text)) ? "copied" : "not copied");
    setTimeout(() => say(button, name), 1200);
  } }, name);
  return button;
}

/** A link, a button that copies an address, or neither where the viewer cannot take it. @param {Viewer} viewer */
export function viewerButton({ name, url, copy, note }) {
  if (copy) return copyButton(name, copy, note);
  if (url) return h("a", { className: "button", href: url, target: "_blank", rel: "noreferrer", title: note }, name);
  return h("span", { className: "button off", title: note, "aria-disabled": "true" }, name);
}
