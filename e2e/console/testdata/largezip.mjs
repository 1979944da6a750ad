// Writes an archive with the console's own writer, which the second argument has, to the file that the
// third one names: a file of more than 4 GiB, a file after it, and more files than 65,535.
import { openSync, ftruncateSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [module, path, size, count] = process.argv.slice(2);
const { ZipWriter } = await import(pathToFileURL(module));
const file = openSync(path, "w"), zeros = new Uint8Array(4 << 20);
const writer = new ZipWriter({
  // Zeros that are not written are a hole of the file.
  write: async (position, data) => void (data.buffer !== zeros.buffer && writeSync(file, data, 0, data.length, position)),
  close: async (end) => ftruncateSync(file, end),
});

async function* zerosOf(length) {
  for (let left = length; left > 0; left -= zeros.length) yield zeros.subarray(0, Math.min(left, zeros.length));
}

async function* text(content) {
  yield new TextEncoder().encode(content);
}

const modified = new Date(2026, 0, 2, 3, 4, 6);
await writer.add("large", Number(size), modified, zerosOf(Number(size)));
await writer.add("after", 5, modified, text("after"));
for (let i = 0; i < Number(count); i++) await writer.add(`many/${i}`, String(i).length, modified, text(String(i)));
await writer.close();
