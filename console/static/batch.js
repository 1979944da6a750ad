// An operation on many blobs: they are counted, and then deleted, moved, copied or restored, each on the
// condition that it is still the version that was counted.

import { parseAccount } from "./names.js";
import { passing, repeated } from "./sending.js";
import { count as number } from "./text.js";
import { restore } from "./versions.js";
import * as api from "./api.js";

/** Most blobs of a batch: their names are in memory. */
const mostBlobs = 100_000;
/** Requests at the same time. */
const mostRequests = 4;
/** How long a batch that is cancelled waits for its last answers, in milliseconds. */
const lastAnswers = 3000;

/**
 * @typedef {{name: string, size?: number, etag?: string, lastModified?: string}} Listed
 * @typedef {Listed & {kind: "folder"|"blob"}} Item
 * @typedef {Listed & {size: number, version?: string, expires?: string, replaces?: string, fresh?: boolean, deleted?: number, ruled?: boolean}} Counted restored with the last members
 * @typedef {{item: Item, blobs: Counted[], bytes: number}} Part
 */

/**
 * @typedef {object} Work
 * @property {"delete"|"move"|"copy"|"restore"} verb
 * @property {string} account of the blobs
 * @property {string} [to] the account of the destination
 * @property {(name: string) => string} [nameOf] returns the name at the destination
 * @property {boolean} [replace] whether blobs at the destination are replaced
 */

/**
 * @typedef {object} Outcome
 * @property {Counted[]} done
 * @property {Counted[]} skipped because the destination has their names
 * @property {{blob: Counted, error: unknown}[]} failed
 * @property {Counted[]} left that were not begun
 */

/** Throws an error if there are too many blobs for a batch. @param {number} n */
export function checkCount(n) {
  if (n > mostBlobs) throw new api.APIError({ status: 0, detail: `There are more than ${number(mostBlobs)} blobs, which is the most for the console. Select fewer folders, or use the command sluice.` });
}

/**
 * Returns the blobs of a selection, listing its folders to their ends.
 * @param {string} account
 * @param {Item[]} items
 * @param {AbortSignal} signal
 * @param {(count: number) => void} progress
 * @returns {Promise<Part[]>}
 * @throws {api.APIError}
 */
export async function countBlobs(account, items, signal, progress) {
  const parts = [];
  let total = 0;
  for (const item of items) {
    const part = { item, blobs: [], bytes: 0 };
    /** @param {Listed} blob */
    const add = ({ name, size, etag, lastModified }) => {
      part.blobs.push({ name, size, etag, lastModified: etag ? undefined : lastModified });
      part.bytes += size;
    };
    if (item.kind === "blob") add(item);
    for (let after = "", more = item.kind === "folder"; more;) {
      const query = { prefix: item.name, after, limit: 1000 };
      const page = await repeated(() => api.json(`v1/blobs/${encodeURIComponent(account)}`, query, { signal }), signal);
      page.blobs.forEach(add);
      after = page.next;
      more = Boolean(page.next);
      progress(total + part.blobs.length);
    }
    progress((total += part.blobs.length));
    parts.push(part);
  }
  return parts;
}

/**
 * Does the work with all blobs, a few at a time, and repeats requests that failed for a while. When
 * the signal ends, or no further request could succeed, no more are begun. It does not throw.
 * @param {Work} work
 * @param {Counted[]} blobs
 * @param {AbortSignal} signal
 * @param {(count: number, bytes: number) => void} progress
 * @returns {Promise<Outcome>}
 */
export async function run(work, blobs, signal, progress) {
  /** @type {Outcome} */
  const outcome = { done: [], skipped: [], failed: [], left: [] };
  const unanswered = new AbortController();
  const cancelled = () => setTimeout(() => unanswered.abort(), lastAnswers);
  signal.addEventListener("abort", cancelled, { once: true });
  let next = 0, ended = false, count = 0, bytes = 0;
  const worker = async () => {
    while (next < blobs.length && !ended && !signal.aborted) {
      const blob = blobs[next++];
      try {
        outcome[await perform(work, blob, signal, unanswered.signal)].push(blob);
      } catch (error) {
        outcome.failed.push({ blob, error: signal.aborted && !(error instanceof api.APIError) ? unknown() : error });
        ended ||= concernsAll(error);
      }
      progress(++count, (bytes += blob.size));
    }
  };
  await Promise.all(Array.from({ length: mostRequests }, worker));
  signal.removeEventListener("abort", cancelled);
  outcome.left = blobs.slice(next);
  return outcome;
}

