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

let announcement = 0, seeksFocus = false;

/**
 * Shows that a blob was stored.
 * @param {string} account
 * @param {string} name
 */
export function stored(account, name) {
  const to = target();
  if (to?.account === account && name.startsWith(to.prefix)) announce();
}

/**
 * Shows that the folder has other blobs.
 *
 * It sends the event soon: many uploads may end together. A dialog returns the focus to a row, which
 * must not go meanwhile.
 * @param {boolean} [focus] whether the list then has the focus, if nothing else has it
 */
export function announce(focus = false) {
  seeksFocus ||= focus;
  clearTimeout(announcement);
  announcement = setTimeout(() => {
    if (document.querySelector("dialog[open]")) return announce();
    dispatchEvent(new CustomEvent(storedEvent, { detail: seeksFocus && [document.body, document.getElementById("main")].includes(document.activeElement) }));
    seeksFocus = false;
  }, 300);
}
