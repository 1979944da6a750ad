// Elements. Text becomes text nodes only: no string is ever parsed as HTML.

/** @typedef {Node|string|number|null|undefined|false} Child */

/**
 * Returns a new element. A property whose name begins with "on" is a listener; "class", "dataset"
 * and attributes are set as such; true is an attribute without a value, and false, null and
 * undefined are none. Strings among the children become text.
 * @param {string} tag
 * @param {Object<string, any>|null} [properties]
 * @param {...(Child|Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

/**
 * Appends children to an element.
 * @param {Node} element
 * @param {(Child|Child[])[]} children
 */
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * Replaces all children of an element.
 * @param {Element} element
 * @param {...(Child|Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

const shapes = {
  audio: "M9 18V6l10-2v12M9 18a3 2.5 0 1 1-6 0 3 2.5 0 0 1 6 0zM19 16a3 2.5 0 1 1-6 0 3 2.5 0 0 1 6 0z",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  download: "M12 4v11m-5-4 5 5 5-5M5 20h14",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  csv: "M4 5h16v14H4zM4 10h16M4 15h16M10 5v14",
  eye: "M2 12c5-9 15-9 20 0-5 9-15 9-20 0zM15 12a3 3 0 1 1-6 0 3 3 0 0 1 6 0",
  folder: "M3 6h6l2 2h10v11H3z",
  image: "M4 5h16v14H4zM4 17l5-5 4 4 3-3 4 4M15 9h.01",
  json: "M9 4H7v6l-2 2 2 2v6h2M15 4h2v6l2 2-2 2v6h-2",
  key: "M12 15a4 4 0 1 1-8 0 4 4 0 0 1 8 0zM11 12l9-9M16 7l3 3",
  lock: "M6 11h12v9H6zM8 11V8a4 4 0 0 1 8 0v3",
  markdown: "M3 6h18v12H3zM6 15V9l3 3 3-3v6M17 9v6m-2-2 2 2 2-2",
  move: "M4 12h15m-5-5 5 5-5 5M4 5v14",
  none: "M6 3h8l4 4v14H6zM14 3v4h4",
  pause: "M8 5v14M16 5v14",
  pdf: "M6 3h8l4 4v14H6zM14 3v4h4M9 17v-5h2a1.5 1.5 0 0 1 0 3H9",
  play: "M7 4l13 8-13 8z",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5",
  terminal: "M4 5h16v14H4zM7 9l3 3-3 3M12 15h5",
  text: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  theme: "M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v6M14 11v6",
  undo: "M5 9h9a5 5 0 0 1 0 10H9M9 5 5 9l4 4",
  video: "M3 6h12v12H3zM15 11l6-4v10l-6-4",
  upload: "M12 20V8m-5 4 5-5 5 5M5 4h14",
};

/**
 * Returns an icon, which assistive technology ignores: its parent needs a label.
 * @param {keyof typeof shapes} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", shapes[name]);
  svg.appendChild(path);
  return svg;
}

/**
 * Returns a button with an icon and a text.
 * @param {keyof typeof shapes|null} shape
 * @param {string} label
 * @param {(event: Event) => void} onclick
 * @param {{class?: string, iconOnly?: boolean}} [options]
 */
export function button(shape, label, onclick, options = {}) {
  const classes = ["button", options.class, options.iconOnly && "icon-only"].filter(Boolean).join(" ");
  const title = options.iconOnly ? label : null;
  return h("button", { type: "button", class: classes, title, "aria-label": title, onclick },
    shape && icon(shape), options.iconOnly ? null : label);
}

/**
 * Returns a cell of a table of the class "stacked", which on a narrow screen shows its title.
 * @param {string} title
 * @param {string | number | Node} value
 * @param {string | null} name of its class
 */
export const cell = (title, value, name = null) => h("td", { dataset: { title }, class: name }, value);
