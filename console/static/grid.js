// A list of any length: only the rows that can be seen are in the document. The arrow keys, Home,
// End, Page Up and Page Down move the focus, and Enter opens a row. A list can be sorted by its
// columns, and its rows can be selected.

import { h } from "./dom.js";
import { Selection } from "./selection.js";

/** Rows that are in the document above and below those that can be seen. */
const margin = 8;
/** Greatest number of rows. Browsers cannot lay out elements that are much higher. */
export const most = 400_000;
/** Greatest number of selected rows that are kept for a return. */
const mostKept = 2000;

/** @typedef {{column: number, down: boolean}} Order */

/**
 * A reader's place in a list: the row that is active, and how many are loaded and selected.
 * @typedef {{active: string, top: number, loaded: number, selected: string[], focused: boolean}} Place
 */

/**
 * A column. A list can be sorted by those with compare, which is for the ascending order.
 * @template T
 * @typedef {{title: string|Node, class?: string, compare?: (a: T, b: T) => number}} Column
 */

/**
 * @template T
 * @typedef {object} GridOptions
 * @property {string} label
 * @property {Column<T>[]} columns
 * @property {(item: T) => (Node|string)[]} cells the contents of the cells of a row
 * @property {(item: T) => void} open
 * @property {(item: T) => void} [remove] by the key Delete
 * @property {(item: T) => void} [rename] by the key F2
 * @property {() => Promise<T[]|null>} more returns the next items, or null if there are none
 * @property {(item: T) => string} [key] differs between items; replacing and selecting need it
 * @property {(error: unknown) => void} failed
 * @property {Node} empty shown if there are no items
 * @property {(shown: number, complete: boolean) => void} [counted]
 * @property {(items: T[]) => void} [selected] called when the selection changes; without it,
 * nothing can be selected
 * @property {(item: T) => string} [name] the label of the checkbox of a row
 * @property {(item: T) => boolean} [leads] reports whether an item is before all that do not lead
 * @property {number} [natural] the column by which more returns the items in ascending order
 * @property {Order} [order] at the start; without it, the natural one
 * @property {(order: Order) => void} [ordered] called when the order changes
 * @property {(state: "loading"|"bounded"|"done", count: number) => void} [sorting] called while all
 * items are loaded to be sorted, and when they are
 */

/** @template T */
export class Grid {
  /** @param {GridOptions<T>} options */
  constructor(options) {
    this.options = options;
    this.key = options.key ?? String;
    /** @type {T[]} */
    this.items = [];
    this.leading = 0; // the number of items that lead
    this.complete = false;
    /** @type {Promise<void>|null} */
    this.loading = null;
    this.moves = 0; // how often the reader has moved
    this.stopped = false;
    this.active = 0;
    this.rowHeight = 44;
    this.natural = options.natural ?? 0;
    /** @type {Order} */
    this.order = options.order ?? { column: this.natural, down: false };
    this.keep = false; // whether the reader keeps the place when the items are sorted
    /** @type {Selection<T>|null} */
    this.selection = options.selected ? new Selection(this.key) : null;
    /** @type {Map<number, HTMLElement>} */
    this.rows = new Map();
    /** @type {WeakMap<HTMLElement, number>} */
    this.places = new WeakMap();
    this.space = h("div", { class: "grid-space", role: "presentation" });
    this.heads = options.columns.map((c, i) => h("div", { role: "columnheader", class: c.class },
      c.compare ? h("button", { type: "button", class: "sort", onclick: () => this.sortBy(i) }, c.title) : c.title));
    this.all = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": "Select all", onclick: () => this.selectAll(this.selection.size < this.items.length) }));
    this.head = h("div", { role: "rowgroup", class: "grid-head" }, h("div", { role: "row", class: "grid-row", "aria-rowindex": "1" },
      this.selection && h("div", { role: "columnheader", class: "pick" }, this.all), this.heads));
    // The head scrolls with the rows, but stays at the top: so a scrollbar makes both narrower.
    this.element = h("div", {
      class: "grid", role: "grid", "aria-label": options.label, "aria-colcount": options.columns.length + (this.selection ? 1 : 0),
      "aria-multiselectable": this.selection ? "true" : null, onscroll: () => this.render(),
    }, this.head, h("div", { class: "grid-body", role: "rowgroup", onkeydown: (event) => this.pressed(event) }, this.space));
    this.resized = new ResizeObserver(() => this.render());
    this.resized.observe(this.element);
    this.setOrder(this.order);
  }

