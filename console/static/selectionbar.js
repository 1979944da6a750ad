// The bar above a folder that shows the selection's size, and its operations.

import { button, h } from "./dom.js";
import { count } from "./text.js";
import { amount } from "./counted.js";

/**
 * Returns the bar, and a function that shows a selection in it.
 * @param {Object<"restore"|"download"|"rename"|"move"|"copy"|"remove"|"clear", () => void>} actions
 * @returns {{element: HTMLElement, show: (items: import("./batch.js").Item[]) => void}}
 */
export function selectionBar(actions) {
  const said = h("p", { role: "status" });
  const rename = button("edit", "Rename", actions.rename);
  const all = [["undo", "Restore…", actions.restore], ["download", "Download", actions.download], rename, ["move", "Move…", actions.move], ["copy", "Copy…", actions.copy], ["trash", "Delete", actions.remove, { class: "danger" }]];
  const buttons = h("div", { class: "actions" }, all.map((one) => (one === rename ? actions.rename && rename : one[2] && button(...one))), button("close", "Clear the selection", actions.clear, { iconOnly: true }));
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
