// The view of the service's figures: storage, garbage, requests of the last hour, and limits.

import { fill, h } from "./dom.js";
import { bytes, count, duration } from "./text.js";
import { errorBox, showError } from "./notice.js";
import { link, show } from "./router.js";
import { every } from "./live.js";
import { serviceOf } from "./sessions.js";
import * as api from "./api.js";

/** @type {import("./router.js").View} */
export async function statusView(main, _parts, signal) {
  document.title = "Status · sluice";
  const service = await serviceOf(main, signal);
  if (!service) return;
  const tiles = h("div", { class: "tiles" });
  // They have their size before they are drawn.
  const charts = h("section", { class: "charts", "aria-label": "The last hour" }, Array.from({ length: 4 }, () =>
    h("figure", { class: "card chart" }, h("figcaption", null, "\u00a0"), h("div", { class: "plot" }), h("p", { class: "legend" }))));
  const place = h("div", { class: "stack" }, tiles, charts);
  main.append(h("div", { class: "head" }, h("div", null, h("h1", null, "Status"), h("p", { class: "sub" }, `${service.profile === "local" ? "Local instance" : "Hosted network"}, version ${service.version}, reads are ${service.reads}`))));
  const faults = h("div", null), unready = h("div", null), damage = h("div", null);
  // The last of the page, so that nothing moves when they appear or end.
  const notices = h("div", { class: "standing" }, unready, damage);
  const below = h("div", { class: "stack" }, limits(service), faults);
  if (service.profile === "local") void showFaults(faults, signal);
  // The first figures come with everything, so that nothing moves.
  const appear = () => place.isConnected || signal.aborted || main.append(place, below, notices);
  let drawn, reason, damaged;
  await every(5000, signal, async () => {
    let figures;
    try {
      figures = await api.json("v1/figures", {}, { signal });
    } catch (error) {
      if (signal.aborted) return;
      // Above figures that were drawn, so that nothing moves.
      fill(tiles, ...tiles.querySelectorAll(".tile"), error.status === 401 || error.status === 403
        ? h("p", { class: "empty" }, "A key with the scope admin for all accounts sees the figures of the network.")
        : errorBox(error, show));
      charts.hidden ||= !drawn;
      appear();
      return;
    }
    if (figures.notReady !== reason) { // a text that is drawn again is read out again
      reason = figures.notReady;
      fill(unready, ...unreadyOf(reason));
    }
    const found = JSON.stringify(figures.damaged);
    if (found !== damaged) {
      damaged = found;
      fill(damage, ...damageOf(figures.damaged));
    }
    fill(tiles, tilesOf(figures));
    appear();
    try {
      drawn ??= (await import("./charts.js")).draw(charts, signal);
      drawn(figures.history);
    } catch (error) {
      showError(charts, error, signal);
    }
  });
}

/** Returns the notice why nothing can be stored; nothing if there is no reason. */
function unreadyOf(reason) {
  if (!reason) return [];
  return [h("section", { class: "card warn", role: "alert", "aria-labelledby": "unready" }, h("h2", { id: "unready" }, "Not ready"),
    h("p", null, "Nothing can be stored, sold or used now. The server's reason and remedy:"),
    ...reason.split("\n").map((line) => h("p", null, line)))];
}

/** Returns the notice that stored bytes are damaged; nothing if none are. */
function damageOf(d) {
  if (!d) return [];
  const amount = `${count(d.contents)} ${d.contents === 1 ? "blob" : "blobs"}, in ${count(d.extents)} ${d.extents === 1 ? "extent" : "extents"} with ${bytes(d.bytes)}`;
  return [h("section", { class: "card warn", role: "alert", "aria-labelledby": "damaged" }, h("h2", { id: "damaged" }, "Damaged blobs"),
    h("p", null, `Stored bytes are damaged or missing: ${amount}, the first since ${new Date(d.since).toLocaleString()}. Reads that need them fail, and all other reads work.`),
    h("p", null, "The page ", h("a", { href: link("admin", "damaged") }, "Damaged"), " of the administration names them, as does the command ", h("code", null, "sluice check --recorded"), "."))];
}

