// Deleting a selection, after asking.

import { visible } from "./text.js";
import { amount, askCounted } from "./counted.js";
import { carryOut } from "./outcome.js";

/**
 * Asks, and deletes blobs and the contents of folders: the versions that were listed, and none that
 * replaced one since. It returns null if nothing was begun.
 * @param {string} account
 * @param {import("./batch.js").Item[]} items
 * @returns {Promise<import("./batch.js").Outcome|null>}
 */
export async function deleteItems(account, items) {
  const blobs = await askCounted({
    title: items.length === 1 ? `Delete this ${items[0].kind}?` : `Delete ${amount(items)}?`,
    account, items, label: "Delete", class: "danger",
    sentence: (blobs) => [`${blobs} of account `, visible(account), " will be deleted. This cannot be undone."],
  });
  if (!blobs) return null;
  return carryOut({ verb: "delete", account }, blobs);
}
