// The pages of rules: the accounts that have some, and an account's rules with their last run.

import { button, fill, h } from "./dom.js";
import { bytes, compareNames, count, some, time, visible, visibleText } from "./text.js";
import { errorBox } from "./notice.js";
import { go, link } from "./router.js";
import { repeated } from "./sending.js";
import { badge, doing, facts, liveList, pathTo, renew, showList, table } from "./adminlist.js";
import { parsed, written } from "./admingroups.js";
import { choose } from "./adminversions.js";
import * as api from "./api.js";

/**
 * @typedef {{id: string, disabled?: boolean, prefix?: string, tags?: Object<string, string>, atLeast?: number, below?: number, expireDays?: number, expireOn?: string, dropDays?: number, dropBeyond?: number, abortDays?: number, loneMarks?: boolean}} Rule
 * @typedef {{blobs?: number, versions?: number, marks?: number, uploads?: number, bytes?: number}} Counts
 * @typedef {{began: string, ended?: string, looked: number, taken?: Object<string, Counts>}} Run
 * @typedef {{account: string, rules: Rule[], changed?: string, next?: string, running?: Run, last?: Run, etag: string}} Rules
 */

const things = [["blobs", "blob"], ["versions", "version"], ["marks", "deletion's mark"], ["uploads", "upload"]];

/** Returns things that were counted in words. @param {Counts} [n] */
const amount = (n = {}) => (things.map(([member, one]) => n[member] && some(n[member], one)).filter(Boolean).join(", ") || "nothing") + (n.bytes ? ` (${bytes(n.bytes)})` : "");

/** Returns the sum of counts. @param {Counts[]} all */
const sum = (all) => all.reduce((total, n) => Object.fromEntries([...things.map(([member]) => member), "bytes"].map((m) => [m, (total[m] ?? 0) + (n[m] ?? 0)])), {});

/** Returns the blobs, and the effect of a rule in words. @param {Rule} r */
const about = (r) => [
  r.prefix ? h("span", null, "begin with ", visible(r.prefix)) : "all names", ...Object.entries(r.tags ?? {}).map(([key, value]) => h("span", null, ", tag ", visible(`${key}=${value}`))),
  r.atLeast > 0 && `, at least ${bytes(r.atLeast)}`, r.below > 0 && `, below ${bytes(r.below)}`,
];
const effects = (r) => [
  r.expireDays && `blobs expire after ${some(r.expireDays, "day")}`, r.expireOn && ["blobs expire on ", r.expireOn.slice(0, 10)],
  (r.dropDays || r.dropBeyond) && `older versions go${r.dropDays ? ` after ${some(r.dropDays, "day")}` : ""}${r.dropBeyond ? ` beyond the newest ${count(r.dropBeyond)}` : ""}`,
  r.abortDays && `uploads are aborted after ${some(r.abortDays, "day")}`, r.loneMarks && "marks that stand alone go",
].filter(Boolean).map((effect) => h("div", null, effect));

const pathOf = (account) => `v1/admin/rules/${encodeURIComponent(account)}`;

/** @type {import("./admin.js").Page} */
export function rulesPage(main, [account = ""], signal, place, may) {
  if (account) return accountPage(main, account, signal);
  return showList(main, signal, place, {
    title: "Rules", one: "account", about: "Accounts with rules that remove blobs, versions and uploads after a time.", path: "v1/admin/rules", member: "accounts", key: (rules) => rules.account,
    actions: [button("edit", "Rules of an account", async () => {
      const chosen = await choose(may, "Rules of an account");
      if (chosen) go("admin", "rules", chosen);
    }, { class: "primary" })],
    columns: [
      { title: "Account", class: "wide", compare: (a, b) => compareNames(a.account, b.account) }, { title: "Rules", class: "number", compare: (a, b) => a.rules.length - b.rules.length },
      { title: "Removed by the last run", class: "wide summary" }, { title: "Last run", class: "date" },
    ],
    cells: (r) => [h("a", { href: link("admin", "rules", r.account), tabindex: "-1" }, visible(r.account)), count(r.rules.length), r.last ? amount(sum(Object.values(r.last.taken ?? {}))) : "", r.running ? badge("running") : r.last ? time(r.last.began) : "none yet"],
    open: (r) => go("admin", "rules", r.account),
    empty: ["No account has rules", "Blobs stay until somebody deletes them, or they expire by themselves."],
  });
}

