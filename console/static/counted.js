// The question before an operation on a selection: it names the items, and counts the blobs.

import { fill, h } from "./dom.js";
import { bytes, count, some, visible } from "./text.js";
import { errorBox, openDialog } from "./notice.js";
import { checkCount, countBlobs } from "./batch.js";

/** Names that are shown. */
const mostNamed = 6;

/**
 * Returns the number of blobs and folders of a selection in words.
 * @param {import("./batch.js").Item[]} items
 * @param {boolean} [sized] with the size of the blobs
 */
export function amount(items, sized = false) {
  const blobs = items.filter((item) => item.kind === "blob"), folders = items.length - blobs.length;
  const size = sized ? ` (${bytes(blobs.reduce((sum, blob) => sum + blob.size, 0))})` : "";
  return [blobs.length > 0 && some(blobs.length) + size, folders > 0 && some(folders, "folder")].filter(Boolean).join(sized ? ", " : " and ");
}

/**
 * Asks whether to do something with a selection. It can be confirmed when its blobs are counted.
 * @param {object} question
 * @param {string} question.title
 * @param {string} question.account
 * @param {import("./batch.js").Item[]} question.items
 * @param {(blobs: string, counted: import("./batch.js").Counted[]) => (Node|string)[]} question.sentence describes the operation on so many blobs
 * @param {string} question.label of the button that confirms
 * @param {string} [question.class] of that button
 * @param {Node[]} [question.fields]
 * @param {(signal: AbortSignal, progress: (count: number) => void) => Promise<import("./batch.js").Part[]>} [question.count]
 * counts them, again after each change of the field
 * @param {HTMLElement} [question.field]
 * @param {string} [question.none] shown if there are none
 * @param {(blobs: import("./batch.js").Counted[]) => string|void} [question.counted] called with the
 * blobs; it returns a sentence if nothing can be done with them
 * @returns {Promise<import("./batch.js").Counted[]|null>} null if it was not confirmed
 */
export async function askCounted(question) {
  // Folders first: their blobs are not visible.
  const items = question.items.toSorted((a, b) => Number(b.kind === "folder") - Number(a.kind === "folder"));
  const said = h("div", { role: "status" }), sizes = items.slice(0, mostNamed).map(() => h("span", { class: "sub" }));
  const names = h("ul", { class: "what" }, sizes.map((size, i) => h("li", null, h("strong", null, visible(items[i].name)), " ", size)),
    items.length > mostNamed && h("li", { class: "sub" }, `and ${count(items.length - mostNamed)} more`));
  const { dialog, buttons: [no, yes], answer } = openDialog(question.title, [names, ...(question.fields ?? []), said], [
    { label: "Cancel", value: "" }, { label: question.label, value: "yes", class: question.class ?? "primary", disabled: true },
  ]);
  let control = new AbortController(), blobs = [];
  const { count: countThem = (signal, progress) => countBlobs(question.account, items, signal, progress) } = question;
  dialog.addEventListener("close", () => control.abort());
  question.field?.addEventListener("change", () => void counting());
  const counting = async () => {
    control.abort();
    const { signal } = (control = new AbortController());
    yes.disabled = true;
    try {
      if (question.count || items.some((item) => item.kind === "folder")) said.textContent = "Counting the blobs…";
      const parts = await countThem(signal, (n) => {
        checkCount(n);
        if (!signal.aborted) said.textContent = `Counting the blobs: ${count(n)} so far…`;
      });
      if (signal.aborted) return;
      sizes.forEach((size, i) => {
        const part = parts[i];
        size.textContent = part.item.kind === "folder" ? `${some(part.blobs.length)} (${bytes(part.bytes)})` : bytes(part.bytes);
      });
      blobs = parts.flatMap((part) => part.blobs);
      if (blobs.length === 0) return fill(said, question.none ?? "There is no blob in it any more.");
      fill(said, question.sentence(`${some(blobs.length)} (${bytes(parts.reduce((sum, part) => sum + part.bytes, 0))})`, blobs));
      const refused = question.counted?.(blobs);
      if (refused) return fill(said, refused);
      yes.disabled = false;
      // Enter confirms a harmless operation.
      if (question.class !== "danger" && document.activeElement === no) yes.focus();
    } catch (error) {
      // Without a code, it is no answer that could differ later.
      if (!signal.aborted) fill(said, errorBox(error, error.code && (() => void counting())));
    }
  };
  void counting();
  return (await answer) === "yes" ? blobs : null;
}
