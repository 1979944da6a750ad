// The view of the names of an account that begin with a prefix.

import { button, fill, h, icon } from "./dom.js";
import { Grid, most } from "./grid.js";
import { Listing } from "./listing.js";
import { filterField } from "./filter.js";
import { bytes, compareNames, count, time, visible, visibleText } from "./text.js";
import { sentenceOf, showError, toast } from "./notice.js";
import { go, link, show } from "./router.js";
import { deleteItems } from "./delete.js";
import { restoreItems } from "./restore.js";
import { known } from "./versions.js";
import { downloadItems } from "./archive.js";
import { transferItems } from "./transfer.js";
import { renameIn } from "./rename.js";
import { selectionBar } from "./selectionbar.js";
import { shareFolder } from "./share.js";
import { badgesIn, whoReadsButton } from "./whoreads.js";
import { parentOf } from "./names.js";
import { kindOf } from "./kinds.js";
import { choosers } from "./uploads.js";
import { storedEvent } from "./stored.js";
import { watch } from "./watch.js";
import * as api from "./api.js";

/**
 * @typedef {import("./listing.js").Folder} Folder
 * @typedef {import("./listing.js").Entry} Entry
 */

/**
 * The order of all folders of this page.
 * @type {import("./grid.js").Order|undefined}
 */
let order;

/** Compares properties that folders do not have; these keep the order of their names. */
const ofBlobs = (compare) => (a, b) => (a.kind === "blob" && b.kind === "blob" ? compare(a, b) : 0);

const columns = [
  { title: "Name", class: "wide", compare: (a, b) => compareNames(a.name, b.name) },
  { title: "Size", class: "number", compare: ofBlobs((a, b) => a.size - b.size) },
  { title: "Type", class: "type", compare: ofBlobs((a, b) => compareNames(a.contentType, b.contentType)) },
  { title: "Changed", class: "date", compare: ofBlobs((a, b) => Date.parse(a.lastModified) - Date.parse(b.lastModified)) },
  { title: "Expires", class: "date expiry", compare: ofBlobs((a, b) => (Date.parse(a.expires) || Infinity) - (Date.parse(b.expires) || Infinity) || 0) },
];

const orders = columns.flatMap((_, column) => [{ column, down: false }, { column, down: true }]);

const keyOf = (item) => `${item.kind} ${item.name}`;

