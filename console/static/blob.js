// The view of one blob: its properties, its preview, and its operations.

import { button, h } from "./dom.js";
import { bytes, count, shellQuote, time, visible, visibleText } from "./text.js";
import { copy, showError, toast } from "./notice.js";
import { go, link, show } from "./router.js";
import { crumbs } from "./folder.js";
import { deleteItems } from "./delete.js";
import { transferItems } from "./transfer.js";
import { renameIn } from "./rename.js";
import { download } from "./download.js";
import { preview } from "./preview.js";
import { payWith } from "./paysession.js";
import { lastOf, parentOf } from "./names.js";
import { shareBlob } from "./share.js";
import { whoReadsButton } from "./whoreads.js";
import { history } from "./history.js";
import * as api from "./api.js";

/** @type {import("./router.js").View} */
export async function blobView(main, [account = "", name = ""], signal) {
  document.title = `${visibleText(name)} · sluice`;
  const cut = name.lastIndexOf("/") + 1;
  const actions = h("div", { class: "actions own" });
  const body = h("div", { class: "blob" });
  main.append(h("div", { class: "head" }, crumbs(account, name.slice(0, cut), name.slice(cut)), actions), body);
  if (api.unreachable(name)) {
    body.append(h("p", { class: "empty" }, "Browsers change the address of a name with a segment “.” or “..”, so this blob can only be read with another client."));
    return;
  }
  const url = api.blobURL(account, name), who = whoReadsButton({ account, blob: name }, () => void show());
  let response, service;
  try {
    [response, service] = await Promise.all([api.send(url, { method: "HEAD", headers: api.readHeaders(), signal }), api.info()]);
  } catch (error) {
    failed(body, await headError(error, url, signal), signal);
    if (error.status === 451) actions.append((await who) ?? "");
    else body.append((await history({ account, name }, signal)) ?? "");
    return;
  }
  if (signal.aborted) return;
  const administered = await who;
  const blob = { account, name, url, ...described(response), reads: service.reads, hosted: service.profile === "hosted" };
  const curl = ["curl", ...(blob.hosted && service.reads === "key" ? ["-H", '"Authorization: Bearer $SLUICE_KEY"'] : []),
    ...(service.reads === "paid" ? ["-H", '"Session-Id: $SESSION"'] : []), "-o", shellQuote(name.slice(cut)), shellQuote(url)].join(" ");
  actions.append(
    button("copy", "Copy link", () => void (blob.hosted ? shareBlob(account, name) : copy(url, "Link"))),
    button("terminal", "Copy curl", () => copy(curl, "curl line")),
    button("download", "Download", () => download(blob).catch((error) => toast(error.message))),
    ...changes(main, account, name, blob), administered ?? "");
  const stage = h("section", { class: "stage", "aria-label": "Preview" });
  const facts = h("div", { class: "stack" }, properties(response, blob));
  body.append(stage, facts);
  void history(blob, signal).then((card) => card && facts.append(card));
  try {
    await preview(stage, blob, signal);
  } catch (error) {
    failed(stage, error, signal);
  }
}

/** Returns the buttons that rename, move, copy and delete a blob. */
function changes(main, account, name, { size, etag, lastModified }) {
  /** @type {import("./batch.js").Item} */
  const item = { kind: "blob", name, size, etag, lastModified };
  const folder = parentOf(name);
  const rename = button("edit", "Rename", async () => {
    const now = await renameIn(account, item, main.querySelector("h1"), () => rename.focus());
    if (now !== null) go("blob", account, now);
  });
  const transfer = async (verb) => {
    const made = await transferItems(verb, account, folder, [item]);
    if (verb === "move" && made?.outcome.done.length > 0) go("blob", made.account, made.prefix + lastOf(name));
  };
  const remove = async () => {
    const outcome = await deleteItems(account, [item], link("blobs", account, folder));
    if (outcome?.done.length > 0) go("blobs", account, folder);
  };
  return [rename, button("move", "Move…", () => void transfer("move")), button("copy", "Copy…", () => void transfer("copy")),
    button("trash", "Delete", () => void remove(), { class: "danger" })];
}

/** Shows an error and, if the read must be paid for, a form for the session that pays. */
function failed(place, error, signal) {
  const unpaid = error.status === 402;
  if (error.code === "payment_required") error.message = "This read must be paid for. Enter the id of a session that pays.";
  showError(place, error, signal, unpaid ? undefined : show);
  if (unpaid && !signal.aborted) place.append(payWith(show));
}

/**
 * Returns an error of HEAD with a sentence: the response has no body. The fault of the name or
 * the account is in the response to GET, on a condition that no blob meets, since a read may cost.
 */
async function headError(error, url, signal) {
  if ([400, 451].includes(error.status)) {
    const refused = await api.send(url, { headers: api.readHeaders({ "If-Match": '"none"' }), signal }).catch((e) => e);
    return refused.status === error.status ? refused : error;
  }
  const sentences = { 404: "There is no blob of this name.", 410: "The blob has expired.", 401: "A key is required to read this blob.", 403: "The key may not read this blob." };
  if (error instanceof api.APIError && sentences[error.status]) error.message = sentences[error.status];
  return error;
}

/** @param {Response} response */
function described(response) {
  return {
    size: Number(response.headers.get("Content-Length")),
    etag: response.headers.get("ETag") ?? undefined,
    lastModified: response.headers.get("Last-Modified") ?? undefined,
    contentType: response.headers.get("Content-Type") ?? "application/octet-stream",
    versioned: response.headers.has("Blob-Version"),
  };
}

const shownHeaders = [["Cache-Control", "Cache-Control"], ["Content-Disposition", "Disposition"], ["Content-Language", "Language"], 
  ["Chunksets-Required", "Chunksets to read it"], ["Chunkset-Price", "Price of a chunkset"]];

const copied = (value, what) => h("span", { class: "id" }, h("code", null, value), button("copy", `Copy the ${what}`, () => void copy(value, what), { iconOnly: true }));

/** @param {Response} response */
function properties(response, blob) {
  const rows = [["Size", blob.size < 1024 ? bytes(blob.size) : `${bytes(blob.size)} (${count(blob.size)} bytes)`], ["Type", blob.contentType]];
  const modified = response.headers.get("Last-Modified"), expires = response.headers.get("Blob-Expires");
  if (modified) rows.push(["Stored", time(new Date(modified).toISOString())]);
  rows.push(["Expires", expires ? time(expires) : "never"]);
  if (blob.etag) rows.push(["ETag", copied(blob.etag, "ETag")]);
  const digest = /sha-256=:([^:]+):/.exec(response.headers.get("Repr-Digest") ?? "")?.[1];
  if (digest) rows.push(["SHA-256", copied(Array.from(atob(digest), (c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join(""), "SHA-256")]);
  for (const [header, title] of shownHeaders) {
    const value = response.headers.get(header);
    if (value) rows.push([title, visible(value)]);
  }
  for (const [header, value] of response.headers) {
    if (header.startsWith("blob-meta-")) rows.push([header.slice("blob-meta-".length), visible(value)]);
  }
  return h("section", { class: "card properties", "aria-labelledby": "properties" }, h("h2", { id: "properties" }, "Properties"),
    h("dl", null, rows.map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value)))));
}
