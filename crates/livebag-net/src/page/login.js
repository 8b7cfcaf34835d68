// The form for the server's token, which stays in this tab.

import * as api from "./api.js";
import { h, say } from "./dom.js";

/** @param {HTMLElement} page @param {() => void} done */
export function showLogin(page, done) {
  document.title = "livebag";
  const wasRefused = api.token() !== null;
  const input = h("input", { type: "password", name: "token", autocomplete: "off", required: true, minLength: 16, "aria-describedby": "token-note" });
  const note = h("p", { id: "token-note", className: wasRefused ? "problem" : "quiet", role: "status" },
    wasRefused ? "The server does not accept this token." : "This server needs a token: the one in the file given with --token-file. It is kept for this tab only.");
  const form = h("form", { className: "login" }, h("h1", {}, "livebag"), h("label", {}, "Token", input), note, h("button", { type: "submit", className: "main" }, "Open"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!/^[\x21-\x7e]+$/.test(text)) return say(note, "A token has letters, digits and signs, and no blanks.");
    api.setToken(text);
    done();
  });
  page.append(form);
  input.focus();
}
