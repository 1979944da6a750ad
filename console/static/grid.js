// A list of any length: only the rows that can be seen are in the document. The arrow keys, Home, End,
// Page Up and Page Down move the focus, and Enter opens a row.

import { fill, h } from "./dom.js";

/** Rows that are in the document above and below those that can be seen. */
const margin = 8;
/** Greatest number of rows. Browsers cannot lay out elements that are much higher. */
const most = 400_000;

/**
 * @template T
 * @typedef {object} GridOptions
 * @property {string} label
 * @property {{title: string, class?: string}[]} columns
 * @property {(item: T) => (Node|string)[]} cells the contents of the cells of a row
 * @property {(item: T) => void} open
 * @property {(item: T) => void} [remove] by the key Delete
 * @property {() => Promise<T[]|null>} more returns the next items, or null if there are none
 * @property {(item: T) => string} [key] differs between items; replace needs it
 * @property {(error: unknown) => void} failed
 * @property {Node} empty shown if there are no items
 * @property {(shown: number, complete: boolean) => void} [counted]
 */

/** @template T */
export class Grid {
  /** @param {GridOptions<T>} options */
  constructor(options) {
    this.options = options;
    /** @type {T[]} */
    this.items = [];
    this.complete = false;
    this.loading = false;
    this.stopped = false;
    this.active = 0;
    this.rowHeight = 44;
    /** @type {Map<number, HTMLElement>} */
    this.rows = new Map();
    this.space = h("div", { class: "grid-space", role: "presentation" });
    this.head = h("div", { role: "rowgroup", class: "grid-head" }, h("div", { role: "row", class: "grid-row", "aria-rowindex": "1" },
      options.columns.map((c) => h("div", { role: "columnheader", class: c.class }, c.title))));
    // The head scrolls with the rows, but stays at the top: so a scrollbar makes both narrower.
    this.element = h("div", {
      class: "grid", role: "grid", "aria-label": options.label, "aria-colcount": options.columns.length, onscroll: () => this.render(),
    }, this.head, h("div", { class: "grid-body", role: "rowgroup", onkeydown: (event) => this.key(event) }, this.space));
    this.resized = new ResizeObserver(() => this.render());
    this.resized.observe(this.element);
  }

  /** Begins to load. The grid must be in the document. */
  start() {
    this.rowHeight = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 44;
    return this.load();
  }

  /** Releases what the grid observes. What is still being loaded is ignored. */
  stop() {
    this.stopped = true;
    this.resized.disconnect();
  }

  /**
   * Replaces the items, unless the grid was stopped. The position stays, and the focus stays on its item,
   * or is on the next one if that is gone.
   * @param {T[]} items
   * @param {() => Promise<T[]|null>} more returns the items after these
   */
  replace(items, more) {
    if (this.stopped) return;
    const { key } = this.options, active = this.items[this.active], focused = this.space.contains(document.activeElement);
    const index = active ? items.findIndex((item) => key(item) === key(active)) : -1;
    this.options.more = more;
    this.items = items;
    this.complete = false;
    this.active = Math.max(0, index >= 0 ? index : Math.min(this.active, items.length - 1));
    this.rows.clear();
    this.space.replaceChildren();
    this.render();
    if (focused && items.length > 0) this.activate(this.active, true);
  }

  async load() {
    if (this.loading || this.complete || this.stopped || this.items.length >= most) return;
    this.loading = true;
    this.element.setAttribute("aria-busy", "true");
    const { more } = this.options;
    try {
      const items = await more();
      if (this.stopped) return;
      if (more === this.options.more) { // else the items have been replaced
        if (items) this.items.push(...items);
        this.complete = items === null;
      }
    } catch (error) {
      if (this.stopped) return;
      this.complete = true;
      this.options.failed(error);
    } finally {
      this.loading = false;
      this.element.removeAttribute("aria-busy");
    }
    this.render();
  }

  /** Returns the height in which rows can be seen. */
  get height() {
    return this.element.clientHeight - this.head.offsetHeight;
  }

  render() {
    const total = this.items.length;
    this.options.counted?.(total, this.complete);
    if (total === 0 && this.complete) {
      this.element.hidden = true;
      if (!this.options.empty.isConnected) this.element.after(this.options.empty);
      return;
    }
    this.element.setAttribute("aria-rowcount", String(this.complete ? total + 1 : -1));
    this.space.style.height = `${total * this.rowHeight}px`;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.rowHeight) - margin);
    const last = Math.min(total, Math.ceil((this.element.scrollTop + this.height) / this.rowHeight) + margin);
    for (const [index, row] of this.rows) {
      // The row with the focus stays, so that scrolling does not lose the focus.
      if ((index >= first && index < last) || index === this.active) continue;
      row.remove();
      this.rows.delete(index);
    }
    for (let index = first; index < last; index++) this.row(index);
    if (total > 0) this.row(this.active);
    if (last >= total - 500) void this.load();
  }

  /** Returns the row of an item, in the document. */
  row(index) {
    const existing = this.rows.get(index);
    if (existing) return existing;
    const item = this.items[index];
    const row = h("div", {
      role: "row", class: "grid-row", tabindex: index === this.active ? "0" : "-1", "aria-rowindex": index + 2,
      onclick: (event) => {
        this.activate(index, false);
        if (!event.target.closest("a, button")) this.options.open(item);
      },
      onfocus: () => this.activate(index, false),
    }, this.options.cells(item).map((cell, i) => h("div", { role: "gridcell", class: this.options.columns[i].class }, cell)));
    row.style.transform = `translateY(${index * this.rowHeight}px)`;
    this.rows.set(index, row);
    const next = [...this.rows.keys()].filter((i) => i > index).sort((a, b) => a - b)[0];
    this.space.insertBefore(row, next === undefined ? null : this.rows.get(next));
    return row;
  }

  activate(index, focus) {
    const before = this.rows.get(this.active);
    this.active = index;
    if (before) before.tabIndex = -1;
    const top = index * this.rowHeight, bottom = top + this.rowHeight;
    if (focus && top < this.element.scrollTop) this.element.scrollTop = top;
    if (focus && bottom > this.element.scrollTop + this.height) this.element.scrollTop = bottom - this.height;
    if (focus) this.render();
    const row = this.row(index);
    row.tabIndex = 0;
    if (focus) row.focus({ preventScroll: true });
  }

  key(event) {
    if (event.target.closest("a, button") || this.items.length === 0) return;
    const page = Math.max(1, Math.floor(this.height / this.rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const item = this.items[this.active];
    if (event.key in moves) this.activate(Math.min(this.items.length - 1, Math.max(0, this.active + moves[event.key])), true);
    else if (event.key === "Enter") this.options.open(item);
    else if (event.key === "Delete" && this.options.remove) this.options.remove(item);
    else return;
    event.preventDefault();
  }

  /** Shows the cells of all rows again, as their items have changed. */
  refresh() {
    for (const [index, row] of this.rows) {
      this.options.cells(this.items[index]).forEach((cell, i) => fill(row.children[i], cell));
    }
  }
}
