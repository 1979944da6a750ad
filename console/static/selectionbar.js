// The bar above a folder that shows the selection's size, and its operations.

import { button, h } from "./dom.js";
import { count } from "./text.js";
import { amount } from "./counted.js";

/**
 * Returns the bar, and a function that shows a selection in it.
 * @param {Object<"download"|"rename"|"move"|"copy"|"remove"|"clear", () => void>} actions
 * @returns {{element: HTMLElement, show: (items: import("./batch.js").Item[]) => void}}
 */
export function selectionBar(actions) {
  const said = h("p", { role: "status" });
  const rename = button("edit", "Rename", actions.rename);
  const buttons = h("div", { class: "actions" }, button("download", "Download", actions.download), rename, button("move", "Move…", actions.move), button("copy", "Copy…", actions.copy),
    button("trash", "Delete", actions.remove, { class: "danger" }), button("close", "Clear the selection", actions.clear, { iconOnly: true }));
  const element = h("div", { class: "selection", role: "group", "aria-label": "Selection" }, said, buttons);
  buttons.hidden = true;
  return {
    element,
    show: (items) => {
      // The status stays in the document, so that its changes are announced.
      said.textContent = items.length === 0 ? "" : `${count(items.length)} selected: ${amount(items, true)}`;
      buttons.hidden = items.length === 0;
      element.classList.toggle("on", items.length > 0);
      rename.hidden = items.length !== 1;
    },
  };
}
