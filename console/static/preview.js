// Previews. A blob is untrusted: images, audio and video are shown by their elements, PDF is drawn by
// a library, and everything else, HTML and SVG too, is shown as text. Nothing of a blob ever runs.

import { button, fill, h } from "./dom.js";
import { bytes, indented, visibleText } from "./text.js";
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
  fill(stage, h("pre", { class: "text", tabindex: "0", "aria-label": `Text of ${visibleText(blob.name)}` }, kind === "json" && whole ? indented(text) : text),
    !whole && h("p", { class: "note" }, `The first ${bytes(mostText)} of ${bytes(blob.size)}.`));
}
