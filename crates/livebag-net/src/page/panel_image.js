// A camera: the picture at the playhead, or the newest.

/** @import { PanelPlace } from "./panels.js" */

import * as api from "./api.js";
import { h, prepared, say } from "./dom.js";
import { Newest } from "./loader.js";
import { sayTime } from "./panel_time.js";

/** Widths are asked for in steps, so that the server's answers are alike. */
const WIDTH_STEP = 160;
const WIDTH_MAX = 1920;
/** The server reduces by whole numbers, to no more than what is asked for: asked for is somewhat more than is shown. */
const WIDTH_SPARE = 1.3;

/** @param {PanelPlace} place */
export function imagePanel({ session, spec, body, note, tools, signal, on, busy }) {
  const topic = spec.sources[0]?.topic ?? "";
  const canvas = h("canvas", { role: "img", "aria-label": `Image of ${topic}` });
  const problem = h("p", { className: "problem", hidden: true });
  body.append(canvas, problem);
  const wide = h("button", { type: "button", className: "icon", title: "Resize", "aria-label": `Size of ${topic}`, "aria-pressed": "false" }, "⤢");
  wide.addEventListener("click", () => {
    const isWide = body.parentElement?.classList.toggle("wide") ?? false;
    wide.setAttribute("aria-pressed", String(isWide));
    want();
  });
  tools.append(wide);

  /** @type {ImageBitmap | null} */
  let shown = null;
  const draw = () => {
    if (!shown) return;
    const width = body.clientWidth;
    const height = Math.round((shown.height / shown.width) * width);
    canvas.style.height = `${height}px`;
    prepared(canvas, width, height).drawImage(shown, 0, 0, width, height);
  };

  const loader = new Newest(
    (/** @type {{at: string | undefined, width: number}} */ question) => api.picture(session.info.name, { topic, ...question }, signal),
    ({ bitmap, time }) => {
      shown?.close();
      shown = bitmap;
      draw();
      problem.hidden = true;
      canvas.classList.remove("stale");
      sayTime(note, session, time);
    },
    (error) => {
      say(problem, error instanceof api.ApiError && error.status === 404 ? "No image up to here." : error instanceof Error ? error.message : String(error));
      problem.hidden = false;
      canvas.classList.add("stale");
      say(note, "");
    },
    busy,
  );
  let asked = "";
  const want = () => {
    const pixels = body.clientWidth * Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.min(WIDTH_MAX, Math.max(WIDTH_STEP, Math.ceil((pixels * WIDTH_SPARE) / WIDTH_STEP) * WIDTH_STEP));
    const key = `${session.asked} ${width}`;
    if (key === asked && !session.follows) return;
    asked = key;
    loader.want({ at: session.asked, width });
  };
  on("head", want);
  on("newest", want);
  const resized = new ResizeObserver(() => {
    draw();
    want();
  });
  resized.observe(body);
  signal.addEventListener("abort", () => {
    resized.disconnect();
    shown?.close();
    shown = null;
  });
}
