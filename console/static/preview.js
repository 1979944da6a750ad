// Previews. A blob is untrusted: images, audio and video are shown by their elements, PDF is drawn by
// a library, Markdown and CSV are made of elements without addresses, and everything else, HTML and
// SVG too, is shown as text. Nothing of a blob ever runs.

import { button, fill, h } from "./dom.js";
import { bytes, indented, visible, visibleText } from "./text.js";
import { kindOf } from "./kinds.js";
import { readHeaders, send } from "./api.js";

/** Greatest blob that is fetched into memory, because an element cannot send a key. */
export const mostFetched = 64 << 20;
/** Bytes of a text that are shown. */
const mostText = 256 << 10;

/**
 * @typedef {{account: string, name: string, url: string, size: number, contentType: string, etag?: string, reads: string, hosted: boolean}} Shown
 */

/**
 * Shows the preview of a blob.
 * @param {HTMLElement} stage
 * @param {Shown} blob
 * @param {AbortSignal} signal
 */
export async function preview(stage, blob, signal) {
  const kind = kindOf(blob);
  if (blob.size === 0) return fill(stage, h("p", { class: "empty" }, "The blob is empty."));
  switch (kind) {
    case "text":
    case "json":
    case "markdown":
    case "csv":
      return previewText(stage, blob, kind, signal);
    case "none":
      return fill(stage, h("div", { class: "empty" }, h("p", null, `There is no preview of ${blob.contentType}.`),
        button(null, "Show as text", () => void previewText(stage, blob, "text", signal))));
  }
  // Bytes that only a request with a key or a session gets are fetched.
  const direct = blob.reads === "public";
  if (!direct && blob.size > mostFetched) {
    return fill(stage, h("p", { class: "empty" }, `It is larger than ${bytes(mostFetched)}, so it can be downloaded, but not shown.`));
  }
  if (kind === "pdf") {
    fill(stage, h("p", { class: "empty" }, "Loading…"));
    const { showPDF } = await import("./pdf.js");
    return signal.aborted ? undefined : showPDF(stage, blob, readHeaders(), signal);
  }
  const source = direct ? blob.url : await fetched(blob, signal);
  const label = visibleText(blob.name);
  const failed = () => fill(stage, h("p", { class: "empty" }, `The browser cannot show this ${kind}.`));
  if (kind === "image") return fill(stage, h("img", { src: source, alt: label, onerror: failed }));
  fill(stage, h(kind, { src: source, controls: true, preload: "metadata", "aria-label": label, onerror: failed }));
}

/** Returns the address of the fetched bytes, until the view ends. */
async function fetched(blob, signal) {
  const response = await send(blob.url, { headers: readHeaders(), signal });
  const address = URL.createObjectURL(await response.blob());
  signal.addEventListener("abort", () => URL.revokeObjectURL(address));
  return address;
}

async function previewText(stage, blob, kind, signal) {
  const response = await send(blob.url, { headers: readHeaders({ Range: `bytes=0-${mostText - 1}` }), signal });
  const data = await response.arrayBuffer();
  const whole = data.byteLength === blob.size;
  const text = new TextDecoder().decode(data, { stream: !whole });
  const label = `Text of ${visibleText(blob.name)}`;
  const plain = () => h("pre", { class: "text", tabindex: "0", "aria-label": label }, kind === "json" && whole ? indented(text) : text);
  let shown = plain();
  if (kind === "markdown" || kind === "csv") {
    const { markdown } = await import("./markdown.js");
    if (signal.aborted) return;
    try {
      shown = h("div", { class: "text prose", tabindex: "0", role: "region", "aria-label": label }, kind === "csv" ? tableOf(text, blob) : markdown(text));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error; // parts in parts, too deep to be found
    }
  }
  const source = button(null, "Show the source", () => {
    shown.replaceWith(plain());
    source.remove();
  });
  fill(stage, shown, shown.localName === "div" && source, !whole && h("p", { class: "note" }, `The first ${bytes(mostText)} of ${bytes(blob.size)}.`));
}

/** Rows of a table that are shown. */
const mostRows = 1000;

/**
 * Returns the table of a text of values that are separated by commas (RFC 4180), tabs or semicolons.
 * @param {string} text
 * @param {Shown} blob
 */
function tableOf(text, { name, contentType }) {
  const line = text.slice(0, text.search(/\n|$/)), some = /tsv$/i.test(name) || contentType.includes("tab-") ? ["\t"] : [",", ";", "\t"];
  const found = /** @type {string} */ (some.sort((a, b) => line.split(b).length - line.split(a).length)[0]);
  const rows = [[""]];
  let quoted = false;
  for (let i = 0; i < text.length && rows.length <= mostRows; i++) {
    const c = text[i], row = rows.at(-1), at = row.length - 1;
    if (c === '"' && quoted && text[i + 1] === '"') row[at] += text[++i];
    else if (c === '"' && (quoted || row[at] === "")) quoted = !quoted;
    else if (c === found && !quoted) row.push("");
    else if (c === "\n" && !quoted) rows.push([""]);
    else if (c !== "\r" || quoted) row[at] += c;
  }
  if (rows.at(-1).join("") === "" || rows.length > mostRows) rows.pop();
  const cells = (tag, row) => h("tr", null, row.map((value) => h(tag, tag === "th" ? { scope: "col" } : null, visible(value))));
  return h("table", null, h("thead", null, rows.slice(0, 1).map((row) => cells("th", row))), h("tbody", null, rows.slice(1).map((row) => cells("td", row))));
}
