// The tray: a line for each batch of uploads, with its failures. Batches that need the user come
// first.

import { button, fill, h } from "./dom.js";
import { bytes, count, duration, some, visible, visibleText } from "./text.js";
import { factsOf, sentenceOf, toast } from "./notice.js";
import { Rate } from "./rate.js";
import { queue } from "./uploadqueue.js";

/** Names of each kind that are listed. */
const mostListed = 50;

/**
 * The elements that show a batch.
 * @typedef {{element: HTMLElement, actions: HTMLElement, bar: HTMLProgressElement, facts: HTMLElement, trouble: HTMLElement, rate: Rate, shown: string}} Row
 */

/** @type {Map<import("./uploadbatch.js").UploadBatch, Row>} */
const rows = new Map();
/** @type {Set<import("./uploadbatch.js").UploadBatch>} */
const changed = new Set();
let frame = 0, clock = 0;

const tray = document.getElementById("tray");
const title = h("h2", null, "Uploads");
const list = h("ul", { class: "uploads" });
const clear = button("close", "Remove the uploads that have ended", () => queue.batches.filter(ended).forEach((batch) => queue.dismiss(batch)), { iconOnly: true });
tray.append(h("div", { class: "tray-head" }, title, clear), list);

/** Shows the uploads of the page from now on. */
export function startTray() {
  queue.addEventListener("added", ({ detail: batch }) => {
    const row = rowOf(batch);
    rows.set(batch, row);
    list.prepend(row.element);
    batch.addEventListener("change", () => paintSoon(batch));
    paint(batch);
    header();
  });
  queue.addEventListener("removed", ({ detail: batch }) => {
    rows.get(batch).element.remove();
    rows.delete(batch);
    header();
  });
}

/**
 * Adds a row at the end.
 * @param {HTMLElement} row
 */
export function addRow(row) {
  list.append(row);
  header();
}

/**
 * Removes a row that was added.
 * @param {HTMLElement} row
 */
export function removeRow(row) {
  row.remove();
  header();
}

const ended = (batch) => batch.live === 0 && batch.of("paused").size === 0;

/** Paints a batch once in a frame. In a tab that is hidden, where there are no frames, the clock does. */
function paintSoon(batch) {
  changed.add(batch);
  frame ||= requestAnimationFrame(paintChanged);
}

function paintChanged() {
  frame = 0;
  for (const batch of changed) if (rows.has(batch)) paint(batch);
  changed.clear();
  order();
  header();
}

/** A rate must go when nothing happens. */
function tick() {
  for (const batch of queue.batches) if (batch.live > 0) paint(batch);
}

function header() {
  const sum = (n) => queue.batches.reduce((total, batch) => total + n(batch), 0);
  const live = sum((b) => b.live), failed = sum((b) => b.of("failed").size), taken = sum((b) => b.of("exists").size);
  title.textContent = [live > 0 && `Uploading ${some(live, "file")}`, failed > 0 && `${count(failed)} not uploaded`, taken > 0 && `${count(taken)} to decide`].filter(Boolean).join(" · ") || "Uploads";
  tray.hidden = list.children.length === 0;
  document.body.classList.toggle("with-tray", !tray.hidden);
  clear.hidden = !queue.batches.some(ended);
  if (live > 0) clock ||= setInterval(tick, 1000);
  if (live > 0) return;
  clearInterval(clock);
  clock = 0;
}

/** Puts the batches that need the user first, without a change for the rest. */
function order() {
  const first = [...rows].filter(([batch]) => batch.troubled > 0).map(([, row]) => row.element);
  const rest = [...list.children].filter((element) => !first.includes(element));
  const wanted = [...[...list.children].filter((element) => first.includes(element)), ...rest];
  if (wanted.every((element, i) => element === list.children[i])) return;
  const focused = document.activeElement;
  list.append(...wanted);
  if (list.contains(focused)) /** @type {HTMLElement} */ (focused).focus();
}

const only = (batch) => (batch.uploads.length === 1 ? batch.uploads[0] : null);

/** Returns a batch's name on its buttons. */
const labelOf = (batch) => (only(batch) ? visibleText(only(batch).name) : some(batch.uploads.length, "file"));

/** @returns {Row} */
function rowOf(batch) {
  const to = `${batch.to.account}/${batch.to.prefix}`;
  const bar = /** @type {HTMLProgressElement} */ (h("progress", { "aria-label": `Progress of ${labelOf(batch)}` }));
  const name = h("div", { class: "upload-name" }, only(batch) ? visible(only(batch).name) : [`${labelOf(batch)} to `, visible(to)]);
  const actions = h("div", { class: "upload-actions" }), facts = h("p", { class: "facts" }), trouble = h("div", { class: "upload-error" });
  return { element: h("li", null, name, actions, bar, facts, trouble), actions, bar, facts, trouble, rate: new Rate(), shown: "" };
}

