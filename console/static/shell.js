// The frame of all pages: the navigation, the skip link and the theme. Its elements are in the page
// itself, so that they are painted before any script has come.

import { button } from "./dom.js";

/**
 * Marks a link of the navigation as the current one.
 * @param {string} href as in the page
 */
export function navigation(href) {
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.getAttribute("href") === href) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Makes the skip link and the button of the theme work. */
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
}
