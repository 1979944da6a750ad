// The form of a key: its label, its grants, and when it expires.

import { button, fill, h } from "./dom.js";
import { parseAccount } from "./names.js";
import { localTime } from "./text.js";
import { administers } from "./rights.js";

const scopes = [
  ["read", "reads and lists blobs, without paying"], ["create", "stores blobs where there are none, and replaces and deletes nothing"],
  ["write", "stores, replaces, moves and deletes blobs"], ["retain", "locks versions, and sets and ends legal holds"], ["bypass", "ends locks in the mode governance early, which is recorded"],
  ["channels", "opens, funds and closes payment channels: only for callers whom you trust"],
  ["admin", "all of these, and makes and revokes such keys"],
];
const mostGrants = 16;

/** Returns a text that nobody else has. */
export const random = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Returns the fields for a new key, or for one that is edited, and functions that return the bodies
 * of the requests.
 * @param {import("./rights.js").Rights} may
 * @param {import("./rights.js").Key|null} key
 */
export function keyForm(may, key) {
  const label = field("label", { value: key?.label, maxlength: 200, placeholder: "who or what uses it" });
  const group = field("group", { placeholder: "a group of its own" });
  const expires = field("expires", { type: "datetime-local", value: localTime(key?.expires) }), expiresBefore = expires.value;
  const s3 = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "key-s3" }));
  const list = h("div", { class: "stack grants" });
  /** @type {ReturnType<typeof grantFields>[]} */
  let grants = [];
  const draw = () => {
    grants.forEach((grant, i) => grant.number(i + 1, grants.length));
    more.hidden = grants.length >= mostGrants;
    fill(list, grants.map((grant) => grant.element));
  };
  const add = (value) => {
    const grant = grantFields(may, value, () => {
      grants = grants.filter((other) => other !== grant);
      draw();
      more.focus();
    });
    grants.push(grant);
    draw();
    return grant;
  };
  const more = button(null, "Add another grant", () => add(proposal(may)).element.querySelector("input").focus());
  for (const grant of key?.grants ?? [proposal(may)]) add(grant);
  const grantsBefore = JSON.stringify(grants.map((grant) => grant.value()));
  const expiry = () => (expires.value ? new Date(expires.value).toISOString() : "");
  const end = may.key?.expires;
  return {
    fields: [
      ...labelled("Label", label), list, more,
      ...(key || !may.everything ? [] : [...labelled("Group, which shares limits", group)]),
      ...labelled(end ? `Expires, not later than ${new Date(end).toLocaleString()}` : "Expires (empty: never)", expires),
      ...(key ? [] : [h("label", { class: "check" }, s3, "With an S3 secret, for S3's clients and signed links")]),
    ],
    created: () => ({ label: label.value, grants: grants.map((grant) => grant.value()), group: group.value.trim(), expires: expiry(), s3: s3.checked }),
    /** Returns what was changed. */
    changed: () => {
      const now = grants.map((grant) => grant.value());
      return {
        ...(label.value !== (key.label ?? "") && { label: label.value }), ...(JSON.stringify(now) !== grantsBefore && { grants: now }),
        ...(expires.value !== expiresBefore && { expires: expiry() }),
      };
    },
  };
}

const field = (name, more) => /** @type {HTMLInputElement} */ (h("input", { id: `key-${name}`, autocomplete: "off", spellcheck: "false", ...more }));

const labelled = (text, input) => [h("label", { for: input.id }, text), input];

/** Returns the grant that is proposed: an administrator of some accounts can give no more. */
function proposal(may) {
  const own = may.key?.grants.find(administers);
  return { scopes: ["read"], accounts: may.everything ? [] : own.accounts, prefix: own?.prefix };
}

let made = 0;

/**
 * Returns the fields of a grant.
 * @param {import("./rights.js").Rights} may
 * @param {import("./rights.js").Grant} grant
 * @param {() => void} remove
 */
function grantFields(may, grant, remove) {
  const id = `grant-${++made}`, legend = h("legend", null, ""), away = button("trash", "Remove grant", remove, { iconOnly: true });
  const boxes = scopes.map(([name, meaning]) => ({ name, box: /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: grant.scopes.includes(name), onchange: () => check() })), meaning }));
  const all = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: !grant.accounts, onchange: () => check() }));
  const accounts = /** @type {HTMLInputElement} */ (h("input", { id: `${id}-accounts`, value: (grant.accounts ?? []).join(" "), placeholder: "0x1 team-a", autocomplete: "off", spellcheck: "false", oninput: () => check() }));
  const prefix = /** @type {HTMLInputElement} */ (h("input", { id: `${id}-prefix`, value: grant.prefix, placeholder: "all names", autocomplete: "off", spellcheck: "false" }));
  const names = () => accounts.value.split(/[\s,]+/).filter(Boolean);
  const check = () => {
    boxes[0].box.setCustomValidity(boxes.some(({ box }) => box.checked) ? "" : "Choose at least one scope.");
    accounts.disabled = all.checked;
    accounts.setCustomValidity(names().length === 0 ? "Name an account." : names().map((name) => parseAccount(name).wrong).find(Boolean) ?? "");
  };
  check();
  const element = h("fieldset", { class: "choice" }, legend,
    boxes.map(({ name, box, meaning }) => h("label", { class: "check" }, box, h("span", null, h("strong", null, name), `: ${meaning}`))),
    (may.everything || !grant.accounts) && h("label", { class: "check" }, all, "on all accounts"),
    h("label", { for: accounts.id }, "Accounts"), accounts, h("label", { for: prefix.id }, "Only names that begin with"), prefix, away);
  return {
    element,
    value: () => ({ scopes: boxes.filter(({ box }) => box.checked).map(({ name }) => name), ...(!all.checked && { accounts: names() }), ...(prefix.value && { prefix: prefix.value }) }),
    number: (n, of) => {
      legend.textContent = of === 1 ? "It may" : `Grant ${n}: it may`;
      away.hidden = of === 1;
    },
  };
}
