// An operation's controls on the API page: copy a curl line and, if it only reads, send it.

import { button, fill, h } from "./dom.js";
import { indented, shellQuote } from "./text.js";
import { copy, toast } from "./notice.js";
import * as api from "./api.js";

/** Most bytes of a response that are shown. */
const mostShown = 64 << 10;

/**
 * @typedef {object} Operation
 * @property {string} method in upper case
 * @property {string} path with {name} for each parameter in it
 * @property {{name: string, in: string, required?: boolean}[]} parameters
 * @property {boolean} keyed whether a hosted network requires a key
 * @property {string} [contentType] of the body of the request
 * @property {unknown} [example] of that body
 */

/**
 * Returns a button that copies a curl line and, for an operation that only reads, a form that sends
 * it. The curl line has the values typed in the form.
 * @param {Operation} operation
 * @returns {HTMLElement}
 */
export function tryIt(operation) {
  /** @type {Object<string, string>} */
  const typed = {};
  const copyCurl = button("terminal", "Copy as curl", () => curlOf(operation, typed).then((line) => copy(line, "curl line"), (error) => toast(error.message)));
  if (operation.method !== "GET") return h("div", { class: "try" }, copyCurl);
  const result = h("div", { "aria-live": "polite" });
  const fields = operation.parameters.map((p) => h("label", null, p.name,
    h("input", { required: p.in === "path", autocomplete: "off", spellcheck: "false", oninput: (event) => (typed[p.name] = event.target.value) })));
  const onsubmit = async (event) => {
    event.preventDefault();
    fill(result, h("pre", { class: "text", tabindex: "0", "aria-label": "Response" }, await exchange(event.submitter.value, operation, typed)));
  };
  return h("div", { class: "try" }, copyCurl, h("details", null, h("summary", null, "Try it"),
    h("form", { onsubmit }, fields, h("div", { class: "actions" },
      ["GET", "HEAD"].map((method) => h("button", { class: "button", type: "submit", value: method }, `Send ${method}`)))), result));
}

/** Returns the URL with the typed values. A missing parameter of the path is a word in upper case. */
function urlOf({ path, parameters }, typed) {
  const segment = (name) => (name === "blobName" ? api.escapeName(typed[name]) : encodeURIComponent(typed[name]));
  const filled = path.slice(1).replaceAll(/\{(\w+)\}/g, (_, name) => (typed[name] ? segment(name) : name.replaceAll(/[A-Z]/g, "_$&").toUpperCase()));
  return api.urlOf(filled, Object.fromEntries(parameters.filter((p) => p.in === "query").map((p) => [p.name, typed[p.name]])));
}

const headersOf = ({ parameters }, typed) => parameters.filter((p) => p.in === "header" && typed[p.name]).map((p) => [p.name, typed[p.name]]);

async function curlOf(operation, typed) {
  const { method, contentType, example, keyed } = operation;
  const words = ["curl"];
  if (contentType && example === undefined) words.push("-T", "FILE");
  else if (method !== "GET") words.push("-X", method);
  if (keyed && (await api.info()).profile === "hosted") words.push("-H", '"Authorization: Bearer $SLUICE_KEY"');
  for (const [name, value] of headersOf(operation, typed)) words.push("-H", shellQuote(`${name}: ${value}`));
  if (example !== undefined) words.push("-H", shellQuote(`Content-Type: ${contentType}`), "-d", shellQuote(JSON.stringify(example)));
  return [...words, shellQuote(urlOf(operation, typed))].join(" ");
}

/** Sends a request that only reads, and returns the response, or why there is none, as text. */
async function exchange(method, operation, typed) {
  try {
    const response = await fetch(urlOf(operation, typed), { method, headers: { ...api.headers(), ...Object.fromEntries(headersOf(operation, typed)) }, cache: "no-store", credentials: "omit" });
    const head = [`${response.status} ${response.statusText}`, ...[...response.headers].map(([name, value]) => `${name}: ${value}`)];
    return `${head.join("\n")}\n\n${await textOf(response)}`;
  } catch (error) {
    return `There is no response: ${error.message}`;
  }
}

/** Returns the beginning of the body of a response. It is fetched no further. */
async function textOf(response) {
  const type = response.headers.get("Content-Type") ?? "";
  if (!response.body) return "";
  if (!/text|json|yaml|xml/.test(type)) {
    await response.body.cancel();
    return `(a body of the type ${type})`;
  }
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = "";
  for (let size = 0; size < mostShown;) {
    const { done, value } = await reader.read();
    if (done) return /json/.test(type) ? indented(text) : text;
    text += decoder.decode(value, { stream: true });
    size += value.length;
  }
  await reader.cancel();
  return `${text.slice(0, mostShown)}…`;
}
