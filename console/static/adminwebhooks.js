// The pages of webhooks: all that the administrator may see, and one of them.

import { button, h } from "./dom.js";
import { compareNames, some, time, visible } from "./text.js";
import { toast } from "./notice.js";
import { go, link } from "./router.js";
import { parseAccount } from "./names.js";
import { administers } from "./rights.js";
import { badge, doing, facts, liveList, pathTo, showList } from "./adminlist.js";
import { random } from "./keyform.js";
import { showIssued } from "./keyissued.js";
import * as api from "./api.js";

/**
 * @typedef {{at: string, seconds: number, status?: number, error?: string}} Result
 * @typedef {{id: string, label?: string, url: string, account?: string, prefix?: string, kinds?: string[], key?: string, state: string, reason?: string, created: string, after: string, last?: Result, failures?: number, failing?: string, next?: string, oldSecretUntil?: string, etag: string}} Webhook
 */

const path = "v1/admin/webhooks";
const pathOf = (id) => `${path}/${encodeURIComponent(id)}`;

/** Why a webhook is off. @type {Object<string, string>} */
const reasons = { disabled: "an administrator has turned it off", key: "its key has ended, or no longer administers these names", failed: "deliveries have failed for three days", refused: "the receiver wants no more: it has answered 410" };

/** Why a delivery has failed. @type {Object<string, string>} */
const failures = {
  address: "the address is not public, nor in the operator's --webhook-networks", name: "the host's name is not known", connection: "nobody listens there", tls: "the certificate is not valid for the host",
  timeout: "there was no answer within 15 seconds", response: "the answer was not HTTP", secret: "the secret cannot be opened: make a new one",
};

const nameOf = (webhook) => visible(webhook.label || webhook.url);
const changesOf = ({ account, prefix, kinds }) => [account ? visible(account) : "all accounts", prefix && [" / ", visible(prefix)], kinds && `: ${kinds.join(", ")}`];
/** @param {Result} result */
const answerOf = (result) => (result.error === "status" ? `answered ${result.status}` : failures[result.error] ?? result.error ?? "accepted");
const stateOf = (webhook) => h("span", { class: `badge ${webhook.state === "on" ? "open" : ""}` }, webhook.state);

/** @type {import("./admin.js").Page} */
export function webhooksPage(main, [id = ""], signal, place, may) {
  if (id) return webhookPage(main, id, signal, may);
  return showList(main, signal, place, {
    title: "Webhooks", one: "webhook", about: "URLs to which changes of blobs are delivered, in order and at least once.", path, member: "webhooks", key: (webhook) => webhook.id,
    actions: [button("key", "Create webhook", () => void create(may), { class: "primary" })],
    columns: [
      { title: "Webhook", class: "wide", compare: (a, b) => compareNames(a.label || a.url, b.label || b.url) }, { title: "Changes", class: "wide summary" },
      { title: "State", class: "state", compare: (a, b) => compareNames(a.state, b.state) }, { title: "Last attempt", class: "date", compare: (a, b) => (Date.parse(a.last?.at) || 0) - (Date.parse(b.last?.at) || 0) },
    ],
    cells: (webhook) => [h("a", { href: link("admin", "webhooks", webhook.id), tabindex: "-1" }, nameOf(webhook)), h("span", null, changesOf(webhook)), stateOf(webhook), webhook.last ? time(webhook.last.at) : "none yet"],
    open: (webhook) => go("admin", "webhooks", webhook.id),
    empty: ["There is no webhook", "Create one for a program that must learn of changes."],
  });
}

/** The fields of a webhook. @param {Partial<Webhook>} now */
function form(now, may) {
  const field = (name, title, value, more = {}) => {
    const input = /** @type {HTMLInputElement} */ (h("input", { id: `webhook-${name}`, value: value || undefined, autocomplete: "off", spellcheck: "false", ...more }));
    return { input, shown: h("div", null, h("label", { for: input.id }, title), input) };
  };
  const url = field("url", "URL", now.url, { type: "url", required: true, placeholder: "https://" });
  const account = field("account", may.everything ? "Account (empty: all)" : "Account", now.account ?? (now.id ? "" : may.key?.grants.find(administers)?.accounts?.[0]), { required: !may.everything, oninput: () => account.input.setCustomValidity(account.input.value.trim() ? parseAccount(account.input.value.trim()).wrong : "") });
  const prefix = field("prefix", "Names that begin with", now.prefix), kinds = field("kinds", "Kinds of changes (empty: all)", now.kinds?.join(", "), { placeholder: "stored, replaced, deleted" }), label = field("label", "Label", now.label);
  return {
    fields: [url, account, prefix, kinds, label].map(({ shown }) => shown),
    value: () => ({ url: url.input.value.trim(), account: account.input.value.trim(), prefix: prefix.input.value, kinds: kinds.input.value.split(",").map((kind) => kind.trim()).filter(Boolean), label: label.input.value }),
  };
}