  /**
   * Begins to load. The grid must be in the document.
   * @param {Place} [place] where the reader was before
   */
  async start(place) {
    this.rowHeight = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 44;
    await this.load();
    if (!place) return;
    const { moves } = this;
    while (!this.complete && !this.stopped && this.items.length < place.loaded) await this.load();
    if (!this.stopped && moves === this.moves) this.restore(place);
  }

  /** @returns {Place} */
  get place() {
    const item = this.items[this.active];
    return {
      active: item ? this.key(item) : "", top: this.element.scrollTop, loaded: this.items.length,
      selected: [...(this.selection?.items.keys() ?? [])].slice(0, mostKept), focused: this.space.contains(document.activeElement),
    };
  }

  /** Shows a place again. A row that is gone is replaced by the one that is there now. */
  restore({ active, top, selected, focused }) {
    const keys = new Set(selected), before = this.active;
    const index = this.items.findIndex((item) => this.key(item) === active);
    if (this.selection && keys.size > 0) {
      this.selection.add(this.items.filter((item) => keys.has(this.key(item))));
      this.changed();
    }
    this.element.scrollTop = top;
    this.active = Math.max(0, index < 0 ? Math.min(Math.round(top / this.rowHeight), this.items.length - 1) : index);
    if (this.rows.has(before)) this.rows.get(before).tabIndex = -1;
    this.render();
    if (this.rows.has(this.active)) this.rows.get(this.active).tabIndex = 0;
    const elsewhere = document.activeElement !== document.body && document.activeElement !== document.getElementById("main");
    if (focused && !elsewhere) this.focus();
  }

  /** Ends the grid's observers. Items that are still being loaded are ignored. */
  stop() {
    this.stopped = true;
    this.resized.disconnect();
  }

  /** Reports whether the order differs from the one in which items are loaded. */
  get sorted() {
    return this.order.column !== this.natural || this.order.down;
  }

  /**
   * Replaces the items, unless the grid was stopped. The position and the selection stay, and the
   * focus stays on its item, or is on the next one if that is gone.
   * @param {T[]} items in the natural order
   * @param {() => Promise<T[]|null>} more returns the items after these
   * @param {string} [active] the key of the item that has the focus, if the grid has it
   */
  replace(items, more, active) {
    if (this.stopped) return;
    const before = this.items[this.active];
    this.options.more = more;
    this.complete = false;
    this.keep = true;
    this.selection?.renew(items);
    this.arrange(items, active ?? (before && this.key(before)));
    if (this.selection) this.changed();
  }

  /** Loads the next items, unless it does so already. */
  load() {
    if (this.loading) return this.loading;
    if (this.complete || this.stopped || this.items.length >= most) return Promise.resolve();
    return (this.loading = this.loadNext());
  }

  async loadNext() {
    this.element.setAttribute("aria-busy", "true");
    const { more } = this.options;
    try {
      do {
        // Nothing comes after the last page before the next frame, so a short list is never seen in
        // another order.
        if (this.sorted) requestAnimationFrame(() => this.sayLoading());
        const items = await more();
        if (this.stopped) return;
        if (more !== this.options.more) break; // the items have been replaced
        if (items) this.add(items);
        else this.complete = true;
      } while (this.sorted && !this.complete && this.items.length < most);
      if (this.sorted && more === this.options.more) this.sort();
    } catch (error) {
      if (this.stopped) return;
      this.complete = true;
      this.options.failed(error);
    } finally {
      this.loading = null;
      this.element.removeAttribute("aria-busy");
    }
    this.render();
  }

  /** Shows the loaded part of a list that will be sorted. */
  sayLoading() {
    if (!this.loading || !this.sorted || this.stopped || this.items.length === 0) return;
    this.options.sorting?.("loading", this.items.length);
    this.render();
  }

