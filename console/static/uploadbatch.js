// The files that were chosen together: how many there are in each state, and operations on all of
// them.

import { visibleText } from "./text.js";

/** @typedef {import("./upload.js").State} State */

/** @type {State[]} states in which a file has not ended */
const live = ["waiting", "sending", "completing"];

/** Sends "change" when the state or the progress of a file changes. */
export class UploadBatch extends EventTarget {
  /**
   * @param {{account: string, prefix: string}} to
   * @param {import("./upload.js").Options} options which all files share
   * @param {import("./upload.js").Upload[]} uploads
   */
  constructor(to, options, uploads) {
    super();
    this.to = to;
    this.options = options;
    this.uploads = uploads;
    /** @type {Map<State, Set<import("./upload.js").Upload>>} */
    this.groups = new Map();
    /** @type {Map<State, number>} */
    this.bytes = new Map();
    /** @type {Map<import("./upload.js").Upload, State>} */
    this.states = new Map();
    for (const upload of uploads) {
      this.move(upload);
      upload.addEventListener("change", () => {
        this.move(upload);
        this.dispatchEvent(new CustomEvent("change", { detail: upload }));
      });
      upload.addEventListener("progress", () => this.dispatchEvent(new CustomEvent("change")));
    }
  }

  /** Moves a file into the group of its state. */
  move(upload) {
    const before = this.states.get(upload), { state } = upload, { size } = upload.file;
    if (before === state) return;
    if (before) {
      this.groups.get(before).delete(upload);
      this.bytes.set(before, this.bytes.get(before) - size);
    }
    this.states.set(upload, state);
    if (!this.groups.has(state)) this.groups.set(state, new Set());
    this.groups.get(state).add(upload);
    this.bytes.set(state, (this.bytes.get(state) ?? 0) + size);
  }

  /** @param {State} state */
  of(state) {
    return this.groups.get(state) ?? new Set();
  }

  /** @param {...State} states */
  count(...states) {
    return states.reduce((sum, state) => sum + this.of(state).size, 0);
  }

  /** Returns the number of files that are sent or wait for it. */
  get live() {
    return this.count(...live);
  }

  /** Returns the number of files that need the user. */
  get troubled() {
    return this.count("failed", "exists");
  }

  /** Returns the state that matters most to the user. */
  get state() {
    return /** @type {State[]} */ (["failed", "exists", "completing", "sending", "waiting", "paused"]).find((state) => this.of(state).size > 0) ?? (this.of("done").size > 0 ? "done" : "skipped");
  }

  /** Returns the bytes of all files but those that were skipped. */
  get total() {
    return this.sum("done", "failed", "exists", "paused", ...live);
  }

  /** Returns the bytes that were sent. */
  get sent() {
    return this.sum("done") + this.partly("sending", "completing", "paused", "failed", "exists");
  }

  /** Returns the bytes that will be sent without another decision of the user. */
  get left() {
    return this.sum(...live) - this.partly("sending", "completing");
  }

  sum(...states) {
    return states.reduce((sum, state) => sum + (this.bytes.get(state) ?? 0), 0);
  }

  partly(...states) {
    let sum = 0;
    for (const state of states) for (const upload of this.of(state)) sum += upload.sent;
    return sum;
  }

  /**
   * Returns the error for which the server is away, if it is.
   * @returns {import("./api.js").APIError|null}
   */
  get away() {
    for (const state of ["sending", "completing"]) for (const upload of this.of(state)) if (upload.away) return upload.away;
    return null;
  }

  pause() {
    // Those that wait come first: in place of one that pauses, another would begin.
    for (const state of ["waiting", "sending"]) for (const upload of [...this.of(state)]) upload.pause();
  }

  /** Sends all files of a state again. */
  again(state) {
    for (const upload of [...this.of(state)]) upload.become("waiting");
  }

  /**
   * Decides about all names that are taken, now or later.
   * @param {import("./upload.js").Existing} existing
   */
  decide(existing) {
    this.options.existing = existing;
    this.again("exists");
  }

  /**
   * Stops sending, and removes the uploads of files that are not complete.
   * @returns {Promise<string[]>} sentences about uploads that could not be removed
   */
  async cancel() {
    const ending = /** @type {State[]} */ (["waiting", "paused", "failed", "exists", "sending", "completing"]).flatMap((state) => [...this.of(state)]);
    const outcomes = await Promise.allSettled(ending.map((upload) => upload.cancel()));
    return outcomes.flatMap((outcome, i) => (outcome.status === "rejected" ? [`${visibleText(ending[i].name)} was not cancelled. ${outcome.reason.message}`] : []));
  }
}
