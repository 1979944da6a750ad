// The page of the accounts that keep versions, and the dialog that sets which ones.

import { button, h } from "./dom.js";
import { compareNames, count, time, visible, visibleText } from "./text.js";
import { ask, errorBox } from "./notice.js";
import { parseAccount } from "./names.js";
import { administers } from "./rights.js";
import { badge, doing, renew, showList } from "./adminlist.js";
import * as api from "./api.js";

/** @typedef {{account: string, keep: string, for?: string, most?: number, changed?: string, pending: boolean, handled: number, etag: string}} Keeping */

/** @type {import("./admin.js").Page} */
export function versionsPage(main, _parts, signal, place, may) {
  const open = async (account) => (await setVersions(account)) && renew();
  return showList(main, signal, place, {
    title: "Versions", one: "account", about: "Accounts that keep what is replaced and deleted, or did.", path: "v1/admin/versions", member: "accounts", key: (keeping) => keeping.account,
    actions: [button("edit", "Set an account", async () => {
      const account = await choose(may);
      if (account) await open(account);
    }, { class: "primary" })],
    columns: [
      { title: "Account", class: "wide", compare: (a, b) => compareNames(a.account, b.account) }, { title: "Keeps", class: "state" }, { title: "For", class: "state" }, { title: "Of each", class: "state" },
      { title: "Older versions", class: "type" }, { title: "Changed", class: "date" },
    ],
    cells: (k) => [visible(k.account), k.keep === "on" ? h("span", { class: "badge open" }, "on") : badge("off"), days(k.for) || "ever", k.most ? count(k.most) : "all", k.pending ? `${count(k.handled)} done so far` : "done", k.changed ? time(k.changed) : ""],
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
const days = (text) => (/^\d+h$/.test(text ?? "") && parseInt(text) % 24 === 0 ? `${parseInt(text) / 24}d` : text ?? "");

/**
 * Shows which versions an account keeps, and lets the reader change it. It reports whether it was
 * changed.
 * @param {string} account
 */
export async function setVersions(account) {
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
  const most = field("versions-most", { type: "number", min: 1, max: 100, value: now.most, placeholder: "all" });
  const said = h("p", { class: "consequence", role: "status" });
  const check = () => {
    const limited = until.value.trim() !== days(now.for) || most.value !== String(now.most ?? "");
    said.textContent = [
      keep.value === "on" ? "Whoever may write can restore what is replaced, deleted or expires from now on. Kept bytes count towards the quota of their owner."
        : now.changed ? "What is stored from now on and then replaced or deleted is gone for good. Versions that were kept before stay within the limits." : "",
      (until.value.trim() || most.value) && limited && "Versions beyond the limits, older ones too, are deleted for good, in the background.",
      now.pending && `${count(now.handled)} older versions follow the setting so far.`,
    ].filter(Boolean).join(" ");
  };
  check();
  return Boolean(await doing(`Versions of ${visibleText(account)}`, [
    h("label", { for: keep.id }, "What is replaced or deleted"), keep, h("label", { for: until.id }, "Kept for"), until, h("label", { for: most.id }, "Most versions of each blob"), most, said,
  ], "Save", () => api.json(path, {}, {
    method: "PUT", headers: api.headers({ "If-Match": now.etag }), body: JSON.stringify({ keep: keep.value, for: until.value.trim() || undefined, most: Number(most.value) || undefined }),
  }), "primary"));
}
