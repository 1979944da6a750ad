// The page of the accounts that keep versions, and the dialog that sets which ones.

import { button, h } from "./dom.js";
import { compareNames, count, time, visible, visibleText } from "./text.js";
import { ask, errorBox } from "./notice.js";
import { parseAccount } from "./names.js";
import { administers } from "./rights.js";
import { badge, doing, renew, showList } from "./adminlist.js";
import * as api from "./api.js";

/** @typedef {{mode?: string, for?: string, most?: string}} Locks of new versions, for how long, and for how long a version can be locked */
/** @typedef {{account: string, keep: string, for?: string, most?: number, locks?: Locks, changed?: string, pending: boolean, handled: number, etag: string}} Keeping */

/** @type {import("./admin.js").Page} */
export function versionsPage(main, _parts, signal, place, may) {
  const open = async (account) => (await setVersions(account, may)) && renew();
  return showList(main, signal, place, {
    title: "Versions", one: "account", about: "Accounts that keep what is replaced and deleted, or did.", path: "v1/admin/versions", member: "accounts", key: (keeping) => keeping.account,
    actions: [button("edit", "Set an account", async () => {
      const account = await choose(may);
      if (account) await open(account);
    }, { class: "primary" })],
    columns: [
      { title: "Account", class: "wide", compare: (a, b) => compareNames(a.account, b.account) }, { title: "Keeps", class: "state" }, { title: "For", class: "state" }, { title: "Of each", class: "state" }, { title: "Locks", class: "type" },
      { title: "Older versions", class: "type" }, { title: "Changed", class: "date" },
    ],
    cells: (k) => [visible(k.account), k.keep === "on" ? h("span", { class: "badge open" }, "on") : badge("off"), days(k.for) || "ever", k.most ? count(k.most) : "all", k.locks ? `${days(k.locks.for) || "on"} ${k.locks.mode ?? ""}` : "none", k.pending ? `${count(k.handled)} done so far` : "done", k.changed ? time(k.changed) : ""],
    open: (k) => void open(k.account),
    empty: ["No account keeps versions", "What is replaced or deleted is gone for good."],
  });
}

/** Asks for an account. */
export async function choose(may, title = "Set an account") {
  const field = /** @type {HTMLInputElement} */ (h("input", { id: "versions-account", value: may.key?.grants.find(administers)?.accounts?.[0], required: true, autocomplete: "off", spellcheck: "false",
    oninput: () => field.setCustomValidity(parseAccount(field.value.trim()).wrong) }));
  const answer = await ask(title, [h("label", { for: field.id }, "Account"), field], [{ label: "Cancel", value: "" }, { label: "Go on", value: "yes", class: "primary" }]);
  return answer && parseAccount(field.value.trim()).account;
}

/** Returns a duration in days, if it is a number of them. @param {string|undefined} text */
export const days = (text) => (/^\d+h$/.test(text ?? "") && parseInt(text) % 24 === 0 ? `${parseInt(text) / 24}d` : text ?? "");

/**
 * Shows which versions an account keeps, and lets the reader change it. It reports whether it was
 * changed.
 * @param {string} account
 * @param {import("./rights.js").Rights} may
 */
