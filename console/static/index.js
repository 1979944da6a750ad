// The start of the console.

import { navigation, startShell } from "./shell.js";
import { beforeView, route, show, start } from "./router.js";
import { accountsView } from "./accounts.js";
import { folderView } from "./folder.js";
import { blobView } from "./blob.js";
import { deletedView } from "./deleted.js";
import { openUploadsView } from "./openuploads.js";
import { sessionsView } from "./sessions.js";
import { channelsView } from "./channels.js";
import { statusView } from "./status.js";
import { adminView } from "./admin.js";
import { acceptDrops } from "./drops.js";
import { offerInterrupted } from "./interrupted.js";
import { startTray } from "./tray.js";
import { queue } from "./uploadqueue.js";
import { stored } from "./stored.js";
import { releaseAll } from "./claims.js";
import { enterKey, keyButton } from "./key.js";
import { showKeys } from "./keys.js";
import * as api from "./api.js";

route("", accountsView);
route("blobs", folderView);
route("blob", blobView);
route("deleted", deletedView);
route("uploads", openUploadsView);
route("sessions", sessionsView);
route("channels", channelsView);
route("status", statusView);
route("admin", adminView);

const sectionOf = { blobs: "", blob: "", deleted: "", uploads: "" };
beforeView((first) => navigation(`./#/${sectionOf[first] ?? first}`));

startShell();
startTray();
queue.addEventListener("stored", ({ detail: upload }) => stored(upload.account, upload.name));
addEventListener("beforeunload", (event) => queue.live && event.preventDefault());
addEventListener("pagehide", releaseAll);
acceptDrops();
addEventListener("keydown", (event) => {
  if (event.key === "?" && !event.target.closest("input, textarea, select, dialog")) void showKeys();
});
void offerInterrupted();
void start();
api.info().then((service) => {
  if (service.profile !== "hosted") return;
  document.getElementById("tools").prepend(keyButton(show));
  void enterKey(show);
}, () => {}); // the view shows the error