function paint(batch) {
  const row = rows.get(batch), { state, total } = batch;
  row.bar.max = Math.max(1, total);
  row.bar.value = total === 0 && state === "done" ? 1 : batch.sent;
  row.bar.hidden = ended(batch);
  row.facts.textContent = factsOfBatch(batch, row.rate);
  row.element.dataset.state = state;
  row.element.dataset.name = only(batch)?.name ?? batch.to.prefix;
  const shown = [state, batch.live > 0, batch.of("paused").size > 0, batch.of("failed").size, batch.of("exists").size].join();
  if (row.shown === shown) return;
  row.shown = shown;
  keepingFocus(row.actions, () => fill(row.actions, actionsOf(batch)));
  if (only(batch)) fill(row.element.querySelector(".upload-name"), visible(only(batch).name)); // it may have a number now
  const open = row.trouble.querySelector("details")?.open ?? false;
  keepingFocus(row.trouble, () => fill(row.trouble, failures(batch), taken(batch)));
  for (const details of row.trouble.querySelectorAll("details")) details.open = open;
}

/** Replaces buttons. If one of them had the focus, the first new one has it. */
function keepingFocus(element, replace) {
  const focused = element.contains(document.activeElement);
  replace();
  if (focused) (element.querySelector("button") ?? tray.querySelector("button:not([hidden])"))?.focus();
}

function factsOfBatch(batch, rate) {
  const one = only(batch), { state, sent, total } = batch;
  const files = one ? [] : [`${count(batch.of("done").size)} of ${some(batch.uploads.length, "file")}`];
  if (batch.of("skipped").size > 0) files.push(one ? "skipped" : `${count(batch.of("skipped").size)} skipped`);
  if (state === "skipped") return files.join(" · ");
  if (state === "done") return [...files, bytes(total), "uploaded"].join(" · ");
  return [...files, `${bytes(sent)} of ${bytes(total)}`, ...progressOf(batch, rate)].join(" · ");
}

/** Returns how the bytes of a batch get on: only a rate that is known now is shown. */
function progressOf(batch, rate) {
  const { away, sent } = batch;
  if (batch.count("sending", "completing") === 0 || away) rate.reset();
  if (away) return [away.status === 429 ? "waiting, because the server asked for it" : "reconnecting", sentenceOf(away)];
  if (batch.of("sending").size > 0) {
    rate.add(sent);
    if (rate.value > 0) return [`${bytes(rate.value)}/s`, `${duration(batch.left / rate.value)} left`];
    return rate.stalled ? ["waiting for the server"] : [];
  }
  if (batch.of("completing").size > 0) return ["completing"];
  if (batch.of("waiting").size > 0) return ["waiting"];
  if (batch.of("paused").size > 0) return ["paused"];
  return only(batch) && batch.of("failed").size > 0 ? ["not uploaded"] : [];
}

function actionsOf(batch) {
  const label = labelOf(batch), icon = { iconOnly: true };
  return [
    batch.count("sending", "waiting") > 0 && button("pause", `Pause ${label}`, () => batch.pause(), icon),
    batch.of("paused").size > 0 && button("play", `Resume ${label}`, () => batch.again("paused"), icon),
    batch.of("failed").size > 0 && button("play", `Try ${only(batch) ? label : some(batch.of("failed").size, "file")} again`, () => batch.again("failed"), icon),
    (!ended(batch) || batch.troubled > 0) && button("close", `Cancel ${label}`, () => void cancel(batch), icon),
  ];
}

async function cancel(batch) {
  const done = batch.of("done").size, ending = batch.cancel();
  queue.remove(batch);
  if (done > 0) toast(`${count(done)} of ${some(batch.uploads.length, "file")} were uploaded before. The rest are cancelled.`);
  for (const problem of (await ending).slice(0, 3)) toast(problem);
}

/** Returns a message for each reason why files were not uploaded. */
function failures(batch) {
  const reasons = Map.groupBy(batch.of("failed"), (upload) => sentenceOf(upload.error));
  return [...reasons].map(([sentence, uploads]) => h("div", { class: "error", role: "alert" },
    h("p", null, !only(batch) && h("strong", null, `${some(uploads.length, "file")} not uploaded: `), sentence),
    h("p", { class: "facts" }, factsOf(uploads[0].error)), !only(batch) && names(uploads)));
}

/** Returns the question about the names that are taken. */
function taken(batch) {
  const uploads = [...batch.of("exists")];
  if (uploads.length === 0) return null;
  const all = uploads.length === 1 ? "it" : "all";
  return h("div", { class: "taken", role: "status" },
    h("p", null, only(batch) ? "A blob of this name exists already." : uploads.length === 1 ? [visible(uploads[0].name), " exists already."] : `${some(uploads.length, "name")} exist already.`),
    uploads.length > 1 && names(uploads),
    h("div", { class: "actions" }, button(null, `Replace ${all}`, () => batch.decide("replace")), button(null, `Skip ${all}`, () => batch.decide("skip")), button(null, "Keep both", () => batch.decide("both"))));
}

const names = (uploads) => h("details", null, h("summary", null, "Their names"),
  h("ul", { class: "what" }, uploads.slice(0, mostListed).map((upload) => h("li", null, visible(upload.name))), uploads.length > mostListed && h("li", { class: "sub" }, `and ${count(uploads.length - mostListed)} more`)));
