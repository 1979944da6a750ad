// Downloading a selection or a folder as one archive, which the browser writes. Where it can save to a
// file, the bytes go there as they come; elsewhere they must fit into memory.

import { h } from "./dom.js";
import { bytes, count, some, visibleText } from "./text.js";
import { ask, errorBox, toast } from "./notice.js";
import { lastOf } from "./names.js";
import { askCounted } from "./counted.js";
import { concernsAll } from "./batch.js";
import { showOutcome, withProgress } from "./outcome.js";
import { download, downloadFetched, saveContent } from "./download.js";
import { mostFetched } from "./preview.js";
import { repeated } from "./sending.js";
import { ZipWriter } from "./zip.js";
import * as api from "./api.js";

/** Most bytes of an archive that is made in memory. */
const mostInMemory = 256 << 20;
/** Most blobs that are saved one by one: browsers ask for each, or refuse. */
const mostOneByOne = 100;
/** Blobs up to this size are fetched before their turn. */
const mostAhead = 1 << 20;
/** Blobs that are fetched at the same time. */
const ahead = 4;
/** Requests in a row that may bring no byte of a blob. */
const mostFruitless = 6;

/** @typedef {import("./batch.js").Counted} Counted */

/**
 * Asks, and downloads blobs and the contents of folders.
 * @param {string} account
 * @param {string} folder the prefix that the names in the archive omit
 * @param {import("./batch.js").Item[]} items
 */
export async function downloadItems(account, folder, items) {
  const name = `${items.length === 1 ? lastOf(items[0].name) : lastOf(folder) || account}.zip`;
  let way = "file";
  const note = h("p", null, "");
  const blobs = await askCounted({
    title: items.length === 1 ? `Download this ${items[0].kind}?` : "Download the selection?",
    account, items, label: "Download", fields: [note],
    sentence: (amount) => [`${amount} will be downloaded.`],
    counted: (all) => {
      way = wayOf(all);
      note.textContent = { file: `The browser writes them to a file ${visibleText(name)} that you choose.`, memory: `The browser makes a file ${visibleText(name)} of them.`, single: `In this browser an archive has at most ${bytes(mostInMemory)}, so they are saved one by one.`, none: "" }[way];
      return way === "none" ? `In this browser an archive has at most ${bytes(mostInMemory)}, and at most ${count(mostOneByOne)} blobs are saved one by one. Select fewer, or use the command sluice get -r.` : "";
    },
  });
  if (!blobs) return;
  try {
    if (way === "single") await oneByOne(account, blobs);
    else await archive(account, folder, blobs, name, way === "file" ? await chosenFile(name) : memory(name));
  } catch (error) {
    if (error.name !== "AbortError") await ask("The download failed", [errorBox(error)], [{ label: "Close", value: "" }]);
  }
}

/** Returns how blobs are saved in this browser. */
function wayOf(blobs) {
  if ("showSaveFilePicker" in window) return "file";
  if (blobs.reduce((sum, blob) => sum + blob.size, 0) <= mostInMemory) return "memory";
  return blobs.length <= mostOneByOne ? "single" : "none";
}

/** Lets the user choose a file, and returns where it is written. Until it is closed, the file stays as it was. */
async function chosenFile(suggestedName) {
  const file = await window.showSaveFilePicker({ suggestedName, types: [{ description: "ZIP archive", accept: { "application/zip": [".zip"] } }] });
  const stream = await file.createWritable();
  return {
    write: (position, data) => stream.write({ type: "write", position, data }),
    close: async (size) => {
      await stream.truncate(size);
      await stream.close();
    },
    abort: () => stream.abort(),
  };
}

/** Returns a place in memory for an archive that is saved when it is closed. */
function memory(name) {
  /** @type {Map<number, Uint8Array>} */
  const pieces = new Map();
  return {
    write: async (position, data) => void pieces.set(position, data),
    close: async (size) => {
      const content = [];
      // This skips pieces of files that failed: each piece begins where the one before ends.
      for (let at = 0; at < size; at += content.at(-1).length) content.push(pieces.get(at));
      saveContent(new Blob(content, { type: "application/zip" }), name);
    },
    abort: async () => pieces.clear(),
  };
}

async function archive(account, folder, blobs, name, place) {
  const zip = new ZipWriter(place);
  let outcome;
  try {
    outcome = await withProgress(`Downloading ${some(blobs.length)}`, blobs, (signal, progress) => fill(zip, account, folder, blobs, signal, progress));
    await zip.close();
  } catch (error) {
    await place.abort();
    throw error;
  }
  if (outcome.failed.length > 0) await showOutcome(outcome, blobs.length, "downloaded", false);
  else toast(`${visibleText(name)} was saved`);
}

