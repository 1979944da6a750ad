// The views of channels, and of the ledger of one.

import { button, cell, fill, h } from "./dom.js";
import { count, time, visible } from "./text.js";
import { copy, errorBox, showError } from "./notice.js";
import { link } from "./router.js";
import { every } from "./live.js";
import { lookUp, serviceOf } from "./sessions.js";
import * as api from "./api.js";

/** @type {import("./router.js").View} */
export async function channelsView(main, [id = ""], signal) {
  document.title = "Channels · sluice";
  const service = await serviceOf(main, signal);
  if (!service) return;
  if (id && service.profile === "local") return ledgerView(main, id, signal);
  const total = h("p", { class: "sub", role: "status" });
  main.append(h("div", { class: "head" }, h("div", null, h("h1", null, "Channels"), total)));
  if (service.profile === "hosted") {
    main.append(lookUp("Channel id", (typed) => api.json(`v1/sessions/micropaymentchannels/${encodeURIComponent(typed)}`), (c) => card(c)));
    return;
  }
  const place = h("div", null);
  main.append(place);
  await every(2000, signal, async () => {
    try {
      const page = await api.json("v1/channels", { limit: 1000 }, { signal });
      const channels = page.channels.sort((a, b) => b.created.localeCompare(a.created));
      total.textContent = channels.length === 0 ? "" : `${count(channels.filter((c) => c.state === "open").length)} open of ${count(channels.length)}${page.next ? " or more" : ""}`;
      if (place.contains(document.activeElement)) update(place, channels);
      else fill(place, channels.length === 0 ? empty(service) : table(channels));
    } catch (error) {
      showError(place, error, signal);
    }
  });
}

const empty = (service) => h("div", { class: "empty" }, h("h2", null, "There is no channel yet"), h("p", null, "A channel is the deposit of a payer, from which micropayments are made."),
  service.reads === "paid"
    ? [h("p", null, "These commands make an account, open a channel with play money, and buy a session for ten chunksets:"), h("pre", null, `sluice account new\nsluice pay --url ${api.base.href} --faucet 1000 --max-price 1 --max-spend 1000 --chunksets 10`)]
    : [h("p", null, "Reads of this instance are not sold. To start an instance that sells reads for play money, run:"), h("pre", null, "sluice serve --reads paid")]);

function table(channels) {
  const titles = ["Channel", "Sender", "State", "Deposit", "Accepted", "Settled", "Expires"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Channels" }, h("table", { class: "stacked" },
    h("thead", null, h("tr", null, titles.map((title, i) => h("th", { scope: "col", class: i > 2 && i < 6 ? "number" : null }, title)))),
    h("tbody", null, channels.map((c) => h("tr", { dataset: { id: c.channelId } },
      cell("Channel", h("span", { class: "id" }, h("a", { href: link("channels", c.channelId) }, h("code", null, c.channelId))), "whole"),
      cell("Sender", party(c.sender), "double"), ...changing(c).map(([title, value, name]) => cell(title, value, name)), cell("Expires", time(c.expires), "whole"))))));
}

const changing = (c) => [["State", badge(c.state), null], ["Deposit", count(c.deposit), "number"], ["Accepted", count(c.accepted), "number"], ["Settled", count(c.settled), "number"]];

const badge = (state) => h("span", { class: `badge ${state}` }, state);

const party = (address) => (address ? h("code", { title: address }, address.length > 20 ? `${address.slice(0, 10)}…${address.slice(-6)}` : visible(address)) : h("span", { class: "sub" }, "none yet"));

function update(place, channels) {
  for (const c of channels) {
    const cells = place.querySelector(`[data-id="${CSS.escape(c.channelId)}"]`)?.children;
    if (cells) changing(c).forEach(([, value], i) => fill(cells[2 + i], value));
  }
}

function facts(c) {
  const rows = [["State", badge(c.state)], ["Sender", c.sender ? h("code", null, c.sender) : "none yet"], ["Receiver", h("code", null, c.receiver)], ["Asset", h("code", null, c.asset)],
    ["Number", count(c.paymentChannelId)], ["Sequence number", count(c.sequenceNumber)], ["Created", time(c.created)], ["Expires", time(c.expires)]];
  if (c.refund !== undefined) rows.push(["Refund", count(c.refund)]);
  return h("dl", null, rows.map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value))));
}