export async function setVersions(account, may) {
  const path = `v1/admin/versions/${encodeURIComponent(account)}`;
  /** @type {Keeping} */
  let now;
  try {
    now = await api.json(path);
  } catch (error) {
    await ask("Versions", [errorBox(error)], [{ label: "Close", value: "" }]);
    return false;
  }
  const keep = /** @type {HTMLSelectElement} */ (h("select", { id: "versions-keep", onchange: () => check() }, [["off", "off: it is gone for good"], ["on", "on: it can be restored"]].map(([value, text]) => h("option", { value, selected: value === now.keep }, text))));
  const field = (id, more) => /** @type {HTMLInputElement} */ (h("input", { id, autocomplete: "off", oninput: () => check(), ...more }));
  const until = field("versions-for", { value: days(now.for), placeholder: "for ever", pattern: "\\s*(\\d+[wdhms])*\\s*", title: "A duration, such as 30d or 12h", spellcheck: "false" });
  const most = field("versions-most", { type: "number", min: 1, max: 100, value: now.most || undefined, placeholder: "all" });
  const locks = lockFields(now, may, () => check()), said = h("p", { class: "consequence", role: "status" });
  const check = () => {
    const limited = until.value.trim() !== days(now.for) || most.value !== String(now.most || "");
    said.textContent = [
      keep.value === "on" ? "Whoever may write can restore what is replaced, deleted or expires from now on. Kept bytes count towards the quota of their owner."
        : now.changed ? "What is stored from now on and then replaced or deleted is gone for good. Versions that were kept before stay within the limits." : "",
      (until.value.trim() || most.value) && limited && "Versions beyond the limits, older ones too, are deleted for good, in the background.",
      locks.consequence(),
      now.pending && `${count(now.handled)} older versions follow the setting so far.`,
    ].filter(Boolean).join(" ");
  };
  check();
  return Boolean(await doing(`Versions of ${visibleText(account)}`, [
    h("label", { for: keep.id }, "What is replaced or deleted"), keep, h("label", { for: until.id }, "Kept for"), until, h("label", { for: most.id }, "Most versions of each blob"), most, locks.shown, said,
  ], "Save", () => api.json(path, {}, {
    method: "PUT", headers: api.headers({ "If-Match": now.etag }), body: JSON.stringify({ keep: keep.value, for: until.value.trim() || undefined, most: Number(most.value) || undefined, locks: locks.value() }),
  }), "primary"));
}

/** Returns the fields for an account's locks. */
function lockFields({ locks }, may, check) {
  const on = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: Boolean(locks), disabled: Boolean(locks), onchange: () => draw() }));
  const field = (id, value, placeholder) => /** @type {HTMLInputElement} */ (h("input", { id, value: days(value), placeholder, pattern: "\\s*(\\d+[wdhms])+\\s*", title: "A duration, such as 30d or 12h", autocomplete: "off", spellcheck: "false", oninput: () => draw() }));
  const mode = /** @type {HTMLSelectElement} */ (h("select", { id: "locks-mode", onchange: () => draw() }, [["", "none"], ...modes].map(([value, text]) => h("option", { value, selected: value === (locks?.mode ?? "") }, text))));
  const until = field("locks-for", locks?.for, "such as 30d"), most = field("locks-most", locks?.most, "10 years");
  const more = h("div", { class: "stack" }, h("div", null, h("label", { for: mode.id }, "Lock of each new version"), mode), h("div", null, h("label", { for: until.id }, "For"), until),
    may.everything && h("div", null, h("label", { for: most.id }, "Longest lock that a key can set"), most));
  const draw = () => {
    more.hidden = !on.checked;
    until.disabled = !mode.value;
    until.required = Boolean(mode.value);
    check();
  };
  more.hidden = !on.checked;
  until.disabled = !mode.value;
  return {
    shown: h("fieldset", { class: "choice" }, h("legend", null, "Locks"), h("label", { class: "check" }, on, "versions can be locked"), more),
    consequence: () => on.checked && [!locks && "The account keeps its versions and their locks from now on: this cannot be undone.", mode.value && until.value.trim() && `Each new version is locked for ${until.value.trim()}. ${locked[mode.value]}`].filter(Boolean).join(" "),
    value: () => (on.checked ? { ...locks, mode: mode.value || undefined, for: (mode.value && until.value.trim()) || undefined, most: most.value.trim() || undefined } : undefined),
  };
}

/** The modes of locks, and their consequences. */
export const modes = [["governance", "governance: keys with bypass can end it"], ["compliance", "compliance: nobody can end it"]];
export const locked = {
  governance: "Only a key with bypass can delete it before, or shorten this, and that is recorded.",
  compliance: "Nobody can delete it before, neither administrators nor the operator, and its bytes count until then.",
};
