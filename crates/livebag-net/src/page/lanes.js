// A lane for each topic: how dense its messages are, where it was silent, and where it lost some.

/** @import { Session } from "./session.js" */
/** @import { TopicRow, LaneRow, LossRow, TopicStatus, Lost } from "./types.js" */

import { TOPIC_DATA } from "./choice.js";
import { causeColour, colour, onColours } from "./colours.js";
import { drawDensity, smoothed } from "./density.js";
import { fill, h, onceAFrame, say } from "./dom.js";
import * as format from "./format.js";
import { addGestures, alongAxis } from "./gestures.js";
import { sayAt } from "./hover.js";
import { openMenu } from "./menu.js";

const HEIGHT = 24;
/** A loss is at least this wide, however short it was. */
const LOSS_PIXELS = 3;

/** A topic's row: name, lane, figures. */
class Lane {
  isSeen = false;
  /** @type {LaneRow | null} */
  row = null;
  /** Its messages by bin, to draw. @type {ArrayLike<number>} */
  #smooth = [];

  /** @param {Session} session @param {TopicRow} topic */
  constructor(session, topic) {
    this.session = session;
    this.topic = topic;
    this.canvas = h("canvas", { className: "lane", role: "img" });
    this.label = h("button", {
      className: "topic", type: "button", draggable: true, title: `${topic.name}\n${topic.type}\nClick for panels, or drag it below`,
      "aria-haspopup": "menu", onclick: () => openMenu(session, topic.name, this.label),
    }, h("span", { className: "name" }, topic.name));
    this.label.addEventListener("dragstart", (event) => event.dataTransfer?.setData(TOPIC_DATA, topic.name));
    this.figures = { rate: h("span"), second: h("span"), bytes: h("span"), lost: h("span", { className: "lost" }) };
    this.element = h("div", { className: "row", "data-topic": topic.name }, this.label, this.canvas, h("div", { className: "figures" }, ...Object.values(this.figures)));
    addGestures(this.canvas, session, "pan");
    sayAt(this.canvas, (x) => this.#at(x));
  }

  /** @param {LaneRow | null} row */
  take(row) {
    this.row = row;
    this.#smooth = row ? smoothed(row.message_counts) : [];
  }

  draw() {
    if (!this.isSeen) return;
    const { session, row } = this;
    const { axis, timeline } = session;
    const context = alongAxis(this.canvas, session, HEIGHT);
    context.fillStyle = colour("line");
    context.fillRect(Math.max(0, axis.x(axis.start)), HEIGHT - 1, Math.min(axis.width, axis.x(axis.end)) - Math.max(0, axis.x(axis.start)), 1);
    if (!row || !timeline) return;
    const start = session.since(timeline.start_time);
    drawDensity(context, this.#smooth, (at) => Math.floor(axis.x(start + at * timeline.bin_nanos)), axis.width, HEIGHT);
    // Over the bars, whose means run over the edges of a silence.
    this.#drawGaps(context, row);
    for (const loss of row.lost) this.#drawLoss(context, loss);
    this.#drawUnplaced(context, row.lost_unplaced);
  }

  /** @param {CanvasRenderingContext2D} context @param {LaneRow} row */
  #drawGaps(context, row) {
    context.fillStyle = colour("gap");
    for (const gap of row.gaps) {
      const [left, right] = this.#edges(gap, 1);
      context.fillRect(left, 3, right - left, HEIGHT - 4);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {LossRow} loss */
  #drawLoss(context, loss) {
    const [left, right] = this.#edges(loss, LOSS_PIXELS);
    if (right < 0 || left > this.session.axis.width) return;
    context.fillStyle = causeColour(loss.cause);
    context.fillRect(left, 2, right - left, HEIGHT - 2);
  }

  /** What was lost at a time that nobody knows stands at the lane's end. @param {CanvasRenderingContext2D} context @param {Lost} lost */
  #drawUnplaced(context, lost) {
    const sum = unplaced(lost);
    if (sum === 0) return;
    const text = `+${format.count(sum)}`;
    context.font = "600 10px system-ui, sans-serif";
    const width = context.measureText(text).width + 8;
    const x = this.session.axis.width - width - 1;
    context.fillStyle = colour("back");
    context.fillRect(x - 2, 3, width + 3, 16);
    context.strokeStyle = colour("lost");
    context.strokeRect(x + 0.5, 4.5, width - 1, 13);
    context.fillStyle = colour("lost");
    context.fillText(text, x + 4, 15);
  }

  /** @param {{from_time: string, to_time: string}} stretch @param {number} least */
  #edges({ from_time, to_time }, least) {
    const { axis } = this.session;
    const [left, right] = [axis.x(this.session.since(from_time)), axis.x(this.session.since(to_time))];
    const spare = Math.max(0, least - (right - left)) / 2;
    return /** @type {const} */ ([Math.max(-4, left - spare), Math.min(axis.width + 4, right + spare)]);
  }

