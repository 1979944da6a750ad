// The secrets of a new key, which are shown once, and requests to start with. A secret is in the
// fields of a dialog only, which is gone when it is closed.

import { button, h } from "./dom.js";
import { openDialog } from "./notice.js";
import * as api from "./api.js";

/**
 * Shows the secrets until the reader closes them.
 * @param {{id: string, secret?: string, s3Secret?: string}} issued
 * @param {string} [label]
 */
export async function showIssued(issued, label = "Key") {
  const { secret, s3Secret } = issued, made = [];
  if (secret) made.push(...line(label, secret, 2));
  if (s3Secret) made.push(...line("S3 access key id", issued.id), ...line("S3 secret access key", s3Secret, 2));
  const { dialog, answer } = openDialog(made.length > 0 ? "Copy it now" : `The ${label.toLowerCase()} is lost`,
    [h("p", null, made.length > 0 ? "It is shown this once, and nobody can show it again." : "It was created before, and the reply with its secret was lost. Make a new secret on its page."), ...made],
    [{ label: made.length > 0 ? "I have stored it" : "Close", value: "", class: "primary" }]);
  dialog.addEventListener("cancel", (event) => made.length > 0 && event.preventDefault()); // Escape must not lose it
  await answer;
}

/**
 * Returns a text to copy, with its label.
 * @param {string} label
 * @param {string} text
 * @param {number} [rows]
 */
function line(label, text, rows = 1) {
  const said = h("span", { class: "sub", role: "status" });
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { readonly: true, rows, "aria-label": label, autocomplete: "off", spellcheck: "false", class: "mono", onfocus: () => field.select() }));
  field.value = text;
  const take = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "copied";
    } catch {
      field.focus(); // it is selected
      said.textContent = "selected: copy it by Ctrl C";
    }
  };
  return [h("div", { class: "copied" }, h("strong", null, label), said, button("copy", `Copy ${label}`, () => void take(), { iconOnly: true })), field];
}

/**
 * Returns lines of a shell with which a key is tried. They have no secret.
 * @param {import("./rights.js").Key} key
 */
export function examples(key) {
  const { accounts, prefix = "", scopes } = key.grants[0], account = accounts?.[0] ?? "ACCOUNT";
  const url = `${api.base.href}v1/blobs/${encodeURIComponent(account)}`, key1 = '-H "Authorization: Bearer $SLUICE_KEY"';
  const reads = scopes.some((scope) => ["read", "admin"].includes(scope)), writes = scopes.some((scope) => ["create", "write", "admin"].includes(scope));
  const curl = [
    "read -rs SLUICE_KEY # paste the key",
    writes && `curl ${key1} -T FILE '${url}/${api.escapeName(prefix)}FILE'`,
    reads && `curl ${key1} '${url}${prefix ? `?prefix=${encodeURIComponent(prefix)}` : ""}'`,
  ];
  const aws = [
    `export AWS_ACCESS_KEY_ID=${key.id} AWS_REGION=us-east-1`, "read -rs AWS_SECRET_ACCESS_KEY && export AWS_SECRET_ACCESS_KEY # paste the S3 secret",
    writes && `aws --endpoint-url URL_OF_S3 s3 cp FILE 's3://${account}/${prefix}FILE'`, reads && `aws --endpoint-url URL_OF_S3 s3 ls 's3://${account}/${prefix}'`,
  ];
  const block = (title, lines) => [h("h3", null, title), h("pre", { class: "text lines", tabindex: "0", "aria-label": title }, lines.filter(Boolean).join("\n"))];
  return h("div", { class: "stack" }, block("curl", curl), key.s3 && block("aws", aws));
}
