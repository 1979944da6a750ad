// One upload of one file. A small file is one PUT. A larger one is a multipart upload, whose parts are
// sent in parallel; the server is asked which parts it has before any is sent again, so a part that
// it acknowledged is never sent twice.

import { digestOf, sendBody } from "./sending.js";
import { claim, release } from "./claims.js";
import { forget, remember } from "./journal.js";
import * as api from "./api.js";

/** Files up to this size are one request. */
export const mostSingle = 8 << 20;
const smallestPart = 8 << 20;

/**
 * @typedef {"waiting"|"sending"|"paused"|"completing"|"done"|"failed"|"cancelled"} State
 * @typedef {{expires?: string, replace?: boolean}} Options
 */

/**
 * Returns the size of the parts of a file: few enough of them, and no more bytes are lost with one
 * than needed.
 * @param {number} size
 */
export function partSizeOf(size) {
  const wanted = Math.max(smallestPart, Math.ceil(size / 10_000));
  return Math.ceil(wanted / (1 << 20)) * (1 << 20);
}

const existsAlready = "A blob of this name exists already.";

export class Upload extends EventTarget {
  /**
   * @param {File} file
   * @param {string} account
   * @param {string} name
   * @param {Options} options
   * @param {{handle?: FileSystemFileHandle, uploadId?: string, partSize?: number}} [more] uploadId: of an upload to continue
   */
  constructor(file, account, name, options, more = {}) {
    super();
    this.file = file;
    this.account = account;
    this.name = name;
    this.options = options;
    this.handle = more.handle;
    this.uploadId = more.uploadId ?? "";
    this.partSize = more.partSize ?? partSizeOf(file.size);
    /** @type {State} */
    this.state = "waiting";
    /** @type {unknown} */
    this.error = null;
    this.acknowledged = 0; // bytes
    /** @type {Map<number, number>} bytes of the parts that are being sent */
    this.flying = new Map();
    this.control = new AbortController();
    /** @type {Promise<unknown>|undefined} */
    this.beginning = undefined; // set while the server is asked to begin an upload in parts
  }

  get sent() {
    let sum = this.acknowledged;
    for (const bytes of this.flying.values()) sum += bytes;
    return Math.min(sum, this.file.size);
  }

  /** @param {State} state */
  become(state, error = null) {
    this.state = state;
    this.error = error;
    this.dispatchEvent(new Event("change"));
  }

  /** Sends until the upload is complete, paused, cancelled or fails. It does not throw. */
  async run() {
    const control = (this.control = new AbortController());
    this.flying.clear();
    this.become("sending");
    try {
      if (this.file.size <= mostSingle && !this.uploadId) await this.sendWhole();
      else await this.sendParts();
      this.become("done");
    } catch (error) {
      if (control.signal.aborted) return; // pause and cancel have set the state
      this.flying.clear();
      this.become("failed", error);
    }
  }

  progress(part, bytes) {
    this.flying.set(part, bytes);
    this.dispatchEvent(new Event("progress"));
  }

  async sendWhole() {
    const extra = { ...(await digestOf(this.file)) };
    if (this.file.type) extra["Content-Type"] = this.file.type;
    if (this.options.expires) extra["Blob-Expires"] = this.options.expires;
    if (!this.options.replace) extra["If-None-Match"] = "*";
    const url = api.blobURL(this.account, this.name), { signal } = this.control;
    try {
      await sendBody("PUT", url, this.file, extra, (n) => this.progress(0, n), signal);
    } catch (error) {
      // The response to an earlier attempt may have been lost: then the blob is this one.
      if (error.code !== "precondition_failed") throw error;
      error.message = existsAlready;
      if (error.attempt === 1) throw error;
      const stored = await api.send(url, { method: "HEAD", headers: api.readHeaders(), signal });
      if (!extra["Content-Digest"] || stored.headers.get("Repr-Digest") !== extra["Content-Digest"]) throw error;
    }
    this.flying.clear();
    this.acknowledged = this.file.size;
  }

