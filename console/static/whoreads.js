// Who may read the blobs at a place: an account, a prefix of names, or one blob. An administrator of
// the place sees badges, and changes its settings in a dialog.

import { button, h } from "./dom.js";
import { visible, visibleText } from "./text.js";
import { ask, errorBox } from "./notice.js";
import { administersPlace, rights } from "./rights.js";
import { doing } from "./adminlist.js";
import * as api from "./api.js";

/**
 * @typedef {{account: string, prefix?: string, blob?: string}} At
 * @typedef {{reason: string, by?: string, since: string}} Block
 * @typedef {At & {reads?: string, lists?: string, mayOpen?: boolean, guarded?: boolean, blocked?: Block}} Place
 */

/** The kinds of reads from the fewest readers to the most, as in package access of the server. */
const openness = ["key", "paid", "free", "public"];
const readers = {
  public: "everyone can read, without a key and without paying", free: "everyone can read without paying, and no shared cache keeps a copy",
  key: "only keys with the scope read can read", paid: "everyone who pays can read, and keys with the scope read",
};
const opens = (reads, instance) => openness.indexOf(reads) > openness.indexOf(instance);
/** Most places of an account that are read for the badges of a folder. */
const mostPlaces = 10_000;

/** @param {At} at */
export const textOf = ({ account, prefix, blob }) => `${visibleText(account)}/${visibleText(blob ?? prefix ?? "")}${blob === undefined ? "*" : ""}`;

/** @param {Place} place */
export const badgesOf = (place) => [
  place.blocked && h("span", { class: "badge blocked", title: `Nobody can read it: ${place.blocked.reason}` }, "blocked"),
  ["public", "free"].includes(place.reads) && h("span", { class: "badge warn", title: readers[place.reads] }, place.reads),
  place.reads === "key" && h("span", { class: "badge", title: readers.key }, "keys only"),
  place.lists === "public" && h("span", { class: "badge warn", title: "Everyone can list the names" }, "public list"),
  place.guarded && h("span", { class: "badge", title: "A public access block, by S3's interface, refuses or ignores what opens the account" }, "guarded"),
  place.mayOpen && h("span", { class: "badge", title: "The account may open itself beyond the instance's setting" }, "may open"),
].filter(Boolean);

/**
 * Returns a function with which a list shows what the places that the reader administers say about a
 * folder or a blob, or null if there is none.
 * @param {string} account
 * @param {AbortSignal} signal
 * @returns {Promise<((item: {kind: string, name: string}) => Node[])|null>}
 */
export async function badgesIn(account, signal) {
  const may = await rights();
  if (!may) return null;
  const { reads: instance } = await api.info(), places = [];
  for (let after = ""; after !== undefined && places.length < mostPlaces;) {
    const page = await api.json("v1/admin/places", { account, after, limit: 1000 }, { signal });
    places.push(...page.places);
    after = page.next;
  }
  if (places.length === 0) return null;
  const whole = places.find((place) => !place.prefix && place.blob === undefined);
  // Whoever does not see the account's own settings does not know whether it may open itself.
  const counts = (reads) => reads && !(opens(reads, instance) && may.everything && !whole?.mayOpen);
  places.sort((a, b) => (a.blob ?? a.prefix ?? "").length - (b.blob ?? b.prefix ?? "").length);
  return ({ kind, name }) => {
    const above = places.filter((place) => (place.blob === undefined ? name.startsWith(place.prefix ?? "") : kind === "blob" && place.blob === name));
    const reads = above.filter((place) => counts(place.reads)).toSorted((a, b) => Number(a.blob !== undefined) - Number(b.blob !== undefined)).at(-1)?.reads;
    return badgesOf({ account, reads: reads === "instance" || reads === instance ? undefined : reads, blocked: above.find((place) => place.blocked)?.blocked });
  };
}

/**
 * Returns the button that shows and changes who may read, or null if the reader does not administer
 * the place.
 * @param {At} at
 * @param {() => void} changed
 */
export async function whoReadsButton(at, changed) {
  const may = await rights().catch(() => null); // without it there is no button
  if (!may || !administersPlace(may, at.account, at.blob ?? at.prefix ?? "")) return null;
  return button("eye", "Who may read", async () => (await whoReads(may, at)) && changed(), { iconOnly: at.blob === undefined }); // a folder has many buttons
}

const pathOf = (account) => `v1/admin/places/${encodeURIComponent(account)}`;
const change = (account, query, body) => api.json(pathOf(account), query, { method: "PATCH", body: JSON.stringify(body) });

/**
 * Shows who may read at a place, and lets the reader change it. It reports whether it was changed.
 * @param {import("./rights.js").Rights} may
 * @param {At} at
 */
