// Writing an archive in the ZIP format (APPNOTE 6.3) without compression. A sum of the bytes is written
// into a header that precedes them, so an archive is written to a place in which earlier bytes can be
// replaced; then every program can read it, also from its start.

/**
 * Where an archive is written.
 * @typedef {object} Sink
 * @property {(position: number, data: Uint8Array) => Promise<void>} write
 * @property {(size: number) => Promise<void>} close ends the archive, which has this size
 */

const largest32 = 0xffffffff, largest16 = 0xffff;
/** Names are UTF-8. */
const flags = 1 << 11;
/** Versions of the format: with folders, and with 64-bit sizes. */
const small = 20, large = 45;

const sums = new Uint32Array(256).map((_, i) => {
  let sum = i;
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  return sum;
});

/** Continues a CRC-32, whose start is 0. */
function crc32(sum, data) {
  let inverted = ~sum;
  for (let i = 0; i < data.length; i++) inverted = sums[(inverted ^ data[i]) & 0xff] ^ (inverted >>> 8);
  return ~inverted >>> 0;
}

/** Fields of a header, in little endian. */
class Fields {
  constructor() {
    this.bytes = [];
  }

  add(value, length) {
    for (let i = 0, rest = value; i < length; i++, rest = Math.floor(rest / 256)) this.bytes.push(rest % 256);
    return this;
  }

  two(...values) {
    for (const value of values) this.add(value, 2);
    return this;
  }

  four(...values) {
    for (const value of values) this.add(Math.min(value, largest32), 4);
    return this;
  }

  eight(...values) {
    for (const value of values) this.add(value, 8);
    return this;
  }
}

const joined = (parts) => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

/** Returns the time and the date of MS-DOS, in the reader's zone, as unpackers expect. */
function dosTime(date) {
  const known = date instanceof Date && date.getFullYear() >= 1980 && date.getFullYear() < 2108 ? date : new Date(1980, 0, 1);
  return [(known.getHours() << 11) | (known.getMinutes() << 5) | (known.getSeconds() >> 1), ((known.getFullYear() - 1980) << 9) | ((known.getMonth() + 1) << 5) | known.getDate()];
}

export class ZipWriter {
  /** @param {Sink} sink */
  constructor(sink) {
    this.sink = sink;
    this.position = 0;
    /** @type {{name: Uint8Array, size: number, sum: number, time: number[], at: number}[]} */
    this.entries = [];
  }

  /**
   * Adds a file. If its bytes fail, it is as if it had not been added, and the error is thrown.
   * @param {string} name with slashes between folders
   * @param {number} size
   * @param {Date|undefined} modified
   * @param {AsyncIterable<Uint8Array>} bytes
   */
  async add(name, size, modified, bytes) {
    const entry = { name: new TextEncoder().encode(name), size, sum: 0, time: dosTime(modified), at: this.position };
    try {
      const start = this.position + localHeader(entry).length;
      this.position = start;
      for await (const data of bytes) {
        await this.sink.write(this.position, data);
        this.position += data.length;
        entry.sum = crc32(entry.sum, data);
      }
      if (this.position - start !== size) throw new Error(`${this.position - start} of ${size} bytes were received`);
      await this.sink.write(entry.at, localHeader(entry));
      this.entries.push(entry);
    } catch (error) {
      this.position = entry.at;
      throw error;
    }
  }

  /** Writes the directory, and ends the archive. */
  async close() {
    const directory = joined(this.entries.map(directoryHeader)), last = end(this.entries.length, directory.length, this.position);
    await this.sink.write(this.position, joined([directory, last]));
    await this.sink.close(this.position + directory.length + last.length);
  }
}

/** Returns the header before a file. Its length does not depend on the sum. */
function localHeader({ name, size, sum, time }) {
  const big = size >= largest32, extra = big ? new Fields().two(1, 16).eight(size, size).bytes : [];
  const head = new Fields().four(0x04034b50).two(big ? large : small, flags, 0, ...time).four(sum, size, size).two(name.length, extra.length);
  return joined([head.bytes, name, extra]);
}

function directoryHeader({ name, size, sum, time, at }) {
  const wide = [...(size >= largest32 ? [size, size] : []), ...(at >= largest32 ? [at] : [])];
  const extra = wide.length > 0 ? new Fields().two(1, 8 * wide.length).eight(...wide).bytes : [];
  const needed = extra.length > 0 ? large : small;
  const head = new Fields().four(0x02014b50).two(needed, needed, flags, 0, ...time).four(sum, size, size).two(name.length, extra.length, 0, 0, 0).four(0, at);
  return joined([head.bytes, name, extra]);
}

/** Returns the end of an archive, in the old form and, if that cannot have its numbers, in the one for large archives. */
function end(count, size, start) {
  const fields = new Fields(), few = Math.min(count, largest16);
  if (count >= largest16 || start >= largest32 || size >= largest32) {
    fields.four(0x06064b50).eight(44).two(large, large).four(0, 0).eight(count, count, size, start)
      .four(0x07064b50, 0).eight(start + size).four(1);
  }
  return new Uint8Array(fields.four(0x06054b50).two(0, 0, few, few).four(size, start).two(0).bytes);
}
