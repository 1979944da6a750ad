// Files and folders that the user drops or chooses.

/** @typedef {{file: File, path: string, handle?: FileSystemFileHandle}} Found */

/**
 * Returns the files of a drop, those in folders with their paths. It must be called before the event
 * has ended.
 * @param {DataTransfer} transfer
 * @returns {Promise<Found[]>}
 */
export async function dropped(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  // All are asked for now: the items are gone when the event has ended.
  const asked = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile(), handle: item.getAsFileSystemHandle?.().catch(() => null) }));
  const found = [];
  for (const { entry, file, handle } of asked) {
    const known = await handle;
    if (known?.kind === "file") found.push({ file: await known.getFile(), path: known.name, handle: known });
    else if (known?.kind === "directory") await walkHandle(known, known.name + "/", found);
    else if (entry?.isDirectory) await walkEntry(entry, entry.name + "/", found);
    else if (file) found.push({ file, path: file.name });
  }
  return found;
}

async function walkHandle(folder, path, found) {
  for await (const child of folder.values()) {
    if (child.kind === "directory") await walkHandle(child, `${path}${child.name}/`, found);
    else found.push({ file: await child.getFile(), path: path + child.name, handle: child });
  }
}

async function walkEntry(folder, path, found) {
  const reader = folder.createReader();
  for (; ;) {
    // A reader returns some of the entries each time, and none at the end.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const child of some) {
      if (child.isDirectory) await walkEntry(child, `${path}${child.name}/`, found);
      else found.push({ file: await new Promise((resolve, reject) => child.file(resolve, reject)), path: path + child.name });
    }
  }
}

/**
 * Returns the files of an input. Those of a folder have their paths.
 * @param {HTMLInputElement} input
 * @returns {Found[]}
 */
export const chosen = (input) => [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
