// The rate of something that makes progress, over its last seconds.

/** Time over which a rate is measured, in milliseconds. */
const window = 8000;
/** Shortest time over which a rate means something, in milliseconds. */
const shortest = 1500;
/** Time without progress after which nothing is known of a rate, in milliseconds. */
const longest = 3000;

export class Rate {
  constructor() {
    this.reset();
  }

  /** Forgets all measurements. */
  reset() {
    /** @type {{at: number, sent: number}[]} */
    this.samples = [];
  }

  /**
   * Adds the number of bytes sent until now. Bytes that are sent again are no progress.
   * @param {number} sent bytes
   */
  add(sent) {
    const at = performance.now(), last = this.samples.at(-1);
    if (last && sent < last.sent) this.reset();
    if (!last || sent !== last.sent) this.samples.push({ at, sent });
    while (this.samples.length > 2 && this.samples[1].at < at - window) this.samples.shift();
  }

  /** Returns the whole bytes a second, or 0 if that is not known. */
  get value() {
    const first = this.samples[0], last = this.samples.at(-1);
    if (!last || last.at - first.at < shortest || this.stalled) return 0;
    return Math.round((last.sent - first.sent) / ((last.at - first.at) / 1000));
  }

  /** Returns the time since the last progress, in milliseconds. */
  get idle() {
    const last = this.samples.at(-1);
    return last ? performance.now() - last.at : 0;
  }

  /** Reports whether there was no progress for so long that it is known to have stopped. */
  get stalled() {
    return this.idle > longest;
  }
}
