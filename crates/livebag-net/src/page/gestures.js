// Wheel, drag and pinch on anything that lies along the time axis.

/** @import { Session } from "./session.js" */

import { prepared } from "./dom.js";

/** A pointer that moved less was a click. */
const CLICK_PIXELS = 4;

/**
 * Effect of a drag: `scrub` moves the playhead, `pan` the view. With Shift, or while the user selects, it selects.
 * @param {HTMLElement} element as wide as the axis
 * @param {Session} session
 * @param {"scrub" | "pan"} drag
 */
export function addGestures(element, session, drag) {
  const { axis, signal } = session;
  /** @type {Map<number, number>} */
  const fingers = new Map();
  let start = { x: 0, y: 0, time: 0, from: 0, mode: drag === "scrub" ? "scrub" : "pan", moved: false };

  const place = (/** @type {PointerEvent | WheelEvent} */ event) => event.clientX - element.getBoundingClientRect().left;

  element.addEventListener("pointerdown", (event) => {
    if (event.button > 1) return;
    element.setPointerCapture(event.pointerId);
    const x = place(event);
    fingers.set(event.pointerId, x);
    if (fingers.size > 1) return;
    const isSelecting = event.shiftKey || document.body.classList.contains("selecting");
    const mode = event.button === 1 ? "pan" : isSelecting ? "select" : drag;
    start = { x, y: event.clientY, time: axis.time(x), from: axis.from, mode, moved: false };
    if (mode === "scrub") session.moveHead(start.time);
  }, { signal });

  element.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) return;
    const x = place(event);
    fingers.set(event.pointerId, x);
    const others = [...fingers].filter(([id]) => id !== event.pointerId);
    const other = others[0];
    if (other) {
      start.moved = true;
      pinch(before, x, other[1]);
      return;
    }
    if (Math.abs(x - start.x) > CLICK_PIXELS) start.moved = true;
    if (!start.moved) return;
    if (start.mode === "scrub") session.moveHead(axis.time(x));
    else if (start.mode === "select") session.select(ordered(start.time, axis.time(x)));
    else axis.show(start.from - ((x - start.x) / axis.width) * axis.length, start.from - ((x - start.x) / axis.width) * axis.length + axis.length);
  }, { signal });

  const end = (/** @type {PointerEvent} */ event) => {
    if (!fingers.delete(event.pointerId) || fingers.size > 0) return;
    if (event.type === "pointerup" && !start.moved && start.mode !== "scrub") session.moveHead(axis.time(place(event)));
    if (start.mode === "select" && start.moved) document.body.classList.remove("selecting");
  };
  element.addEventListener("pointerup", end, { signal });
  element.addEventListener("pointercancel", end, { signal });

  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    const [dx, dy] = event.shiftKey && event.deltaX === 0 ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    if (Math.abs(dx) > Math.abs(dy)) axis.pan(((dx * lines) / axis.width) * axis.length);
    else axis.zoom(Math.exp(Math.max(-300, Math.min(300, dy * lines)) * 0.002), axis.time(place(event)));
  }, { signal, passive: false });

  /** @param {number} before @param {number} now @param {number} still */
  function pinch(before, now, still) {
    const [wide, narrow] = [Math.abs(before - still), Math.abs(now - still)];
    if (wide > 4 && narrow > 4) axis.zoom(wide / narrow, axis.time(still));
  }
}

/** @param {number} a @param {number} b */
const ordered = (a, b) => ({ from: Math.min(a, b), to: Math.max(a, b) });

/**
 * A canvas along the axis.
 * @param {HTMLCanvasElement} canvas
 * @param {Session} session
 * @param {number} height
 */
export const alongAxis = (canvas, session, height) => prepared(canvas, session.axis.width, height);