function tilesOf(f) {
  const last = f.history.slice(-6), sum = (of) => last.reduce((total, i) => total + of(i), 0);
  const seconds = Math.max(1, sum((i) => i.seconds));
  const tiles = [
    ["Stored", bytes(f.storage.bytes), `${count(f.storage.blobs)} ${f.storage.blobs === 1 ? "blob" : "blobs"}`],
    ["Garbage waiting", bytes(f.garbage.bytes), f.garbage.contents ? `${count(f.garbage.contents)} deleted, the oldest due for ${duration(f.garbage.oldestSeconds)}` : "nothing is due"],
    ["Requests", `${(sum((i) => i.requests) / seconds).toFixed(1)}/s`, "in the last minute"],
    ["Errors", count(sum((i) => i.clientErrors + i.serverErrors)), `in the last minute, ${count(sum((i) => i.serverErrors))} by the server`],
    ["Sessions", count(f.sessions.live), `${count(f.sessions.expired)} expired`],
    ["Channels", count(f.channels.open), `${count(f.channels.closed)} closed, ${count(f.channels.expired)} expired`],
  ];
  return tiles.map(([title, value, note]) => h("div", { class: "tile" }, h("span", { class: "tile-title" }, title), h("span", { class: "tile-value" }, value), h("span", { class: "tile-note" }, note)));
}

const titles = {
  maxJsonBody: "Max JSON body", maxMetadataBytes: "Max metadata", maxHeaderBytes: "Max headers", uploadIdleSeconds: "Idle time of an upload",
  putSeconds: "Time for a PUT", minBytesPerSecond: "Min bytes per second", sessionTtlSeconds: "Lifetime of a session", channelTtlSeconds: "Lifetime of a channel",
  sessionChunksets: "Chunksets of a session", expiredGoneSeconds: "410 after expiry for",
  requestsPerSecond: "Requests per second", bytesInPerSecond: "Bytes in per second", bytesOutPerSecond: "Bytes out per second", concurrentRequests: "Concurrent requests",
  storedBytes: "Stored bytes", occupiedBytes: "Occupied bytes, with deleted ones", storedObjects: "Blobs and parts", openUploads: "Open uploads", channels: "Channels ever opened",
};
/** Returns the title of a limit. A limit that has none here is shown by the words of its name. */
export const titleOf = (name) => titles[name] ?? name.replace(/Seconds$/, "").replace(/([A-Z])/g, (c) => " " + c.toLowerCase()).replace(/^./, (c) => c.toUpperCase());
/** Returns the limits' names in the order of their titles. */
export const ordered = (limits) => Object.keys(limits).sort((a, b) => Object.keys(titles).indexOf(a) - Object.keys(titles).indexOf(b));
const isBytes = /bytes|size|body/i;

function limits(service) {
  const value = (name, n) => (/Seconds$/.test(name) && !/PerSecond/.test(name) ? duration(n) : isBytes.test(name) && name !== "maxPageSize" ? bytes(n) : count(n));
  const list = (entries) => h("dl", { class: "pairs" }, entries.map(([name, n]) => h("div", null, h("dt", null, titleOf(name)), h("dd", null, value(name, n)))));
  const rates = (of) => (Object.keys(of).length === 0 ? h("p", { class: "note" }, "None.") : list(Object.entries(of)));
  return h("section", { class: "card", "aria-labelledby": "limits" }, h("h2", { id: "limits" }, "Limits in force"),
    list(Object.entries(service.limits)),
    h("h3", null, "Of a caller with a key"), rates(service.rates.key), h("h3", null, "Of an address without a key"), rates(service.rates.address));
}

/** Shows the faults that are provoked, where the service can. */
async function showFaults(place, signal) {
  let found;
  try {
    found = await api.json("v1/local/faults", {}, { signal });
  } catch {
    return; // this service has none
  }
  if (found.faults.length === 0 || signal.aborted) return;
  fill(place, h("section", { class: "card warn", "aria-labelledby": "faults" }, h("h2", { id: "faults" }, "Faults on demand"),
    h("p", null, "Responses are altered on purpose until the server is started again:"),
    h("ul", null, found.faults.map((r) => h("li", null, h("code", null, r.rule), ` ${count(r.injected)} of ${count(r.requests)} requests`)))));
}