function accountPage(main, account, signal) {
  /** @type {Rules} */
  let now;
  const add = button("edit", "Add a rule", () => now && void edit(now, now.rules.length), { class: "primary" });
  return liveList(main, signal, pathTo("rules", "Rules", visible(account)), "They are applied soon after each change, and every day after midnight in UTC. Locked versions stay.", pathOf(account), (found) => {
    now = found;
    return h("div", { class: "stack" },
      found.rules.length === 0 ? h("div", { class: "empty" }, h("h2", null, "The account has no rules"), h("p", null, "Blobs stay until somebody deletes them, or they expire by themselves."))
        : table("Rules", ["Rule", "About", "Effect", "Last run", h("span", { class: "sr" }, "Controls")], found.rules.map((rule, at) => [
          ["Rule", h("span", null, h("strong", null, visible(rule.id)), " ", rule.disabled && badge("off")), "whole"], ["About", h("span", null, about(rule))], ["Effect", h("span", null, effects(rule)), "double"],
          ["Last run", found.last ? amount(found.last.taken?.[rule.id]) : "none yet"], ["", h("div", { class: "actions" }, [
            ["Edit", () => edit(found, at)], ["Delete", () => remove(found, at)],
          ].map(([label, act]) => h("button", { type: "button", class: "button", "aria-label": `${label} ${visibleText(rule.id)}`, onclick: act }, label))), "double"],
        ])),
      ...[["Running", found.running], ["Last run", found.last]].map(([title, run]) => run && h("section", { class: "card" }, h("h2", null, title), facts([
        ["Begun", time(run.began)], ["Ended", run.ended && time(run.ended)], ["Looked at", count(run.looked)], ["Removed", amount(sum(Object.values(run.taken ?? {})))],
      ]))),
      found.next && h("p", { class: "note" }, "Next run: ", time(found.next)));
  }, [add]);
}

/** @param {Rules} now @param {Rule[]} rules */
const put = (now, rules) => api.json(pathOf(now.account), {}, { method: "PUT", headers: api.headers({ "If-Match": now.etag }), body: JSON.stringify({ rules }) });

async function remove(now, at) {
  if (await doing("Delete this rule?", [h("p", null, h("strong", null, visible(now.rules[at].id)), ": it removes nothing more. What it removed does not come back by that.")], "Delete",
    () => put(now, now.rules.toSpliced(at, 1)))) renew();
}

/**
 * Returns the counts of blobs that rules would remove today, by the rules' ids.
 * @param {string} account
 * @param {Rule[]} rules
 * @param {AbortSignal} signal
 * @param {(looked: number) => void} progress
 * @returns {Promise<Object<string, Counts>>}
 */
async function preview(account, rules, signal, progress) {
  const taken = {};
  let looked = 0;
  for (let after = "", more = true; more;) {
    const page = await repeated(() => api.post(`${pathOf(account)}/preview`, { rules, after }, { signal }), signal);
    for (const [id, n] of Object.entries(page.taken ?? {})) taken[id] = sum([taken[id] ?? {}, n]);
    after = page.next;
    more = Boolean(after);
    progress((looked += page.looked));
  }
  return taken;
}

/** Asks for a rule, and shows the blobs that it would remove today before it can be saved. */
async function edit(now, at) {
  const said = h("div", { class: "consequence", role: "status" });
  let control = new AbortController();
  /** Counts again, or waits until the field is left. @param {boolean} left */
  const check = async (left) => {
    control.abort();
    const { signal } = (control = new AbortController()), dialog = said.closest("dialog"), save = /** @type {HTMLButtonElement} */ (dialog.querySelector("[type=submit]"));
    save.disabled = true;
    fill(said, left ? "Counting…" : "");
    if (!left) return;
    if (!dialog.querySelector("form").checkValidity()) return fill(said, form.wrong());
    const rule = form.value();
    try {
      const taken = await preview(now.account, now.rules.toSpliced(at, 1, rule), signal, (n) => !signal.aborted && (said.textContent = `Counting: looked at ${count(n)} so far…`));
      if (signal.aborted) return;
      fill(said, `Today this rule removes ${amount(taken[rule.id])}. `, rule.disabled ? "It is off." : "It goes on every day, and removes versions for good.");
      save.disabled = false;
    } catch (error) {
      if (!signal.aborted) fill(said, errorBox(error));
    }
  };
  const form = ruleForm(now.rules[at], now.rules.filter((_, i) => i !== at).map(({ id }) => id), check);
  const saved = doing(at < now.rules.length ? "Edit the rule" : "Add a rule", [...form.fields, said], "Save", () => put(now, now.rules.toSpliced(at, 1, form.value())), "primary");
  said.closest("dialog").addEventListener("close", () => control.abort());
  void check(at < now.rules.length);
  if (await saved) renew();
}

