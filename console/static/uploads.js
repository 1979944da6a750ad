// All uploads of this page: their queue, the tray that shows them, and where they begin.

import { button, fill, h, icon } from "./dom.js";
import { bytes, duration, time, visible, visibleText } from "./text.js";
import { ask, confirm, errorBox, toast } from "./notice.js";
import { chosen, dropped } from "./files.js";
import { parts } from "./router.js";
import { Upload } from "./upload.js";
import { entries, forget } from "./journal.js";
import { claim, exclusive, release, releaseAll, unclaimed } from "./claims.js";
import * as api from "./api.js";

/** Files at the same time; their parts are sent in parallel, too. */
const mostFiles = 3;

/** @type {Upload[]} */
const uploads = [];
/** @type {Map<Upload, HTMLElement>} */
const rows = new Map();
const live = ["waiting", "sending", "completing"];

/**
 * Returns where files of this view are stored, or null if it is no folder.
 * @returns {{account: string, prefix: string}|null}
 */
function target() {
  const [first, account, prefix = ""] = parts();
  return first === "blobs" && account ? { account, prefix } : null;
}

/**
 * Asks how to upload files, and begins to send them.
 * @param {import("./files.js").Found[]} found
 * @param {{account: string, prefix: string}} to
 */
export async function offer(found, to) {
  if (found.length === 0) return;
  const total = found.reduce((sum, f) => sum + f.file.size, 0);
  const expiry = h("select", { id: "expiry" }, [["", "Never"], ["3600", "In 1 hour"], ["86400", "In 1 day"], ["604800", "In 7 days"], ["at", "At a time…"]].map(([value, title]) => h("option", { value }, title)));
  const at = h("input", { type: "datetime-local", "aria-label": "Time of expiry", hidden: true });
  expiry.addEventListener("change", () => {
    at.hidden = expiry.value !== "at";
    at.required = !at.hidden; // or a blob whose expiry was left empty would never expire
  });
  const replace = h("input", { type: "checkbox", id: "replace" });
  const files = found.length === 1 ? "1 file" : `${found.length} files`;
  const answer = await ask(`Upload ${files} (${bytes(total)})?`, [
    h("p", null, found.length === 1 ? visible(found[0].path) : h("span", null, visible(found[0].path), ` and ${found.length - 1} more`), " to ", visible(`${to.account}/${to.prefix}`)),
    h("label", { for: "expiry" }, "Expires"), expiry, at,
    h("label", { class: "check" }, replace, " Replace blobs that have the same name"),
  ], [{ label: "Cancel", value: "" }, { label: "Upload", value: "upload", class: "primary" }]);
  if (answer !== "upload") return;
  const expires = expiresAt(expiry.value, at.value);
  const interrupted = await entries(api.base.href);
  for (const { file, path, handle } of found) {
    const name = to.prefix + path;
    // The expiry of an upload is that with which it was begun.
    const before = interrupted.find((e) => e.account === to.account && e.name === name && e.expires === expires && sameFile(e, file) && !inTray(e.uploadId));
    const more = before && (await claim(before.uploadId)) ? before : {}; // another tab continues its own
    add(new Upload(file, to.account, name, { expires, replace: replace.checked }, { ...more, handle }));
  }
}

const sameFile = (entry, file) => entry.size === file.size && entry.modified === file.lastModified;

function expiresAt(choice, at) {
  if (choice === "") return undefined;
  if (choice !== "at") return new Date(Date.now() + Number(choice) * 1000).toISOString();
  return new Date(at).toISOString();
}

/** @param {Upload} upload */
function add(upload) {
  if (upload.uploadId) list.querySelector(`[data-upload-id="${CSS.escape(upload.uploadId)}"]`)?.remove(); // it is no longer interrupted
  uploads.push(upload);
  upload.addEventListener("change", () => changed(upload));
  upload.addEventListener("progress", () => paint(upload));
  rows.set(upload, row(upload));
  list.append(rows.get(upload));
  changed(upload);
}

function changed(upload) {
  if (upload.state === "failed" && !rows.has(upload)) toast(`${visibleText(upload.name)} was not cancelled. ${upload.error.message}`);
  if (upload.state === "cancelled") {
    rows.get(upload).remove();
    rows.delete(upload);
    uploads.splice(uploads.indexOf(upload), 1);
  } else {
    paint(upload);
  }
  if (upload.state === "done") stored(upload);
  next();
  header();
}

