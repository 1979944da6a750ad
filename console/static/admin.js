// The view of the administration: its pages, and the links to them.

import { h } from "./dom.js";
import { showError } from "./notice.js";
import { link, show } from "./router.js";
import { rights } from "./rights.js";
import { keysPage } from "./adminkeys.js";
import { groupsPage } from "./admingroups.js";
import { placesPage } from "./adminplaces.js";
import { versionsPage } from "./adminversions.js";
import { rulesPage } from "./adminrules.js";
import { webhooksPage } from "./adminwebhooks.js";
import { nodesPage, tasksPage } from "./admintasks.js";
import { actionsPage, damagedPage, uploadsPage } from "./adminlists.js";

/**
 * A page of the administration. Those with all need admin for all accounts.
 * @typedef {(main: HTMLElement, parts: string[], signal: AbortSignal, place: any, may: import("./rights.js").Rights) => Promise<void>|void} Page
 */

/** @type {{path: string, title: string, page: Page, all?: boolean}[]} */
const pages = [
  { path: "keys", title: "Keys", page: keysPage },
  { path: "groups", title: "Groups", page: groupsPage },
  { path: "places", title: "Places", page: placesPage },
  { path: "versions", title: "Versions", page: versionsPage },
  { path: "rules", title: "Rules", page: rulesPage },
  { path: "webhooks", title: "Webhooks", page: webhooksPage },
  { path: "uploads", title: "Uploads", page: uploadsPage, all: true },
  { path: "damaged", title: "Damaged", page: damagedPage, all: true },
  { path: "tasks", title: "Tasks", page: tasksPage, all: true },
  { path: "nodes", title: "Nodes", page: nodesPage, all: true },
  { path: "actions", title: "Actions", page: actionsPage },
];

/** @type {import("./router.js").View} */
export async function adminView(main, [path = "", ...rest], signal, place) {
  document.title = "Administration · sluice";
  let may;
  try {
    may = await rights();
  } catch (error) {
    showError(main, error, signal, show);
    return;
  }
  if (signal.aborted) return;
  if (!may) {
    main.append(h("div", { class: "empty" }, h("h1", null, "Administration"), h("p", null, "It needs a key with the scope admin, and a service whose administration is not turned off or at another address.")));
    return;
  }
  const offered = pages.filter((page) => may.everything || !page.all);
  const current = offered.find((page) => page.path === path) ?? offered[0];
  document.title = `${current.title} · sluice`;
  main.append(h("nav", { class: "tabs", "aria-label": "Administration" },
    offered.map((page) => h("a", { href: link("admin", page.path), "aria-current": page === current && "page" }, page.title))));
  await current.page(main, rest, signal, place, may);
}
