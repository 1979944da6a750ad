// The view of all accounts.

import { h } from "./dom.js";
import { Grid } from "./grid.js";
import { bytes, compareNames, count, visible } from "./text.js";
import { errorBox } from "./notice.js";
import { go, link, show } from "./router.js";
import * as api from "./api.js";

/** @type {import("./router.js").View} */
export async function accountsView(main, _parts, signal, place) {
  document.title = "Accounts · sluice";
  const total = h("p", { class: "sub", role: "status" });
  const field = h("input", { name: "account", placeholder: "0x1 or a name", "aria-label": "Account", autocomplete: "off", spellcheck: "false", required: true });
  const open = h("form", {
    class: "inline", onsubmit: (event) => {
      event.preventDefault();
      if (field.value.trim()) go("blobs", field.value.trim(), "");
    },
  }, field, h("button", { class: "button", type: "submit" }, "Open account"));
  main.append(h("div", { class: "head" }, h("div", null, h("h1", null, "Accounts"), total), open));

  let after = "", ended = false;
  const grid = new Grid({
    label: "Accounts",
    columns: [
      { title: "Account", class: "wide", compare: (a, b) => compareNames(a.account, b.account) },
      { title: "Blobs", class: "number", compare: (a, b) => a.blobs - b.blobs }, { title: "Size", class: "number", compare: (a, b) => a.bytes - b.bytes },
      { title: "Kept", class: "number", compare: (a, b) => (a.versionBytes ?? 0) - (b.versionBytes ?? 0) },
    ],
    cells: (a) => [h("a", { href: link("blobs", a.account, ""), tabindex: "-1" }, visible(a.account)), count(a.blobs), bytes(a.bytes),
      a.versions ? `${count(a.versions)}, ${bytes(a.versionBytes ?? 0)}` : ""],
    open: (a) => go("blobs", a.account, ""),
    key: (a) => a.account,
    more: async () => {
      if (ended) return null;
      const page = await api.json("v1/accounts", { after, limit: 1000 }, { signal });
      after = page.next ?? "";
      ended = !page.next;
      return page.accounts;
    },
    failed: (error) => !signal.aborted && grid.element.replaceWith(refusal(error)),
    empty: h("div", { class: "empty" }, h("h2", null, "Nothing is stored yet"),
      h("p", null, "Open an account, such as ", h("a", { href: link("blobs", "0x1", "") }, "0x1"), ", and drop a file there."),
      h("pre", null, `curl -T FILE ${api.base.href}v1/blobs/0x1/hello.txt`)),
    counted: (n, complete) => (total.textContent = n === 0 ? "" : `${count(n)}${complete ? "" : " or more"} ${n === 1 ? "account" : "accounts"}`),
  });
  main.append(grid.element);
  signal.addEventListener("abort", () => grid.stop());
  place.keep(() => grid.place);
  await grid.start(place.before);
}

/** Without a key for all accounts there is no list, but an account can be opened by its name. */
function refusal(error) {
  if (error.status === 401 && !api.hasKey()) {
    return h("div", { class: "empty" }, h("h2", null, "This network has no public list of accounts"),
      h("p", null, "Enter a key that may list accounts, or open an account by its name."));
  }
  if (error.status === 403) {
    return h("div", { class: "empty" }, h("h2", null, "The key may not list accounts"), h("p", null, "Open an account by its name."));
  }
  return errorBox(error, show);
}
