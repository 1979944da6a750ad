// The view of the names of an account that begin with a prefix.

import { button, fill, h, icon } from "./dom.js";
import { Grid } from "./grid.js";
import { bytes, compareNames, count, time, visible, visibleText } from "./text.js";
import { showError } from "./notice.js";
import { go, link } from "./router.js";
import { deleteBlob } from "./delete.js";
import { choosers, storedEvent } from "./uploads.js";
import * as api from "./api.js";

/**
 * @typedef {{kind: "folder", name: string}} Folder
 * @typedef {{kind: "blob", name: string} & import("./api.js").Blob} Entry
 */

/** @type {import("./router.js").View} */
export async function folderView(main, [account = "", prefix = ""], signal) {
  document.title = `${visibleText(prefix || account)} · sluice`;
  const total = h("p", { class: "sub", role: "status" });
  const filter = h("input", { type: "search", placeholder: "Names that begin with…", "aria-label": "Show names that begin with", autocomplete: "off", spellcheck: "false" });
  const extra = h("div", { class: "actions" }, choosers({ account, prefix }), h("a", { class: "button", href: link("uploads", account) }, "Open uploads"));
  main.append(h("div", { class: "head" }, h("div", null, crumbs(account, prefix), total), extra), h("div", { class: "filter" }, icon("search"), filter));
  const place = h("div", { class: "place" });
  main.append(place);

  /** @type {Grid<Folder|Entry>} */
  let grid;
  const list = async () => {
    grid?.stop();
    const typed = filter.value;
    grid = new Grid({
      label: `Names in ${visibleText(prefix || account)}`,
      columns: [{ title: "Name", class: "wide" }, { title: "Size", class: "number" }, { title: "Type", class: "type" }, { title: "Changed", class: "date" }],
      cells: (item) => cells(account, prefix, item),
      open: (item) => (item.kind === "folder" ? go("blobs", account, item.name) : go("blob", account, item.name)),
      remove: async (item) => item.kind === "blob" && (await deleteBlob(account, item)) && refresh(),
      more: pages(account, prefix + typed, signal),
      key: (item) => `${item.kind} ${item.name}`,
      failed: (error) => showError(place, error, signal, list),
      empty: typed ? h("p", { class: "empty" }, "No name begins with this.") : nothing(),
      counted: (n, complete) => (total.textContent = n === 0 ? "" : `${count(n)}${complete ? "" : " or more"} ${n === 1 ? "entry" : "entries"}`),
    });
    fill(place, grid.element);
    await grid.start();
  };
  /** Lists again what the grid shows, without a change of the filter, the position or the focus. */
  const refresh = async () => {
    const shown = grid;
    if (!shown.element.isConnected || shown.items.length === 0) return list();
    const more = pages(account, prefix + filter.value, signal), items = [];
    try {
      for (let page = await more(); page; page = items.length < shown.items.length ? await more() : null) items.push(...page);
    } catch (error) {
      if (!shown.stopped) showError(place, error, signal, list);
      return;
    }
    shown.replace(items, more);
  };
  let timer = 0;
  filter.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => void list(), 150);
  });
  signal.addEventListener("abort", () => grid?.stop());
  addEventListener(storedEvent, () => void refresh(), { signal });
  await list();
}

const nothing = () => h("div", { class: "empty" }, h("h2", null, "Nothing is stored here"), h("p", null, "Drop files or folders anywhere on this page to upload them."));

/** Returns a function that returns the entries of the next page, or null. */
function pages(account, prefix, signal) {
  let after = "", ended = false;
  return async () => {
    if (ended) return null;
    const page = await api.json(`v1/blobs/${encodeURIComponent(account)}`, { prefix, delimiter: "/", after, limit: 1000 }, { signal });
    after = page.next ?? "";
    ended = !page.next;
    return [
      ...page.prefixes.map((name) => ({ kind: "folder", name })),
      ...page.blobs.map((blob) => ({ kind: "blob", ...blob })),
    ].sort((a, b) => compareNames(a.name, b.name));
  };
}

function cells(account, prefix, item) {
  const name = visible(item.name.slice(prefix.length));
  if (item.kind === "folder") {
    return [h("a", { class: "entry", href: link("blobs", account, item.name), tabindex: "-1" }, icon("folder"), name), "", "Folder", ""];
  }
  return [h("a", { class: "entry", href: link("blob", account, item.name), tabindex: "-1" }, icon("blob"), name), bytes(item.size), item.contentType, time(item.lastModified)];
}

/**
 * Returns the path of a prefix or a name, whose parts are links.
 * @param {string} account
 * @param {string} prefix
 * @param {string} [last] the end of a name, which is no link
 */
export function crumbs(account, prefix, last) {
  const steps = prefix.split("/").slice(0, -1);
  const links = [h("a", { href: link("") }, "Accounts"), h("a", { href: link("blobs", account, "") }, visible(account))];
  steps.forEach((step, i) => links.push(h("a", { href: link("blobs", account, steps.slice(0, i + 1).join("/") + "/") }, step ? visible(step) : h("i", null, "(empty)"))));
  const current = last === undefined ? links.pop().firstChild : visible(last);
  return h("nav", { "aria-label": "Path" }, h("ol", { class: "crumbs" }, links.map((a) => h("li", null, a)), h("li", null, h("h1", null, current))));
}
