// The versions of blobs that an account keeps, and which of them a restoration takes.

import { administersPlace, rights } from "./rights.js";
import { repeated } from "./sending.js";
import * as api from "./api.js";

/**
 * @typedef {import("./api.js").Blob & {version: string, current: boolean, deleted?: boolean, by?: string, since?: string, until?: string}} Version
 * @typedef {{name: string, current?: Version, then?: Version, mark?: Version, decided: boolean}} History
 */

/** Blobs whose own responses show whether they will be kept. */
const mostAsked = 20;

/** Reports whether the service knows versions. */
export const known = async () => ((await api.info()).features ?? []).includes("versions");

/** Returns the URL of a version. @param {string} account @param {string} name @param {string} version */
export const versionURL = (account, name, version) => api.blobURL(account, name).replace(/\/v1\/blobs\/([^/]*)\//, (_, a) => `/v1/versions/${a}/${version}/`);

/**
 * Reports whether all these blobs stay as versions when they are deleted. Without an answer it is
 * false.
 * @param {string} account
 * @param {{name: string}[]} blobs
 */
export async function keeps(account, blobs) {
  try {
    if (!(await known())) return false;
    const may = await rights();
    if (may && administersPlace(may, account, "")) return (await api.json(`v1/admin/versions/${encodeURIComponent(account)}`)).keep === "on";
    if (blobs.length > mostAsked) return false;
    const answers = await Promise.all(blobs.map(({ name }) => api.send(api.blobURL(account, name), { method: "HEAD", headers: api.readHeaders() })));
    return answers.every((answer) => answer.headers.has("Blob-Version"));
  } catch {
    return false;
  }
}

/**
 * Returns pages of an account's versions, as the interface has them.
 * @param {string} account
 * @param {Object<string, string|number|undefined>} query
 * @param {AbortSignal} signal
 */
export async function* pages(account, query, signal) {
  for (let after = "", afterVersion = "", more = true; more;) {
    const page = await repeated(() => api.json(`v1/versions/${encodeURIComponent(account)}`, { limit: 1000, ...query, after, afterVersion }, { signal }), signal);
    yield page;
    after = page.next;
    afterVersion = page.nextVersion;
    more = Boolean(page.next);
  }
}

/**
 * Returns the histories of the names in a page, and of the one before whose versions may go on.
 * @param {Version[]} versions
 * @param {History|undefined} open
 * @param {number} at the time at which the blobs are sought; 0: before they were deleted
 * @returns {History[]} the last one may go on
 */
export function histories(versions, open, at) {
  const found = open ? [open] : [];
  for (const v of versions ?? []) {
    if (found.at(-1)?.name !== v.name) found.push({ name: v.name, decided: false });
    const h = found.at(-1), modified = Date.parse(v.lastModified), since = Date.parse(v.since) || Infinity;
    if (v.current) h.current = v;
    if (v.deleted) h.mark ??= v;
    if (h.decided || (at ? modified > at : v.deleted)) continue;
    h.decided = true;
    if (!v.deleted && !(at && since <= at)) h.then = v;
  }
  return found;
}

/** Reports whether a version was ended by its own expiry. @param {Version} v */
const expired = (v) => Boolean(v.expires && v.since) && Date.parse(v.since) >= Date.parse(v.expires);

/**
 * Returns the versions that restore a selection: of blobs that are deleted, or as they were at a
 * time. It has the same rules as the command sluice undelete.
 * @param {string} account
 * @param {import("./batch.js").Item[]} items
 * @param {number} at
 * @param {AbortSignal} signal
 * @param {(count: number) => void} progress
 * @returns {Promise<import("./batch.js").Part[]>}
 */
export async function countVersions(account, items, at, signal, progress) {
  const parts = [];
  for (const item of items) {
    const part = { item, blobs: [], bytes: 0 }, folder = item.kind === "folder";
    const add = ({ name, current, then, mark }) => {
      const ruled = !current && mark?.by?.startsWith("rule:");
      if (!then || current?.version === then.version || (current && then.etag && current.etag === then.etag) || (folder && !at && (expired(then) || ruled))) return;
      const { size, etag, version, expires } = then;
      part.blobs.push({ name, size, etag, version, expires: Date.parse(expires) > Date.now() ? expires : undefined, replaces: current?.etag, fresh: !current, deleted: Date.parse(mark?.lastModified), ruled });
      part.bytes += size;
    };
    let open, ended = false;
    for await (const page of pages(account, { prefix: item.name }, signal)) {
      const found = histories(page.versions, open, at);
      open = found.pop();
      for (const h of open && !page.next ? [...found, open] : found) {
        ended ||= !folder && h.name !== item.name;
        if (!ended) add(h);
      }
      progress(parts.reduce((sum, p) => sum + p.blobs.length, part.blobs.length));
      if (ended || (!folder && open && open.name !== item.name)) break;
    }
    parts.push(part);
  }
  return parts;
}

/** Deletions with longer pauses between them, in milliseconds, are not of one series. */
const pause = 60_000;

/**
 * Returns the last time before the last series of deletions, or 0 if there is none.
 * @param {import("./batch.js").Part[]} parts with deleted blobs, as countVersions returns them
 */
export function beforeDeletions(parts) {
  const times = parts.flatMap((part) => part.blobs.map((blob) => blob.deleted)).filter(Boolean).sort((a, b) => b - a);
  const last = times.findIndex((time, i) => !(time - times[i + 1] <= pause));
  return last < 0 ? 0 : times[last] - 1;
}

/**
 * Restores a version, which becomes current again.
 * @param {string} account
 * @param {{name: string, version: string, expires?: string, replaces?: string, fresh?: boolean}} blob
 * replaces is the ETag of the blob that it replaces; with fresh there must be none
 * @param {RequestInit} [options]
 */
export function restore(account, { name, version, expires, replaces, fresh }, options = {}) {
  const body = { copyTo: { account, blobName: name }, expires, ...(fresh ? { ifNoneMatch: "*" } : replaces && { ifMatch: replaces }) };
  return api.send(versionURL(account, name, version), { ...options, method: "POST", headers: api.headers(), body: JSON.stringify(body) });
}
