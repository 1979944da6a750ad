// Requests to the server that served this page. The key is in memory only: a reload forgets it.

/**
 * @typedef {{name: string, size: number, etag?: string, contentType: string, lastModified: string, expires?: string}} Blob
 * @typedef {{uploadId: string, account: string, name: string, partSize: number, state: string, bytes: number, created: string, expires?: string, etag?: string}} Upload
 * @typedef {{sessionId: string, userIdentity?: string, chunksetsLeft: number, chunksetsTotal: number, created: string, expires: string}} Session
 */

/** Base URL of the interface, which ends in a slash: the console is one level below it. */
export const base = new URL("../", document.baseURI);

/** An error response, or no response at all (status 0). */
export class APIError extends Error {
  /** @param {{status: number, code?: string, detail: string, requestId?: string, retryAfter?: number}} problem */
  constructor(problem) {
    super(problem.detail);
    this.name = "APIError";
    this.status = problem.status;
    this.code = problem.code ?? "";
    this.requestId = problem.requestId ?? "";
    this.retryAfter = problem.retryAfter ?? 0; // in seconds; 0: not stated
    this.attempt = 1; // how often the request was sent
  }

  /** Reports whether the same request may have another answer later: a wrong request stays wrong. */
  get passes() {
    return ![400, 405, 410, 413, 414, 415, 416, 422, 431, 451, 501].includes(this.status);
  }
}

/** Attributes of a field whose value is sent in a header: requests with other characters would fail. */
export const token = { pattern: "\\s*[!-~]*\\s*", title: "Characters of ASCII without spaces" };

let key = "";
let session = "";
const keyListeners = new Set();

/** Reports whether a key was entered. */
export const hasKey = () => key !== "";

/** Returns the id of the key, which is no secret, or "". */
export const keyId = () => /^sluice_([a-z2-7]{16})_/.exec(key)?.[1] ?? "";

/**
 * Sets the key that every further request has; "" for none.
 * @param {string} value
 */
export function setKey(value) {
  key = value;
  for (const listener of keyListeners) listener();
}

/**
 * Sets the session that pays for reads; "" for none.
 * @param {string} id
 */
export function setSession(id) {
  session = id;
}

/** @param {() => void} listener */
export const onKeyChange = (listener) => keyListeners.add(listener);

/**
 * Returns the headers of a request with the key.
 * @param {Object<string, string>} [more]
 */
export const headers = (more = {}) => (key ? { ...more, Authorization: `Bearer ${key}` } : { ...more });

/**
 * Returns the headers of a read, with its payment.
 * @param {Object<string, string>} [more]
 */
export const readHeaders = (more = {}) => headers(session ? { ...more, "Session-Id": session } : more);

/**
 * Returns an absolute URL of an operation.
 * @param {string} path relative to the base, with escaped segments
 * @param {Object<string, string|number|undefined>} [query]
 */
export function urlOf(path, query = {}) {
  // Not by new URL(path, base), which would resolve the segments "." and "..".
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return base.href + path + (text ? `?${text}` : "");
}

/**
 * Returns the URL of a blob. Browsers resolve the segments "." and "..", so a request for a name that
 * has one would be for another blob.
 * @param {string} account
 * @param {string} name
 * @throws {APIError} if the name is unreachable
 */
export function blobURL(account, name) {
  if (unreachable(name)) throw new APIError({ status: 0, detail: "Browsers change the address of a name with a segment “.” or “..”, so only another client can store or delete this blob." });
  return urlOf(`v1/blobs/${encodeURIComponent(account)}/${escapeName(name)}`);
}

/** @param {string} name */
export const escapeName = (name) => name.split("/").map(encodeURIComponent).join("/");

/**
 * Reports whether a browser changes the URL of a blob of this name.
 * @param {string} name
 */
export const unreachable = (name) => name.split("/").some((segment) => segment === "." || segment === "..");

/**
 * Sends a request and returns the response.
 * @param {string} url
 * @param {RequestInit} [options]
 * @returns {Promise<Response>}
 * @throws {APIError}
 */
export async function send(url, options = {}) {
  let response;
  try {
    response = await fetch(url, { cache: "no-store", credentials: "omit", ...options, headers: options.headers ?? headers() });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new APIError({ status: 0, code: "unreachable", detail: "The server cannot be reached." });
  }
  if (!response.ok && response.status !== 304) throw await problemOf(response);
  return response;
}

/** @param {Response} response */
async function problemOf(response) {
  return problem(response.status, await response.text().catch(() => ""), (name) => response.headers.get(name));
}

/**
 * Returns the error that a response describes.
 * @param {number} status
 * @param {string} text the body
 * @param {(name: string) => string|null} header
 */
export function problem(status, text, header) {
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    // A proxy may respond with anything.
  }
  return new APIError({
    status, code: body.code, detail: body.detail ?? `The server responded with status ${status}.`,
    requestId: body.requestId ?? header("X-Request-Id") ?? "", retryAfter: Number(header("Retry-After") ?? 0) || 0,
  });
}

/**
 * Sends a request whose response is JSON.
 * @param {string} path
 * @param {Object<string, string|number|undefined>} [query]
 * @param {RequestInit} [options]
 */
export const json = async (path, query, options) => (await send(urlOf(path, query), options)).json();

/** @param {string} path @param {unknown} body */
export const post = (path, body, options = {}) => json(path, {}, { ...options, method: "POST", body: JSON.stringify(body ?? {}) });

/**
 * Sends a change of a thing, on the condition that it is still as it was read.
 * @param {string} path
 * @param {string} etag of the thing
 * @param {unknown} body
 */
export const patch = (path, etag, body) => json(path, {}, { method: "PATCH", headers: headers({ "If-Match": etag }), body: JSON.stringify(body) });

let known;

/**
 * Returns the description of the service, which is requested once.
 * @returns {Promise<{profile: string, reads: string, version: string, limits: Object, rates: Object, payment: Object}>}
 */
export function info() {
  known ??= json("v1/info").catch((error) => {
    known = undefined;
    throw error;
  });
  return known;
}