const unknown = () => new api.APIError({ status: 0, detail: "The answer did not come in time, so it is unknown whether this was done." });

/** Reports whether the next requests would fail for the same reason. */
export const concernsAll = (error) => passing(error) ? Boolean(error.code) : [401, 403, 507].includes(error.status);

/**
 * Does the work with one blob.
 * @returns {Promise<"done"|"skipped">}
 */
async function perform(work, blob, signal, unanswered) {
  const url = api.blobURL(work.account, blob.name);
  try {
    if (work.verb === "restore") await repeated(() => restore(work.account, blob, { signal: unanswered }), signal);
    else if (work.verb === "delete") await repeated(() => api.send(url, { method: "DELETE", headers: api.headers(conditionOf(blob)), signal: unanswered }), signal);
    else await transfer(work, blob, url, signal, unanswered);
    return "done";
  } catch (error) {
    if (error.code !== "precondition_failed") throw error;
    if (work.verb === "restore" && blob.etag && (await etagOf(work.account, blob.name)) === blob.etag) return "done"; // the answer to it was lost
    if (["move", "copy"].includes(work.verb) && error.message.includes("destination")) {
      // A copy whose answer was lost finds its own result. Browsers also repeat requests unasked, so the
      // number of attempts proves nothing.
      const own = work.verb === "copy" && blob.etag && (await etagOf(work.to, work.nameOf(blob.name))) === blob.etag;
      return own ? "done" : "skipped";
    }
    const gone = work.verb === "delete" && (await etagOf(work.account, blob.name)) === "";
    if (gone) return "done";
    error.message = "It was replaced since it was listed, so it was left as it is.";
    throw error;
  }
}

/** Returns the condition that a blob is still the listed version. Not every key sees the ETag. */
function conditionOf({ etag, lastModified }) {
  if (etag) return { "If-Match": etag };
  return lastModified ? { "If-Unmodified-Since": new Date(lastModified).toUTCString() } : {};
}

/** Moves or copies a blob. */
function transfer(work, blob, url, signal, unanswered) {
  const to = { account: work.to, blobName: work.nameOf(blob.name) };
  const body = JSON.stringify({ [`${work.verb}To`]: to, ...(work.replace ? {} : { ifNoneMatch: "*" }) });
  // A move that is repeated is recognized by the ETag of its source, or else by a key. Without the
  // ETag there is no condition, because a caller that may not see it may not state one either.
  const headers = blob.etag ? { "If-Match": blob.etag } : work.verb === "move" ? { "Idempotency-Key": randomKey() } : {};
  return repeated(() => api.send(url, { method: "POST", body, headers: api.headers(headers), signal: unanswered }), signal);
}

const randomKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Returns the ETag of a blob, "" if there is none, or undefined if that is not known. */
async function etagOf(account, name) {
  try {
    const response = await api.send(api.blobURL(account, name), { method: "HEAD", headers: api.readHeaders() });
    return response.headers.get("ETag") ?? undefined;
  } catch (error) {
    return error.status === 404 || error.status === 410 ? "" : undefined;
  }
}

/**
 * Returns why items cannot be put into a folder, or "".
 * @param {string} account
 * @param {string} prefix the folder of the items
 * @param {Item[]} items
 * @param {string} toAccount
 * @param {string} toPrefix
 */
export function wrongFolder(account, prefix, items, toAccount, toPrefix) {
  if (parseAccount(account).account !== parseAccount(toAccount).account) return "";
  if (toPrefix === prefix) return "This is where they are.";
  const into = items.find((item) => item.kind === "folder" && toPrefix.startsWith(item.name));
  return into ? "A folder cannot be put into itself." : "";
}
