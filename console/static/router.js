// Views by the fragment of the address, so that every view has a link and the buttons of the browser
// work. A fragment is never sent to a server.

import { placeOf } from "./places.js";

/**
 * A view fills an element. The signal ends when another view is shown. The place is the state that
 * this entry of the history had before.
 * @typedef {(main: HTMLElement, parts: string[], signal: AbortSignal, place: ReturnType<typeof placeOf>) => Promise<void>|void} View
 */

/** @type {Map<string, View>} */
const views = new Map();
let current = new AbortController();

/**
 * Adds the view of a first part; "" is the start.
 * @param {string} first
 * @param {View} view
 */
export const route = (first, view) => views.set(first, view);

/**
 * Returns the link to a view. Parts may have any characters.
 * @param {...string} parts
 */
export const link = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");

/** @param {...string} parts */
export const go = (...parts) => {
  const target = link(...parts);
  if (location.hash === target) show();
  else location.hash = target;
};

/** Returns the parts of the address. */
export function parts() {
  const [, ...rest] = location.hash.split("/");
  return rest.map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // typed by hand
    }
  });
}

let onShow = () => {};

/** @param {(first: string) => void} listener called before each view */
export const beforeView = (listener) => (onShow = listener);

/** Shows the view of the address again. */
export function show() {
  const main = document.getElementById("main");
  const [first = "", ...rest] = parts();
  current.abort();
  current = new AbortController();
  onShow(first);
  main.replaceChildren();
  const view = views.get(first) ?? views.get("");
  return view(main, rest, current.signal, placeOf(current.signal));
}

/** Shows the view of the address, now and whenever it changes. */
export function start() {
  addEventListener("hashchange", () => {
    void show();
    document.getElementById("main").focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  return show();
}
