// Sending requests again when the server or the network fails for a while, and sending bodies with
// progress, which fetch does not have.

import { APIError, headers, problem } from "./api.js";

/** Requests at the same time. A browser has six connections to a server over HTTP/1.1. */
const mostRequests = 4;
const mostAttempts = 6;

let running = 0;
/** @type {(() => void)[]} */
const waiting = [];

/**
 * Runs a function when fewer than the greatest number of requests are sent.
 * @template T
 * @param {AbortSignal} signal
 * @param {() => Promise<T>} send
 * @returns {Promise<T>}
 */
async function limited(signal, send) {
  while (running >= mostRequests) await new Promise((resolve) => waiting.push(resolve));
  running++;
  try {
    signal.throwIfAborted();
    return await send();
  } finally {
    running--;
    waiting.shift()?.();
  }
}

/**
 * Sends a body once.
 * @param {string} method
 * @param {string} url
 * @param {Blob} body
 * @param {Object<string, string>} extra headers
 * @param {(sent: number) => void} progress
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function sendOnce(method, url, body, extra, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries(headers(extra))) request.setRequestHeader(name, value);
    const abort = () => request.abort();
    signal.addEventListener("abort", abort, { once: true });
    const end = (then) => {
      signal.removeEventListener("abort", abort);
      then();
    };
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onload = () => end(() => {
      if (request.status < 300) resolve();
      else reject(problem(request.status, request.responseText, (name) => request.getResponseHeader(name)));
    });
    request.onabort = () => end(() => reject(signal.reason));
    request.onerror = () => end(() => void failure(body).then(reject));
    request.send(body);
  });
}

/** Returns why a body was not sent: browsers do not distinguish a file that is gone from a network that is. */
async function failure(body) {
  try {
    await body.slice(0, 1).arrayBuffer();
  } catch {
    return unreadable();
  }
  return new APIError({ status: 0, code: "unreachable", detail: "The server cannot be reached." });
}

const unreadable = () => new APIError({ status: 0, code: "file_unreadable", detail: "The file cannot be read any more: it was changed or removed since it was chosen." });

/**
 * Reports whether an error means that the server is away or has no time, and so nothing about the
 * request.
 * @param {unknown} error
 */
export const outage = (error) => error instanceof APIError && (error.code === "unreachable" || [408, 429, 502, 503, 504].includes(error.status));

/**
 * Reports whether the same request may succeed later, and is safe to repeat.
 * @param {unknown} error
 */
export const passing = (error) => outage(error) || (error instanceof APIError && ((error.status === 0 && error.code !== "file_unreadable") || error.status > 504 || error.code === "outcome_unknown"));

/**
 * Sends a request, up to six times if the server cannot be reached or is overloaded. The request
 * must be one that can be repeated. An error has the number of attempts.
 * @template T
 * @param {() => Promise<T>} attempt sends it once
 * @param {AbortSignal} signal ends the pauses between attempts
 * @param {(error: APIError) => void} [failed] called after each attempt that fails
 * @returns {Promise<T>}
 */
export async function repeated(attempt, signal, failed = () => {}) {
  for (let n = 1; ; n++) {
    try {
      return await attempt();
    } catch (error) {
      failed(error);
      error.attempt = n;
      if (signal.aborted || !passing(error) || n === mostAttempts) throw error;
      await pauseAfter(error, n, signal);
    }
  }
}

/**
 * Waits until a request is sent again: as long as the server has asked, or longer after each
 * attempt, or until the browser has a network again.
 * @param {APIError} error of the attempt
 * @param {number} n the attempts so far
 * @param {AbortSignal} signal
 */
export const pauseAfter = (error, n, signal) => pause(Math.max(error.retryAfter * 1000, 250 * 2 ** Math.min(n, mostAttempts - 1) * (0.5 + Math.random() / 2)), signal);

/**
 * Sends a body, as often as repeated does.
 * @param {string} method
 * @param {string} url
 * @param {Blob} body
 * @param {Object<string, string>} extra headers
 * @param {(sent: number) => void} progress
 * @param {AbortSignal} signal
 * @param {(error: APIError) => void} failed called after each attempt that fails
 */
export const sendBody = (method, url, body, extra, progress, signal, failed) =>
  repeated(() => limited(signal, () => sendOnce(method, url, body, extra, progress, signal)), signal, failed);

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, milliseconds);
    function end() {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      removeEventListener("online", done);
    }
    function done() {
      end();
      resolve();
    }
    function stop() {
      end();
      reject(signal.reason);
    }
    signal.addEventListener("abort", stop, { once: true });
    addEventListener("online", done);
  });
}

/**
 * Returns the header by which the server verifies a body, where the browser can compute it.
 * @param {Blob} body
 * @returns {Promise<Object<string, string>>}
 */
export async function digestOf(body) {
  if (!crypto.subtle) return {}; // a page that was not loaded securely
  const content = await body.arrayBuffer().catch(() => { throw unreadable(); });
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return { "Content-Digest": `sha-256=:${btoa(String.fromCharCode(...sum))}:` };
}