  /** Adds items that were loaded. Those that lead are inserted, and visible rows stay in place. */
  add(items) {
    const { leads = () => false } = this.options;
    if (this.items.length === 0) {
      this.items = inTwo(items, leads);
      this.leading = items.filter(leads).length;
      return;
    }
    const first = items.filter(leads), at = this.leading, n = first.length;
    for (const item of items) if (!leads(item)) this.items.push(item);
    if (n === 0) return;
    this.items.splice(at, 0, ...first);
    this.leading += n;
    const seen = Math.floor(this.element.scrollTop / this.rowHeight);
    this.rows = new Map([...this.rows].map(([index, row]) => [index >= at ? index + n : index, row]));
    for (const [index, row] of this.rows) this.put(row, index);
    if (this.active >= at) this.active += n;
    if (seen < at || (this.sorted && !this.keep)) return;
    this.space.style.height = `${this.items.length * this.rowHeight}px`;
    this.element.scrollTop += n * this.rowHeight;
  }

  /** Sorts by a column: ascending first, and descending if it is chosen again. */
  sortBy(column) {
    this.choose({ column, down: this.order.column === column && !this.order.down });
  }

  /** @param {Order} order */
  choose(order) {
    this.keep = false;
    this.setOrder(order);
    this.options.ordered?.(order);
    if (this.complete || this.items.length >= most) this.sort();
    else if (this.sorted) void this.load();
  }

  /** Stops to load items that would be sorted, and shows the natural order. */
  leaveSorting() {
    this.setOrder({ column: this.natural, down: false });
    this.options.ordered?.(this.order);
  }

  setOrder(order) {
    this.order = order;
    this.heads.forEach((head, i) => {
      if (!this.options.columns[i].compare) return;
      head.setAttribute("aria-sort", i !== order.column ? "none" : order.down ? "descending" : "ascending");
    });
  }

  sort() {
    const active = this.items[this.active];
    this.arrange(this.items, this.keep && active ? this.key(active) : undefined);
    if (this.sorted) this.options.sorting?.(this.complete ? "done" : "bounded", this.items.length);
  }

  /**
   * Shows items in the order that was chosen. The item with the key stays at its height on the
   * screen; without one, the start is shown.
   */
  arrange(items, key) {
    const focused = this.space.contains(document.activeElement);
    const { columns, leads = () => false } = this.options, { column, down } = this.order;
    const last = columns[this.natural].compare ?? (() => 0), by = columns[column].compare ?? last;
    if (this.complete || this.sorted) items.sort((a, b) => Number(leads(b)) - Number(leads(a)) || (down ? by(b, a) : by(a, b)) || last(a, b));
    else items = inTwo(items, leads);
    this.items = items;
    this.leading = items.filter(leads).length;
    const index = key === undefined ? 0 : items.findIndex((item) => this.key(item) === key);
    const moved = (index < 0 ? 0 : index - this.active) * this.rowHeight;
    this.active = Math.max(0, index < 0 ? Math.min(this.active, items.length - 1) : index);
    this.rows.clear();
    this.space.replaceChildren();
    this.space.style.height = `${items.length * this.rowHeight}px`;
    if (key === undefined) this.element.scrollTop = 0;
    else if (this.sorted) this.element.scrollTop += moved;
    this.render();
    if (focused && items.length > 0) this.activate(this.active, true);
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
    if (this.selection) this.markAll();
    if (last >= total - 500 || this.sorted) void this.load();
  }

  /** Loads all items and goes to the last one, unless the reader moves meanwhile. */
  async toEnd(range) {
    const { moves } = this;
    while (!this.complete && !this.stopped && this.items.length < most && moves === this.moves) await this.load();
    if (this.stopped || moves !== this.moves || this.items.length === 0) return;
    this.activate(this.items.length - 1, true);
    if (range) this.select(this.active, true);
  }

