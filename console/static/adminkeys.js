// The pages of keys: all that the administrator may see, and one of them.

import { button, h } from "./dom.js";
import { compareNames, time, visible, visibleText } from "./text.js";
import { copy, showError } from "./notice.js";
import { go, link, show } from "./router.js";
import { manages } from "./rights.js";
import { badge, doing, facts, pathTo, renew, showList } from "./adminlist.js";
import { keyForm, random } from "./keyform.js";
import { examples, showIssued } from "./keyissued.js";
import * as api from "./api.js";

/** @typedef {import("./rights.js").Key} Key */

const nameOf = (key) => (key.label ? visible(key.label) : h("code", null, key.id));

/** @type {import("./admin.js").Page} */
export function keysPage(main, [id = ""], signal, place, may) {
  if (id) return keyPage(main, id, signal, may);
  const expiry = (key) => Date.parse(key.expires) || Infinity;
  return showList(main, signal, place, {
    title: "Keys", one: "key", path: "v1/admin/keys", member: "keys", natural: 1, key: (key) => key.id,
    about: may.local ? "This local instance needs no key, so these have no effect." : may.everything ? "All keys of the network." : "The keys within the grants of yours.",
    actions: [button("key", "Create key", () => void create(may), { class: "primary" })],
    columns: [
      { title: "Key", class: "wide", compare: (a, b) => compareNames(a.label || a.id, b.label || b.id) }, { title: "Grants", class: "wide summary" },
      { title: "Group", class: "type", compare: (a, b) => compareNames(a.group, b.group) }, { title: "State", class: "state", compare: (a, b) => compareNames(a.state, b.state) },
      { title: "Expires", class: "date", compare: (a, b) => expiry(a) - expiry(b) || 0 },
    ],
    cells: (key) => [h("a", { href: link("admin", "keys", key.id), tabindex: "-1" }, nameOf(key)), key.grants.map(summary).join("; "), visible(key.group), badge(key.state), key.expires ? time(key.expires) : "never"],
    open: (key) => go("admin", "keys", key.id),
    empty: ["There is no key", "Create one for each program, so that each can be revoked by itself."],
  });
}

/** @param {import("./rights.js").Grant} grant */
const summary = ({ scopes, accounts, prefix }) => `${scopes.join(", ")} on ${accounts ? accounts.map(visibleText).join(", ") : "all accounts"}${prefix ? ` below ${visibleText(prefix)}` : ""}`;

async function create(may) {
  const form = keyForm(may, null);
  let sent = "", once = "";
  const issued = await doing("Create a key", form.fields, "Create key", () => {
    const body = form.created(), text = JSON.stringify(body);
    if (text !== sent) [sent, once] = [text, random()]; // the same request has the same key when it is tried again
    return api.post("v1/admin/keys", body, { headers: api.headers({ "Idempotency-Key": once }) });
  }, "primary");
  if (!issued) return;
  await showIssued(issued);
  go("admin", "keys", issued.id);
}

async function keyPage(main, id, signal, may) {
  let key;
  try {
    key = await api.json(`v1/admin/keys/${encodeURIComponent(id)}`, {}, { signal });
  } catch (error) {
    showError(main.appendChild(h("div", null)), error, signal, show);
    return;
  }
  const own = may.key?.id === key.id, mine = manages(may, key) && key.state !== "revoked";
  const body = h("div", { class: "columns" },
    h("section", { class: "card", "aria-labelledby": "facts" }, h("h2", { id: "facts" }, "Key"), facts([
      ["State", badge(key.state)], ["Id", h("span", { class: "id" }, h("code", null, key.id), button("copy", "Copy id", () => void copy(key.id, "Id"), { iconOnly: true }))],
      ["Group", may.everything || key.group === may.key.group ? h("a", { href: link("admin", "groups", key.group) }, visible(key.group)) : visible(key.group)],
      ["Created", time(key.created)], ["Expires", key.expires ? time(key.expires) : "never"], ["Revoked", key.revoked && time(key.revoked)], ["S3 secret", key.s3 ? "yes" : "none"],
    ]), own && h("p", { class: "note" }, "This page uses this key.")),
    h("section", { class: "card", "aria-labelledby": "grants" }, h("h2", { id: "grants" }, "Grants"), facts(key.grants.map(grantFacts))),
    key.state === "active" && h("section", { class: "card", "aria-labelledby": "examples" }, h("h2", { id: "examples" }, "Requests to start with"), examples(key)));
  const actions = !mine ? [] : [
    button("edit", "Edit", () => void edit(may, key)), button("key", "New secret", () => void replace(key, "secret")),
    button(null, "New S3 secret", () => void replace(key, "S3 secret")), key.s3 && button(null, "Remove S3 secret", () => void removeS3(key)),
    button("trash", "Revoke", () => void revoke(key, own), { class: "danger" }),
  ];
  main.append(h("div", { class: "head" }, pathTo("keys", "Keys", nameOf(key)), h("div", { class: "actions all" }, actions)), body);
}

