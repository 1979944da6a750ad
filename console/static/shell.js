// The frame of all pages: the navigation, the skip link and the theme. Its elements are in the page
// itself, so that they are painted before any script has come.

import { button } from "./dom.js";
import { onKeyChange } from "./api.js";
import { rights } from "./rights.js";

/**
 * Marks a link of the navigation as the current one.
 * @param {string} href as in the page
 */
export function navigation(href) {
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.getAttribute("href") === href) {
      link.setAttribute("aria-current", "page");
      reveal(link);
    } else link.removeAttribute("aria-current");
  }
}

/** Scrolls the navigation to a link: a phone has no room for all. */
function reveal(link) {
  const nav = link.parentElement;
  nav.scrollLeft = Math.max(0, link.offsetLeft + link.offsetWidth - nav.offsetLeft - nav.clientWidth);
}

/** Makes the skip link and the button of the theme work, and offers the administration to who has it. */
export function startShell() {
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment is the view
    document.getElementById("main").focus();
  });
  document.getElementById("tools").append(button("theme", "Switch between light and dark", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    // The server reads the cookie: the page has the theme before any script runs.
    document.cookie = `sluice-theme=${root.dataset.theme}; Max-Age=31536000; SameSite=Lax`;
    dispatchEvent(new Event("themechange"));
  }, { iconOnly: true }));
  const offer = async () => {
    const link = document.getElementById("administration");
    link.hidden = !(await rights().catch(() => null)); // an error is shown by the view
    if (link.hasAttribute("aria-current")) reveal(link);
  };
  onKeyChange(() => void offer());
  void offer();
}