  /** Returns the row of an item, in the document. */
  row(index) {
    const existing = this.rows.get(index);
    if (existing) return existing;
    const item = this.items[index];
    const row = h("div", {
      role: "row", class: "grid-row", tabindex: index === this.active ? "0" : "-1",
      onclick: (event) => this.clicked(event, row),
      // It would select text.
      onmousedown: (event) => this.selection && event.shiftKey && event.preventDefault(),
      onfocus: () => this.activate(this.places.get(row), false),
    },
    this.selection && h("div", { role: "gridcell", class: "pick" }, h("input", { type: "checkbox", tabindex: "-1", "aria-label": `Select ${this.options.name(item)}` })),
    this.options.cells(item).map((cell, i) => h("div", { role: "gridcell", class: this.options.columns[i].class }, cell)));
    this.put(row, index);
    if (this.selection) this.mark(row, item);
    this.rows.set(index, row);
    const next = [...this.rows.keys()].filter((i) => i > index).sort((a, b) => a - b)[0];
    this.space.insertBefore(row, next === undefined ? null : this.rows.get(next));
    return row;
  }

  /** Places a row. */
  put(row, index) {
    this.places.set(row, index);
    row.setAttribute("aria-rowindex", String(index + 2));
    row.style.transform = `translateY(${index * this.rowHeight}px)`;
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

  /** Focuses the row that had the focus last, and reports whether there is one. */
  focus() {
    if (this.items.length === 0 || !this.element.isConnected) return false;
    this.activate(this.active, true);
    return true;
  }

  /**
   * Focuses the row of an item, and returns its first cell.
   * @param {T} item
   */
  firstCell(item) {
    this.activate(this.items.findIndex((i) => this.key(i) === this.key(item)), true);
    return /** @type {HTMLElement} */ (this.row(this.active).children[this.selection ? 1 : 0]);
  }

  clicked(event, row) {
    const index = this.places.get(row), { target } = event;
    if (target.closest("button, .rename")) return;
    this.moves++;
    this.activate(index, false);
    const picked = target.closest(".pick");
    if (this.selection && (picked || event.shiftKey || event.ctrlKey || event.metaKey)) {
      if (target.tagName !== "INPUT") event.preventDefault(); // a link would open in another tab
      this.select(index, event.shiftKey);
      this.activate(index, true);
    } else if (!target.closest("a")) {
      this.options.open(this.items[index]);
    }
  }

  pressed(event) {
    if (event.target.closest("a, button, .rename") || this.items.length === 0) return;
    const page = Math.max(1, Math.floor(this.height / this.rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity };
    const item = this.items[this.active], { selection } = this;
    this.moves++;
    if (selection && event.shiftKey && !selection.anchor && (event.key in moves || event.key === "End")) this.select(this.active, true);
    if (event.key === "End") void this.toEnd(selection && event.shiftKey);
    else if (event.key in moves) {
      this.activate(Math.min(this.items.length - 1, Math.max(0, this.active + moves[event.key])), true);
      if (selection && event.shiftKey) this.select(this.active, true);
    } else if (event.key === "Enter") this.options.open(item);
    else if (event.key === "Delete" && this.options.remove) this.options.remove(item);
    else if (event.key === "F2" && this.options.rename) this.options.rename(item);
    else if (event.key === " " && selection) this.select(this.active, event.shiftKey);
    else if (event.key === "a" && (event.ctrlKey || event.metaKey) && selection) this.selectAll(true);
    else if (event.key === "Escape" && selection && selection.size > 0) this.selectAll(false);
    else return;
    event.preventDefault();
  }

  /** Selects an item or, if it was selected, not; or all from the one that was chosen last. */
  select(index, range) {
    if (range) this.selection.extend(this.items, index);
    else this.selection.toggle(this.items[index]);
    this.changed();
  }

  /** Selects all items that are loaded, or none. */
  selectAll(on) {
    if (on) this.selection.add(this.items);
    else this.selection.clear();
    this.changed();
  }

  changed() {
    for (const [index, row] of this.rows) this.mark(row, this.items[index]);
    this.markAll();
    this.options.selected([...this.selection.items.values()]);
  }

  mark(row, item) {
    const on = this.selection.has(item);
    row.setAttribute("aria-selected", String(on));
    row.querySelector(".pick input").checked = on;
  }

  markAll() {
    const { size } = this.selection;
    this.all.checked = size > 0 && size === this.items.length;
    this.all.indeterminate = size > 0 && size < this.items.length;
  }
}

/** Returns the items that lead, and then the rest. */
const inTwo = (items, leads) => [...items.filter(leads), ...items.filter((item) => !leads(item))];
