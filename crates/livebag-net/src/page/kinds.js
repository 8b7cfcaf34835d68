// Which panels a topic's type has.

/** @import { PanelKind } from "./types.js" */

/** @param {string} type */
export const isImage = (type) => /(^|[/.])(Compressed)?Image$/.test(type);
/** @param {string} type */
export const isCloud = (type) => /(^|[/.])PointCloud2?$/.test(type);
/** @param {string} type */
export const isLog = (type) => /(^|[/.])(Log|DiagnosticArray|DiagnosticStatus)$/.test(type);

export const KIND_TITLES = /** @type {const} */ ({ image: "Image", points: "Points", log: "Log", message: "Message", plot: "Plot" });

/** The panels of a topic, the best first; any topic has messages and may have numbers. @param {string} type @returns {PanelKind[]} */
export function kindsOf(type) {
  if (isImage(type)) return ["image", "message", "plot"];
  if (isCloud(type)) return ["points", "message", "plot"];
  if (isLog(type)) return ["log", "message", "plot"];
  return ["message", "plot"];
}
