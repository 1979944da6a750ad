// The view of the deleted blobs below a prefix, which an account keeps for a while.

import { button, fill, h, icon } from "./dom.js";
import { Grid } from "./grid.js";
import { bytes, compareNames, some, time, visible, visibleText } from "./text.js";
import { showError } from "./notice.js";
import { go, link, show } from "./router.js";
import { crumbs } from "./folder.js";
import { selectionBar } from "./selectionbar.js";
import { restoreItems } from "./restore.js";
import { setVersions } from "./adminversions.js";
import { administersPlace, rights } from "./rights.js";
import { histories, pages } from "./versions.js";
import { writer } from "./history.js";

const when = (item) => item.then?.since ?? "";

/** @type {import("./router.js").View} */
export async function deletedView(main, [account = "", prefix = ""], signal, place) {
  document.title = `Deleted in ${visibleText(prefix || account)} · sluice`;
  const total = h("p", { class: "sub", role: "status" }), frame = h("div", { class: "place" }), may = await rights().catch(() => null);
  if (signal.aborted) return;
  const toggle = button("trash", "Deleted", () => go("blobs", account, prefix), { class: "primary" });
  toggle.setAttribute("aria-pressed", "true");
  const restored = async (items) => (await restoreItems(account, items))?.done.length > 0 && !signal.aborted && show();
  const keep = () => void setVersions(account, may).then((set) => set && show());
  let selected = [];
  const bar = selectionBar({ restore: () => void restored(selected), clear: () => (grid.selectAll(false), grid.focus()) });
  main.append(h("div", { class: "head" }, h("div", null, crumbs(account, prefix, undefined, "deleted"), total), h("div", { class: "actions" }, toggle,
    button("undo", "Restore all…", () => void restored([{ kind: "folder", name: prefix }])), may && administersPlace(may, account, "") && button("edit", "Which are kept", keep))),
  h("div", { class: "filters" }, bar.element), frame);

  const list = pages(account, { prefix, delimiter: "/" }, signal);
  /** @type {import("./versions.js").History|undefined} */
  let open;
  /** Returns the folders, and the blobs that are deleted, in the next page. */
  const more = async () => {
    const { value: page, done } = await list.next();
    if (done) return null;
    const found = histories(page.versions, open, 0);
    open = page.next ? found.pop() : undefined;
    return [...(page.prefixes ?? []).map((name) => ({ kind: "folder", name })),
      ...found.filter(({ current, then }) => !current && then).map(({ name, then, mark }) => ({ kind: "blob", name, size: then.size, etag: then.etag, then, mark }))];
  };
  const grid = new Grid({
    label: `Deleted in ${visibleText(prefix || account)}`, leads: (item) => item.kind === "folder",
    columns: [
      { title: "Name", class: "wide", compare: (a, b) => compareNames(a.name, b.name) }, { title: "Size", class: "number" },
      { title: "By", class: "type" }, { title: "Deleted", class: "date", compare: (a, b) => Date.parse(when(a)) - Date.parse(when(b)) || 0 }, { title: "Kept until", class: "date expiry" },
    ],
    cells: (item) => {
      const view = item.kind === "folder" ? "deleted" : "blob", name = visible(item.name.slice(prefix.length), true);
      const entry = h("a", { class: "entry", href: link(view, account, item.name), tabindex: "-1" }, icon(item.kind === "folder" ? "folder" : "none"), name);
      if (item.kind === "folder") return [entry, "", "", "", ""];
      return [entry, bytes(item.size), writer(item.mark?.by, may) ?? "", when(item) ? time(when(item)) : "", item.then.until ? time(item.then.until) : ""];
    },
    name: (item) => visibleText(item.name.slice(prefix.length)), key: (item) => `${item.kind} ${item.name}`,
    open: (item) => go(item.kind === "folder" ? "deleted" : "blob", account, item.name),
    selected: (items) => bar.show((selected = items)), more,
    failed: (error) => showError(frame, error, signal, show),
    empty: h("div", { class: "empty" }, h("h2", null, "Nothing that was deleted here is kept"), h("p", null, "An account that keeps versions has deleted blobs here, until they are dropped.")),
    counted: (n, complete) => (total.textContent = n === 0 ? "" : `${some(n, "row")}${complete ? "" : " or more"}. Folders are listed if anything below them is kept or current.`),
  });
  fill(frame, grid.element);
  signal.addEventListener("abort", () => grid.stop());
  place.keep(() => grid.place);
  await grid.start(place.before);
}
