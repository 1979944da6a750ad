// The start of the console.

import { button, fill, h } from "./dom.js";
import { beforeView, link, route, start } from "./router.js";
import { accountsView } from "./accounts.js";
import { folderView } from "./folder.js";
import { blobView } from "./blob.js";
import { openUploadsView } from "./openuploads.js";
import { acceptDrops, offerInterrupted } from "./uploads.js";
import { enterKey, keyButton } from "./key.js";
import * as api from "./api.js";

route("", accountsView);
route("blobs", folderView);
route("blob", blobView);
route("uploads", openUploadsView);

const sections = [["", "Blobs"]];
const sectionOf = { blobs: "", blob: "", uploads: "" };

beforeView((first) => {
  const current = sectionOf[first] ?? first;
  fill(document.getElementById("nav"), sections.map(([to, title]) => h("a", { href: link(to), "aria-current": to === current ? "page" : null }, title)));
});

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is the view
  document.getElementById("main").focus();
});

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("sluice-theme", root.dataset.theme);
  dispatchEvent(new Event("themechange"));
}

const tools = document.getElementById("tools");
tools.append(button("theme", "Switch between light and dark", switchTheme, { iconOnly: true }));
acceptDrops();
void offerInterrupted();
void start();
api.info().then((service) => {
  if (service.profile !== "hosted") return;
  tools.prepend(keyButton());
  void enterKey();
}, () => {}); // the view shows the error