/**
 * Writes blobs into an archive. One that cannot be read is left out; an error that concerns all is
 * thrown.
 */
async function fill(zip, account, folder, blobs, signal, progress) {
  /** @type {import("./batch.js").Outcome} */
  const outcome = { done: [], skipped: [], failed: [], left: [] };
  /** @type {Map<Counted, Promise<{size: number, modified: Date|undefined, bytes: Iterable<Uint8Array>}>>} */
  const begun = new Map();
  let size = 0;
  for (const [i, blob] of blobs.entries()) {
    for (const next of blobs.slice(i, i + ahead)) {
      if (begun.has(next) || next.size > mostAhead) continue;
      const whole = fetchWhole(account, next, signal);
      whole.catch(() => {}); // it is thrown when its turn has come
      begun.set(next, whole);
    }
    try {
      const path = pathOf(blob.name.slice(folder.length));
      const read = await (begun.get(blob) ?? open(account, blob, signal));
      await zip.add(path, read.size, read.modified, read.bytes);
      outcome.done.push(blob);
    } catch (error) {
      if (signal.aborted || !(error instanceof api.APIError) || error.status === 402 || concernsAll(error)) throw error;
      outcome.failed.push({ blob, error });
    }
    begun.delete(blob);
    progress(i + 1, (size += blob.size));
  }
  return outcome;
}

/** Returns the path of a file in an archive. Not every name of a blob is one. */
function pathOf(name) {
  if (!name.split("/").includes("")) return name;
  throw new api.APIError({ status: 0, detail: "Its name has an empty part, so it cannot be the path of a file." });
}

async function fetchWhole(account, blob, signal) {
  const read = await open(account, blob, signal), pieces = [];
  for await (const piece of read.bytes) pieces.push(piece);
  return { ...read, bytes: pieces };
}

/** Begins to read a blob. */
async function open(account, blob, signal) {
  const url = api.blobURL(account, blob.name);
  const response = await repeated(() => api.send(url, { headers: api.readHeaders(), signal }), signal);
  const stored = Date.parse(response.headers.get("Last-Modified") ?? "");
  return { size: Number(response.headers.get("Content-Length")), modified: Number.isNaN(stored) ? undefined : new Date(stored), bytes: pieces(url, response, signal) };
}

/** Returns the bytes of a blob. If the connection is lost, it goes on where it was, with the same version. */
async function* pieces(url, first, signal) {
  const size = Number(first.headers.get("Content-Length")), etag = first.headers.get("ETag");
  let reader = first.body.getReader(), fruitless = 0;
  try {
    for (let at = 0; at < size;) {
      const before = at;
      try {
        for (let read = await reader.read(); !read.done; read = await reader.read()) {
          at += read.value.length;
          yield read.value;
        }
      } catch (error) {
        if (signal.aborted) throw error;
      }
      if (at === size) return;
      fruitless = at > before ? 0 : fruitless + 1;
      if (!etag || fruitless === mostFruitless) throw new api.APIError({ status: 0, detail: `The connection was lost after ${bytes(at)} of ${bytes(size)}.` });
      const headers = api.readHeaders({ Range: `bytes=${at}-`, "If-Match": etag });
      reader = (await repeated(() => api.send(url, { headers, signal }), signal)).body.getReader();
    }
  } finally {
    reader.cancel().catch(() => {}); // nobody reads the rest, whether or not the connection is lost
  }
}

/** Saves blobs one after another, each in the way of a single one. */
async function oneByOne(account, blobs) {
  const { reads } = await api.info();
  const outcome = await withProgress(`Downloading ${some(blobs.length)}`, blobs, async (signal, progress) => {
    /** @type {import("./batch.js").Outcome} */
    const all = { done: [], skipped: [], failed: [], left: [] };
    let size = 0;
    for (const [i, blob] of blobs.entries()) {
      if (signal.aborted) {
        all.left = blobs.slice(i);
        break;
      }
      try {
        const shown = { ...blob, account, url: api.blobURL(account, blob.name), reads, contentType: "", hosted: false };
        // The next one begins when this one has come: browsers drop downloads that begin together.
        await (blob.size <= mostFetched ? downloadFetched(shown, signal) : download(shown));
        all.done.push(blob);
      } catch (error) {
        if (!signal.aborted) all.failed.push({ blob, error });
        else all.left.push(blob);
      }
      progress(i + 1, (size += blob.size));
    }
    return all;
  });
  if (outcome.done.length < blobs.length) await showOutcome(outcome, blobs.length, "downloaded", false);
  else toast(`${some(blobs.length)} were saved`);
}
