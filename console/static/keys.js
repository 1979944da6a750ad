// The keys of lists, which "?" shows.

import { h } from "./dom.js";
import { ask } from "./notice.js";

const keys = [["↑ ↓ Page Up Page Down Home End", "moves in a list, with Shift selecting"], ["Enter", "opens the row"], ["Space", "selects the row"], ["Ctrl A", "selects all that are loaded"],
  ["Esc", "clears the selection"], ["F2", "renames"], ["Delete", "deletes, after a question"], ["Ctrl Z", "undoes a deletion, for ten seconds"], ["?", "shows this list"]];

/** Shows the keys and their effects. */
export const showKeys = () => ask("Keys", [h("dl", { class: "pairs" }, keys.map(([key, what]) => h("div", null, h("dt", null, key), h("dd", null, what))))], [{ label: "Close", value: "" }]);
