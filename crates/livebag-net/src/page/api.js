// The server's HTTP API: the only module that asks it anything.

/** @import { BagRow, BagInfo, RobotRow, Timeline, Series, FieldRow, MessageRow, Status } from "./types.js" */

import { pause } from "./loader.js";

const TOKEN = "livebag.token";
const RETRIES = 4;

/** An answer that is none. */
export class ApiError extends Error {
  /** @param {number} status @param {string} text */
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** For this tab only. */
export const token = () => sessionStorage.getItem(TOKEN);

/** @param {string | null} value */
export function setToken(value) {
  if (value === null) sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, value);
}

/** Told when the server wants a token. @type {{wanted: () => void}} */
export const login = { wanted: () => {} };

/** What this server has beside recordings. */
export const server = { viewer: false, robots: false };

/** Looks what it has; an older one does not tell. @param {AbortSignal} signal */
export async function lookAtServer(signal) {
  try {
    const { viewer, robots } = await json("/v1/status", signal);
    Object.assign(server, { viewer: viewer === true, robots: robots === true });
  } catch {
    // What it serves does not depend on it.
  }
}

/**
 * Gives this browser the cookie with which viewers of this server's origin read: they cannot send the token.
 * @param {AbortSignal} signal
 */
export async function shareLogin(signal) {
  if (token() === null) return;
  try {
    await ask("/v1/session", signal);
  } catch {
    // Views that need the token say what is wrong with it.
  }
}

/** @typedef {{[name: string]: string | number | boolean | null | undefined | string[]}} Parameters */

/** An address of this server. @param {string} path @param {Parameters} [parameters] */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) value.forEach((item) => query.append(name, item));
    else if (value !== null && value !== undefined && value !== false) query.append(name, String(value));
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** @param {string} name @param {string} [what] */
const bagPath = (name, what) => `/v1/bags/${encodeURIComponent(name)}${what ? `/${what}` : ""}`;

/**
 * Asks; a server that is busy is asked again.
 * @param {string} url
 * @param {AbortSignal} signal
 * @returns {Promise<Response>}
 */
async function ask(url, signal) {
  for (let round = 1; ; round += 1) {
    const secret = token();
    const headers = new Headers(secret === null ? [] : [["Authorization", `Bearer ${secret}`]]);
    const response = await fetch(url, { signal, headers, cache: "no-store", referrerPolicy: "no-referrer" });
    if (response.ok) return response;
    if (response.status === 503 && round < RETRIES && (await pause(300 * round, signal))) continue;
    if (response.status === 401) login.wanted();
    throw new ApiError(response.status, await reason(response));
  }
}

/** @param {Response} response */
async function reason(response) {
  try {
    return String((await response.json()).error);
  } catch {
    return `the server answered ${response.status}`;
  }
}

/** Keeps integers that a number would round. @param {string} text */
export function parsed(text) {
  /** @param {string} _key @param {unknown} value @param {{source?: string}} [context] */
  const revive = (_key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
    return context?.source && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  };
  return JSON.parse(text, revive);
}

/** @param {string} url @param {AbortSignal} signal */
const json = async (url, signal) => (await ask(url, signal)).json();

/** @param {AbortSignal} signal @returns {Promise<BagRow[]>} */
export const bags = (signal) => json("/v1/bags", signal);

/** What other robots record. @param {AbortSignal} signal @returns {Promise<RobotRow[]>} */
export const robots = (signal) => json("/v1/robots", signal);

/** @param {string} name @param {AbortSignal} signal @param {boolean} [schemas] @returns {Promise<BagInfo>} */
export const bag = (name, signal, schemas = false) => json(address(bagPath(name), { schemas }), signal);

/**
 * @param {string} name
 * @param {{from?: string, to?: string, bins?: number, topic?: string[]}} question
 * @param {AbortSignal} signal
 * @returns {Promise<Timeline>}
 */
export const timeline = (name, question, signal) => json(address(bagPath(name, "timeline"), question), signal);

/**
 * @param {string} name
 * @param {{topic: string, field: string[], from: string, to: string, bins: number}} question
 * @param {AbortSignal} signal
 * @returns {Promise<Series>}
 */
