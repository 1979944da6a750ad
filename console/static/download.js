// Saving a blob to a file.

import { h } from "./dom.js";
import { bytes, visibleText } from "./text.js";
import { toast } from "./notice.js";
import { mostFetched } from "./preview.js";
import { APIError, readHeaders, send } from "./api.js";

/**
 * Saves a blob. Where an element cannot fetch it and it is too large for memory, it is streamed to a
 * file that the user chooses, if the browser can do that.
 * @param {import("./preview.js").Shown} blob
 */
export async function download(blob) {
  const name = blob.name.slice(blob.name.lastIndexOf("/") + 1);
  if (blob.reads === "public") return save(blob.url, name);
  if (blob.size <= mostFetched) {
    const response = await send(blob.url, { headers: readHeaders() });
    const address = URL.createObjectURL(await response.blob());
    save(address, name);
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    return;
  }
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

function save(address, name) {
  const a = h("a", { href: address, download: name });
  document.body.append(a);
  a.click();
  a.remove();
}
