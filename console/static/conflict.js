// The choice whether blobs at a destination are replaced or skipped.

import { h } from "./dom.js";

/** Returns the fields of the choice, and a function that reports whether they are replaced. */
export function conflictChoice() {
  const replace = /** @type {HTMLInputElement} */ (h("input", { type: "radio", name: "existing", value: "replace" }));
  const fields = h("fieldset", { class: "choice" }, h("legend", null, "If a name exists there already"),
    h("label", { class: "check" }, h("input", { type: "radio", name: "existing", value: "skip", checked: true }), "Skip: leave both as they are"),
    h("label", { class: "check" }, replace, "Replace: their content is lost"));
  return { fields, replaces: () => replace.checked };
}
