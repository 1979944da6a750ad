// What all pages have: the navigation and the theme.

import { button, fill, h } from "./dom.js";

const sections = [["", "Blobs"], ["sessions", "Sessions"], ["channels", "Channels"], ["status", "Status"]];

/**
 * Shows the navigation.
 * @param {string} current the first part of the address, or "api"
 */
export function navigation(current) {
  const item = (href, title, here) => h("a", { href, "aria-current": here ? "page" : null }, title);
  fill(document.getElementById("nav"), sections.map(([to, title]) => item(`./#/${to}`, title, to === current)), item("api", "API", current === "api"));
}

/** Adds the button that switches the theme. */
export function themeButton() {
  document.getElementById("tools").append(button("theme", "Switch between light and dark", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("sluice-theme", root.dataset.theme);
    dispatchEvent(new Event("themechange"));
  }, { iconOnly: true }));
}
