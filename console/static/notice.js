// Messages: dialogs that ask, short notices, and errors with the sentence of the server.

import { button, fill, h } from "./dom.js";
import { APIError } from "./api.js";

/** @typedef {{label: string, value: string, class?: string, disabled?: boolean}} Choice */

/**
 * Shows a dialog that can change while it is open. The field with autofocus, or else the first one,
 * or else the first button that is not disabled, has the focus. The answer is the chosen value, or ""
 * if the dialog was closed.
 * @param {string} title
 * @param {(Node|string)[]} body
 * @param {Choice[]} choices Enter chooses the last one
 * @returns {{dialog: HTMLDialogElement, buttons: HTMLButtonElement[], answer: Promise<string>}}
 */
export function openDialog(title, body, choices) {
  const last = choices.length - 1;
  const buttons = choices.map((c, i) => /** @type {HTMLButtonElement} */ (h("button", {
    class: `button ${c.class ?? ""}`, value: c.value, type: i === last ? "submit" : "button", disabled: c.disabled,
    onclick: () => i !== last && dialog.close(c.value),
  }, c.label)));
  const form = /** @type {HTMLFormElement} */ (h("form", {
    onsubmit: (event) => {
      event.preventDefault();
      dialog.close(choices[last].value);
    },
    onkeydown: (event) => {
      // Browsers submit a form by Enter in each field but this one.
      if (event.key !== "Enter" || event.target.tagName !== "SELECT") return;
      event.preventDefault();
      buttons[last].click();
    },
  }, h("h2", { id: "dialog-title" }, title), ...body, h("div", { class: "actions" }, ...buttons)));
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "dialog-title" }, form));
  const answer = new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
  });
  document.body.append(dialog);
  dialog.showModal();
  const first = /** @type {HTMLInputElement|null} */ (form.querySelector("[autofocus]") ?? form.querySelector("input, select, textarea"));
  first?.focus();
  first?.select?.(); // typing replaces the proposal
  return { dialog, buttons, answer };
}

/**
 * Shows a dialog and returns the chosen value, or "" if it was closed.
 * @param {string} title
 * @param {(Node|string)[]} body
 * @param {Choice[]} choices Enter chooses the last one
 * @returns {Promise<string>}
 */
export const ask = (title, body, choices) => openDialog(title, body, choices).answer;

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
 * Returns an error's facts beside its sentence.
 * @param {unknown} error
 */
export const factsOf = (error) => (error instanceof APIError ? [error.status ? `Status ${error.status}` : "", error.code, error.requestId && `request ${error.requestId}`].filter(Boolean).join(" · ") : "");

/**
 * Returns the sentence of an error.
 * @param {unknown} error
 */
export const sentenceOf = (error) => (error instanceof APIError ? error.message : `The console failed: ${error}`);

/**
 * Returns an element that describes an error.
 * @param {unknown} error
 * @param {() => void} [retry] offered unless the same would fail again
 */
export function errorBox(error, retry) {
  const facts = factsOf(error);
  return h("div", { class: "error", role: "alert" },
    h("p", null, sentenceOf(error)),
    facts && h("p", { class: "facts" }, facts),
    retry && !(error instanceof APIError && !error.passes) && button(null, "Try again", retry));
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