/** Begins the next uploads that wait. */
function next() {
  let running = uploads.filter((u) => u.state === "sending" || u.state === "completing").length;
  for (const upload of uploads) {
    if (running >= mostFiles) return;
    if (upload.state !== "waiting") continue;
    running++;
    void upload.run();
  }
}

/** The event of the window after blobs were stored where the folder that is shown has them. */
export const storedEvent = "sluice-stored";
let announcement = 0;

function stored(upload) {
  const to = target();
  if (to?.account === upload.account && upload.name.startsWith(to.prefix)) announce();
}

/** Sends the event soon: many uploads may end together. A dialog returns the focus to a row, which must not go meanwhile. */
function announce() {
  clearTimeout(announcement);
  announcement = setTimeout(() => (document.querySelector("dialog[open]") ? announce() : dispatchEvent(new Event(storedEvent))), 300);
}

const tray = document.getElementById("tray");
const title = h("h2", null, "Uploads");
const list = h("ul", { class: "uploads" });
const clear = button("close", "Remove the uploads that have ended", () => {
  for (const upload of uploads.filter((u) => u.state === "done" || u.state === "failed")) {
    rows.get(upload).remove();
    rows.delete(upload);
    uploads.splice(uploads.indexOf(upload), 1);
    release(upload.uploadId);
  }
  header();
}, { iconOnly: true });
tray.append(h("div", { class: "tray-head" }, title, clear), list);

function header() {
  const busy = uploads.filter((u) => live.includes(u.state)).length;
  title.textContent = busy > 0 ? `Uploading ${busy === 1 ? "1 file" : `${busy} files`}` : "Uploads";
  tray.hidden = list.children.length === 0;
  document.body.classList.toggle("with-tray", !tray.hidden);
  clear.hidden = !uploads.some((u) => u.state === "done" || u.state === "failed");
}

/** Returns the row of an upload. What changes in it is painted by paint. */
function row(upload) {
  const label = visibleText(upload.name);
  const bar = h("progress", { max: Math.max(1, upload.file.size), "aria-label": `Progress of ${label}` });
  const item = h("li", { dataset: { name: upload.name } },
    h("div", { class: "upload-name" }, visible(upload.name)),
    h("div", { class: "upload-actions" }), bar, h("p", { class: "facts" }), h("div", { class: "upload-error" }));
  item.measured = { at: performance.now(), sent: 0, rate: 0 };
  return item;
}

const words = { waiting: "waiting", paused: "paused", completing: "completing", done: "uploaded", failed: "not uploaded" };

function paint(upload) {
  const item = rows.get(upload);
  if (!item) return;
  const [, actions, bar, facts, error] = item.children;
  const { sent } = upload, size = upload.file.size;
  bar.value = size === 0 && upload.state === "done" ? 1 : sent;
  bar.hidden = upload.state === "done";
  let text = `${bytes(sent)} of ${bytes(size)}`;
  if (upload.state === "sending") {
    const rate = rateOf(item.measured, sent);
    if (rate > 0) text += ` · ${bytes(rate)}/s · ${duration((size - sent) / rate)} left`;
  } else {
    text = upload.state === "done" ? `${bytes(size)} · uploaded` : `${text} · ${words[upload.state]}`;
    item.measured = { at: performance.now(), sent, rate: 0 };
  }
  facts.textContent = text;
  if (item.dataset.state === upload.state) return;
  item.dataset.state = upload.state;
  const label = visibleText(upload.name);
  fill(actions,
    (upload.state === "sending" || upload.state === "waiting") && button("pause", `Pause ${label}`, () => upload.pause(), { iconOnly: true }),
    upload.state === "paused" && button("play", `Resume ${label}`, () => upload.become("waiting"), { iconOnly: true }),
    upload.state === "failed" && button("play", `Try ${label} again`, () => upload.become("waiting"), { iconOnly: true }),
    upload.state !== "done" && button("close", `Cancel ${label}`, () => void upload.cancel(), { iconOnly: true }));
  fill(error, upload.state === "failed" && errorBox(upload.error),
    upload.error?.code === "precondition_failed" && button(null, "Replace it", () => {
      upload.options.replace = true;
      upload.become("waiting");
    }));
}