export async function whoReads(may, at) {
  const query = at.blob === undefined ? { prefix: at.prefix } : { blob: at.blob };
  let rule, whole, service;
  try {
    [rule, whole, service] = await Promise.all([api.json(pathOf(at.account), query), administersPlace(may, at.account, "") ? api.json(pathOf(at.account)) : null, api.info()]);
  } catch (error) {
    await ask("Who may read", [errorBox(error)], [{ label: "Close", value: "" }]);
    return false;
  }
  const form = placeForm(may, at, rule, whole, service);
  return Boolean(await doing(`Who may read ${textOf(at)}`, [h("p", null, `Now ${rule.inForce.blocked ? "nobody can read" : readers[rule.inForce.reads]}${at.blob === undefined ? `, and ${listers[rule.inForce.lists]}` : ""}.`), ...form.fields], "Save", async () => {
    // The account is permitted to open itself before it does.
    const { mayOpen, ...rest } = form.changed();
    if (mayOpen === true) await change(at.account, {}, { mayOpen });
    if (Object.keys(rest).length > 0) await change(at.account, query, rest);
    if (mayOpen === false) await change(at.account, {}, { mayOpen });
    return true;
  }, "primary"));
}

const listers = { public: "everyone can list the names", key: "only keys can list the names" };

function placeForm(may, at, place, whole, service) {
  const options = (values, chosen) => values.map(([value, text]) => h("option", { value, selected: value === (chosen ?? "") }, text));
  const select = (id, values, chosen) => /** @type {HTMLSelectElement} */ (h("select", { id, onchange: () => check(true) }, options(values, chosen)));
  const inherited = at.prefix || at.blob !== undefined ? [["", "as the place above"], ["instance", `as the instance: ${service.reads}`]] : [["", `as the instance: ${service.reads}`]];
  const reads = select("place-reads", [...inherited, ["public", "public: everyone, without paying"], ...(service.reads === "paid" ? [["free", "free: everyone, without paying, not in shared caches"]] : []), ["key", "key: only keys with the scope read"]], place.reads);
  const lists = select("place-lists", [...inherited, ["public", "public: everyone"], ["key", "key: only keys"]], place.lists);
  const permit = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: Boolean(whole?.mayOpen), onchange: () => check(false) }));
  const blocked = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: Boolean(place.blocked), onchange: () => check(false) }));
  const reason = /** @type {HTMLInputElement} */ (h("input", { id: "place-reason", value: place.blocked?.reason, maxlength: 500, placeholder: "which every reader sees", autocomplete: "off" }));
  const reasonLabel = h("label", { for: reason.id }, "Reason"), said = h("p", { class: "consequence", role: "status" });
  const opening = () => opens(reads.value, service.reads) || (lists.value === "public" && service.reads !== "public");
  const check = (chosen) => {
    if (chosen && may.everything && opening()) permit.checked = true;
    const refused = opening() && whole && !permit.checked;
    permit.setCustomValidity(refused && may.everything ? "Without this the account cannot be opened." : "");
    reads.setCustomValidity(refused && !may.everything ? "The operator does not permit this account to open itself." : "");
    reason.hidden = reasonLabel.hidden = !blocked.checked;
    reason.required = blocked.checked;
    said.textContent = [
      opens(reads.value, service.reads) && `${readers[reads.value].replace(/^e/, "E")}: whoever reaches this service, on the whole internet if it is there, within seconds.${service.reads === "paid" ? " Nobody pays for these reads." : ""}`,
      lists.value === "public" && service.reads !== "public" && "Everyone can list the names here.",
      reads.value === "public" && reads.value !== place.reads && "Caches may keep copies for a while after it is closed again.",
      place.guarded && opening() && "But the account has a public access block, by S3's interface, which may refuse this or leave it without effect.",
      whole?.mayOpen && !permit.checked && "Everything in this account that is open beyond the instance's setting is closed.",
      blocked.checked && !place.blocked && "Every read, copy and move is refused with this reason, for everybody, within seconds on all nodes. The bytes stay. Purge the caches in front of the service: they may still have copies.",
      !blocked.checked && place.blocked && "It can be read again, as its settings say.",
    ].filter(Boolean).join(" ");
  };
  check(false);
  return {
    fields: [
      h("label", { for: reads.id }, "Reads"), reads, ...(at.blob === undefined ? [h("label", { for: lists.id }, "Lists"), lists] : []),
      ...(may.everything ? [h("label", { class: "check" }, permit, h("span", null, "Account ", visible(at.account), " may open itself beyond the instance's setting")),
        h("label", { class: "check" }, blocked, "Blocked: nobody can read, copy or move it"), reasonLabel, reason] : []),
      said,
    ],
    changed: () => {
      const block = blocked.checked ? reason.value : "";
      return {
        ...(reads.value !== (place.reads ?? "") && { reads: reads.value }), ...(lists.value !== (place.lists ?? "") && { lists: lists.value }),
        ...(may.everything && permit.checked !== Boolean(whole?.mayOpen) && { mayOpen: permit.checked }), ...(may.everything && block !== (place.blocked?.reason ?? "") && { block }),
      };
    },
  };
}
