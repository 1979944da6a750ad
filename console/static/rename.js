// Renaming a blob or a folder in place.

import { h } from "./dom.js";
import { visible, visibleText } from "./text.js";
import { ask } from "./notice.js";
import { run } from "./batch.js";
import { askCounted } from "./counted.js";
import { carryOut } from "./outcome.js";
import { conflictChoice } from "./conflict.js";
import { lastOf, parentOf, wrongName } from "./names.js";

/**
 * Lets the user edit a name in its place, asks the necessary questions, and renames. It returns the new
 * name, or null if nothing was renamed.
 * @param {string} account
 * @param {import("./batch.js").Item} item
 * @param {HTMLElement} place the element that shows the name
 * @param {() => void} [edited] called when it shows the name again
 * @returns {Promise<string|null>}
 */
export async function renameIn(account, item, place, edited = () => {}) {
  const parent = parentOf(item.name), before = lastOf(item.name);
  const after = await edit(place, item, parent);
  edited();
  if (after === null || after === before) return null;
  return item.kind === "folder" ? renameFolder(account, item, `${parent}${after}/`) : renameBlob(account, item, parent + after);
}

/** Shows a field in the place of a name. It returns the typed text, or null for Escape. */
function edit(place, item, parent) {
  const before = lastOf(item.name), shown = [...place.childNodes];
  const field = /** @type {HTMLInputElement} */ (h("input", { class: "rename", value: before, "aria-label": `New name of ${visibleText(before)}`, autocomplete: "off", spellcheck: "false" }));
  return new Promise((resolve) => {
    let ended = false;
    const end = (value) => {
      if (ended) return;
      ended = true;
      place.classList.remove("renaming");
      place.replaceChildren(...shown);
      resolve(value);
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation(); // in a list, keys move between the rows
      if (event.key === "Escape") end(null);
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      field.setCustomValidity(field.value.includes("/") ? "A name has no “/” here. Move it to change its folder." : wrongName(parent + field.value));
      if (field.value === "") field.setCustomValidity("The name is empty.");
      if (field.reportValidity()) end(field.value);
    });
    field.addEventListener("input", () => field.setCustomValidity(""));
    // Not when the whole window loses the focus.
    field.addEventListener("blur", () => document.hasFocus() && end(null));
    place.classList.add("renaming");
    place.replaceChildren(field);
    field.focus();
    const dot = item.kind === "blob" ? before.lastIndexOf(".") : -1;
    field.setSelectionRange(0, dot > 0 ? dot : before.length);
  });
}

async function renameBlob(account, item, to) {
  const { name, size, etag } = item;
  /** @type {import("./outcome.js").Named} */
  const work = { verb: "move", account, to: account, nameOf: () => to, replace: false, called: "rename" };
  const blobs = [{ name, size, etag }];
  const first = await run(work, blobs, new AbortController().signal, () => {});
  if (first.skipped.length === 0) {
    const { done } = await carryOut(work, blobs, first);
    return done.length > 0 ? to : null;
  }
  const answer = await ask("Replace the blob of this name?", [
    h("p", null, "There is a blob ", h("strong", null, visible(to)), " already. If it is replaced, its content is lost, and ", h("strong", null, visible(name)), " has its name."),
  ], [{ label: "Cancel", value: "" }, { label: "Replace", value: "replace", class: "danger" }]);
  if (answer !== "replace") return null;
  const { done } = await carryOut({ ...work, replace: true }, blobs);
  return done.length > 0 ? to : null;
}

async function renameFolder(account, item, to) {
  const existing = conflictChoice();
  const blobs = await askCounted({
    title: "Rename this folder?", account, items: [item], label: "Rename",
    sentence: (blobs) => [`${blobs} will be moved to `, h("strong", null, visible(to)), "."],
    fields: [existing.fields],
  });
  if (!blobs) return null;
  const outcome = await carryOut({
    verb: "move", account, to: account, nameOf: (name) => to + name.slice(item.name.length), replace: existing.replaces(), called: "rename",
    where: ` to ${visibleText(to)}`,
  }, blobs);
  return outcome.done.length > 0 ? to : null;
}
