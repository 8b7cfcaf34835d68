// The row of what happened: splits, attachments, events.

/** @import { Session } from "./session.js" */
/** @import { Mark } from "./types.js" */

import { colour, onColours } from "./colours.js";
import { fill, h, onceAFrame } from "./dom.js";
import { clock, span } from "./format.js";
import { addGestures, alongAxis } from "./gestures.js";

const HEIGHT = 20;
const BUTTONS_MAX = 200;

/** @param {Mark} mark @param {Session} session */
function title(mark, session) {
  const long = session.since(mark.to_time) - session.since(mark.from_time);
  const words = mark.text === "" ? "" : `: ${mark.text}`;
  return `${mark.kind} ${mark.name}${words}\n${clock(session.at(session.since(mark.from_time)))}${long > 0 ? `, ${span(long)}` : ""}`;
}

/** @param {Session} session */
export function marks(session) {
  const canvas = h("canvas", { className: "splits" });
  const buttons = h("div", { className: "mark-buttons" });
  const element = h("div", { className: "marks" }, canvas, buttons);
  /** @type {{mark: Mark, button: HTMLButtonElement}[]} */
  let shown = [];
  let key = "";

  const make = () => {
    const named = session.marks.filter((mark) => mark.kind !== "split").sort((a, b) => session.since(a.from_time) - session.since(b.from_time)).slice(0, BUTTONS_MAX);
    const now = JSON.stringify(named);
    if (now === key) return;
    key = now;
    shown = named.map((mark) => ({ mark, button: h("button", {
      type: "button", className: `mark ${mark.kind}`, title: title(mark, session), "aria-label": title(mark, session),
      onclick: () => {
        session.moveHead(session.since(mark.from_time));
        if (mark.from_time !== mark.to_time) session.select({ from: session.since(mark.from_time), to: session.since(mark.to_time) });
      },
    }, mark.kind === "attachment" ? "" : mark.name) }));
    fill(buttons, ...shown.map(({ button }) => button));
  };

  const draw = onceAFrame(() => {
    const { axis } = session;
    const context = alongAxis(canvas, session, HEIGHT);
    context.strokeStyle = colour("muted");
    context.setLineDash([2, 2]);
    context.beginPath();
    for (const mark of session.marks) {
      if (mark.kind !== "split") continue;
      const x = Math.round(axis.x(session.since(mark.from_time))) + 0.5;
      context.moveTo(x, 0);
      context.lineTo(x, HEIGHT);
    }
    context.stroke();
    context.setLineDash([]);
    for (const [at, { mark, button }] of shown.entries()) {
      const [left, right] = [axis.x(session.since(mark.from_time)), axis.x(session.since(mark.to_time))];
      const next = shown.slice(at + 1).find((other) => other.mark.kind === "event");
      button.style.maxWidth = next && right - left <= 4 ? `${Math.max(4, axis.x(session.since(next.mark.from_time)) - left - 2)}px` : "";
      button.hidden = right < -4 || left > axis.width + 4;
      button.style.left = `${Math.max(0, left)}px`;
      button.style.width = right - left > 4 ? `${Math.min(right, axis.width) - Math.max(0, left)}px` : "";
      button.classList.toggle("long", right - left > 4);
    }
  });
  session.on("view", draw);
  session.on("timeline", () => {
    make();
    draw();
  });
  onColours(draw, session.signal);
  addGestures(canvas, session, "pan");
  return element;
}