  async sendParts() {
    const signal = this.control.signal;
    if (this.uploadId && !(await claim(this.uploadId))) throw new api.APIError({ status: 0, detail: "Another tab continues this upload." });
    // A begin is never aborted, so that an upload which the server has begun is always known here. An
    // upload that is resumed meanwhile waits for it, too.
    const present = this.uploadId ? await this.present(signal) : await (this.beginning ??= this.begin().finally(() => (this.beginning = undefined)));
    signal.throwIfAborted();
    if (present === "committed") return this.completed();
    const missing = [];
    this.acknowledged = 0;
    for (let index = 0; index * this.partSize < this.file.size; index++) {
      const part = this.part(index);
      if (present.get(index) === part.size) this.acknowledged += part.size;
      else missing.push(index);
    }
    this.dispatchEvent(new Event("progress"));
    const failure = new AbortController(); // the first part that fails ends the others
    const either = AbortSignal.any([signal, failure.signal]);
    const worker = async () => {
      for (let index = missing.shift(); index !== undefined; index = missing.shift()) await this.sendPart(index, either);
    };
    const workers = Array.from({ length: Math.min(4, missing.length) }, () => worker().catch((error) => {
      failure.abort(error);
      throw error;
    }));
    await Promise.allSettled(workers);
    if (failure.signal.aborted) throw failure.signal.reason;
    this.become("completing");
    await this.complete(signal);
    await this.completed();
  }

  async complete(signal) {
    const headers = api.headers(this.options.replace ? {} : { "If-None-Match": "*" });
    try {
      await api.post(`v1/multipart-uploads/${this.uploadId}/complete`, { totalBytes: this.file.size }, { headers, signal });
    } catch (error) {
      if (error.code === "precondition_failed") error.message = existsAlready;
      throw error;
    }
  }

  part(index) {
    return this.file.slice(index * this.partSize, Math.min(this.file.size, (index + 1) * this.partSize));
  }

  async sendPart(index, signal) {
    const part = this.part(index);
    const url = api.urlOf(`v1/multipart-uploads/${this.uploadId}/parts/${index}`);
    await sendBody("PUT", url, part, await digestOf(part), (n) => this.progress(index, n), signal);
    this.flying.delete(index);
    this.acknowledged += part.size;
    this.dispatchEvent(new Event("progress"));
  }

  /** @returns {Promise<Map<number, number>>} */
  async begin() {
    const begun = await api.post("v1/multipart-uploads", {
      rawAccount: this.account, rawBlobName: this.name, rawPartSize: this.partSize,
      contentType: this.file.type || undefined, expires: this.options.expires,
    });
    await claim(begun.uploadId);
    this.uploadId = begun.uploadId;
    await remember({
      uploadId: this.uploadId, base: api.base.href, account: this.account, name: this.name,
      size: this.file.size, modified: this.file.lastModified, partSize: this.partSize, handle: this.handle, ...this.options,
    });
    return new Map();
  }

  /**
   * Returns the sizes of the parts that the server has, or that the upload is complete.
   * @returns {Promise<Map<number, number>|"committed">}
   */
  async present(signal) {
    const sizes = new Map();
    for (let after; ;) {
      const status = await this.status(after, signal);
      if (status.state === "committed") return "committed";
      if (status.state === "aborted") {
        await this.forgotten();
        this.uploadId = ""; // the next run begins another
        throw new api.APIError({ status: 410, code: "upload_aborted", detail: "The upload was aborted. Send the file again." });
      }
      for (const part of status.parts) sizes.set(part.index, part.size);
      if (status.next === undefined) return sizes;
      after = status.next;
    }
  }

  /** Returns the state of the upload, which is aborted, too, if the server does not know it any more. */
  async status(after, signal) {
    try {
      return await api.json(`v1/multipart-uploads/${this.uploadId}`, { after }, { signal });
    } catch (error) {
      if (error.code === "upload_not_found") return { state: "aborted" };
      throw error;
    }
  }

  async completed() {
    this.acknowledged = this.file.size;
    await this.forgotten();
  }

  async forgotten() {
    await forget(this.uploadId);
    release(this.uploadId);
  }

  /** Stops sending. What was acknowledged stays on the server. */
  pause() {
    if (this.state !== "sending" && this.state !== "waiting") return;
    this.become("paused");
    this.control.abort(new Error("paused"));
  }

  /** Stops sending and removes what was sent. */
  async cancel() {
    this.become("cancelled");
    this.control.abort(new Error("cancelled"));
    try {
      await this.beginning;
    } catch {
      return; // nothing was begun
    }
    if (!this.uploadId || !(await claim(this.uploadId))) return; // nothing is open, or another tab continues it
    try {
      await api.send(api.urlOf(`v1/multipart-uploads/${this.uploadId}`), { method: "DELETE" });
    } catch (error) {
      if (error.status !== 404) this.become("failed", error);
      if (error.status !== 404 && error.status !== 409) return release(this.uploadId); // it is still open, and can be continued
    }
    await this.forgotten();
  }
}
