// The uploads of this page: a few files are sent at the same time, in the order in which they were
// chosen.

import { release } from "./claims.js";

/** Files at the same time; their parts are sent in parallel, too. */
const mostFiles = 3;

/** Sends "added", "removed" and "stored", whose detail is the batch or the file. */
class Queue extends EventTarget {
  /** @type {import("./uploadbatch.js").UploadBatch[]} */
  batches = [];

  /** @param {import("./uploadbatch.js").UploadBatch} batch */
  add(batch) {
    this.batches.push(batch);
    batch.addEventListener("change", ({ detail: upload }) => {
      if (upload?.state === "done") this.say("stored", upload);
      if (upload) this.next();
    });
    this.say("added", batch);
    this.next();
  }

  /** Removes a batch, which sends nothing any more. */
  remove(batch) {
    this.batches = this.batches.filter((b) => b !== batch);
    this.say("removed", batch);
  }

  /** Removes a batch that has ended. Any page can continue its uploads that are on the server. */
  dismiss(batch) {
    this.remove(batch);
    for (const upload of batch.uploads) release(upload.uploadId);
  }

  say(event, detail) {
    this.dispatchEvent(new CustomEvent(event, { detail }));
  }

  /** Begins the next files that wait. */
  next() {
    // Each file that begins calls this again, so running files are counted anew.
    while (this.running < mostFiles) {
      const [upload] = this.batches.find((batch) => batch.of("waiting").size > 0)?.of("waiting") ?? [];
      if (!upload) return;
      void upload.run();
    }
  }

  get running() {
    return this.batches.reduce((sum, batch) => sum + batch.count("sending", "completing"), 0);
  }

  /** Reports whether files are sent or wait for it. */
  get live() {
    return this.batches.some((batch) => batch.live > 0);
  }

  /** Reports whether an upload is among these. */
  has(uploadId) {
    return this.batches.some((batch) => batch.uploads.some((upload) => upload.uploadId === uploadId));
  }
}

export const queue = new Queue();
