// Signed links of a hosted network. The key's S3 secret that signs them is in memory only.

import { h } from "./dom.js";
import { visible } from "./text.js";
import { ask, copy, toast } from "./notice.js";
import { wrongName } from "./names.js";
import * as api from "./api.js";

let keyId = "";
let secret = "";

const lives = [["1 hour", 3600], ["1 day", 86400], ["7 days", 7 * 86400]];

/**
 * Asks for the key that signs, and copies a link for a blob.
 * @param {string} account
 * @param {string} name
 */
export async function shareBlob(account, name) {
  const url = api.blobURL(account, name);
  const answer = await askSigner([h("p", null, "Anybody with the link can read ", h("strong", null, visible(name)), " without a key.")],
    [{ label: "Address without a signature", value: "address" }]);
  if (answer.value === "address") await copy(url, "Address");
  else if (answer.value === "sign") await copySigned(account, name, "read", answer.seconds, (token) => `${url}?${token}`);
}

/**
 * Asks for the key that signs, and copies a link for a folder: one that lists and reads everything
 * in it, or one that creates a blob.
 * @param {string} account
 * @param {string} prefix ends in a slash
 */
export async function shareFolder(account, prefix) {
  const creates = /** @type {HTMLInputElement} */ (h("input", { type: "radio", name: "permits", value: "create" }));
  const field = /** @type {HTMLInputElement} */ (h("input", { id: "share-name", hidden: true, autocomplete: "off", spellcheck: "false" }));
  const label = h("label", { for: "share-name", hidden: true }, "Name of that blob");
  const check = () => {
    field.hidden = label.hidden = !creates.checked;
    field.setCustomValidity(!creates.checked ? "" : field.value ? wrongName(prefix + field.value) : "The name is empty.");
  };
  field.addEventListener("input", check);
  const choice = h("fieldset", { class: "choice", onchange: check }, h("legend", null, "Anybody with the link can, without a key,"),
    h("label", { class: "check" }, h("input", { type: "radio", name: "permits", value: "read", checked: true }), "list and read everything in this folder"),
    h("label", { class: "check" }, creates, "store one blob, which must not exist"));
  const answer = await askSigner([choice, label, field], []);
  if (answer.value !== "sign") return;
  if (creates.checked) {
    const name = prefix + field.value;
    await copySigned(account, name, "create", answer.seconds, (token) => `${api.blobURL(account, name)}?${token}`);
  } else {
    await copySigned(account, prefix, "read", answer.seconds, (token) => `${api.urlOf(`v1/blobs/${encodeURIComponent(account)}`, { prefix })}&${token}`);
  }
}

/** Asks for the key that signs, and for how long. It returns the chosen value: "sign" for a link. */
async function askSigner(body, more) {
  const id = /** @type {HTMLInputElement} */ (h("input", { id: "share-key", value: keyId, required: true, pattern: "\\s*[A-Za-z0-9_\\-]+\\s*", title: "The id of a key", autocomplete: "off", spellcheck: "false" }));
  const typed = /** @type {HTMLInputElement} */ (h("input", { type: "password", id: "share-secret", value: secret, required: true, ...api.token, autocomplete: "off", spellcheck: "false" }));
  const life = /** @type {HTMLSelectElement} */ (h("select", { id: "share-life" }, lives.map(([label, seconds]) => h("option", { value: seconds, selected: seconds === 86400 }, label))));
  const value = await ask("Copy link", [
    ...body,
    h("label", { for: "share-key" }, "Key id"), id,
    h("label", { for: "share-secret" }, "S3 secret"), typed,
    h("label", { for: "share-life" }, "Valid for"), life,
    h("p", null, "The secret is not sent, and stays in the memory of this page. The link has the key's rights, and ends with it."),
  ], [{ label: "Cancel", value: "" }, ...more, { label: "Copy link", value: "sign", class: "primary" }]);
  if (value === "sign") [keyId, secret] = [id.value.trim(), typed.value.trim()];
  return { value, seconds: Number(life.value) };
}

/** Signs a link and copies its URL. */
async function copySigned(account, name, verb, seconds, urlOf) {
  if (!globalThis.crypto?.subtle) {
    toast("Browsers sign links only on a page that came over HTTPS, or from this machine.");
    return;
  }
  await copy(urlOf(`sluice-link=${await sign(account, name, verb, Math.floor(Date.now() / 1000) + seconds)}`), "Link");
}

/** Returns the token of a link, as docs/protocol.md describes it. */
async function sign(account, name, verb, expires) {
  const bytes = new TextEncoder();
  const head = ["1", verb, name.endsWith("/") ? bytes.encode(name).length : 0, keyId, expires].join(".");
  const key = await crypto.subtle.importKey("raw", bytes.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = await crypto.subtle.sign("HMAC", key, bytes.encode(`sluice-link ${head}\n${account}\n${name}`));
  const text = btoa(String.fromCharCode(...new Uint8Array(mac)));
  return `${head}.${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}
