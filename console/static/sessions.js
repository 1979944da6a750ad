// The view of sessions. A local instance lists them; a hosted one shows the one whose id is typed.

import { button, cell, fill, h } from "./dom.js";
import { count, time, visible } from "./text.js";
import { copy, errorBox, showError } from "./notice.js";
import { every } from "./live.js";
import { payWith } from "./paysession.js";
import * as api from "./api.js";

/** @type {import("./router.js").View} */
export async function sessionsView(main, _parts, signal) {
  document.title = "Sessions · sluice";
  const service = await serviceOf(main, signal);
  if (!service) return;
  const total = h("p", { class: "sub", role: "status" });
  main.append(h("div", { class: "head" }, h("div", null, h("h1", null, "Sessions"), total)));
  if (service.reads === "paid") main.append(payWith());
  if (service.profile === "hosted") {
    main.append(lookUp("Session id", (id) => api.json(`v1/sessions/${encodeURIComponent(id)}`), (s) => card(s)));
    return;
  }
  const place = h("div", null);
  main.append(place);
  await every(2000, signal, async () => {
    try {
      const page = await api.json("v1/local/sessions", { limit: 200 }, { signal });
      const now = Date.now(), live = page.sessions.filter((s) => new Date(s.expires) > now);
      total.textContent = page.sessions.length === 0 ? "" : `${count(live.length)}${page.next ? " or more" : ""} live, ${count(live.reduce((sum, s) => sum + BigInt(s.chunksetsLeft), 0n))} chunksets left`;
      if (place.contains(document.activeElement)) update(place, page.sessions);
      else fill(place, page.sessions.length === 0 ? empty() : table(page.sessions), page.next && h("p", { class: "note" }, `The ${count(page.sessions.length)} sessions that expire last.`));
    } catch (error) {
      showError(place, error, signal);
    }
  });
}

const empty = () => h("div", { class: "empty" }, h("h2", null, "There is no session yet"),
  h("p", null, "A session is a count of chunksets that reads use up."), h("pre", null, `curl -X POST ${api.base.href}v1/sessions`));

function table(sessions) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sessions" }, h("table", { class: "stacked" },
    h("thead", null, h("tr", null, ["Session", "Who", "Left", "Used", "Created", "Expires"].map((title, i) => h("th", { scope: "col", class: [null, null, "number", "number", "created", null][i] }, title)))),
    h("tbody", null, sessions.map(row))));
}

/** @param {api.Session} s */
const row = (s) => h("tr", { dataset: { id: s.sessionId } },
  cell("Session", h("span", { class: "id" }, h("code", null, s.sessionId), button("copy", `Copy id ${s.sessionId}`, () => void copy(s.sessionId, "Session id"), { iconOnly: true })), "whole"),
  cell("Who", s.userIdentity ? visible(s.userIdentity) : h("span", { class: "sub" }, "—")),
  cell("Left", left(s), "number"), cell("Used", count(s.chunksetsTotal - s.chunksetsLeft), "number"),
  cell("Created", time(s.created), "created"), cell("Expires", time(s.expires), "whole"));

const left = (s) => h("span", null, `${count(s.chunksetsLeft)} of ${count(s.chunksetsTotal)} `,
  h("meter", { min: 0, max: Math.max(1, s.chunksetsTotal), value: s.chunksetsLeft, "aria-label": "Chunksets left" }));

/** Changes the counts of rows only, so that the focus stays. */
function update(place, sessions) {
  for (const s of sessions) {
    const cells = place.querySelector(`[data-id="${CSS.escape(s.sessionId)}"]`)?.children;
    if (!cells) continue;
    fill(cells[2], left(s));
    cells[3].textContent = count(s.chunksetsTotal - s.chunksetsLeft);
  }
}

const card = (s) => h("div", { class: "card" }, h("h2", null, "Session"), h("dl", null, [
  ["Chunksets left", left(s)], ["Used", count(s.chunksetsTotal - s.chunksetsLeft)], ["Who", s.userIdentity ? visible(s.userIdentity) : "—"],
  ["Created", time(s.created)], ["Expires", time(s.expires)],
].map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value)))));

/**
 * Returns a form that shows the state of an id that the user types. The id is not kept.
 * @param {string} label
 * @param {(id: string) => Promise<any>} get
 * @param {(found: any) => Node} show
 */
export function lookUp(label, get, show) {
  const field = h("input", { id: "lookup", autocomplete: "off", spellcheck: "false", required: true, class: "long" });
  const result = h("div", { class: "result", "aria-live": "polite" });
  return h("div", null, h("form", {
    class: "inline ask", onsubmit: async (event) => {
      event.preventDefault();
      try {
        fill(result, show(await get(field.value.trim())));
      } catch (error) {
        fill(result, errorBox(error));
      }
    },
  }, h("label", { for: "lookup" }, label), field, h("button", { class: "button primary", type: "submit" }, "Show")), result);
}

/** Returns the description of the service, or shows why there is none. */
export async function serviceOf(main, signal) {
  try {
    const found = await api.info();
    return signal.aborted ? undefined : found;
  } catch (error) {
    showError(main, error, signal);
    return undefined;
  }
}