/** @type {import("./router.js").View} */
export async function folderView(main, [account = "", prefix = ""], signal, place) {
  document.title = `${visibleText(prefix || account)} · sluice`;
  const total = h("p", { class: "sub", role: "status" });
  const extra = h("div", { class: "actions" }, choosers({ account, prefix }), h("a", { class: "button", href: link("uploads", account) }, "Open uploads"));
  if (prefix.endsWith("/")) extra.append(button("download", "Download folder", () => void downloadItems(account, parentOf(prefix), [{ kind: "folder", name: prefix }]), { iconOnly: true }));
  // Without an answer there is no button.
  const [service, who, keeps] = await Promise.all([prefix && api.info().catch(() => null), whoReadsButton({ account, prefix }, () => void show()), known().catch(() => false)]);
  if (signal.aborted) return;
  if (keeps) extra.append(button("undo", "Restore…", () => void back()), h("a", { class: "button icon-only", href: link("deleted", account, prefix), title: "Deleted", "aria-label": "Deleted" }, icon("trash")));
  if (service?.profile === "hosted") extra.append(button("copy", "Copy link", () => void shareFolder(account, prefix)));
  if (who) extra.append(who);
  /** @type {(item: Folder|Entry) => Node[]} */
  let badges = () => [];
  const frame = h("div", { class: "place" });
  // On a narrow screen not all columns are shown.
  const sorter = /** @type {HTMLSelectElement} */ (h("select", { class: "sorter", "aria-label": "Sort by", onchange: () => grid.choose(orders[sorter.selectedIndex]) },
    orders.map(({ column, down }) => h("option", null, `${columns[column].title} ${down ? "↓" : "↑"}`))));
  const showOrder = () => (sorter.selectedIndex = order ? 2 * order.column + Number(order.down) : 0);
  showOrder();
  const sorted = h("p", { role: "status" });
  const unsorted = button(null, "Do not sort", () => {
    grid.leaveSorting();
    grid.focus();
  });
  const found = h("p", { role: "status" }), loadAll = button(null, "Load all names", () => void load());
  const filter = filterField(() => void list());
  /** @type {(Folder|Entry)[]} */
  let selected = [];
  const bar = selectionBar({
    download: () => void downloadItems(account, prefix.slice(0, prefix.lastIndexOf("/") + 1), selected), rename: () => void rename(selected[0]),
    move: () => void transfer("move"), copy: () => void transfer("copy"),
    remove: () => void remove(selected), clear: () => (grid.selectAll(false), grid.focus()),
  });
  unsorted.hidden = loadAll.hidden = true;
  main.append(h("div", { class: "head" }, h("div", null, crumbs(account, prefix), h("div", { class: "line" }, total, sorted, unsorted, found, loadAll)), extra),
    h("div", { class: "filters" }, filter.element, sorter, bar.element), frame);

  /** @type {Grid<Folder|Entry>} */
  let grid;
  let listing = new Listing(account, prefix, signal);
  let loading = false;
  /** Returns the condition for names that contain the typed text, or null. */
  const condition = () => {
    const { text, begins } = filter.wanted(), sought = text.toLowerCase();
    return text && !begins ? (item) => item.name.slice(prefix.length).toLowerCase().includes(sought) : null;
  };
  /** Shows in how many names the typed text was looked for. */
  const sayFound = () => {
    const all = count(listing.items.length), looked = condition() !== null;
    found.textContent = !looked ? "" : loading ? `${all} names are loaded so far.` : listing.complete ? `Found in all ${all} names.` : `Found in the first ${all} names, which are loaded.`;
    loadAll.hidden = !looked || loading || listing.complete || listing.items.length >= most;
  };
  /** Loads all names, and looks for the typed text in them. */
  const load = async () => {
    const looked = listing;
    loading = true;
    try {
      while (!listing.complete && listing.items.length < most && looked === listing && condition()) {
        sayFound();
        await listing.load();
      }
    } catch (error) {
      showError(frame, error, signal, () => list());
      return;
    } finally {
      loading = false;
    }
    if (looked === listing) await list();
  };

  const list = async (before) => {
    grid?.stop();
    const { text, begins, below } = filter.wanted(), beginning = prefix + (begins ? text : ""), deep = below && text !== "";
    if (listing.prefix !== beginning || listing.deep !== deep) listing = new Listing(account, beginning, signal, deep);
    bar.show((selected = []));
    sayOrder("done");
    grid = new Grid({
      label: `Names in ${visibleText(prefix || account)}`,
      columns, leads: (item) => item.kind === "folder", order, ordered: (chosen) => {
        order = chosen;
        showOrder();
        sayOrder("done");
      },
      sorting: sayOrder,
      cells: (item) => cells(account, prefix, item, badges(item)),
      name: (item) => visibleText(item.name.slice(prefix.length)),
      open: (item) => (item.kind === "folder" ? go("blobs", account, item.name) : go("blob", account, item.name)),
      remove: (item) => void remove(selected.length > 0 ? selected : [item]),
      rename: (item) => void rename(item),
      selected: (items) => bar.show((selected = items)),
      more: listing.reader(condition()),
      key: keyOf,
      failed: (error) => showError(frame, error, signal, () => list()),
      empty: text ? h("p", { class: "empty" }, `No name ${begins ? "begins with" : "contains"} this.`) : nothing(keeps && h("a", { href: link("deleted", account, prefix) }, "Was it deleted?")),
      counted: (n, complete) => (total.textContent = n === 0 ? "" : `${count(n)}${complete ? "" : " or more"} ${n === 1 ? "entry" : "entries"}`),
    });
    fill(frame, grid.element);
    await grid.start(before);
    sayFound();
    if (deep && !loading && !listing.complete && !signal.aborted) void load();
  };

  /** Shows that all names are being loaded, or that they are too many. */
  function sayOrder(state, n) {
    const sentences = { done: () => "", loading: () => `Loading all names to sort them: ${count(n)} so far.`, bounded: () => `Only the first ${count(n)} names are loaded and sorted.` };
    sorted.textContent = sentences[state]();
    unsorted.hidden = state !== "loading";
  }

  let editing = false, late = false;
  /** Lists the folder again, without a change of the filter, the position or the focus. */
  const refresh = async (active) => {
    const shown = grid, again = new Listing(account, listing.prefix, signal, listing.deep);
    if (!shown.element.isConnected || shown.items.length === 0) {
      listing = again;
      return list();
    }
    try {
      await again.loadUntil(listing.items.length);
    } catch (error) {
      if (!shown.stopped) toast(`The list could not be renewed. ${sentenceOf(error)}`);
      return;
    }
    if (shown.stopped) return;
    if (editing) {
      late = true; // a new list would have no field
      return;
    }
    listing = again;
    const more = listing.reader(condition());
    shown.replace((await more()) ?? [], more, active);
    sayFound();
  };

  /** Lists again after something was done, with the focus in the list. */
  const done = async (active) => {
    if (signal.aborted) return;
    await refresh(active);
    const busy = editing || document.activeElement === filter.input || document.querySelector("dialog[open]");
    if (busy) return; // the user went on meanwhile
    if (!grid.focus()) document.getElementById("main").focus({ preventScroll: true });
  };
  const remove = async (items) => {
    if (await deleteItems(account, items, location.hash)) await done();
  };
  const back = async () => {
    if ((await restoreItems(account, [{ kind: "folder", name: prefix }], true))?.done.length > 0) await done();
  };
  const transfer = async (verb) => {
    const made = await transferItems(verb, account, prefix, selected);
    if (!made || signal.aborted) return;
    if (made.outcome.done.length > 0) grid.selectAll(false);
    await done();
  };
  const rename = async (item) => {
    editing = true;
    late = false;
    const name = await renameIn(account, item, grid.firstCell(item), () => {
      editing = false;
      grid.focus();
    });
    if (name !== null) grid.selectAll(false);
    if (name !== null || late) await done(`${item.kind} ${name ?? item.name}`);
  };

  signal.addEventListener("abort", () => {
    filter.cancel();
    grid?.stop();
  });
  addEventListener(storedEvent, (event) => void (/** @type {CustomEvent} */ (event).detail ? done() : refresh()), { signal });
  place.keep(() => ({ wanted: filter.wanted(), order, typing: document.activeElement === filter.input, loaded: listing.items.length, grid: grid?.place }));
  const { before } = place;
  if (before) await comeBack(before);
  else await list();
  if (signal.aborted) return;
  // Only of names that may be listed there is news.
  void (listing.loading ?? Promise.resolve()).then(() => (listing.complete || listing.after) && watch(account, prefix, signal), () => {});
  // They move nothing.
  void badgesIn(account, signal).then((found) => {
    if (!found || signal.aborted) return;
    badges = found;
    main.querySelector(".crumbs li:last-child")?.append(...badges({ kind: "folder", name: prefix }));
    for (const [index, row] of grid?.rows ?? []) row.querySelector(".entry")?.append(...badges(grid.items[index]));
  }, (error) => signal.aborted || toast(`Who may read is not known. ${sentenceOf(error)}`));

  /** Shows this entry of the history as before. */
  async function comeBack({ wanted, order: chosen, typing, loaded, grid: shown }) {
    filter.set(wanted);
    order = chosen;
    showOrder();
    try {
      if (condition()) await listing.loadUntil(loaded); // else the grid loads the rows that it showed
    } catch (error) {
      showError(frame, error, signal, () => list());
      return;
    }
    if (signal.aborted) return;
    await list(shown);
    if (typing && [main, document.body].includes(/** @type {HTMLElement} */ (document.activeElement))) filter.input.focus();
  }
}

