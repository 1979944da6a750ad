// The versions of a blob: when they were stored and by whom, with their ways back.

import { button, fill, h } from "./dom.js";
import { bytes, localTime, time, visible, visibleText } from "./text.js";
import { ask, errorBox, toast } from "./notice.js";
import { link, show } from "./router.js";
import { download } from "./download.js";
import { doing } from "./adminlist.js";
import { days, locked, modes } from "./adminversions.js";
import { administersPlace, rights } from "./rights.js";
import { known, pages, restore, versionURL } from "./versions.js";
import * as api from "./api.js";

/** Versions that are shown at a time. */
const shownAtOnce = 50;

/**
 * Returns who wrote a version or deleted the blob: administrators have a link to the key.
 * @param {string|undefined} by the id of a key
 * @param {import("./rights.js").Rights|null} may
 */
export const writer = (by, may) => by && (by.startsWith("rule:") ? h("span", null, "the rule ", visible(by.slice(5))) : h(may && !may.local ? "a" : "span", { href: may && !may.local && link("admin", "keys", by) }, h("code", null, by)));

/**
 * Returns the card of a blob's versions, or null if the account keeps none beside the blob itself,
 * or the reader may not see them.
 * @param {{account: string, name: string, etag?: string, versioned?: boolean}} blob
 * @param {AbortSignal} signal
 */
export async function history({ account, name, etag, versioned }, signal) {
  const list = h("ol", { class: "history" }), more = button(null, "Show more", () => void load());
  const next = versionsOf(account, name, signal), may = await rights().catch(() => null);
  const load = async () => {
    for (let n = 0; n < shownAtOnce; n++) {
      const { value, done } = await next.next();
      if (done) return (more.hidden = true);
      list.append(h("li", null, ...row(account, value, etag, may)));
    }
  };
  try {
    if (!(await known())) return null;
    await load();
  } catch (error) {
    if (!signal.aborted && ![401, 403].includes(error.status)) fill(list, h("li", null, errorBox(error)));
  }
  const alone = !versioned && list.children.length === 1 && list.querySelector("[data-state=current]");
  if (signal.aborted || alone || list.children.length === 0) return null;
  return h("section", { class: "card", "aria-labelledby": "history" }, h("h2", { id: "history" }, "History"), list, more);
}

/** Returns the versions of one name. */
async function* versionsOf(account, name, signal) {
  for await (const page of pages(account, { prefix: name, limit: shownAtOnce }, signal)) {
    for (const version of page.versions ?? []) {
      if (version.name !== name) return;
      yield version;
    }
  }
}

/** @param {import("./versions.js").Version} v */
function row(account, v, etag, may) {
  const state = v.deleted ? "deleted" : v.current ? "current" : "kept", at = time(v.lastModified);
  const what = `the version of ${at.textContent}`;
  const bring = async () => {
    try {
      await restore(account, { name: v.name, version: v.version, replaces: etag, fresh: etag === undefined });
      toast(`${visibleText(v.name)} was restored`);
      show();
    } catch (error) {
      toast(error.message);
    }
  };
  const retained = v.retention && Date.parse(v.retention.until) > Date.now() && v.retention, final = v.hold || retained?.mode === "compliance";
  const remove = async () => {
    const done = await doing(v.deleted ? "Delete this mark?" : "Delete this version?", [
      retained && h("p", { class: "consequence" }, "It is locked until ", time(retained.until), ". Deleting it ends the lock, and that is recorded."),
      h("p", null, v.deleted ? "The blob will be as it was before it was deleted." : v.current ? "Its bytes are gone for good, and the version before is current again, if there is one." : "Its bytes are gone for good."),
    ], "Delete", () => api.send(versionURL(account, v.name, v.version), { method: "DELETE", headers: api.headers(retained ? { "Bypass-Governance": "true" } : {}) }));
    if (done) show();
  };
  const read = { name: v.name, url: versionURL(account, v.name, v.version), size: v.size, reads: "key" };
  return [
    h("div", { dataset: { state } }, h("p", null, at, " ", h("span", { class: `badge ${v.current ? "open" : ""}` }, state), retained && h("span", { class: "badge warn", title: locked[retained.mode] }, retained.mode), v.hold && h("span", { class: "badge warn" }, "legal hold")),
      h("p", { class: "facts" }, v.deleted ? "deleted" : bytes(v.size), v.by && [" by ", writer(v.by, may)], v.until && [", kept until ", time(v.until)], retained && [", locked until ", time(retained.until)])),
    h("div", { class: "actions" },
      !v.deleted && button("download", `Download ${what}`, () => download(/** @type {any} */ (read)).catch((error) => toast(error.message)), { iconOnly: true }),
      !v.deleted && !v.current && button("undo", `Restore ${what}`, () => void bring(), { iconOnly: true }),
      !v.deleted && may && administersPlace(may, account, v.name) && button("lock", `Lock ${what}`, () => void lock(account, v, retained), { iconOnly: true }),
      !final && may && administersPlace(may, account, v.name) && button("trash", `Delete ${v.deleted ? "the mark" : what}`, () => void remove(), { iconOnly: true, class: "danger" })),
  ];
}

