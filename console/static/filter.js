// The field that filters a folder: by the beginning of names, which the server looks up, or by a
// part of them, which is looked for in the loaded names: in the folder, or in all below it.

import { h, icon } from "./dom.js";

/** @typedef {{text: string, begins: boolean, below: boolean}} Wanted */

/** Time without typing after which a folder is filtered, in milliseconds. */
const settled = 150;

/**
 * Returns the field, and functions that return and set its filter.
 * @param {() => void} changed
 * @returns {{element: HTMLElement, input: HTMLInputElement, wanted: () => Wanted, set: (wanted: Wanted) => void, cancel: () => void}}
 */
export function filterField(changed) {
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "search", autocomplete: "off", spellcheck: "false" }));
  const way = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Show names that", class: "way" },
    h("option", { value: "contain" }, "Contains"), h("option", { value: "begin" }, "Begins with"), h("option", { value: "below" }, "Contains, below")));
  const label = () => {
    const begins = way.value === "begin";
    input.placeholder = begins ? "Start of a name" : "Part of a name";
    input.setAttribute("aria-label", begins ? "Show names that begin with" : "Show names that contain");
  };
  label();
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(changed, settled);
  });
  way.addEventListener("change", () => {
    label();
    if (input.value) changed();
  });
  return {
    element: h("div", { class: "filter" }, way, h("div", { class: "search" }, icon("search"), input)),
    input,
    wanted: () => ({ text: input.value, begins: way.value === "begin", below: way.value === "below" }),
    set: ({ text, begins, below }) => {
      input.value = text;
      way.value = begins ? "begin" : below ? "below" : "contain";
      label();
    },
    cancel: () => clearTimeout(timer),
  };
}
