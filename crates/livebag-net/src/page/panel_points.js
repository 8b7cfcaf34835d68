// A point cloud at the playhead; the server leaves points out, the browser turns it.

/** @import { PanelPlace } from "./panels.js" */

import * as api from "./api.js";
import { onColours } from "./colours.js";
import { h, say } from "./dom.js";
import { count } from "./format.js";
import { Newest } from "./loader.js";
import { sayTime } from "./panel_time.js";
import { Cloud } from "./points_gl.js";

const POINTS_MAX = 20000;

/** @param {PanelPlace} place */
export function pointsPanel({ session, spec, body, note, tools, signal, on, busy }) {
  const topic = spec.sources[0]?.topic ?? "";
  const canvas = h("canvas", { tabIndex: 0, role: "img", "aria-label": `Point cloud of ${topic}: drag or arrow keys turn, wheel or + and − zoom` });
  const problem = h("p", { className: "problem", hidden: true });
  const words = h("span", { className: "corner" });
  body.append(canvas, words, problem);
  const cloud = Cloud.on(canvas);
  if (!cloud) {
    canvas.hidden = true;
    problem.hidden = false;
    say(problem, "This browser has no WebGL 2, which draws point clouds.");
    busy(false);
    return;
  }
  const by = h("select", { "aria-label": "What colours mean" }, ...["height", "intensity", "distance"].map((name) => h("option", {}, name)));
  by.addEventListener("change", () => cloud.colourBy(by.value));
  const reset = h("button", { type: "button", className: "icon", title: "Back to the first view", "aria-label": "Reset the view", onclick: () => cloud.look() }, "⌂");
  tools.append(by, reset);

  const loader = new Newest(
    (/** @type {string | undefined} */ at) => api.points(session.info.name, { topic, at, max: POINTS_MAX }, signal),
    (answer) => {
      cloud.show(answer.values);
      problem.hidden = true;
      say(words, `${answer.shown < answer.total ? `${count(answer.shown)} of ${count(answer.total)} points` : `${count(answer.total)} points`}${answer.frame === "" ? "" : `, frame ${answer.frame}`}`);
      sayTime(note, session, answer.time);
    },
    (error) => {
      say(problem, error instanceof api.ApiError && error.status === 404 ? "No point cloud up to here." : error instanceof Error ? error.message : String(error));
      problem.hidden = false;
      say(note, "");
    },
    busy,
  );
  let asked = /** @type {string | undefined} */ ("");
  const want = () => {
    if (session.asked === asked && !session.follows) return;
    asked = session.asked;
    loader.want(asked);
  };
  on("head", want);
  on("newest", want);
  want();

  const resized = new ResizeObserver(() => cloud.draw());
  resized.observe(canvas);
  onColours(() => cloud.draw(), signal);
  signal.addEventListener("abort", () => {
    resized.disconnect();
    cloud.end();
  });
}
