// Messages: dialogs that ask, short notices, and errors with the sentence of the server.

import { button, fill, h } from "./dom.js";
import { APIError } from "./api.js";

/**
 * Shows a dialog and returns what was chosen, or "" if it was closed. The first field, or else the
 * first button, has the focus.
 * @param {string} title
 * @param {(Node|string)[]} body
 * @param {{label: string, value: string, class?: string}[]} choices the last one is that of Enter
 * @returns {Promise<string>}
 */
export function ask(title, body, choices) {
  return new Promise((resolve) => {
    const buttons = choices.map((c, i) => h("button", {
      class: `button ${c.class ?? ""}`, value: c.value, type: i === choices.length - 1 ? "submit" : "button",
      onclick: (event) => {
        if (event.currentTarget.type === "button") dialog.close(c.value);
      },
    }, c.label));
    const form = h("form", {
      onsubmit: (event) => {
        event.preventDefault();
        dialog.close(choices[choices.length - 1].value);
      },
    }, h("h2", { id: "dialog-title" }, title), ...body, h("div", { class: "actions" }, ...buttons));
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "dialog-title" }, form));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
    /** @type {HTMLElement|null} */ (form.querySelector("input, select, textarea"))?.focus();
  });
}

/**
 * Asks whether to do something that cannot be undone.
 * @param {string} title
 * @param {(Node|string)[]} body
 * @param {string} label of the button that does it
 */
export const confirm = async (title, body, label) =>
  (await ask(title, body, [{ label: "Cancel", value: "" }, { label, value: "yes", class: "danger" }])) === "yes";

/**
 * Shows a short notice for a few seconds.
 * @param {string|Node} message
 */
export function toast(message) {
  const shown = h("div", { class: "toast" }, message);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), 5000);
}

/**
 * Returns an element that describes an error.
 * @param {unknown} error
 * @param {() => void} [retry]
 */
export function errorBox(error, retry) {
  const known = error instanceof APIError;
  const facts = known ? [error.status ? `Status ${error.status}` : "", error.code, error.requestId && `request ${error.requestId}`].filter(Boolean) : [];
  return h("div", { class: "error", role: "alert" },
    h("p", null, known ? error.message : `The console failed: ${error}`),
    facts.length > 0 && h("p", { class: "facts" }, facts.join(" · ")),
    retry && button(null, "Try again", retry));
}

/**
 * Shows an error in an element, unless the view has ended.
 * @param {HTMLElement} element
 * @param {unknown} error
 * @param {AbortSignal} signal
 * @param {() => void} [retry]
 */
export function showError(element, error, signal, retry) {
  if (!signal.aborted) fill(element, errorBox(error, retry));
}

/**
 * Copies a text, or shows it where the browser does not allow that.
 * @param {string} text
 * @param {string} what
 */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { readonly: true, rows: 4, "aria-label": what }));
    field.value = text;
    const answer = ask(what, [field], [{ label: "Close", value: "" }]);
    field.select();
    await answer;
  }
}
