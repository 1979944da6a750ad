// The folder that is shown, and the news that it has other blobs.

import { parts } from "./router.js";

/** The event of the window after blobs were stored where the folder that is shown has them. */
export const storedEvent = "sluice-stored";

/**
 * Returns where files of this view are stored, or null if it is no folder.
 * @returns {{account: string, prefix: string}|null}
 */
export function target() {
  const [first, account, prefix = ""] = parts();
  return first === "blobs" && account ? { account, prefix } : null;
}

let announcement = 0;

/**
 * Shows that a blob was stored.
 * @param {string} account
 * @param {string} name
 */
export function stored(account, name) {
  const to = target();
  if (to?.account === account && name.startsWith(to.prefix)) announce();
}

/** Sends the event soon: many uploads may end together. A dialog returns the focus to a row, which must not go meanwhile. */
function announce() {
  clearTimeout(announcement);
  announcement = setTimeout(() => (document.querySelector("dialog[open]") ? announce() : dispatchEvent(new Event(storedEvent))), 300);
}
