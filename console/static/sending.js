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
    request.onerror = () => end(() => reject(new APIError({ status: 0, code: "unreachable", detail: "The server cannot be reached." })));
    request.send(body);
  });
}

/**
 * Reports whether the same request may succeed later, and is safe to repeat.
 * @param {unknown} error
 */
export const passing = (error) => error instanceof APIError && (error.status === 0 || error.status === 408 || error.status === 429 || error.status >= 502 || error.code === "outcome_unknown");

/**
 * Sends a request, up to six times if the server cannot be reached or is overloaded. The request
 * must be one that can be repeated. An error has the number of attempts.
 * @template T
 * @param {() => Promise<T>} attempt sends it once
 * @param {AbortSignal} signal ends the pauses between attempts
 * @param {() => void} [failed] called after each attempt that fails
 * @returns {Promise<T>}
 */
export async function repeated(attempt, signal, failed = () => {}) {
  for (let n = 1; ; n++) {
    try {
      return await attempt();
    } catch (error) {
      failed();
      error.attempt = n;
      if (signal.aborted || !passing(error) || n === mostAttempts) throw error;
      await pause(Math.max(error.retryAfter * 1000, 250 * 2 ** n * (0.5 + Math.random() / 2)), signal);
    }
  }
}

/**
 * Sends a body, as often as repeated does.
 * @param {string} method
 * @param {string} url
 * @param {Blob} body
 * @param {Object<string, string>} extra headers
 * @param {(sent: number) => void} progress
 * @param {AbortSignal} signal
 */
export const sendBody = (method, url, body, extra, progress, signal) =>
  repeated(() => limited(signal, () => sendOnce(method, url, body, extra, progress, signal)), signal, () => progress(0));

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, milliseconds);
    function done() {
      signal.removeEventListener("abort", stop);
      resolve();
    }
    function stop() {
      clearTimeout(timer);
      reject(signal.reason);
    }
    signal.addEventListener("abort", stop, { once: true });
  });
}

/**
 * Returns the header by which the server verifies a body, where the browser can compute it.
 * @param {Blob} body
 * @returns {Promise<Object<string, string>>}
 */
export async function digestOf(body) {
  if (!crypto.subtle) return {}; // a page that was not loaded securely
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", await body.arrayBuffer()));
  return { "Content-Digest": `sha-256=:${btoa(String.fromCharCode(...sum))}:` };
}
