// Files and folders that are dropped anywhere on the page.

import { h, icon } from "./dom.js";
import { visibleText } from "./text.js";
import { toast } from "./notice.js";
import { dropped } from "./files.js";
import { target } from "./stored.js";
import { offer } from "./uploads.js";

/** Lets files be dropped anywhere on the page. */
export function acceptDrops() {
  const cover = h("div", { id: "drop", hidden: true }, h("p", null, icon("upload"), h("span", null, "")));
  document.body.append(cover);
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault(); // or the browser would leave the page for the file
    const to = target();
    event.dataTransfer.dropEffect = to ? "copy" : "none";
    cover.hidden = false;
    cover.querySelector("span").textContent = to ? `Upload to ${visibleText(`${to.account}/${to.prefix}`)}` : "Open an account first, then drop files there";
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) cover.hidden = true;
  });
  addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    cover.hidden = true;
    const to = target();
    if (!to) return;
    dropped(event.dataTransfer).then((found) => offer(found, to), (error) => toast(`The files cannot be read: ${error}`));
  });
}
