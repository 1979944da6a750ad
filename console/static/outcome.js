// Doing confirmed work, with its progress and its outcome.

import { h } from "./dom.js";
import { bytes, count, some, visible, visibleText } from "./text.js";
import { ask, factsOf, openDialog, sentenceOf, toast } from "./notice.js";
import { run } from "./batch.js";

/** Names of each kind that are listed. */
const mostListed = 50;

const words = { delete: ["Deleting", "deleted"], move: ["Moving", "moved"], copy: ["Copying", "copied"], rename: ["Renaming", "renamed"], restore: ["Restoring", "restored"] };

/** Does the work with blobs until it is done or the signal ends. @typedef {(signal: AbortSignal, progress: (count: number, bytes: number) => void) => Promise<import("./batch.js").Outcome>} Doing */

/**
 * Work with its words: where is the end of the sentence about its outcome, and called is its
 * word, if that is not the verb. Quiet work shows no notice of its success.
 * @typedef {import("./batch.js").Work & {where?: string, called?: "rename", quiet?: boolean}} Named
 */

/**
 * Does the work, and shows its progress and, unless all went well, the failures. These can be
 * tried again.
 * @param {Named} work
 * @param {import("./batch.js").Counted[]} blobs
 * @param {import("./batch.js").Outcome} [known] how the work ended, if it was done already
 * @returns {Promise<import("./batch.js").Outcome>}
 */
export async function carryOut(work, blobs, known) {
  const [doing, did] = words[work.called ?? work.verb];
  /** @type {import("./batch.js").Outcome} */
  const whole = { done: [], skipped: [], failed: [], left: [] };
  for (let next = blobs; ;) {
    const outcome = known ?? (await withProgress(`${doing} ${some(next.length)}`, next, (signal, progress) => run(work, next, signal, progress)));
    known = undefined;
    whole.done = whole.done.concat(outcome.done);
    whole.skipped = whole.skipped.concat(outcome.skipped);
    Object.assign(whole, { failed: outcome.failed, left: outcome.left });
    if (whole.done.length === blobs.length) {
      const what = blobs.length === 1 ? `${visibleText(blobs[0].name)} was` : `${some(blobs.length)} were`;
      if (!work.quiet) toast(`${what} ${did}${work.where ?? ""}`);
      return whole;
    }
    if (!(await showOutcome(whole, blobs.length, did, true))) return whole;
    next = [...whole.failed.map((failure) => failure.blob), ...whole.left];
  }
}

/**
 * Does work while a dialog shows its progress.
 * @param {string} title
 * @param {import("./batch.js").Counted[]} blobs
 * @param {Doing} work
 */
export async function withProgress(title, blobs, work) {
  const total = blobs.reduce((sum, blob) => sum + blob.size, 0);
  const bar = /** @type {HTMLProgressElement} */ (h("progress", { max: blobs.length, value: 0, "aria-label": title }));
  const facts = h("p", { class: "facts" }, "");
  const paint = (n, size) => {
    bar.value = n;
    facts.textContent = `${count(n)} of ${some(blobs.length)} · ${bytes(size)} of ${bytes(total)}`;
  };
  paint(0, 0);
  const control = new AbortController();
  const { dialog, buttons: [cancel] } = openDialog(title, [bar, facts], [{ label: "Cancel", value: "" }]);
  dialog.classList.add("working");
  dialog.tabIndex = -1;
  dialog.focus(); // not on the button: a key that is pressed twice would cancel the work that has just begun
  const stop = (event) => {
    event.preventDefault(); // the dialog stays, because the last answers are awaited
    event.stopImmediatePropagation();
    control.abort();
    cancel.disabled = true;
    facts.textContent += " · stopping…";
  };
  dialog.addEventListener("cancel", stop);
  dialog.querySelector("form").addEventListener("submit", stop, { capture: true });
  const leaving = (event) => event.preventDefault();
  addEventListener("beforeunload", leaving);
  let frame = 0;
  try {
    return await work(control.signal, (n, size) => {
      cancelAnimationFrame(frame);
      if (!control.signal.aborted) frame = requestAnimationFrame(() => paint(n, size));
    });
  } finally {
    removeEventListener("beforeunload", leaving);
    dialog.close();
  }
}

/**
 * Shows how much was done and how much was not, and reports whether to try again.
 * @param {import("./batch.js").Outcome} outcome
 * @param {number} total
 * @param {string} did
 * @param {boolean} repeatable whether trying again is offered
 */
export async function showOutcome({ done, skipped, failed, left }, total, did, repeatable) {
  const listed = (list, line) => h("ul", { class: "what" }, list.slice(0, mostListed).map((entry) => h("li", null, line(entry))),
    list.length > mostListed && h("li", { class: "sub" }, `and ${count(list.length - mostListed)} more`));
  const body = [];
  if (failed.length > 0) body.push(listed(failed, ({ blob, error }) => [h("strong", null, visible(blob.name)), ": ", sentenceOf(error), h("p", { class: "facts" }, factsOf(error))]));
  if (skipped.length > 0) {
    body.push(h("p", null, `${skipped.length === 1 ? "This blob was" : `These ${count(skipped.length)} blobs were`} skipped, because the destination has a blob of this name:`));
    body.push(listed(skipped, (blob) => h("strong", null, visible(blob.name))));
  }
  if (left.length > 0) body.push(h("p", null, `${some(left.length)} ${left.length === 1 ? "was" : "were"} left as ${left.length === 1 ? "it is" : "they are"}.`));
  if (done.length > 0) body.push(h("p", null, `${some(done.length)} ${done.length === 1 ? "was" : "were"} ${did}.`));
  const not = total - done.length;
  const title = total === 1 ? `The blob was not ${did}` : `${count(not)} of ${count(total)} blobs ${not === 1 ? "was" : "were"} not ${did}`;
  const choices = [{ label: "Close", value: "" }];
  if (repeatable && failed.length + left.length > 0) choices.push({ label: "Try again", value: "again", class: "primary" });
  return (await ask(title, body, choices)) === "again";
}
