// Shows the point under the pointer: the time, the lane's values there, and a thumbnail over the ruler.

/** @import { Session } from "./session.js" */

import * as api from "./api.js";
import { fill, h, prepared } from "./dom.js";
import { clock, span } from "./format.js";
import { Newest } from "./loader.js";
import { isImage } from "./kinds.js";

const THUMB_WIDTH = 192;

/** What canvases have to say of a place. @type {WeakMap<Element, (x: number) => string[]>} */
const sayings = new WeakMap();

/** Lets a canvas say what it shows at a place. @param {HTMLCanvasElement} canvas @param {(x: number) => string[]} at */
export const sayAt = (canvas, at) => sayings.set(canvas, at);

/**
 * @param {HTMLElement} timeline
 * @param {Session} session
 * @param {{point: (x: number | null) => void}} crossing
 */
export function hover(timeline, session, crossing) {
  const words = h("div", { className: "words" });
  const picture = h("canvas", { className: "thumb", hidden: true });
  const tip = h("div", { className: "tip", hidden: true, role: "status", "aria-live": "off" }, picture, words);
  const camera = session.info.topics.find((topic) => isImage(topic.type) && topic.message_count > 0)?.name;
  let wantsPicture = false;

  const loader = new Newest(
    (/** @type {string} */ at) => api.picture(session.info.name, { topic: camera ?? "", at, width: THUMB_WIDTH }, session.signal),
    ({ bitmap }) => {
      const height = Math.round((bitmap.height / bitmap.width) * THUMB_WIDTH);
      prepared(picture, THUMB_WIDTH, height).drawImage(bitmap, 0, 0, THUMB_WIDTH, height);
      picture.style.height = `${height}px`;
      bitmap.close();
      picture.hidden = !wantsPicture;
    },
    () => (picture.hidden = true),
  );

  /** Where the pointer is. @type {{target: HTMLCanvasElement, x: number} | null} */
  let under = null;
  const tell = () => {
    if (!under) return;
    const time = session.axis.time(under.x);
    fill(words, h("b", {}, clock(session.at(time))), ` ${span(time)}`, ...(sayings.get(under.target)?.(under.x) ?? []).map((line) => h("div", {}, line)));
  };
  session.on("timeline", tell);

  const leave = () => {
    tip.hidden = true;
    under = null;
    wantsPicture = false;
    crossing.point(null);
  };

  timeline.addEventListener("pointermove", (event) => {
    const target = event.target instanceof HTMLCanvasElement ? event.target : null;
    if (!target || event.pointerType === "touch" || target.classList.contains("overview")) return leave();
    const box = target.getBoundingClientRect();
    const x = event.clientX - box.left;
    const time = session.axis.time(x);
    if (x < 0 || x > session.axis.width) return leave();
    crossing.point(x);
    under = { target, x };
    tell();
    tip.hidden = false;
    wantsPicture = target.classList.contains("ruler") && camera !== undefined;
    if (wantsPicture) loader.want(session.at(session.axis.inBounds(time)).toString());
    else picture.hidden = true;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
    tip.style.transform = `translate(${Math.max(4, left)}px, ${below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 12}px)`;
  }, { signal: session.signal });
  timeline.addEventListener("pointerleave", leave, { signal: session.signal });
  return tip;
}
