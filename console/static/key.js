// The key of a hosted network, which is in memory only.

import { h, icon } from "./dom.js";
import { ask } from "./notice.js";
import * as api from "./api.js";

/**
 * Asks for a key.
 * @param {() => unknown} [entered] called if the key has changed
 */
export async function enterKey(entered = () => {}) {
  const field = /** @type {HTMLInputElement} */ (h("input", { type: "password", id: "key", ...api.token, autocomplete: "off", spellcheck: "false" }));
  const choices = [{ label: "Cancel", value: "" }, { label: "Use key", value: "use", class: "primary" }];
  if (api.hasKey()) choices.splice(1, 0, { label: "Forget key", value: "forget" });
  const answer = await ask("API key", [
    h("p", null, "The key stays in the memory of this page. It is forgotten when the page is closed or loaded again."),
    h("label", { for: "key" }, "Key"), field,
  ], choices);
  if (answer === "forget") api.setKey("");
  else if (answer === "use" && field.value.trim()) api.setKey(field.value.trim());
  else return;
  entered();
}

/**
 * Returns the button that shows whether there is a key.
 * @param {() => unknown} [entered] called if the key has changed
 */
export function keyButton(entered) {
  const label = h("span", null, "");
  const update = () => (label.textContent = api.hasKey() ? "Key in use" : "Enter key");
  api.onKeyChange(update);
  update();
  return h("button", { type: "button", class: "button", onclick: () => void enterKey(entered) }, icon("key"), label);
}
