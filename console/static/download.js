// Saving a blob to a file.

import { h } from "./dom.js";
import { bytes, visibleText } from "./text.js";
import { toast } from "./notice.js";
import { lastOf } from "./names.js";
import { mostFetched } from "./preview.js";
import { APIError, readHeaders, send } from "./api.js";

/**
 * Saves a blob. Where an element cannot fetch it and it is too large for memory, it is streamed to a
 * file that the user chooses, if the browser can do that.
 * @param {import("./preview.js").Shown} blob
 */
export async function download(blob) {
  const name = lastOf(blob.name);
  if (blob.reads === "public") return save(blob.url, name);
  if (blob.size <= mostFetched) return downloadFetched(blob);
  if (!("showSaveFilePicker" in window)) {
    throw new APIError({ status: 0, detail: `This browser cannot save more than ${bytes(mostFetched)} with a key. Use the curl line.` });
  }
  let file;
  try {
    file = await window.showSaveFilePicker({ suggestedName: name });
  } catch {
    return; // the user chose no file
  }
  toast(`${visibleText(name)} is being saved`);
  const response = await send(blob.url, { headers: readHeaders() });
  await response.body.pipeTo(await file.createWritable()); // if it fails, the file stays as it was
  toast(`${visibleText(name)} was saved`);
}

/**
 * Saves a blob that is fetched into memory first.
 * @param {{name: string, url: string}} blob
 * @param {AbortSignal} [signal]
 */
export async function downloadFetched(blob, signal) {
  const response = await send(blob.url, { headers: readHeaders(), signal });
  saveContent(await response.blob(), lastOf(blob.name));
}

/**
 * Saves a content that is in memory.
 * @param {Blob} content
 * @param {string} name
 */
export function saveContent(content, name) {
  const address = URL.createObjectURL(content);
  save(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function save(address, name) {
  const a = h("a", { href: address, download: name });
  document.body.append(a);
  a.click();
  a.remove();
}