/** @param {HTMLElement|false} deleted a link to the blobs that were deleted, if the service keeps them */
const nothing = (deleted) => h("div", { class: "empty" }, h("h2", null, "Nothing is stored here"), h("p", null, "Drop files or folders anywhere on this page to upload them."), deleted && h("p", null, deleted));

function cells(account, prefix, item, badges) {
  const name = [visible(item.name.slice(prefix.length), true), badges];
  if (item.kind === "folder") {
    return [h("a", { class: "entry", href: link("blobs", account, item.name), tabindex: "-1" }, icon("folder"), name), "", "Folder", "", ""];
  }
  return [h("a", { class: "entry", href: link("blob", account, item.name), tabindex: "-1" }, icon(kindOf(item)), name), bytes(item.size), item.contentType, time(item.lastModified), item.expires ? time(item.expires) : ""];
}

/**
 * Returns the path of a prefix or a name, whose parts are links.
 * @param {string} account
 * @param {string} prefix
 * @param {string} [last] the end of a name, which is no link
 * @param {string} [view] of the links
 */
export function crumbs(account, prefix, last, view = "blobs") {
  const steps = prefix.split("/").slice(0, -1);
  const links = [h("a", { href: link("") }, "Accounts"), h("a", { href: link(view, account, "") }, visible(account))];
  steps.forEach((step, i) => links.push(h("a", { href: link(view, account, steps.slice(0, i + 1).join("/") + "/") }, step ? visible(step) : h("i", null, "(empty)"))));
  const current = last === undefined ? links.pop().firstChild : visible(last);
  return h("nav", { "aria-label": "Path" }, h("ol", { class: "crumbs" }, links.map((a) => h("li", null, a)), h("li", null, h("h1", null, current))));
}
