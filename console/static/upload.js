// One upload of one file. A small file is one PUT. A larger one is a multipart upload, whose parts are
// sent in parallel; the server is asked which parts it has before any is sent again, so a part that
// it acknowledged is never sent twice. While the server is away, an upload waits for it.

import { digestOf, outage, pauseAfter, sendBody } from "./sending.js";
import { claim, release } from "./claims.js";
import { forget, remember } from "./journal.js";
import { numbered } from "./names.js";
import * as api from "./api.js";

/** Files up to this size are one request. */
export const mostSingle = 8 << 20;
const smallestPart = 8 << 20;

/**
 * @typedef {"waiting"|"sending"|"paused"|"completing"|"done"|"exists"|"skipped"|"failed"|"cancelled"} State
 * @typedef {"ask"|"replace"|"skip"|"both"} Existing the treatment of a blob of the name
 * @typedef {{expires?: string, existing: Existing}} Options
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

export class Upload extends EventTarget {
  /**
   * @param {File} file
   * @param {string} account
   * @param {string} name
   * @param {Options} options which uploads can share, and which can change meanwhile
   * @param {{handle?: FileSystemFileHandle, uploadId?: string, partSize?: number}} [more] uploadId: of an upload to continue
   */
  constructor(file, account, name, options, more = {}) {
    super();
    this.file = file;
    this.account = account;
    this.name = name;
    /** @type {unknown} */
    this.taken = null; // the refusal, while the user has not decided about a name that is taken
    this.unsure = false; // whether a request that stores the blob had no answer
    this.copies = 1; // how many blobs of the chosen name there are with this one, as far as is known
    this.chosen = name;
    this.options = options;
    this.handle = more.handle;
    this.uploadId = more.uploadId ?? "";
    this.partSize = more.partSize ?? partSizeOf(file.size);
    /** @type {State} */
    this.state = "waiting";
    /** @type {unknown} */
    this.error = null;
    /** @type {api.APIError|null} */
    this.away = null; // the error of the last request, while the server is away
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
    this.away = null;
    this.state = state;
    this.error = error;
    this.dispatchEvent(new Event("change"));
  }

  /** Sends until the upload has ended, is paused, or must be decided. It does not throw. */
  async run() {
    const { signal } = (this.control = new AbortController());
    this.flying.clear();
    this.become("sending");
    try {
      if (this.taken && !(await this.decided())) return;
      for (let n = 1; !(await this.attempt(n, signal)); n++);
    } catch (error) {
      if (signal.aborted) return; // pause and cancel have set the state
      this.become("failed", error);
    }
  }

  /** Sends once, and reports whether the upload has ended or must be decided. */
  async attempt(n, signal) {
    try {
      if (this.state !== "sending") this.become("sending");
      if (this.file.size <= mostSingle && !this.uploadId) await this.sendWhole();
      else await this.sendParts();
      this.become("done");
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      this.flying.clear();
      if (error.code === "precondition_failed") {
        this.taken = error;
        return !(await this.decided());
      }
      if (!outage(error)) throw error;
      this.lost(error);
      await pauseAfter(error, n, signal);
      return false;
    }
  }

  /** Follows the user's choice for a name that is taken, and reports whether there is more to send. */
  async decided() {
    const { existing } = this.options;
    if (existing === "ask") {
      this.become("exists", this.taken);
      return false;
    }
    if (existing !== "replace") await this.discard();
    this.taken = null;
    this.unsure = false;
    if (existing === "skip") this.become("skipped");
    if (existing === "both") this.name = numbered(this.chosen, ++this.copies);
    return existing !== "skip";
  }

  progress(part, bytes) {
    if (this.away?.code === "unreachable") this.away = null; // a proxy takes bytes for a server that is away, too
    this.flying.set(part, bytes);
    this.dispatchEvent(new Event("progress"));
  }

  /** Notes that a request failed, with the part that was sent. */
  lost(error, part) {
    if (outage(error)) this.away = error;
    this.flying.delete(part);
    this.dispatchEvent(new Event("progress"));
  }

  answered() {
    this.away = null;
    this.dispatchEvent(new Event("progress"));
  }

  async sendWhole() {
    const extra = { ...(await digestOf(this.file)) };
    if (this.file.type) extra["Content-Type"] = this.file.type;
    if (this.options.expires) extra["Blob-Expires"] = this.options.expires;
    if (this.options.existing !== "replace") extra["If-None-Match"] = "*";
    const url = api.blobURL(this.account, this.name), { signal } = this.control;
    try {
      await sendBody("PUT", url, this.file, extra, (n) => this.progress(0, n), signal, (error) => this.sentOnce(error));
    } catch (error) {
      // The response to an earlier attempt may have been lost: then the blob is this one.
      if (error.code !== "precondition_failed" || !this.unsure || !extra["Content-Digest"]) throw error;
      const stored = await api.send(url, { method: "HEAD", headers: api.readHeaders(), signal });
      if (stored.headers.get("Repr-Digest") !== extra["Content-Digest"]) throw error;
    }
    this.acknowledged = this.file.size;
  }

  /** Notes that a PUT of the whole file failed, and if it may have had its effect. */
  sentOnce(error) {
    if (!(error.status >= 400 && error.status < 500)) this.unsure = true;
    this.lost(error, 0);
  }

  async sendParts() {
    const signal = this.control.signal;
    if (this.uploadId && !(await claim(this.uploadId))) throw new api.APIError({ status: 0, detail: "Another tab continues this upload." });
    // A begin is never aborted, so that an upload which the server has begun is always known here. An
    // upload that is resumed meanwhile waits for it, too.
    if (!this.uploadId && this.options.existing !== "replace") await this.look(signal);
    const present = this.uploadId ? await this.present(signal) : await (this.beginning ??= this.begin().finally(() => (this.beginning = undefined)));
    signal.throwIfAborted();
    if (present === "committed") return this.completed();
    this.answered();
    const missing = [];
    this.acknowledged = 0;
    for (let index = 0; index * this.partSize < this.file.size; index++) {
      const part = this.part(index);
      if (present.get(index) === part.size) this.acknowledged += part.size;
      else missing.push(index);
    }
    this.dispatchEvent(new Event("progress"));
    const failure = new AbortController(); // the first part that fails ends all parts
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

  /** Fails if the name is taken, before anything is sent. A key that may only write cannot know it yet. */
  async look(signal) {
    try {
      await api.send(api.blobURL(this.account, this.name), { method: "HEAD", headers: api.readHeaders(), signal });
    } catch (error) {
      if (signal.aborted || outage(error)) throw error;
      return;
    }
    throw new api.APIError({ status: 412, code: "precondition_failed", detail: "A blob of this name exists already." });
  }

  complete(signal) {
    const headers = api.headers(this.options.existing === "replace" ? {} : { "If-None-Match": "*" });
    return api.post(`v1/multipart-uploads/${this.uploadId}/complete`, { totalBytes: this.file.size }, { headers, signal });
  }

  part(index) {
    return this.file.slice(index * this.partSize, Math.min(this.file.size, (index + 1) * this.partSize));
  }

  async sendPart(index, signal) {
    const part = this.part(index);
    const url = api.urlOf(`v1/multipart-uploads/${this.uploadId}/parts/${index}`);
    await sendBody("PUT", url, part, await digestOf(part), (n) => this.progress(index, n), signal, (error) => this.lost(error, index));
    this.flying.delete(index);
    this.acknowledged += part.size;
    this.answered();
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

  /** Stops sending. Acknowledged parts stay on the server. */
  pause() {
    if (this.state !== "sending" && this.state !== "waiting") return;
    this.become("paused");
    this.control.abort(new Error("paused"));
  }

  /** Stops sending and removes the upload. It throws if that is still on the server. */
  async cancel() {
    this.become("cancelled");
    this.control.abort(new Error("cancelled"));
    try {
      await this.beginning;
    } catch {
      return; // nothing was begun
    }
    await this.discard();
  }

  /** Removes the upload, unless another tab continues it. */
  async discard() {
    if (!this.uploadId || !(await claim(this.uploadId))) return;
    try {
      await api.send(api.urlOf(`v1/multipart-uploads/${this.uploadId}`), { method: "DELETE" });
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) {
        release(this.uploadId); // it is still open, and can be continued
        throw error;
      }
    }
    await this.forgotten();
    this.uploadId = "";
    this.acknowledged = 0;
  }
}
