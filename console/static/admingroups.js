// The pages of groups of keys: their limits, and how much of them is used.

import { button, h } from "./dom.js";
import { bytes, compareNames, count, visible, visibleText } from "./text.js";
import { showError } from "./notice.js";
import { go, link, show } from "./router.js";
import { ordered, titleOf } from "./status.js";
import { doing, facts, pathTo, renew, showList } from "./adminlist.js";
import * as api from "./api.js";

/** @typedef {{group: string, limits: Object<string, number>, effective: Object<string, number>, used: Object<string, number>, etag: string}} Group */

const isBytes = (member) => /bytes/i.test(member);
const amount = (member, n) => (n < 0 ? "unlimited" : isBytes(member) ? bytes(n) : count(n));

/** @type {import("./admin.js").Page} */
export function groupsPage(main, [name = ""], signal, place, may) {
  if (name) return groupPage(main, name, signal, may);
  const column = (title, member, more = "") => ({ title, class: `quota ${more}`, compare: (a, b) => a.used[member] - b.used[member] });
  return showList(main, signal, place, {
    title: "Groups", one: "group", path: "v1/admin/groups", member: "groups", key: (group) => group.group,
    about: "The keys of a group share its limits.",
    columns: [{ title: "Group", class: "wide", compare: (a, b) => compareNames(a.group, b.group) }, column("Stored", "storedBytes"), column("Objects", "storedObjects", "summary"), column("Open uploads", "openUploads", "summary")],
    cells: (group) => [h("a", { href: link("admin", "groups", group.group), tabindex: "-1" }, visible(group.group)), ...["storedBytes", "storedObjects", "openUploads"].map((member) => usage(group, member))],
    open: (group) => go("admin", "groups", group.group),
    empty: ["There is no group", "A group exists once it has a key."],
  });
}

/**
 * Returns how much of a quota is used, with a bar if it is limited.
 * @param {Group} group
 * @param {string} member
 */
function usage(group, member) {
  const used = group.used[member], limit = group.effective[member];
  const bar = limit >= 0 && h("meter", { min: 0, max: Math.max(1, limit), value: used, low: 0.9 * limit, high: 0.9 * limit, optimum: 0, "aria-label": `${titleOf(member)} of ${visibleText(group.group)}` });
  return h("span", null, `${amount(member, used)}${limit < 0 ? "" : ` of ${amount(member, limit)} `}`, bar);
}

async function groupPage(main, name, signal, may) {
  let group;
  try {
    group = await api.json(`v1/admin/groups/${encodeURIComponent(name)}`, {}, { signal });
  } catch (error) {
    showError(main.appendChild(h("div", null)), error, signal, show);
    return;
  }
  const members = ordered(group.effective), quotas = members.filter((member) => member in group.used);
  const from = (member) => h("span", { class: "sub" }, [member in group.used && group.effective[member] < 0 && ", unlimited", !(member in group.limits) && ", by default"]);
  main.append(h("div", { class: "head" }, pathTo("groups", "Groups", visible(group.group)),
    h("div", { class: "actions" }, may.everything && button("edit", "Set limits", () => void setLimits(group), { class: "primary" }))),
  h("div", { class: "columns" },
    h("section", { class: "card", "aria-labelledby": "quotas" }, h("h2", { id: "quotas" }, "Used"), h("p", { class: "sub" }, "On all nodes together."),
      facts(quotas.map((member) => [titleOf(member), h("span", null, usage(group, member), from(member))]))),
    h("section", { class: "card", "aria-labelledby": "rates" }, h("h2", { id: "rates" }, "Rates"), h("p", { class: "sub" }, "On each node."),
      facts(members.filter((member) => !quotas.includes(member)).map((member) => [titleOf(member), h("span", null, amount(member, group.effective[member]), from(member))])))));
}

async function setLimits(group) {
  const fields = ordered(group.effective).map((member) => ({
    member, before: written(member, group.limits[member]),
    input: /** @type {HTMLInputElement} */ (h("input", { id: `limit-${member}`, value: written(member, group.limits[member]), placeholder: "the default", autocomplete: "off", spellcheck: "false",
      oninput: ({ target }) => target.setCustomValidity(Number.isNaN(parsed(target.value)) ? `Type a number${isBytes(member) ? ", also with KiB, MiB, GiB or TiB" : ""}, “unlimited”, or nothing for the default.` : "") })),
  }));
  const done = await doing(`Limits of ${visibleText(group.group)}`, [
    h("p", null, "A number, “unlimited”, or nothing for the default of the service. A lower limit deletes nothing: it refuses more."),
    ...fields.flatMap(({ member, input }) => [h("label", { for: input.id }, titleOf(member)), input]),
  ], "Set limits", () => {
    const changed = fields.filter(({ input, before }) => input.value.trim() !== before);
    return api.patch(`v1/admin/groups/${encodeURIComponent(group.group)}`, group.etag, { limits: Object.fromEntries(changed.map(({ member, input }) => [member, parsed(input.value)])) });
  }, "primary");
  if (done) renew();
}

const units = ["", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Returns a limit as it is typed. */
export function written(member, n) {
  if (n === undefined) return "";
  if (n < 0) return "unlimited";
  let unit = 0;
  for (; isBytes(member) && n > 0 && n % 1024 === 0 && unit < units.length - 1; unit++) n /= 1024;
  return `${n}${unit > 0 ? ` ${units[unit]}` : ""}`;
}

/** Returns a limit that was typed: 0 for the default, -1 for none, and NaN for no limit at all. */
export function parsed(text) {
  if (text.trim() === "") return 0;
  if (/^\s*(unlimited|none)\s*$/i.test(text)) return -1;
  const found = /^\s*(\d+)\s*(?:([KMGTP])(?:iB)?)?\s*$/i.exec(text);
  const n = found ? Number(found[1]) * 1024 ** " KMGTP".indexOf((found[2] ?? " ").toUpperCase()) : 0;
  return n > 0 && Number.isSafeInteger(n) ? n : NaN;
}
