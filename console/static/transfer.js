// Moving and copying a selection into a folder of any account.

import { fill, h } from "./dom.js";
import { count, visible, visibleText } from "./text.js";
import { wrongFolder } from "./batch.js";
import { amount, askCounted } from "./counted.js";
import { carryOut } from "./outcome.js";
import { conflictChoice } from "./conflict.js";
import { lastOf, parentOf, parseAccount, wrongName } from "./names.js";
import * as api from "./api.js";

/** Destinations that are shown. */
const mostShown = 3;

/**
 * Asks where to, and moves or copies. It returns the destination, or null if nothing was begun.
 * @param {"move"|"copy"} verb
 * @param {string} account
 * @param {string} shown the beginning of the items' names
 * @param {import("./batch.js").Item[]} items
 * @returns {Promise<{account: string, prefix: string, outcome: import("./batch.js").Outcome}|null>}
 */
export async function transferItems(verb, account, shown, items) {
  const prefix = shown.slice(0, shown.lastIndexOf("/") + 1);
  const Verb = verb === "move" ? "Move" : "Copy";
  const accounts = h("datalist", { id: "to-accounts" }), folders = h("datalist", { id: "to-folders" });
  const input = (id, list, value) => /** @type {HTMLInputElement} */ (h("input", { id, list, value, autocomplete: "off", spellcheck: "false" }));
  const toAccount = input("to-account", "to-accounts", account), toFolder = input("to-folder", "to-folders", verb === "move" ? parentOf(prefix) : prefix);
  toFolder.autofocus = true; // the account is mostly the same
  const places = h("div", { class: "places", "aria-live": "polite" }), existing = conflictChoice();
  /** @type {Set<string>} */
  let names = new Set();
  let longest = 0;
  const folder = () => (toFolder.value === "" || toFolder.value.endsWith("/") ? toFolder.value : `${toFolder.value}/`);
  const nameOf = (name) => folder() + name.slice(prefix.length);
  /** Returns a sentence if a blob's destination is another blob in the selection. */
  const clash = (known) => {
    if (!prefix.startsWith(folder()) || known !== parseAccount(account).account) return "";
    const both = [...names].find((name) => names.has(nameOf(name)));
    return both ? `${visibleText(both)} would replace another selected blob. Take them one after the other.` : "";
  };
  /** Reports whether the items can go there. */
  const offered = (to, into) => !wrongFolder(account, prefix, items, to, into);
  let typed = false;
  const check = () => {
    const { account: known, wrong } = parseAccount(toAccount.value.trim());
    toAccount.setCustomValidity(wrong);
    const inside = folder() + "x".repeat(Math.max(longest, 1));
    const refused = wrongName(inside) || wrongFolder(account, prefix, items, known, folder()) || clash(known);
    toFolder.setCustomValidity(wrong ? "" : refused);
    places.classList.toggle("wrong", typed && Boolean(wrong || refused));
    if (wrong || refused) return fill(places, wrong || refused);
    const named = items.slice(0, mostShown).map((item) => h("li", null, visible(`${toAccount.value.trim()}/${folder()}${lastOf(item.name)}${item.kind === "folder" ? "/" : ""}`)));
    fill(places, items.length === 1 ? "The destination is" : "The destinations are", h("ul", { class: "what" }, named, items.length > mostShown && h("li", null, `and ${count(items.length - mostShown)} more`)));
  };
  for (const field of [toAccount, toFolder]) {
    field.addEventListener("input", () => {
      typed = true;
      check();
      void suggestFolders(toAccount.value.trim(), toFolder.value, folders, offered);
    });
  }
  check();
  void suggestAccounts(accounts);
  void suggestFolders(account, toFolder.value, folders, offered);
  const blobs = await askCounted({
    title: items.length === 1 ? `${Verb} this ${items[0].kind}` : `${Verb} ${amount(items)}`,
    account, items, label: Verb,
    sentence: (blobs) => [`${blobs} will be ${verb === "move" ? "moved" : "copied"}.`],
    fields: [
      h("label", { for: "to-account" }, "To account"), toAccount, accounts,
      h("label", { for: "to-folder" }, "Folder, or nothing for none"), toFolder, folders, places, existing.fields,
    ],
    counted: (all) => {
      names = new Set(all.map((blob) => blob.name));
      longest = all.reduce((most, blob) => Math.max(most, blob.name.length - prefix.length), 0);
      check();
    },
  });
  if (!blobs) return null;
  const to = { account: toAccount.value.trim(), prefix: folder() };
  const work = { verb, account, to: to.account, nameOf, replace: existing.replaces(), where: ` to ${visibleText(`${to.account}/${to.prefix}`)}` };
  return { ...to, outcome: await carryOut(work, blobs) };
}

/** Suggests the accounts that the caller may list. */
async function suggestAccounts(list) {
  try {
    const page = await api.json("v1/accounts", { limit: 200 });
    fill(list, page.accounts.map((a) => h("option", { value: a.account })));
  } catch {
    // The name can be typed.
  }
}

/** Suggests the folders in the typed one's parent. */
async function suggestFolders(account, typed, list, offered) {
  const prefix = typed.slice(0, typed.lastIndexOf("/") + 1), wanted = `${account}/${prefix}`;
  if (list.dataset.of === wanted || !parseAccount(account).account) return;
  list.dataset.of = wanted;
  try {
    const page = await api.json(`v1/blobs/${encodeURIComponent(account)}`, { prefix, delimiter: "/", limit: 1000 });
    if (list.dataset.of === wanted) fill(list, page.prefixes.filter((name) => offered(account, name)).map((name) => h("option", { value: name })));
  } catch {
    // The name can be typed.
  }
}
