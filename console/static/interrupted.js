// Uploads that a reload or the end of a tab has interrupted: the tray offers to continue or to abort them.

import { button, h } from "./dom.js";
import { bytes, visible, visibleText } from "./text.js";
import { confirm, toast } from "./notice.js";
import { Upload } from "./upload.js";
import { UploadBatch } from "./uploadbatch.js";
import { queue } from "./uploadqueue.js";
import { addRow, removeRow } from "./tray.js";
import { entries, forget } from "./journal.js";
import { claim, exclusive, release, unclaimed } from "./claims.js";
import { sameFile } from "./uploads.js";
import * as api from "./api.js";

/** @type {Map<string, HTMLElement>} rows by upload */
const rows = new Map();

/** Offers to continue uploads: at the start, and when another tab with one has ended. */
export async function offerInterrupted() {
  queue.addEventListener("added", ({ detail: batch }) => batch.uploads.forEach((upload) => remove(upload.uploadId)));
  for (const { uploadId } of await entries(api.base.href)) void offerWhenUnclaimed(uploadId);
}

async function offerWhenUnclaimed(uploadId) {
  await unclaimed(uploadId);
  const entry = (await entries(api.base.href)).find((e) => e.uploadId === uploadId);
  if (!entry || queue.has(uploadId)) return;
  const row = rowOf(entry);
  rows.set(uploadId, row);
  addRow(row);
}

function remove(uploadId) {
  const row = rows.get(uploadId);
  if (!row) return;
  rows.delete(uploadId);
  removeRow(row);
}

const elsewhere = (entry) => `Another tab continues ${visibleText(entry.name)}.`;

function rowOf(entry) {
  const label = visibleText(entry.name);
  return h("li", { dataset: { name: entry.name, state: "interrupted" } }, h("div", { class: "upload-name" }, visible(entry.name)),
    h("div", { class: "upload-actions" },
      button("play", `Continue ${label}`, () => void resume(entry), { iconOnly: true }),
      button("close", `Abort ${label}`, () => void abort(entry), { iconOnly: true })),
    h("p", { class: "facts" }, `${bytes(entry.size)} · interrupted${entry.handle ? "" : ": choose the file again to continue"}`));
}

/**
 * Continues an upload.
 * @param {import("./journal.js").Entry} entry
 */
async function resume(entry) {
  const file = (await byHandle(entry.handle)) ?? (await chooseOne());
  if (!file) return;
  if (!sameFile(entry, file)) {
    toast("This is not the file that was being uploaded: its size or its time differs.");
    return;
  }
  if (!(await claim(entry.uploadId))) return toast(elsewhere(entry));
  const { account, name, expires, existing = "ask" } = entry;
  const options = { expires, existing };
  queue.add(new UploadBatch({ account, prefix: "" }, options, [new Upload(file, account, name, options, entry)]));
}

/**
 * Returns the file of a handle, unless the user or the browser refuses it.
 * @param {FileSystemFileHandle|undefined} handle
 */
async function byHandle(handle) {
  try {
    if (handle && navigator.userActivation?.isActive && (await handle.requestPermission({ mode: "read" })) === "granted") return await handle.getFile();
  } catch {
    // The user can choose the file.
  }
  return undefined;
}

/** @returns {Promise<File|undefined>} */
function chooseOne() {
  return new Promise((resolve) => {
    const input = h("input", { type: "file", hidden: true, id: "resume-file", "aria-label": "The same file" });
    input.addEventListener("change", () => {
      resolve(input.files[0]);
      input.remove();
    });
    input.addEventListener("cancel", () => {
      resolve(undefined);
      input.remove();
    });
    document.body.append(input);
    input.click();
  });
}

/** Asks, and ends an upload that is open. */
async function abort(entry) {
  const elsewhereToo = exclusive ? "" : " It also ends if another tab continues it.";
  if (!(await confirm("Abort this upload?", [h("p", null, h("strong", null, visible(entry.name)), `: the received parts are deleted.${elsewhereToo}`)], "Abort upload"))) return;
  if (!(await claim(entry.uploadId))) return toast(elsewhere(entry));
  try {
    await end(entry);
    remove(entry.uploadId);
  } catch (error) {
    toast(error.message);
  } finally {
    release(entry.uploadId);
  }
}

/** Ends an upload that is open, and forgets it. */
async function end(entry) {
  try {
    await api.send(api.urlOf(`v1/multipart-uploads/${entry.uploadId}`), { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404 && error.status !== 409) throw error;
  }
  await forget(entry.uploadId);
}
