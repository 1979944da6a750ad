// The data to continue an upload after a reload: its id and, where the browser has them, the handle
// of its file. It is kept in the browser until the upload ends. A key is never kept.

/**
 * @typedef {object} Entry
 * @property {string} uploadId
 * @property {string} base the service
 * @property {string} account
 * @property {string} name
 * @property {number} size
 * @property {number} modified when the file was changed last, in milliseconds
 * @property {number} partSize
 * @property {FileSystemFileHandle} [handle]
 * @property {string} [expires]
 * @property {import("./upload.js").Existing} [existing]
 */

/** @type {Promise<IDBDatabase>|undefined} */
let opened;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("sluice-console", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("uploads", { keyPath: "uploadId" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

/**
 * Runs one request on the store. Without a database, as in some private windows, uploads work but
 * cannot be continued: it returns undefined.
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest} request
 */
async function run(mode, request) {
  let database;
  try {
    database = await open();
  } catch {
    return undefined;
  }
  return new Promise((resolve, reject) => {
    const transaction = database.transaction("uploads", mode);
    const made = request(transaction.objectStore("uploads"));
    transaction.oncomplete = () => resolve(made.result);
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = () => reject(transaction.error);
  });
}

/** @param {Entry} entry */
export const remember = (entry) => run("readwrite", (store) => store.put(entry));

/** @param {string} uploadId */
export const forget = (uploadId) => run("readwrite", (store) => store.delete(uploadId));

/**
 * Returns the uploads to a service that were begun here and have not ended.
 * @param {string} base
 * @returns {Promise<Entry[]>}
 */
export const entries = async (base) => ((await run("readonly", (store) => store.getAll())) ?? []).filter((e) => e.base === base);
