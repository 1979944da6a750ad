// Accounts and blob names: which the server accepts, and their parts. The sentences are the
// server's, so that a name is refused with the same words before and after it is sent.

import { unreachable } from "./api.js";

const mostUnits = 1024;

/**
 * Returns the form of an account in which the server shows it, or a sentence about its fault.
 * @param {string} text
 * @returns {{account: string, wrong: string}} one of them is empty
 */
export function parseAccount(text) {
  const digits = /^0x([0-9a-f]{1,64})$/i.exec(text)?.[1] ?? /^([0-9]|[0-9a-f]{60,64})$/i.exec(text)?.[1];
  if (digits) {
    const short = digits.toLowerCase().replace(/^0+(?=.)/, "");
    return { account: "0x" + (short.length === 1 ? short : short.padStart(64, "0")), wrong: "" };
  }
  const wrong = (reason) => ({ account: "", wrong: `The account ${reason}.` });
  if (text === "") return wrong("is empty");
  if (text.startsWith("0x")) return wrong("must have 1 to 64 hexadecimal digits after “0x”");
  if (text.length > 64) return wrong("is longer than 64 characters");
  if (!/^[a-z0-9]/.test(text)) return wrong("must be an address or begin with one of a-z and 0-9");
  if (!/^[a-z0-9._-]+$/.test(text)) return wrong("must be an address or consist of a-z, 0-9, “.”, “_” and “-” only");
  return { account: text, wrong: "" };
}

/**
 * Returns a sentence about the fault of a blob's name, or "".
 * @param {string} name
 */
export function wrongName(name) {
  if (name === "") return "The blob name is empty.";
  if (name.length > mostUnits) return `The blob name is longer than ${mostUnits} characters.`;
  if (!name.isWellFormed()) return "The blob name is not valid UTF-8.";
  if (name.endsWith("/")) return "The blob name must not end in “/”.";
  if (/[\u0000-\u001f\u007f]/.test(name)) return "The blob name holds a control character.";
  if (unreachable(name)) return "Browsers change the address of a name with a segment “.” or “..”, so the console cannot store this name.";
  return "";
}

/**
 * Returns the last part of the name of a blob or a folder, without the slash of a folder.
 * @param {string} name
 */
export const lastOf = (name) => {
  const whole = name.endsWith("/") ? name.slice(0, -1) : name;
  return whole.slice(whole.lastIndexOf("/") + 1);
};

/**
 * Returns the part before the last one: "" or a name that ends in a slash.
 * @param {string} name
 */
export const parentOf = (name) => name.slice(0, (name.endsWith("/") ? name.slice(0, -1) : name).lastIndexOf("/") + 1);

/**
 * Returns the name of the n-th blob of a name: the number is before the extension.
 * @param {string} name
 * @param {number} n
 */
export const numbered = (name, n) => {
  const last = lastOf(name), dot = last.lastIndexOf(".");
  const end = dot > 0 ? name.length - last.length + dot : name.length;
  return `${name.slice(0, end)} (${n})${name.slice(end)}`;
};