/** Returns the bytes a second of the last seconds. */
function rateOf(measured, sent) {
  const now = performance.now();
  const seconds = (now - measured.at) / 1000;
  if (seconds < 0.5) return measured.rate;
  const present = Math.max(0, sent - measured.sent) / seconds;
  measured.rate = measured.rate ? 0.6 * measured.rate + 0.4 * present : present;
  measured.at = now;
  measured.sent = sent;
  return measured.rate;
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

/**
 * Continues an upload that a reload interrupted.
 * @param {import("./journal.js").Entry} entry
 */
export async function resume(entry) {
  const file = (await byHandle(entry.handle)) ?? (await chooseOne());
  if (!file) return;
  if (!sameFile(entry, file)) {
    toast("This is not the file that was being uploaded: its size or its time differs.");
    return;
  }
  if (!(await claim(entry.uploadId))) return toast(elsewhere(entry));
  add(new Upload(file, entry.account, entry.name, { expires: entry.expires, replace: entry.replace }, entry));
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

/** Reports whether an upload is in the tray. */
export const inTray = (uploadId) => uploads.some((u) => u.uploadId === uploadId);

/** Lets files be dropped anywhere on the page. */
export function acceptDrops() {
  const cover = h("div", { id: "drop", hidden: true }, h("p", null, icon("upload"), h("span", null, "")));
  document.body.append(cover);
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault(); // or the browser would leave the page for the file
    const to = target();
    event.dataTransfer.dropEffect = to ? "copy" : "none";
    cover.hidden = false;
    cover.querySelector("span").textContent = to ? `Upload to ${visibleText(`${to.account}/${to.prefix}`)}` : "Open an account first, then drop files there";
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) cover.hidden = true;
  });
  addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    cover.hidden = true;
    const to = target();
    if (!to) return;
    dropped(event.dataTransfer).then((found) => offer(found, to), (error) => toast(`The files cannot be read: ${error}`));
  });
  addEventListener("beforeunload", (event) => {
    if (uploads.some((u) => live.includes(u.state))) event.preventDefault();
  });
  addEventListener("pagehide", releaseAll);
}

/** Says at the start that uploads can be continued, and of those of other tabs when these have ended. */
export async function offerInterrupted() {
  for (const { uploadId } of await entries(api.base.href)) void offerWhenUnclaimed(uploadId);
}

async function offerWhenUnclaimed(uploadId) {
  await unclaimed(uploadId);
  const entry = (await entries(api.base.href)).find((e) => e.uploadId === uploadId);
  if (!entry || inTray(uploadId)) return;
  interruptedRow(entry);
  header();
}

const elsewhere = (entry) => `Another tab continues ${visibleText(entry.name)}.`;

function interruptedRow(entry) {
  const label = visibleText(entry.name);
  const item = h("li", { dataset: { name: entry.name, uploadId: entry.uploadId, state: "interrupted" } }, h("div", { class: "upload-name" }, visible(entry.name)),
    h("div", { class: "upload-actions" },
      button("play", `Continue ${label}`, () => void resume(entry), { iconOnly: true }),
      button("close", `Abort ${label}`, async () => {
        const elsewhereToo = exclusive ? "" : " It also ends if another tab continues it.";
        if (!(await confirm("Abort this upload?", [h("p", null, h("strong", null, visible(entry.name)), `: what was received is deleted.${elsewhereToo}`)], "Abort upload"))) return;
        if (!(await claim(entry.uploadId))) return toast(elsewhere(entry));
        try {
          await abort(entry);
          item.remove();
          header();
        } catch (error) {
          toast(error.message);
        } finally {
          release(entry.uploadId);
        }
      }, { iconOnly: true })),
    h("p", { class: "facts" }, `${bytes(entry.size)} · interrupted${entry.handle ? "" : ": choose the file again to continue"}`));
  list.append(item);
}

/** Ends an upload that is open, and forgets it. */
async function abort(entry) {
  try {
    await api.send(api.urlOf(`v1/multipart-uploads/${entry.uploadId}`), { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404 && error.status !== 409) throw error;
  }
  await forget(entry.uploadId);
}
