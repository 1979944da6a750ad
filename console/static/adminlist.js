// The parts that the pages of the administration share: lists, facts, and dialogs that do something.

import { cell, fill, h } from "./dom.js";
import { Grid } from "./grid.js";
import { count, some } from "./text.js";
import { errorBox, openDialog, showError } from "./notice.js";
import { link, show } from "./router.js";
import { every } from "./live.js";
import * as api from "./api.js";

/**
 * A list of the interface: path and member are its URL and its name in a page.
 * @typedef {object} List
 * @property {string} title
 * @property {string} one the word for one of them
 * @property {string} about a sentence
 * @property {Node[]} [actions]
 * @property {string} path
 * @property {string} member
 * @property {Object<string, string>} [query]
 * @property {import("./grid.js").Column<any>[]} columns
 * @property {number} [natural] the column by which the interface sorts; one without compare if none does
 * @property {(item: any) => (Node|string)[]} cells
 * @property {(item: any) => void} open
 * @property {(item: any) => string} key
 * @property {string[]} empty a title and a sentence, if there is nothing
 */

/**
 * Shows a list, which loads its pages as it is scrolled.
 * @param {HTMLElement} main
 * @param {AbortSignal} signal
 * @param {any} place
 * @param {List} list
 */
export async function showList(main, signal, place, list) {
  const total = h("p", { class: "sub", role: "status" }), frame = h("div", { class: "place" });
  main.append(h("div", { class: "head" }, h("div", null, h("h1", null, list.title), h("p", { class: "sub" }, list.about), total), list.actions && h("div", { class: "actions" }, list.actions)), frame);
  let after = "", ended = false;
  const grid = new Grid({
    label: list.title, columns: list.columns, natural: list.natural, cells: list.cells, open: list.open, key: list.key,
    more: async () => {
      if (ended) return null;
      const page = await api.json(list.path, { ...list.query, after, limit: 1000 }, { signal });
      after = page.next ?? "";
      ended = !page.next;
      return page[list.member];
    },
    failed: (error) => showError(frame, error, signal, show),
    empty: h("div", { class: "empty" }, h("h2", null, list.empty[0]), h("p", null, list.empty[1])),
    counted: (n, complete) => (total.textContent = n === 0 ? "" : complete ? some(n, list.one) : `${count(n)} or more ${list.one}s`),
  });
  frame.append(grid.element);
  signal.addEventListener("abort", () => grid.stop());
  place.keep(() => grid.place);
  await grid.start(place.before);
}

/**
 * Shows a short list that is requested again and again. The focus stays on the same button.
 * @param {HTMLElement} main
 * @param {AbortSignal} signal
 * @param {string|Node} title a node has its heading
 * @param {string} about
 * @param {string} path
 * @param {(found: any, again: () => Promise<void>) => any} draw
 * @param {Node[]} [actions]
 */
export async function liveList(main, signal, title, about, path, draw, actions = []) {
  const place = h("div", null);
  main.append(h("div", { class: "head" }, h("div", null, typeof title === "string" ? h("h1", null, title) : title, h("p", { class: "sub" }, about)), h("div", { class: "actions" }, actions)), place);
  let shown = "";
  const again = async () => {
    try {
      const found = await api.json(path, {}, { signal }), text = JSON.stringify(found);
      if (text === shown || signal.aborted) return;
      shown = text;
      const focused = place.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
      fill(place, draw(found, again));
      if (focused) place.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
    } catch (error) {
      shown = "";
      showError(place, error, signal);
    }
  };
  await every(3000, signal, again);
}

/**
 * Returns titles with their values.
 * @param {[string, any][]} rows those without a value are left out
 */
export const facts = (rows) => h("dl", null, rows.filter(([, value]) => value !== undefined && value !== null && value !== "")
  .map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value))));

/**
 * Returns a table whose rows become blocks on a narrow screen.
 * @param {string} label
 * @param {(Node|string)[]} titles
 * @param {[string, any, string?][][]} rows the title, the value and the class of each cell
 */
export const table = (label, titles, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "stacked" },
  h("thead", null, h("tr", null, titles.map((title) => h("th", { scope: "col" }, title)))),
  h("tbody", null, rows.map((cells) => h("tr", null, cells.map(([title, value, name]) => cell(title, value, name ?? null)))))));

/**
 * Returns the path to a thing of a list.
 * @param {string} list
 * @param {string} title of the list
 * @param {Node|string} name
 */
export const pathTo = (list, title, name) => h("nav", { "aria-label": "Path" }, h("ol", { class: "crumbs" },
  h("li", null, h("a", { href: link("admin", list) }, title)), h("li", null, h("h1", null, name))));

/** @param {string} state */
export const badge = (state) => h("span", { class: `badge ${["active", "ready", "running"].includes(state) ? "open" : ""}` }, state);

/**
 * Asks, and does the work while the dialog is open. An error is shown there, so that nothing that was
 * typed is lost, and the work can be tried again. It returns the result, or undefined if the work
 * was not done.
 * @template T
 * @param {string} title
 * @param {(Node|string)[]} body
 * @param {string} label of the button that does it
 * @param {() => Promise<T>} work
 * @param {string} [look] the class of that button
 * @returns {Promise<T|undefined>}
 */
export async function doing(title, body, label, work, look = "danger") {
  const said = h("div", { role: "status" });
  const { dialog, buttons: [cancel, act], answer } = openDialog(title, [...body, said], [{ label: "Cancel", value: "" }, { label, value: "done", class: look }]);
  let busy = false, result;
  dialog.addEventListener("cancel", (event) => busy && event.preventDefault()); // its outcome must be seen
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    if (busy) return;
    busy = act.disabled = cancel.disabled = true;
    fill(said);
    try {
      result = await work();
      dialog.close("done");
    } catch (error) {
      fill(said, errorBox(error));
    }
    busy = act.disabled = cancel.disabled = false;
  }, { capture: true });
  await answer;
  return result;
}

/** Shows the view again after something was done. */
export function renew() {
  void show();
  document.getElementById("main").focus({ preventScroll: true });
}