export const series = (name, question, signal) => json(address(bagPath(name, "series"), question), signal);

/** @param {string} name @param {string} topic @param {AbortSignal} signal @returns {Promise<{fields: FieldRow[]}>} */
export const fields = (name, topic, signal) => json(address(bagPath(name, "fields"), { topic }), signal);

/**
 * The last message up to a time, or the next or the previous one.
 * @param {string} name
 * @param {{topic: string, at?: string, step?: "next" | "previous", array_items?: number}} question
 * @param {AbortSignal} signal
 * @returns {Promise<MessageRow>}
 */
export async function message(name, question, signal) {
  const response = await ask(address(bagPath(name, "message"), { ...question, format: "json" }), signal);
  return parsed(await response.text());
}

/**
 * Only the time of a message: nothing is decoded.
 * @param {string} name
 * @param {{topic: string, at: string, step: "next" | "previous"}} question
 * @param {AbortSignal} signal
 */
export async function timeOfMessage(name, question, signal) {
  const aborting = new AbortController();
  const both = AbortSignal.any([signal, aborting.signal]);
  const response = await ask(address(bagPath(name, "message"), { ...question, format: "raw" }), both);
  const time = response.headers.get("Livebag-Log-Time");
  aborting.abort(); // The head is enough.
  return time;
}

/**
 * A picture, at most `width` wide; the caller closes it.
 * @param {string} name
 * @param {{topic: string, at?: string, width: number}} question
 * @param {AbortSignal} signal
 */
export async function picture(name, question, signal) {
  const response = await ask(address(bagPath(name, "message"), { ...question, format: "jpeg" }), signal);
  const bitmap = await createImageBitmap(await response.blob());
  return { bitmap, time: response.headers.get("Livebag-Log-Time") };
}

/**
 * Points of one message: x, y, z and intensity of each.
 * @param {string} name
 * @param {{topic: string, at?: string, max: number}} question
 * @param {AbortSignal} signal
 */
export async function points(name, question, signal) {
  const response = await ask(address(bagPath(name, "points"), question), signal);
  const buffer = await response.arrayBuffer();
  const head = new DataView(buffer);
  if (buffer.byteLength < 12 || head.getUint32(0) !== 0x4c425031) throw new ApiError(0, "the server's points are not of version LBP1");
  const shown = head.getUint32(4, true);
  return {
    values: new Float32Array(buffer, 12, shown * 4),
    shown,
    total: head.getUint32(8, true),
    time: response.headers.get("Livebag-Log-Time"),
    frame: response.headers.get("Livebag-Frame-Id") ?? "",
  };
}

/**
 * Messages between two times, decoded, one after the other.
 * @param {string} name
 * @param {{topic: string[], from: string, to: string}} question
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<MessageRow, void, void>}
 */
export async function* history(name, question, signal) {
  const response = await ask(address(bagPath(name, "history"), { ...question, format: "jsonl", decode: true }), signal);
  for await (const line of lines(response)) {
    const row = line === "" ? null : parsed(line);
    if (row?.topic) yield row;
  }
}

/**
 * How a recording is doing, twice a second, until it ends: then `null`.
 * @param {string} name
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Status | null, void, void>}
 */
export async function* statuses(name, signal) {
  let kind = "";
  for await (const line of lines(await ask(bagPath(name, "events"), signal))) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line === "") kind = "";
    else if (line.startsWith("data:") && kind === "status") yield JSON.parse(line.slice(5));
    if (kind === "end") return yield null;
  }
}

/** A text's lines while it comes. @param {Response} response */
async function* lines(response) {
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = /** @type {string} */ (parts.pop());
      yield* parts;
    }
    if (rest !== "") yield rest;
  } finally {
    void reader.cancel().catch(() => {});
  }
}

/** Where a range lies as an MCAP file. @param {string} name @param {{topic: string[], from: string, to: string}} question */
export const historyAddress = (name, question) => address(bagPath(name, "history"), question);

/** The same as a file with byte ranges, for viewers. @param {string} name @param {Parameters} question */
export const fileAddress = (name, question) => address(`/bags/${encodeURIComponent(name)}.mcap`, question);

/** @param {string} url @param {AbortSignal} signal */
export const download = (url, signal) => ask(url, signal);
