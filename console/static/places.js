// The state of each entry in the tab's history beyond its address, such as a filter, a row and a
// selection. It is kept in the tab: Back and a reload return to it.

const storageName = "sluice-places";
/** Most entries of the history that are kept. */
const mostPlaces = 50;

/** @type {Map<string, any>} */
let places;

/** Returns the state that was kept before a reload. */
function read() {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(storageName) ?? "[]"));
  } catch {
    return new Map(); // the browser keeps nothing for this page
  }
}

function write() {
  try {
    sessionStorage.setItem(storageName, JSON.stringify([...places].slice(-mostPlaces)));
  } catch {
    // It has no room for it, so a reload begins at the start of the list.
  }
}

/**
 * Returns the state of the history's present entry, and a function that keeps a new state
 * when its view ends.
 * @param {AbortSignal} signal ends the view
 * @returns {{before: any, keep: (describe: () => any) => void}}
 */
export function placeOf(signal) {
  places ??= read();
  const id = history.state?.place ?? `${Date.now()}-${Math.random()}`;
  if (!history.state?.place) history.replaceState({ place: id }, "");
  const before = places.get(id);
  return {
    before,
    keep: (describe) => {
      const keepNow = () => {
        places.delete(id); // the latest are the last
        places.set(id, describe());
      };
      signal.addEventListener("abort", keepNow);
      addEventListener("pagehide", () => {
        keepNow();
        write();
      }, { signal });
    },
  };
}