async function create(may) {
  const fields = form({}, may);
  let sent = "", once = "";
  const issued = await doing("Create a webhook", [...fields.fields, h("p", { class: "note" }, "It gets the changes from now on. It has the rights of your key, and ends with them.")], "Create webhook", () => {
    const body = fields.value(), text = JSON.stringify(body);
    if (text !== sent) [sent, once] = [text, random()]; // the same request has the same webhook when it is tried again
    return api.post(path, body, { headers: api.headers({ "Idempotency-Key": once }) });
  }, "primary");
  if (!issued) return;
  await showIssued({ ...issued, id: "" }, "Secret");
  go("admin", "webhooks", issued.id);
}

function webhookPage(main, id, signal, may) {
  return liveList(main, signal, pathTo("webhooks", "Webhooks", h("code", null, id)), "Its receiver verifies each delivery by the secret.", pathOf(id), (/** @type {Webhook} */ w, again) => {
    const change = (body) => api.patch(pathOf(id), w.etag, body).then(async (changed) => {
      await again();
      return changed;
    });
    const act = (label, work, more = {}) => h("button", { type: "button", class: "button", "aria-label": label, onclick: () => void work(), ...more }, label);
    const direct = (body) => change(body).catch((error) => toast(error.message));
    return h("div", { class: "columns" },
      h("section", { class: "card", "aria-labelledby": "facts" }, h("h2", { id: "facts" }, nameOf(w)), facts([
        ["State", h("span", null, stateOf(w), w.reason && [" ", reasons[w.reason] ?? w.reason])], ["URL", visible(w.url)], ["Changes", h("span", null, changesOf(w))], ["Key", w.key && h("code", null, w.key)], ["Created", time(w.created)],
        ["Delivered up to", h("code", null, w.after)], ["The secret before ends", w.oldSecretUntil && time(w.oldSecretUntil)],
      ]), h("div", { class: "actions all" },
        act("Send a test", async () => {
          try {
            const result = await api.post(`${pathOf(id)}/test`);
            toast(`The test was sent: ${answerOf(result)}.`);
          } catch (error) {
            toast(error.message);
          }
        }),
        w.state === "off" ? act("Turn on", () => direct({ on: true })) : act("Turn off", () => direct({ on: false })),
        act("Edit", () => {
          const fields = form(w, may);
          return doing("Edit the webhook", [...fields.fields, h("p", { class: "note" }, "It then has the rights of your key.")], "Save", () => change(fields.value()), "primary");
        }),
        act("New secret", async () => {
          const issued = await doing("Make a new secret?", [h("p", null, "Deliveries are signed by both secrets for 24 hours. Give the new one to the receiver by then.")], "Make a new secret", () => change({ newSecret: true }), "primary");
          if (issued) await showIssued({ ...issued, id: "" }, "Secret");
        }),
        act("Delete", async () => {
          const done = await doing("Delete this webhook?", [h("p", null, nameOf(w), ": its receiver gets no more changes.")], "Delete", () => api.send(api.urlOf(pathOf(id)), { method: "DELETE", headers: api.headers() }).then(() => true));
          if (done) go("admin", "webhooks");
        }, { class: "button danger" }))),
      h("section", { class: "card", "aria-labelledby": "last" }, h("h2", { id: "last" }, "Last attempt"), w.last ? facts([
        ["At", time(w.last.at)], ["Result", answerOf(w.last)], ["Took", `${w.last.seconds.toFixed(2)} s`],
        ["Failed", w.failures && h("span", null, `${some(w.failures, "time")} since `, time(w.failing))], ["Next attempt", w.state === "failing" && w.next && time(w.next)],
      ]) : h("p", { class: "note" }, "Nothing was delivered yet.")));
  });
}
