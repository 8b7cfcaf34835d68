// The same range elsewhere: as a line for a shell or Python, and in other viewers.

import { fileAddress, historyAddress, server, token } from "./api.js";

/** Rerun downloads the whole file before it shows any of it. */
export const RERUN_BYTES_MAX = 300e6;

/** @typedef {{from: string, to: string, topic: string[]}} Question */
/** @typedef {{name: string, url?: string, copy?: string, note: string}} Viewer */

/** For a shell. @param {string} text */
export const quoted = (text) => (/^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** @param {string} name @param {Question} question */
export function lines(name, question) {
  const { from, to, topic } = question;
  const place = `${location.origin}/${encodeURIComponent(name)}`;
  const file = quoted(`${name}.mcap`);
  const secret = token() === null ? "" : ' -H "Authorization: Bearer $LIVEBAG_TOKEN"';
  const python = [
    "import livebag",
    `run = livebag.open(${JSON.stringify(place)}${token() === null ? "" : ', token=open("token").read().strip()'})`,
    `for message in run.history(${from}, ${to}${topic.length > 0 ? `, ${JSON.stringify(topic)}` : ""}):`,
    "    print(message.log_time, message.topic)",
  ];
  return [
    { name: "livebag query", text: `livebag query ${quoted(place)} history --from ${from} --to ${to}${topic.map((one) => ` -t ${quoted(one)}`).join("")} -o ${file}` },
    { name: "Python", text: `${python.join("\n")}\n` },
    { name: "curl", text: `curl${secret} ${quoted(location.origin + historyAddress(name, question))} -o ${file}` },
  ];
}

/** The viewer that this server brings, for which the page's login counts, too. @param {string} source @returns {Viewer[]} */
const ownViewer = (source) => (server.viewer ? [{ name: "Viewer", url: `/viewer/?${source}`, note: "The viewer of this server (livebag serve --viewer)" }] : []);

/** Viewers that watch a recording while it is written; those of other origins cannot send a token. @param {string} name @returns {Viewer[]} */
export function liveViewers(name) {
  const socket = `${location.origin.replace(/^http/, "ws")}/live/${encodeURIComponent(name)}`;
  const source = new URLSearchParams({ ds: "foxglove-websocket", "ds.url": socket }).toString();
  if (token() !== null) return ownViewer(source);
  return [
    ...ownViewer(source),
    { name: "Foxglove", url: `https://app.foxglove.dev/~/view?${source}`, note: "app.foxglove.dev connects to this server" },
    { name: "WebSocket", copy: socket, note: "The address for Foxglove, Lichtblick and PlotJuggler" },
  ];
}

/** @param {string} name @param {Question} question @param {number} bytes @returns {Viewer[]} */
export function viewers(name, question, bytes) {
  const file = location.origin + fileAddress(name, question);
  const source = new URLSearchParams({ ds: "remote-file", "ds.url": file }).toString();
  const isTooMuch = bytes > RERUN_BYTES_MAX;
  // A token must not be in an address that others log: the user enters it in the viewer.
  if (token() !== null) {
    return [...ownViewer(source), ...["Foxglove", "Lichtblick", "Rerun", "PlotJuggler"].map((viewer) => ({ name: viewer, note: `Copies the file's address for ${viewer}: add &access_token=… there`, copy: file }))];
  }
  return [
    ...ownViewer(source),
    { name: "Foxglove", url: `https://app.foxglove.dev/~/view?${source}`, note: "app.foxglove.dev reads from this server" },
    { name: "Lichtblick", url: `https://lichtblick-suite.github.io/lichtblick/?${source}`, note: "Lichtblick's page must be allowed: livebag serve --allow-origin https://lichtblick-suite.github.io" },
    { name: "PlotJuggler", copy: file, note: "PlotJuggler opens this address" },
    isTooMuch ? { name: "Rerun", note: "Rerun loads a file whole: choose a shorter range or fewer topics" }
      : { name: "Rerun", url: `https://app.rerun.io/?url=${encodeURIComponent(file)}`, note: "Rerun's page must be allowed: livebag serve --allow-origin https://app.rerun.io" },
  ];
}
