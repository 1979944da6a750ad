// The page of places: who may read, and what is blocked.

import { button, h } from "./dom.js";
import { compareNames, time, visible } from "./text.js";
import { ask } from "./notice.js";
import { parseAccount } from "./names.js";
import { administers } from "./rights.js";
import { renew, showList } from "./adminlist.js";
import { badgesOf, textOf, whoReads } from "./whoreads.js";

/** @type {import("./admin.js").Page} */
export function placesPage(main, _parts, signal, place, may) {
  const open = async (at) => (await whoReads(may, at)) && renew();
  return showList(main, signal, place, {
    title: "Places", one: "place", about: "Accounts, folders and blobs with settings of their own: who may read them, and what is blocked.", path: "v1/admin/places", member: "places", key: textOf,
    actions: [button("eye", "Set a place", async () => {
      const at = await choose(may);
      if (at) await open(at);
    }, { class: "primary" })],
    columns: [
      { title: "Place", class: "wide", compare: (a, b) => compareNames(a.account, b.account) || compareNames(a.blob ?? a.prefix ?? "", b.blob ?? b.prefix ?? "") }, { title: "Reads", class: "quota" },
      { title: "Lists", class: "state summary" }, { title: "Blocked since", class: "date" },
    ],
    cells: (at) => [h("span", null, visible(at.account), "/", at.blob === undefined ? [visible(at.prefix ?? ""), h("span", { class: "sub" }, "*")] : visible(at.blob)), h("span", null, badgesOf(at)), at.lists ?? "", at.blocked ? time(at.blocked.since) : ""],
    open: (at) => void open(at),
    empty: ["No place has settings of its own", may.local ? "Everything is read as the instance's reads say." : "Every blob is read as the reads of the network say."],
  });
}

/** Asks for a place. */
async function choose(may) {
  const account = /** @type {HTMLInputElement} */ (h("input", { id: "place-account", value: may.key?.grants.find(administers)?.accounts?.[0], required: true, autocomplete: "off", spellcheck: "false",
    oninput: () => account.setCustomValidity(parseAccount(account.value.trim()).wrong) }));
  const name = /** @type {HTMLInputElement} */ (h("input", { id: "place-name", value: may.key?.grants.find(administers)?.prefix, placeholder: "empty: the whole account", autocomplete: "off", spellcheck: "false" }));
  const one = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", onchange: () => (name.required = one.checked) }));
  const answer = await ask("Set a place", [
    h("label", { for: account.id }, "Account"), account, h("label", { for: name.id }, "Names that begin with"), name,
    h("label", { class: "check" }, one, "only the blob of exactly this name"),
  ], [{ label: "Cancel", value: "" }, { label: "Go on", value: "yes", class: "primary" }]);
  const at = { account: parseAccount(account.value.trim()).account };
  return answer ? (one.checked ? { ...at, blob: name.value } : { ...at, prefix: name.value }) : null;
}
