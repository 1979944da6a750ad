// Deleting a selection, after asking.

import { visible } from "./text.js";
import { amount, askCounted } from "./counted.js";
import { deleteUndoably } from "./undo.js";

/**
 * Asks, and deletes blobs and the contents of folders: the versions that were listed, and none that
 * replaced one since. It returns null if nothing was begun.
 * @param {string} account
 * @param {import("./batch.js").Item[]} items
 * @param {string} home the address of the folder that shows them
 * @returns {Promise<import("./batch.js").Outcome|null>}
 */
export async function deleteItems(account, items, home) {
  const blobs = await askCounted({
    title: items.length === 1 ? `Delete this ${items[0].kind}?` : `Delete ${amount(items)}?`,
    account, items, label: "Delete", class: "danger",
    sentence: (blobs) => [`${blobs} of account `, visible(account), " will be deleted. You can undo it for ten seconds."],
  });
  return blobs && deleteUndoably(account, items, blobs, home);
}
