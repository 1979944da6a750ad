// Which page continues an upload. Every page of a browser sees the uploads of the journal; a page claims
// those that it continues with a Web Lock, which the browser releases when the page ends. Without Web
// Locks, as on pages that are served without TLS, every claim succeeds.

/** Reports whether a claim keeps other pages from an upload. */
export const exclusive = "locks" in navigator;

const lockOf = (uploadId) => `sluice-upload-${uploadId}`;

/** @type {Map<string, () => void>} uploads that this page has claimed, and functions that release them */
const claimed = new Map();

/**
 * Claims an upload for this page and reports whether no other page has claimed it.
 * @param {string} uploadId
 * @returns {Promise<boolean>}
 */
export function claim(uploadId) {
  if (!exclusive || claimed.has(uploadId)) return Promise.resolve(true);
  return new Promise((resolve, reject) => {
    navigator.locks.request(lockOf(uploadId), { ifAvailable: true }, (lock) => {
      resolve(lock !== null);
      return lock && new Promise((done) => claimed.set(uploadId, () => done(undefined)));
    }).catch(reject);
  });
}

/**
 * Releases an upload that this page has claimed.
 * @param {string} uploadId
 */
export function release(uploadId) {
  claimed.get(uploadId)?.();
  claimed.delete(uploadId);
}

/** Releases all uploads, of a page that the browser may keep to show it again. */
export function releaseAll() {
  for (const uploadId of claimed.keys()) release(uploadId);
}

/**
 * Waits until no page has claimed an upload.
 * @param {string} uploadId
 */
export async function unclaimed(uploadId) {
  if (exclusive) await navigator.locks.request(lockOf(uploadId), { mode: "shared" }, () => {});
}
