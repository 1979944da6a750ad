// Restoring a selection, after asking: what was deleted, or everything as it was at a time.

import { h } from "./dom.js";
import { localTime, visible } from "./text.js";
import { amount, askCounted } from "./counted.js";
import { carryOut } from "./outcome.js";
import { beforeDeletions, countVersions } from "./versions.js";

/**
 * Asks, and restores blobs and the contents of folders. It returns null if nothing was begun.
 * @param {string} account
 * @param {import("./batch.js").Item[]} items
 * @param {boolean} [proposes] a time before the last deletions
 * @returns {Promise<import("./batch.js").Outcome|null>}
 */
export async function restoreItems(account, items, proposes = false) {
  const at = /** @type {HTMLInputElement} */ (h("input", { type: "datetime-local", id: "restore-at", step: 0.001, "aria-describedby": "restore-about" }));
  const blobs = await askCounted({
    title: items.length === 1 ? `Restore this ${items[0].kind}?` : `Restore ${amount(items)}?`,
    account, items, label: "Restore", field: at,
    count: async (signal, progress) => {
      const parts = await countVersions(account, items, Date.parse(at.value) || 0, signal, progress);
      const proposed = proposes && !at.value && !signal.aborted && beforeDeletions(parts);
      if (!proposed) return parts;
      proposes = false;
      at.value = localTime(new Date(proposed).toISOString(), 23);
      return countVersions(account, items, proposed, signal, progress);
    },
    none: "Nothing in it is to be restored.",
    fields: [h("label", { for: at.id }, "As it was at"), at, h("p", { class: "sub", id: "restore-about" }, "Empty: all that is deleted, as it was before; of a folder, not what has expired or a rule has removed. With a time, that too, and blobs that have other content since are replaced.")],
    sentence: (text, found) => {
      const replaced = found.filter((blob) => !blob.fresh).length, ruled = found.filter((blob) => blob.ruled).length;
      return [`${text} of account `, visible(account), " will be restored", replaced > 0 ? `; ${replaced} of them replace what is there now.` : ".",
        ruled > 0 ? ` A rule has removed ${ruled} of them, and may remove them again.` : ""];
    },
  });
  return blobs && carryOut({ verb: "restore", account }, blobs);
}
