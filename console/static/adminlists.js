// The pages of what the service records: open uploads, damage, and administrative actions.

import { button, h } from "./dom.js";
import { bytes, compareNames, count, indented, time, visible, visibleText } from "./text.js";
import { ask } from "./notice.js";
import { link } from "./router.js";
import { doing, facts, renew, showList } from "./adminlist.js";
import * as api from "./api.js";

/** @type {import("./admin.js").Page} */
export function uploadsPage(main, _parts, signal, place) {
  return showList(main, signal, place, {
    title: "Uploads", one: "upload", about: "The open uploads of all accounts. They count toward the limits of their group.", path: "v1/admin/uploads", member: "uploads", natural: 4, key: (upload) => upload.uploadId,
    columns: [
      { title: "Name", class: "wide", compare: (a, b) => compareNames(a.account, b.account) || compareNames(a.name, b.name) }, { title: "Group", class: "type", compare: (a, b) => compareNames(a.group ?? "", b.group ?? "") },
      { title: "Received", class: "number", compare: (a, b) => a.bytes - b.bytes }, { title: "Begun", class: "date", compare: (a, b) => Date.parse(a.created) - Date.parse(b.created) },
      { title: h("span", { class: "sr" }, "Abort"), class: "act" },
    ],
    cells: (upload) => [h("span", null, visible(upload.account), " / ", visible(upload.name)), upload.group ? visible(upload.group) : "", bytes(upload.bytes), time(upload.created),
      button("trash", `Abort ${visibleText(upload.name)}`, () => void abort(upload), { iconOnly: true, class: "danger" })],
    open: (upload) => showFacts(visibleText(upload.name), [
      ["Account", h("a", { href: link("uploads", upload.account), onclick: ({ target }) => target.closest("dialog").close() }, visible(upload.account))], ["Group", upload.group && visible(upload.group)], ["Upload", h("code", null, upload.uploadId)],
      ["Received", bytes(upload.bytes)], ["Begun", time(upload.created)], ["Aborted unless a part arrives before", upload.expires && time(upload.expires)],
    ]),
    empty: ["No upload is open", "An upload in parts is listed here until it is completed or aborted."],
  });
}

async function abort(upload) {
  const done = await doing("Abort this upload?", [h("p", null, visible(upload.account), " / ", h("strong", null, visible(upload.name)), `: the ${bytes(upload.bytes)} that were received are deleted, and whoever sends it has to begin again.`)], "Abort upload",
    () => api.send(api.urlOf(`v1/multipart-uploads/${upload.uploadId}`), { method: "DELETE" }));
  if (done) renew();
}

/** @type {import("./admin.js").Page} */
export function damagedPage(main, _parts, signal, place) {
  const nameOf = ({ blobs }) => (blobs.length === 0 ? "An upload's part" : h("span", null, visible(blobs[0].account), " / ", visible(blobs[0].name), blobs[0].version && ", a kept version", blobs.length > 1 && ` and ${count(blobs.length - 1)} more`));
  return showList(main, signal, place, {
    title: "Damaged", one: "extent", about: "Reads that need damaged or missing bytes fail; all other reads work.", path: "v1/admin/damaged", member: "damaged", key: (damage) => `${damage.content} ${damage.part} ${damage.offset}`,
    columns: [
      { title: "Blob", class: "wide" }, { title: "Damaged", class: "number", compare: (a, b) => a.damagedBytes - b.damagedBytes },
      { title: "Since", class: "date", compare: (a, b) => Date.parse(a.since) - Date.parse(b.since) }, { title: "Reason", class: "wide summary", compare: (a, b) => compareNames(a.reason, b.reason) },
    ],
    cells: (damage) => [nameOf(damage), bytes(damage.damagedBytes), time(damage.since), damage.reason],
    open: (damage) => showFacts("Damaged bytes", [
      ["Blobs", damage.blobs.length === 0 ? "none: an upload's part" : h("ul", { class: "what" }, damage.blobs.map(({ account, name, version }) =>
        h("li", null, h("a", { href: link("blob", account, name), onclick: ({ target }) => target.closest("dialog").close() }, visible(account), " / ", visible(name)), version && [", version ", h("code", null, version)])))],
      ["Reason", damage.reason], ["Since", time(damage.since)], ["Damaged", `${bytes(damage.damagedBytes)} of ${bytes(damage.size)}, at offset ${count(damage.offset)} of part ${count(damage.part)}`],
      ["Content", h("code", null, damage.content)], ["Object", damage.object ? h("code", null, damage.object) : "none: the database has the bytes"],
    ]),
    empty: ["Nothing is damaged", "Damage that reads or the background check find is listed here."],
  });
}

/** @type {import("./admin.js").Page} */
export function actionsPage(main, _parts, signal, place, may) {
  const by = (action) => (action.key ? h("code", null, action.key) : may.local ? "anybody" : "the operator");
  return showList(main, signal, place, {
    title: "Actions", one: "action", about: "Who changed keys, groups and settings, the newest first.", path: "v1/admin/actions", member: "actions", key: (action) => action.id,
    columns: [{ title: "Time", class: "moment" }, { title: "Action", class: "wide" }, { title: "From", class: "type" }, { title: "By", class: "quota" }],
    cells: (action) => [time(action.time), h("span", null, h("strong", null, action.action), " ", visible(action.subject)), visible(action.from), h("span", null, by(action))],
    open: (action) => showFacts(action.action, [
      ["Subject", visible(action.subject)], ["Time", time(action.time)], ["By", h("span", null, by(action), action.group && [" of the group ", visible(action.group)])], ["From", visible(action.from)],
      ["Accounts", action.accounts?.join(", ")], ["Before", state(action.before)], ["After", state(action.after)],
    ]),
    empty: ["Nothing was changed yet", "Each change of a key, a group or a setting is recorded here."],
  });
}

const state = (value) => value && h("pre", { class: "text", tabindex: "0" }, indented(JSON.stringify(value)));

const showFacts = (title, rows) => void ask(title, [facts(rows)], [{ label: "Close", value: "" }]);
