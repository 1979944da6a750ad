// The names of a folder, as they are loaded page by page. Several lists can be made from the loaded
// names.

import { leaving } from "./undo.js";
import * as api from "./api.js";

/**
 * @typedef {{kind: "folder", name: string}} Folder
 * @typedef {{kind: "blob", name: string} & import("./api.js").Blob} Entry
 */

export class Listing {
  /**
   * @param {string} account
   * @param {string} prefix the beginning of all names
   * @param {AbortSignal} signal
   * @param {boolean} [deep] whether it has the blobs in folders, too, instead of these
   */
  constructor(account, prefix, signal, deep = false) {
    this.deep = deep;
    this.account = account;
    this.prefix = prefix;
    this.signal = signal;
    /** @type {(Folder|Entry)[]} */
    this.items = [];
    this.complete = false;
    this.after = "";
    /** @type {Promise<void>|null} */
    this.loading = null;
  }

  /** Loads the next page, if there is one. */
  load() {
    if (this.complete) return Promise.resolve();
    return (this.loading ??= this.loadPage().finally(() => (this.loading = null)));
  }

  async loadPage() {
    const query = { prefix: this.prefix, delimiter: this.deep ? "" : "/", after: this.after, limit: 1000 };
    const page = await api.json(`v1/blobs/${encodeURIComponent(this.account)}`, query, { signal: this.signal });
    this.items.push(...[...(page.prefixes ?? []).map((name) => ({ kind: "folder", name })), ...page.blobs.map((blob) => ({ kind: "blob", ...blob }))].filter((item) => !leaving(this.account, item.name)));
    this.after = page.next ?? "";
    this.complete = !page.next;
  }

  /** Loads pages until there are so many items, or no more. */
  async loadUntil(count) {
    do await this.load();
    while (!this.complete && this.items.length < count);
  }

  /**
   * Returns a function that returns the next items, or null. With a condition these are the items that
   * meet it among those that are loaded, or are in the first page.
   * @param {((item: Folder|Entry) => boolean)|null} matches
   */
  reader(matches) {
    let at = 0, ended = false;
    return async () => {
      if (ended) return null;
      if (at === this.items.length) await this.load();
      const next = this.items.slice(at);
      at = this.items.length;
      ended = Boolean(matches) || (next.length === 0 && this.complete);
      return matches ? next.filter(matches) : ended ? null : next;
    };
  }
}
