// The view of the open uploads of an account.

import { button, h } from "./dom.js";
import { Grid } from "./grid.js";
import { bytes, compareNames, count, time, visible, visibleText } from "./text.js";
import { ask, confirm, errorBox, showError } from "./notice.js";
import { go, show } from "./router.js";
import { crumbs } from "./folder.js";
import { forget } from "./journal.js";
import * as api from "./api.js";

/** @type {import("./router.js").View} */
export async function openUploadsView(main, [account = ""], signal) {
  if (!account) return go("");
  document.title = `Open uploads of ${visibleText(account)} · sluice`;
  const total = h("p", { class: "sub", role: "status" });
  const place = h("div", { class: "place" });
  main.append(h("div", { class: "head" }, h("div", null, crumbs(account, "", "Open uploads"), total)), place);
  let after = "", ended = false;
  const grid = new Grid({
    label: "Open uploads",
    columns: [
      { title: "Name", class: "wide", compare: (a, b) => compareNames(a.name, b.name) }, { title: "Received", class: "number", compare: (a, b) => a.bytes - b.bytes },
      { title: "Begun", class: "date", compare: (a, b) => Date.parse(a.created) - Date.parse(b.created) },
      { title: "Expires", class: "date", compare: (a, b) => (Date.parse(a.expires) || 0) - (Date.parse(b.expires) || 0) }, { title: h("span", { class: "sr" }, "Abort"), class: "act" },
    ],
    natural: 2,
    cells: (u) => [visible(u.name), bytes(u.bytes), time(u.created), u.expires ? time(u.expires) : "",
      button("trash", `Abort ${visibleText(u.name)}`, () => void abort(u), { iconOnly: true, class: "danger" })],
    open: (u) => void details(u),
    remove: (u) => void abort(u),
    more: async () => {
      if (ended) return null;
      const page = await api.json("v1/multipart-uploads", { account, after, limit: 1000 }, { signal });
      after = page.next ?? "";
      ended = !page.next;
      return page.uploads;
    },
    failed: (error) => showError(place, error, signal, show),
    empty: h("div", { class: "empty" }, h("h2", null, "No upload is open"), h("p", null, "An upload in parts is listed here until it is completed or aborted.")),
    counted: (n, complete) => (total.textContent = n === 0 ? "" : `${count(n)}${complete ? "" : " or more"} open`),
  });
  place.append(grid.element);
  signal.addEventListener("abort", () => grid.stop());
  await grid.start();
}

async function abort(upload) {
  const sure = await confirm("Abort this upload?", [h("p", null, h("strong", null, visible(upload.name)), `: the ${bytes(upload.bytes)} that were received are deleted.`)], "Abort upload");
  if (!sure) return;
  try {
    await api.send(api.urlOf(`v1/multipart-uploads/${upload.uploadId}`), { method: "DELETE" });
    await forget(upload.uploadId);
  } catch (error) {
    await ask("It was not aborted", [errorBox(error)], [{ label: "Close", value: "" }]);
  }
  void show();
}

/** @param {api.Upload} upload */
const details = (upload) => ask(visibleText(upload.name), [h("dl", null, [
  ["Upload", h("code", null, upload.uploadId)], ["Received", bytes(upload.bytes)], ["Size of parts", upload.partSize ? bytes(upload.partSize) : "any"],
  ["Begun", time(upload.created)], ["Aborted unless a part arrives before", upload.expires ? time(upload.expires) : ""],
].map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value))))], [{ label: "Close", value: "" }]);
