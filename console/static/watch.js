// News from the server that blobs below a prefix have changed.

import { announce } from "./stored.js";
import { waitingEvent, waits } from "./undo.js";
import * as api from "./api.js";

/** The least time between two announcements, and the longest pause before another attempt. */
const between = 1000, longest = 60_000;

/**
 * Announces changes below a prefix until the signal ends. It is quiet if the server does not send
 * them, or not with this key: the view is then as new as its last request. A hidden page reads
 * nothing, as a browser has few connections to a server. Nor does a page whose deletion waits:
 * Firefox often drops what a page with an open response sends when it is left.
 * @param {string} account
 * @param {string} prefix
 * @param {AbortSignal} signal
 */
export async function watch(account, prefix, signal) {
  let position = "";
  for (let failures = 0; !signal.aborted; ) {
    const idle = () => document.hidden || waits();
    if (idle()) {
      await new Promise((resolve) => ["visibilitychange", waitingEvent].forEach((name) => addEventListener(name, resolve, { once: true, signal })));
      continue;
    }
    const idling = new AbortController();
    for (const name of ["visibilitychange", waitingEvent]) addEventListener(name, () => idle() && idling.abort(), { signal: idling.signal });
    try {
      const more = position ? { "Last-Event-ID": position } : undefined;
      const options = { signal: AbortSignal.any([signal, idling.signal]), headers: api.headers({ Accept: "text/event-stream", ...more }) };
      const response = await api.send(api.urlOf("v1/changes", { account, prefix }), options);
      failures = 0;
      for await (const { id, event } of events(response.body.pipeThrough(new TextDecoderStream()).getReader())) {
        if (event) soon(signal);
        position = event === "gone" ? "" : id || position;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (idling.signal.aborted) continue;
      if (error.code === "changes_gone") {
        position = "";
        soon(signal);
      } else if (error.status && (!error.passes || [401, 403, 404].includes(error.status))) {
        return;
      }
      failures++;
    } finally {
      idling.abort(); // which removes the listeners
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(longest, between * 2 ** failures)));
  }
}

/**
 * Returns the events of a stream (HTML, section 9.2.6), without their data.
 * @param {ReadableStreamDefaultReader<string>} reader
 */
async function* events(reader) {
  let text = "", id = "", event = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    text += read.value;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
      const line = text.slice(0, end);
      text = text.slice(end + 1);
      if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("event: ")) event = line.slice(7);
      else if (line === "") {
        yield { id, event };
        event = "";
      }
    }
  }
}

let waiting = false;

/** Announces that the folder has changed, at most once in a while. */
function soon(signal) {
  if (waiting) return;
  waiting = true;
  setTimeout(() => {
    waiting = false;
    if (!signal.aborted) announce();
  }, between);
}