const sums = (c) => h("div", { class: "tiles" }, [["Deposit", c.deposit], ["Accepted", c.accepted], ["Settled", c.settled], ["Not settled", c.unsettled], ["Credit", c.credit]]
  .map(([title, value]) => h("div", { class: "tile" }, h("span", { class: "tile-title" }, title), h("span", { class: "tile-value" }, count(value)))));

const card = (c) => h("div", { class: "stack" }, sums(c), h("div", { class: "card" }, h("h2", null, "Channel"), facts(c)));

async function ledgerView(main, id, signal) {
  document.title = "Ledger of a channel · sluice";
  const state = h("div", { class: "stack" }), sales = h("tbody", null);
  const more = button(null, "Older sales", () => void older(), {});
  const older = async () => {
    try {
      const page = await api.json(path, { limit: 100, after: next }, { signal });
      sales.append(...page.sales.map(saleRow));
      next = page.next ?? "";
      more.hidden = !next;
    } catch (error) {
      more.after(errorBox(error));
    }
  };
  const path = `v1/channels/${encodeURIComponent(id)}/ledger`;
  let next = "", first = "";
  main.append(h("div", { class: "head" }, h("div", null, h("nav", { "aria-label": "Path" }, h("ol", { class: "crumbs" },
    h("li", null, h("a", { href: link("channels") }, "Channels")), h("li", null, h("h1", null, "Ledger")))), h("p", { class: "sub id" }, h("code", null, id), button("copy", "Copy id", () => void copy(id, "Channel id"), { iconOnly: true })))), state);
  const none = h("p", { class: "empty" }, "Nothing was sold over this channel.");
  const list = h("section", { class: "card", "aria-labelledby": "sales" }, h("h2", { id: "sales" }, "Sales"), none,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of sales" }, h("table", { class: "stacked" }, h("thead", null, h("tr", null,
      ["Time", "Payment", "For", "Chunksets", "Price", "Amount"].map((title, i) => h("th", { scope: "col", class: i > 2 ? "number" : null }, title)))), sales)), more);
  list.hidden = true; // until it has its place
  main.append(list);
  await every(2000, signal, async () => {
    let ledger;
    try {
      ledger = await api.json(path, { limit: 100 }, { signal });
    } catch (error) {
      list.hidden = true;
      showError(state, error, signal);
      return;
    }
    list.hidden = false;
    fill(state, sums(ledger.channel), h("div", { class: "columns" },
      h("div", { class: "card" }, h("h2", null, "Channel"), facts(ledger.channel)),
      h("div", { class: "card" }, h("h2", null, "Deposits and settlements"), h("dl", null, [
        ["Deposited in all", count(ledger.channel.deposit)], ["Sold earlier than the list shows", count(ledger.foldedAmount)],
        ...ledger.settlements.map((s) => [s.state === "pending" ? "Pending settlement" : "Last settlement",
          h("span", null, `${count(s.amount)} in all, up to payment ${s.sequenceNumber}, ${s.state === "pending" ? "to be collected before " : ""}`, time(s.time))]),
      ].map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value)))))));
    const newest = ledger.sales[0] ? ledger.sales[0].time + ledger.sales[0].chunksets : "";
    if (newest === first && first) return; // nothing was sold since
    first = newest;
    fill(sales, ledger.sales.map(saleRow));
    next = ledger.next ?? "";
    more.hidden = !next;
    none.hidden = ledger.sales.length > 0;
    none.nextSibling.hidden = ledger.sales.length === 0;
  });
}

const saleRow = (s) => h("tr", null, cell("Time", time(s.time), "double"), cell("Payment", s.sequenceNumber ?? "return"),
  cell("For", s.sessionId ? h("code", null, s.sessionId) : s.chunksets < 0 ? "returned to the credit" : "a read", "whole"),
  cell("Chunksets", count(s.chunksets), "number"), cell("Price", count(s.price), "number"), cell("Amount", count(BigInt(s.chunksets) * BigInt(s.price)), "number"));
