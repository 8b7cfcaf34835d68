// livebag's page: reads the address, shows the list, a recording or the form for the token.

import { adopt, isElsewhere, placeOf } from "./address.js";
import * as api from "./api.js";
import { applyTheme, setTheme, theme } from "./colours.js";
import { h } from "./dom.js";
import { showHelp } from "./keys.js";
import { showList } from "./list.js";
import { isAbort } from "./loader.js";
import { showLogin } from "./login.js";
import { showRecording } from "./recording.js";

const page = /** @type {HTMLElement} */ (document.getElementById("page"));
const tools = /** @type {HTMLElement} */ (document.getElementById("tools"));
let view = new AbortController();

async function show() {
  view.abort();
  const own = (view = new AbortController());
  adopt();
  const place = placeOf(location.hash);
  page.replaceChildren();
  document.body.classList.remove("selecting");
  document.body.dataset.view = place.name === null ? "list" : "recording";
  try {
    await (place.name === null ? showList : showRecording)(page, place, own.signal);
  } catch (error) {
    if (own.signal.aborted || isAbort(error)) return;
    if (error instanceof api.ApiError && error.status === 401) return;
    const text = error instanceof TypeError && !(error instanceof api.ApiError) && /fetch/i.test(error.message) ? "The server does not answer." : error instanceof Error ? error.message : String(error);
    page.replaceChildren(h("p", { className: "problem", role: "alert" }, text), h("p", {}, h("button", { type: "button", onclick: () => void show() }, "Try again"), " ", h("a", { href: "#/" }, "All recordings")));
    console.error(error);
  }
}

api.login.wanted = () => {
  if (document.body.dataset.view === "login") return;
  view.abort();
  view = new AbortController();
  page.replaceChildren();
  document.body.dataset.view = "login";
  showLogin(page, () => void show());
};

const themes = h("select", { "aria-label": "Colours", title: "Colours" }, ...["system", "light", "dark"].map((name) => h("option", { selected: name === theme() }, name)));
themes.addEventListener("change", () => setTheme(themes.value));
tools.append(themes, h("button", { type: "button", title: "Keys and mouse (?)", "aria-label": "Help", onclick: showHelp }, "?"));

applyTheme();
addEventListener("hashchange", () => isElsewhere() && void show());
void show();