  /** What the lane shows at a place, in words. @param {number} x @returns {string[]} */
  #at(x) {
    const { session, row } = this;
    const { timeline, axis } = session;
    if (!row || !timeline) return [];
    const said = [];
    for (const loss of row.lost) {
      const [left, right] = this.#edges(loss, LOSS_PIXELS + 4);
      if (x < left || x > right) continue;
      const [from, to] = [session.since(loss.from_time), session.since(loss.to_time)];
      said.push(`${format.count(loss.count)} lost (${loss.cause ?? "cause not known"}) within ${format.span(to - from)} from ${format.clock(session.at(from))}`);
    }
    const gap = row.gaps.find((one) => session.since(one.from_time) <= axis.time(x) && axis.time(x) <= session.since(one.to_time));
    if (gap) said.push(`silent for ${format.span(session.since(gap.to_time) - session.since(gap.from_time))}`);
    const bin = Math.floor((axis.time(x) - session.since(timeline.start_time)) / timeline.bin_nanos);
    const messages = row.message_counts[bin];
    if (messages) said.push(`${format.plural(messages, "message")}, ${format.bytes(row.bytes[bin])} in ${format.span(timeline.bin_nanos)}`);
    if (x > axis.width - 40 && unplaced(row.lost_unplaced) > 0) said.push(`${format.plural(unplaced(row.lost_unplaced), "message")} lost at a time that is not known (${format.causes(row.lost_unplaced)})`);
    return said;
  }

  /** @param {TopicStatus | undefined} status */
  tell(status) {
    const { topic } = this;
    const { rate, second, bytes, lost } = this.figures;
    const lossRow = status?.lost ?? topic.lost;
    const sum = format.lostSum(lossRow);
    if (status && this.session.isLive) {
      const isMissing = status.state === "stalled" || status.state === "gone";
      say(rate, isMissing ? status.state : format.hertz(status.rate_hz));
      say(second, format.span(status.newest_age_nanos));
      say(bytes, format.bytesPerSecond(status.message_bytes_per_s));
      this.element.dataset.state = status.state;
    } else {
      say(rate, format.hertz(topic.rate_hz));
      say(second, format.count(status?.message_count ?? topic.message_count));
      say(bytes, format.bytes(topic.message_bytes));
      delete this.element.dataset.state;
    }
    say(lost, sum === 0 ? "0" : format.count(sum));
    lost.classList.toggle("some", sum > 0);
    lost.title = sum > 0 ? `lost: ${format.causes(lossRow)}` : "nothing lost";
    this.canvas.setAttribute("aria-label", `${topic.name}: ${rate.textContent}, ${sum === 0 ? "nothing lost" : `lost ${format.causes(lossRow)}`}`);
  }
}

/** @param {Lost} lost */
const unplaced = (lost) => lost.total ?? format.lostSum(lost);

/** All lanes, with a filter. @param {Session} session */
export function lanes(session) {
  const list = session.info.topics.map((topic) => new Lane(session, topic));
  const scroller = h("div", { className: "lanes", role: "group", "aria-label": "Topics" }, ...list.map((lane) => lane.element));
  const nothing = h("p", { className: "nothing", hidden: true }, "No topic has such a name or type.");
  scroller.append(nothing);
  const draw = onceAFrame(() => list.forEach((lane) => lane.draw()));

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const lane = list.find((one) => one.element === entry.target);
      if (lane) lane.isSeen = entry.isIntersecting;
    }
    draw();
  }, { root: scroller, rootMargin: "100px" });
  list.forEach((lane) => seen.observe(lane.element));
  session.signal.addEventListener("abort", () => seen.disconnect());

  session.on("view", draw);
  session.on("timeline", () => {
    const rows = new Map(session.timeline?.topics.map((row) => [row.topic, row]));
    for (const lane of list) lane.take(rows.get(lane.topic.name) ?? null);
    draw();
  });
  const tell = () => {
    const states = new Map(session.status?.topics.map((topic) => [topic.topic, topic]));
    for (const lane of list) lane.tell(states.get(lane.topic.name));
    say(/** @type {Element} */ (titles.children[1]), session.isLive ? "age" : "messages");
    say(/** @type {Element} */ (titles.children[2]), session.isLive ? "bytes/s" : "bytes");
  };
  const mark = () => list.forEach((lane) => lane.element.classList.toggle("stepped", lane.topic.name === session.topic));
  session.on("status", tell);
  session.on("topic", mark);
  onColours(draw, session.signal);

  const titles = h("div", { className: "figures titles" }, ...["rate", "messages", "bytes", "lost"].map((title) => h("span", {}, title)));
  tell();
  mark();
  const filter = h("input", { type: "search", className: "filter", placeholder: `Filter ${format.plural(list.length, "topic")}`, "aria-label": "Filter topics by name or type" });
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const { element, topic } of list) element.hidden = !words.every((word) => `${topic.name} ${topic.type}`.toLowerCase().includes(word));
    nothing.hidden = list.some((lane) => !lane.element.hidden);
  });
  return { scroller, filter, titles };
}

/** What the colours mean. @param {Session} session */
export function legend(session) {
  const element = h("div", { className: "legend", "aria-label": "Colours of losses" });
  const show = () => {
    const sums = new Map(format.CAUSES.map((cause) => [cause, 0]));
    for (const row of session.status?.topics ?? session.info.topics) {
      for (const cause of format.CAUSES) sums.set(cause, (sums.get(cause) ?? 0) + (row.lost[cause] ?? 0));
    }
    const lost = format.CAUSES.filter((cause) => (sums.get(cause) ?? 0) > 0);
    fill(element, lost.length === 0 ? h("span", {}, "nothing lost") : [h("span", {}, "lost:"), ...lost.map((cause) =>
      h("span", { className: "cause", title: format.CAUSE_TEXT[cause] }, h("i", { className: `swatch ${cause}` }), `${format.count(sums.get(cause) ?? 0)} ${cause}`))]);
  };
  show();
  session.on("status", show);
  return element;
}
