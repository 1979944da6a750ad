// Which items of a list are selected. They are known by their keys, so a selection outlasts the
// replacement of the list.

/** @template T */
export class Selection {
  /** @param {(item: T) => string} key differs between items */
  constructor(key) {
    this.key = key;
    /** @type {Map<string, T>} */
    this.items = new Map();
    /** The key of the item from which a range extends. */
    this.anchor = "";
  }

  get size() {
    return this.items.size;
  }

  /** @param {T} item */
  has(item) {
    return this.items.has(this.key(item));
  }

  /** @param {T} item */
  toggle(item) {
    const key = this.key(item);
    if (!this.items.delete(key)) this.items.set(key, item);
    this.anchor = key;
  }

  /**
   * Adds the items between the anchor and an index.
   * @param {T[]} all
   * @param {number} index
   */
  extend(all, index) {
    const from = all.findIndex((item) => this.key(item) === this.anchor);
    if (from < 0) this.anchor = this.key(all[index]);
    const [first, last] = from < 0 ? [index, index] : [Math.min(from, index), Math.max(from, index)];
    for (let i = first; i <= last; i++) this.items.set(this.key(all[i]), all[i]);
  }

  /** @param {T[]} all */
  add(all) {
    for (const item of all) this.items.set(this.key(item), item);
  }

  clear() {
    this.items.clear();
    this.anchor = "";
  }

  /**
   * Keeps items that are among the new ones, as these are now.
   * @param {T[]} all
   */
  renew(all) {
    const kept = new Map();
    if (this.items.size > 0) {
      for (const item of all) if (this.has(item)) kept.set(this.key(item), item);
    }
    this.items = kept;
  }
}
