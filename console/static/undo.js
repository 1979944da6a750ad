// Undoing a deletion for ten seconds. An account that keeps versions restores them. Otherwise the
// deletion is not sent before, unless the page or the folder is left.

import { button, h } from "./dom.js";
import { parentOf } from "./names.js";
import { some, visibleText } from "./text.js";
import { carryOut, showOutcome } from "./outcome.js";
import { run } from "./batch.js";
import { announce } from "./stored.js";
import { countVersions, keeps } from "./versions.js";
import { toast } from "./notice.js";
import * as api from "./api.js";

/** How long a deletion can be undone, in milliseconds. */
const undoable = 10_000;
/** Most blobs that are deleted when the page is left; with more, the browser asks whether to leave. */
const mostLeaving = 100;

/**
 * A deletion that was not sent yet. It holds while the address is home.
 * @type {{account: string, blobs: import("./batch.js").Counted[], names: Set<string>, folders: string[], home: string, end: (how: "undo"|"now"|"later") => void}|null}
 */
let waiting = null;
/**
 * Deletions that are being sent: what is left of them is sent when the page is left.
 * @type {Set<{account: string, blobs: import("./batch.js").Counted[]}>}
 */
const sending = new Set();
/** @type {(() => void)|null} */
let undoLast = null;

/** The event of the window when a deletion begins or ends to wait. */
export const waitingEvent = "sluice-waiting";

/** Reports whether a deletion waits. */
export const waits = () => waiting !== null;

function wait(deletion) {
  waiting = deletion;
  dispatchEvent(new Event(waitingEvent));
}

/**
 * Reports whether a blob or folder is about to be deleted, so that no list shows it.
 * @param {string} account
 * @param {string} name
 */
export const leaving = (account, name) => waiting?.account === account && (waiting.names.has(name) || waiting.folders.some((folder) => name.startsWith(folder)));

/** Returns the deletions that the server may not have. */
const unsent = () => (waiting ? [waiting, ...sending] : [...sending]);

/** Undoes the last deletion, if it can still be undone. */
export const undo = () => undoLast?.();

/** Shows a notice with buttons, while the pointer or the focus is not on it, for ten seconds. */
function offer(sentence, choices, ended = () => {}) {
  const shown = h("div", { class: "toast offer", role: "group", "aria-label": "Undo" }, h("span", null, sentence), choices.map(([label, act]) => button(null, label, () => close(act))));
  const close = (act) => {
    clearTimeout(timer);
    if (undoLast === first) undoLast = null;
    shown.remove();
    act();
  };
  const first = () => close(choices[0][1]), over = () => (shown.matches(":hover, :focus-within") ? (timer = setTimeout(over, 1000)) : close(ended));
  let timer = setTimeout(over, undoable);
  undoLast = first;
  document.getElementById("toasts").append(shown);
  return close;
}

/**
 * Deletes blobs that the user has confirmed, so that it can be undone.
 * @param {string} account
 * @param {import("./batch.js").Item[]} items the selection
 * @param {import("./batch.js").Counted[]} blobs in it
 * @param {string} home the address of the folder that shows the selection
 * @returns {Promise<import("./batch.js").Outcome>}
 */
export async function deleteUndoably(account, items, blobs, home) {
  const what = blobs.length === 1 ? visibleText(blobs[0].name) : some(blobs.length);
  waiting?.end("later");
  if (await keeps(account, blobs)) {
    const outcome = await carryOut({ verb: "delete", account, quiet: true }, blobs);
    const { done } = outcome;
    if (done.length > 0) offer(`${done.length === blobs.length ? what : some(done.length)} ${done.length === 1 ? "was" : "were"} deleted, and can be restored.`, [["Undo", () => void restoreDeleted(account, items, done)]]);
    return outcome;
  }
  const control = new AbortController();
  const send = async (dialog) => {
    wait(null);
    // One without an ETag may have been replaced since it was sent.
    const sent = { account, blobs: blobs.filter((blob) => blob.etag) };
    if (!dialog) sending.add(sent);
    let outcome;
    try {
      outcome = dialog ? await carryOut({ verb: "delete", account }, blobs) : await run({ verb: "delete", account }, blobs, control.signal, () => {});
    } finally {
      sending.delete(sent);
    }
    announce(true);
    if (!dialog && outcome.done.length < blobs.length) await showOutcome(outcome, blobs.length, "deleted", false);
  };
  const ends = {
    undo: () => {
      wait(null);
      announce(true);
      toast(`${what} ${blobs.length === 1 ? "was" : "were"} left as ${blobs.length === 1 ? "it was" : "they were"}`);
    },
    now: () => void send(true), later: () => void send(false), left: () => (waiting = null),
  };
  const close = offer(`${what} will be deleted for good in ten seconds, or when you leave this folder.`, [["Undo", ends.undo], ["Delete now", ends.now]], ends.later);
  wait({ account, blobs, home, names: new Set(items.map((item) => item.name)), folders: items.filter((item) => item.kind === "folder").map((item) => item.name), end: (how) => close(ends[how]) });
  return { done: blobs, skipped: [], failed: [], left: [] };
}

/** Restores those blobs of a selection that were just deleted. */
async function restoreDeleted(account, items, blobs) {
  const names = new Set(blobs.map((blob) => blob.name));
  try {
    // One list is faster than a request for each of many blobs.
    const sought = items.length > mostLeaving ? [{ kind: "folder", name: parentOf(items[0].name) }] : items;
    const parts = await countVersions(account, sought, 0, new AbortController().signal, () => {});
    await carryOut({ verb: "restore", account }, parts.flatMap((part) => part.blobs).filter((blob) => names.has(blob.name)));
  } catch (error) {
    toast(error.message);
  }
  announce(true);
}

addEventListener("hashchange", () => waiting && location.hash !== waiting.home && waiting.end("later"));
addEventListener("beforeunload", (event) => unsent().some(({ blobs }) => blobs.length > mostLeaving) && event.preventDefault());
addEventListener("pagehide", () => {
  const list = unsent();
  waiting?.end("left");
  for (const { account, blobs } of list) {
    for (const { name, etag } of blobs) if (!api.unreachable(name)) void fetch(api.blobURL(account, name), { method: "DELETE", credentials: "omit", keepalive: true, headers: api.headers(etag ? { "If-Match": etag } : {}) }).catch(() => {});
  }
});
addEventListener("keydown", (event) => {
  if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || !undoLast || event.target.closest("input, textarea, select, dialog")) return;
  event.preventDefault();
  undo();
});
