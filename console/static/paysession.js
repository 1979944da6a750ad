// The session that pays for the console's reads. It is in memory only.

import { h } from "./dom.js";
import * as api from "./api.js";

/**
 * Returns a form for the id of a session.
 * @param {() => void} [used] called when one was entered
 */
export function payWith(used = () => {}) {
  const field = /** @type {HTMLInputElement} */ (h("input", { id: "pay", ...api.token, autocomplete: "off", spellcheck: "false", class: "long" }));
  const said = h("span", { role: "status" });
  return h("form", {
    class: "card inline ask", onsubmit: (event) => {
      event.preventDefault();
      const id = field.value.trim();
      api.setSession(id);
      said.textContent = id ? "Previews and downloads use this session." : "No session is used.";
      if (id) used();
    },
  }, h("label", { for: "pay" }, "Session that pays for previews"), field, h("button", { class: "button", type: "submit" }, "Use"), said);
}
