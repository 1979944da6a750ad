// Deleting a blob, after asking.

import { h } from "./dom.js";
import { bytes, visible, visibleText } from "./text.js";
import { confirm, errorBox, ask, toast } from "./notice.js";
import * as api from "./api.js";

/**
 * Asks and deletes the version of a blob that is shown, and not one that replaced it since. It
 * reports whether it was deleted.
 * @param {string} account
 * @param {{name: string, size: number, etag?: string}} blob
 * @returns {Promise<boolean>}
 */
export async function deleteBlob(account, blob) {
  const sure = await confirm("Delete this blob?", [
    h("p", null, h("strong", null, visible(blob.name)), ` (${bytes(blob.size)}) of account `, visible(account), " will be deleted. This cannot be undone."),
  ], "Delete");
  if (!sure) return false;
  try {
    await api.send(api.blobURL(account, blob.name), { method: "DELETE", headers: api.headers(blob.etag ? { "If-Match": blob.etag } : {}) });
  } catch (error) {
    await ask("It was not deleted", [errorBox(error)], [{ label: "Close", value: "" }]);
    return false;
  }
  toast(`${visibleText(blob.name)} was deleted`);
  return true;
}
