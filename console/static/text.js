// How values are shown: names with everything in them visible, sizes, times and rates.

import { h } from "./dom.js";

// Controls, format characters (of direction and of no width), separators of lines, and code points
// that belong to no character. A name can have them, and none may hide or reorder the text next to
// it.
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Cn}\p{Co}\u00a0\u115f\u1160\u3164\uffa0]/u;

/**
 * Returns the text of a name, in which a character that cannot be seen is its code point. Where it
 * has no room, a long name that may be cut keeps its end.
 * @param {string} name
 * @param {boolean} [cut]
 * @returns {HTMLElement}
 */
export function visible(name, cut = false) {
  if (cut && name.length > 24) {
    const at = /[\ud800-\udbff]/.test(name.at(-13)) ? -14 : -12; // between characters
    return h("bdi", { class: "name cut" }, visible(name.slice(0, at)), visible(name.slice(at)));
  }
  const shown = h("bdi", { class: "name" });
  let plain = "";
  const flush = () => {
    if (plain) shown.append(plain);
    plain = "";
  };
  for (const character of name) {
    if (!hidden.test(character)) {
      plain += character;
      continue;
    }
    flush();
    shown.append(h("span", { class: "codepoint" }, codePoint(character)));
  }
  flush();
  return shown;
}

/**
 * The same as plain text, for labels and titles.
 * @param {string} name
 */
export function visibleText(name) {
  let shown = "";
  for (const character of name) shown += hidden.test(character) ? `[${codePoint(character)}]` : character;
  return shown;
}

const codePoint = (character) => "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

/**
 * Compares as the server orders names: by the bytes of their UTF-8.
 * @param {string} a
 * @param {string} b
 */
export function compareNames(a, b) {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i), y = b.charCodeAt(i);
    // Surrogates stand for characters after all further ones.
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

const rank = (unit) => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit);

const numbers = new Intl.NumberFormat("en");
const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @param {number|string|bigint} n */
export const count = (n) => numbers.format(typeof n === "string" ? BigInt(n) : n);

/**
 * Returns a number of bytes with a unit.
 * @param {number} n
 */
export function bytes(n) {
  let unit = 0, value = n;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  if (unit === 0) return n === 1 ? "1 byte" : `${count(n)} bytes`;
  return `${value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/**
 * Returns a duration with two units at most.
 * @param {number} seconds
 */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return twoUnits(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 172800) return twoUnits(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return `${count(Math.floor(s / 86400))} days`;
}

const twoUnits = (large, largeUnit, small, smallUnit) => `${large} ${largeUnit}${small ? ` ${small} ${smallUnit}` : ""}`;

/**
 * Returns a duration for a latency.
 * @param {number} seconds
 */
export function latency(seconds) {
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  return `${Number(seconds.toPrecision(3))} s`;
}

const times = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

/**
 * Returns an element with a time in the zone of the reader.
 * @param {string} iso
 */
export function time(iso) {
  const date = new Date(iso);
  return h("time", { datetime: iso, title: iso }, Number.isNaN(date.getTime()) ? iso : times.format(date));
}

/** Returns a time in the form of a field, in the zone of the reader. @param {string} [iso] @param {number} [length] 23 for milliseconds */
export function localTime(iso, length = 16) {
  if (!iso) return "";
  const date = new Date(iso);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, length);
}

/** Deepest indentation, in levels: a text of brackets only must not become a huge one. */
const deepest = 40;

/**
 * Returns a JSON text with a line for each member, or the text itself if it is not JSON. Only spaces
 * change: parsing would round large numbers and lose members of the same name.
 * @param {string} text
 */
export function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => "\n" + "  ".repeat(Math.min(depth, deepest));
  return text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|[{[]\s*[\]}]|[{}[\],:]|\s+/g, (token) => {
    if (token.startsWith('"')) return token;
    if (/^\s/.test(token)) return "";
    if (token.length > 1) return token[0] + token.at(-1); // empty
    if (token === ":") return ": ";
    if (token === ",") return token + line();
    depth += "{[".includes(token) ? 1 : -1;
    return "{[".includes(token) ? token + line() : line() + token;
  });
}

/**
 * Quotes a text for a POSIX shell.
 * @param {string} text
 */
export function shellQuote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * Returns a number of blobs, or of other things, in words.
 * @param {number} n
 * @param {string} [one]
 */
export const some = (n, one = "blob") => `${count(n)} ${one}${n === 1 ? "" : "s"}`;
