// Time between a panel's message and the playhead.

/** @import { Session } from "./session.js" */

import { say } from "./dom.js";
import { clock, exact, span } from "./format.js";

/**
 * While the newest is followed its age, else the distance from the playhead.
 * @param {HTMLElement} note
 * @param {Session} session
 * @param {string | null} time of the message shown
 */
export function sayTime(note, session, time) {
  if (time === null) return say(note, "");
  const at = session.since(time);
  note.title = `${exact(session.at(at))}\n${time}`;
  if (session.follows) {
    const now = session.nowNanos;
    say(note, now === null ? clock(session.at(at)) : `${span(Math.max(0, now - at))} old`);
  } else {
    const before = session.head - at;
    say(note, before === 0 ? "at the playhead" : `${span(before)} before`);
  }
}
