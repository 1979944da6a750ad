// What the key of this page administers. Package admin of the server decides; the console only hides
// the controls that it would refuse.

import { parseAccount } from "./names.js";
import * as api from "./api.js";

/**
 * @typedef {{scopes: string[], accounts?: string[], prefix?: string}} Grant
 * @typedef {{id: string, state: string, label?: string, grants: Grant[], group: string, limits: Object<string, number>, s3: boolean, created: string, expires?: string, revoked?: string, etag: string}} Key
 * @typedef {{everything: boolean, local: boolean, key: Key|null}} Rights
 */

/** @type {Promise<Rights|null>|undefined} */
let found;
api.onKeyChange(() => (found = undefined));

/**
 * Returns the rights, which are requested once for each key, or null if there are none.
 * @returns {Promise<Rights|null>}
 */
export function rights() {
  if (found) return found;
  const asked = look().catch((error) => {
    if (found === asked) found = undefined;
    throw error;
  });
  return (found = asked);
}

async function look() {
  const local = (await api.info()).profile === "local", id = api.keyId();
  if (!local && !id) return null;
  try {
    if (local) {
      await api.json("v1/admin/keys", { limit: 1 });
      return { everything: true, local, key: null };
    }
    const key = await api.json(`v1/admin/keys/${id}`);
    return { everything: key.grants.some((grant) => administers(grant) && !grant.accounts && !grant.prefix), local, key };
  } catch (error) {
    if ([401, 403, 404].includes(error.status)) return null; // 404: it is turned off, or elsewhere
    throw error;
  }
}

/**
 * Reports whether all names of an account that begin so are administered.
 * @param {Rights} may
 * @param {string} account
 * @param {string} prefix
 */
export function administersPlace(may, account, prefix) {
  const { account: known } = parseAccount(account);
  return may.everything || may.key.grants.some((grant) => administers(grant) && (!grant.accounts || grant.accounts.includes(known)) && prefix.startsWith(grant.prefix ?? ""));
}

/** @param {Grant} grant */
export const administers = (grant) => grant.scopes.includes("admin");

/**
 * Reports whether a key that may be seen may be changed, too.
 * @param {Rights} may
 * @param {Key} key
 */
export const manages = (may, key) => may.everything || (key.group === may.key.group && (key.id !== may.key.id || key.grants.every(administers)));