const grantFacts = ({ scopes, accounts, prefix }) => [scopes.join(", "),
  [accounts ? ["on ", accounts.map((account, i) => [i > 0 && ", ", visible(account)])] : "on all accounts", prefix && [" below ", visible(prefix)]].flat(Infinity).filter(Boolean)];

const path = (key) => `v1/admin/keys/${key.id}`;

async function edit(may, key) {
  const form = keyForm(may, key);
  const send = (force) => api.patch(path(key) + force, key.etag, form.changed());
  if (await forced(key, "The key would no longer administer all accounts", send, (work) => doing("Edit the key", form.fields, "Save", work, "primary"))) renew();
}

async function replace(key, what) {
  const issued = await doing(`Make a new ${what}?`, [
    h("p", null, what === "secret" ? "Requests with the old secret are refused within seconds, on all nodes. Replace it in every program that uses it."
      : key.s3 ? "Requests and links that are signed with the old S3 secret are refused within seconds, on all nodes." : "The key gets a secret with which S3's clients sign requests, and which signs links."),
  ], `Make a new ${what}`, () => api.patch(path(key), key.etag, what === "secret" ? { newSecret: true } : { newS3Secret: true }), key.s3 || what === "secret" ? "danger" : "primary");
  if (!issued) return;
  if (what === "secret" && key.id === api.keyId()) api.setKey(issued.secret); // the old one is refused
  await showIssued(issued);
  renew();
}

async function removeS3(key) {
  if (await doing("Remove the S3 secret?", [h("p", null, "Requests and links that are signed with it are refused within seconds, on all nodes.")], "Remove", () => api.patch(path(key), key.etag, { removeS3Secret: true }))) renew();
}

async function revoke(key, own) {
  const revoked = await forced(key, "The key would be revoked", (force) => api.post(`${path(key)}/revoke${force}`), (work) => doing("Revoke this key?", [
    h("p", null, nameOf(key), ": requests with this key are refused within seconds, on all nodes. So are links that it signed, and uploads that it began, when they end. Downloads are completed, and blobs stay."),
    h("p", null, own ? "This page uses this key, and will need another one." : "This cannot be undone."),
  ], "Revoke", work));
  if (!revoked) return;
  if (own) api.setKey("");
  renew();
}

/**
 * Asks, and does the work. The server refuses it for the last key that administers all accounts, unless
 * it is forced: then the reader types its id.
 * @param {Key} key
 * @param {string} what would happen
 * @param {(force: ""|"?force=true") => Promise<any>} send
 * @param {(work: () => Promise<any>) => Promise<any>} ask
 */
async function forced(key, what, send, ask) {
  let last = false;
  const done = await ask(() => send("").catch((error) => {
    if (error.code !== "last_admin_key") throw error;
    last = true;
  }));
  if (!last) return done;
  const typed = h("input", { id: "typed", required: true, pattern: key.id, title: "The id of the key", autocomplete: "off", spellcheck: "false" });
  return doing("This is the last such key", [
    h("p", null, `${what}, and no other valid key administers all accounts. Only an operator with access to the database could make one again.`),
    h("label", { for: "typed" }, "Type the id ", h("code", null, key.id), " to go on"), typed,
  ], "Go on", () => send("?force=true"));
}
