// The start of uploads: files that were chosen or dropped, and the question how to upload them.

import { button, h } from "./dom.js";
import { bytes, some, visible } from "./text.js";
import { ask } from "./notice.js";
import { chosen } from "./files.js";
import { Upload } from "./upload.js";
import { UploadBatch } from "./uploadbatch.js";
import { queue } from "./uploadqueue.js";
import { entries } from "./journal.js";
import { claim } from "./claims.js";
import * as api from "./api.js";

const expiries = [["", "Never"], ["3600", "In 1 hour"], ["86400", "In 1 day"], ["604800", "In 7 days"], ["at", "At a time…"]];
const conflicts = [["ask", "Ask when it is found"], ["replace", "Replace it: its content is lost"], ["skip", "Skip the file"], ["both", "Keep both: the new one has a number"]];

/**
 * Asks how to upload files, and begins to send them.
 * @param {import("./files.js").Found[]} found
 * @param {{account: string, prefix: string}} to
 */
export async function offer(found, to) {
  if (found.length === 0) return;
  const total = found.reduce((sum, f) => sum + f.file.size, 0);
  const select = (id, choices) => /** @type {HTMLSelectElement} */ (h("select", { id }, choices.map(([value, title]) => h("option", { value }, title))));
  const expiry = select("expiry", expiries), existing = select("existing", conflicts);
  const at = h("input", { type: "datetime-local", "aria-label": "Time of expiry", hidden: true });
  expiry.addEventListener("change", () => {
    at.hidden = expiry.value !== "at";
    at.required = !at.hidden; // or a blob whose expiry was left empty would never expire
  });
  const answer = await ask(`Upload ${some(found.length, "file")} (${bytes(total)})?`, [
    h("p", null, found.length === 1 ? visible(found[0].path) : h("span", null, visible(found[0].path), ` and ${found.length - 1} more`), " to ", visible(`${to.account}/${to.prefix}`)),
    h("label", { for: "expiry" }, "Expires"), expiry, at,
    h("label", { for: "existing" }, "If a blob of the name exists already"), existing,
  ], [{ label: "Cancel", value: "" }, { label: "Upload", value: "upload", class: "primary" }]);
  if (answer !== "upload") return;
  const options = { expires: expiresAt(expiry.value, at.value), existing: existing.value };
  const interrupted = await entries(api.base.href);
  const uploads = [];
  for (const { file, path, handle } of found) {
    const name = to.prefix + path;
    // An upload keeps the expiry with which it began.
    const before = interrupted.find((e) => e.account === to.account && e.name === name && e.expires === options.expires && sameFile(e, file) && !queue.has(e.uploadId));
    const more = before && (await claim(before.uploadId)) ? before : {}; // another tab continues its own
    uploads.push(new Upload(file, to.account, name, options, { ...more, handle }));
  }
  queue.add(new UploadBatch(to, options, uploads));
}

/** Reports whether an interrupted upload sent this file. */
export const sameFile = (entry, file) => entry.size === file.size && entry.modified === file.lastModified;

function expiresAt(choice, at) {
  if (choice === "") return undefined;
  if (choice !== "at") return new Date(Date.now() + Number(choice) * 1000).toISOString();
  return new Date(at).toISOString();
}

/**
 * Returns the buttons that choose files and folders for an account.
 * @param {{account: string, prefix: string}} to
 */
export function choosers(to) {
  const choose = (label, attributes) => {
    const input = h("input", { type: "file", multiple: true, hidden: true, "aria-label": label, ...attributes });
    input.addEventListener("change", () => {
      void offer(chosen(input), to);
      input.value = "";
    });
    return [button("upload", label, () => input.click(), { class: attributes.webkitdirectory ? "" : "primary" }), input];
  };
  return [...choose("Upload files", {}), ...choose("Upload a folder", { webkitdirectory: true })];
}