/** Shows a version's lock, and lets the reader change it. */
async function lock(account, v, retained) {
  let locks;
  try {
    ({ locks } = await api.json(`v1/admin/versions/${encodeURIComponent(account)}`));
  } catch (error) {
    if (error.status !== 403) return toast(error.message);
    locks = {}; // who administers a part of the account does not see it
  }
  if (!locks) return ask("Lock", [h("p", null, "The account has no locks. The page of its versions turns them on.")], [{ label: "Close", value: "" }]);
  const mode = /** @type {HTMLSelectElement} */ (h("select", { id: "lock-mode", onchange: () => check() }, [["", "none"], ...modes].map(([value, text]) => h("option", { value, selected: value === (retained?.mode ?? "") }, text))));
  const before = localTime(retained?.until), until = /** @type {HTMLInputElement} */ (h("input", { id: "lock-until", type: "datetime-local", value: before, oninput: () => check() }));
  const hold = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: v.hold, onchange: () => check() })), said = h("p", { class: "consequence", role: "status" });
  const shorter = () => retained && (!mode.value || Date.parse(until.value) < Date.parse(before) || (retained.mode === "compliance" && mode.value !== "compliance"));
  const check = () => {
    until.disabled = !mode.value;
    until.required = Boolean(mode.value);
    mode.setCustomValidity(retained?.mode === "compliance" && shorter() ? "A lock in the mode compliance can only be extended." : "");
    said.textContent = [
      mode.value && until.value && `The version is locked until ${new Date(until.value).toLocaleString()}. ${locked[mode.value]}`,
      shorter() && retained.mode === "governance" && "This ends the lock early, and is recorded.",
      hold.checked ? "The version stays until the legal hold is ended." : v.hold && "The legal hold ends.", locks.most && `A lock lasts at most ${days(locks.most)}.`,
    ].filter(Boolean).join(" ");
  };
  check();
  const changed = () => mode.value !== (retained?.mode ?? "") || (mode.value && until.value !== before);
  if (await doing("Lock of this version", [
    h("label", { for: mode.id }, "Lock"), mode, h("label", { for: until.id }, "Until"), until, h("label", { class: "check" }, hold, "Legal hold, without an end"), said,
  ], "Save", () => api.send(versionURL(account, v.name, v.version), {
    method: "PATCH", headers: api.headers(shorter() ? { "Bypass-Governance": "true" } : {}),
    body: JSON.stringify({ retention: changed() ? (mode.value ? { mode: mode.value, until: new Date(until.value).toISOString() } : null) : undefined, hold: hold.checked === Boolean(v.hold) ? undefined : hold.checked }),
  }), "primary")) show();
}