/**
 * Returns the fields of a rule, and functions that return it and a sentence about a wrong field.
 * @param {Rule} [rule]
 * @param {string[]} [others] ids
 * @param {(left: boolean) => void} [changed]
 */
function ruleForm(rule = { id: "" }, others = [], changed = () => {}) {
  const all = [];
  const field = (name, title, value, more = {}) => {
    const input = /** @type {HTMLInputElement} */ (h("input", { id: `rule-${name}`, value: value || undefined, autocomplete: "off", spellcheck: "false", oninput: () => changed(false), onchange: () => changed(true), ...more }));
    all.push([title, input]);
    return { input, shown: h("div", null, h("label", { for: input.id }, title), input) };
  };
  const days = (name, title, value, max = 36500, placeholder = "never") => field(name, title, value, { type: "number", min: 1, max, placeholder });
  const size = (name, title, value) => field(name, title, written("bytes", value), { placeholder: "any size", pattern: "\\s*\\d+\\s*([KMGTP](iB)?)?\\s*", title: "A number of bytes, also with KiB, MiB, GiB or TiB" });
  const check = (text, checked) => {
    const input = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked, onchange: () => changed(true) }));
    return { input, shown: h("label", { class: "check" }, input, text) };
  };
  const id = field("id", "Name of the rule", rule.id, { required: true, maxlength: 255 });
  id.input.addEventListener("input", () => id.input.setCustomValidity(others.includes(id.input.value.trim()) ? "Another rule has this name." : ""));
  const prefix = field("prefix", "Names that begin with", rule.prefix, { placeholder: "all names" });
  const tags = field("tags", "With the tags", Object.entries(rule.tags ?? {}).map((pair) => pair.join("=")).join(", "), { placeholder: "any, or state=draft, team=web", pattern: "[^,=]+=[^,]*(,[^,=]+=[^,]*)*", title: "KEY=VALUE, and commas between them" });
  const least = size("least", "Of at least", rule.atLeast), below = size("below", "Smaller than", rule.below);
  const expires = days("days", "Blobs expire after days", rule.expireDays), on = field("on", "or on a date", rule.expireOn?.slice(0, 10), { type: "date" });
  const drop = days("drop", "Older versions go after days", rule.dropDays), beyond = days("beyond", "and beyond the newest", rule.dropBeyond, 100, "0"), abort = days("abort", "Uploads end after days", rule.abortDays);
  const marks = check("Marks of deletions go when nothing else of the blob is kept", rule.loneMarks), off = check("Off: it removes nothing", rule.disabled);
  const n = ({ input }) => Number(input.value) || undefined, bytesOf = ({ input }) => parsed(input.value) || undefined;
  return {
    fields: [id.shown, prefix.shown, tags.shown, h("div", { class: "columns pairs" }, [least, below, expires, on, drop, beyond, abort].map(({ shown }) => shown)), marks.shown, off.shown],
    wrong: () => all.filter(([, input]) => !input.validity.valid).map(([title, input]) => `${title}: ${input.validationMessage}`)[0],
    value: () => ({
      id: id.input.value.trim(), disabled: off.input.checked || undefined, prefix: prefix.input.value || undefined, atLeast: bytesOf(least), below: bytesOf(below), expireDays: n(expires),
      tags: tags.input.value.trim() ? Object.fromEntries(tags.input.value.split(",").map((pair) => [pair.split("=", 1)[0].trim(), pair.slice(pair.indexOf("=") + 1).trim()])) : undefined,
      expireOn: on.input.value ? `${on.input.value}T00:00:00Z` : undefined, dropDays: n(drop), dropBeyond: n(beyond), abortDays: n(abort), loneMarks: marks.input.checked || undefined,
    }),
  };
}
