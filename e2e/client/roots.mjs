// Computes the roots of files as the public client does, and prints one JSON line for each file.
//
//   node roots.mjs FILE...
import { readFileSync } from "node:fs";
import { ClayErasureCodingProvider, generateCommitments } from "sdk-0.1.0/node";

const provider = await ClayErasureCodingProvider.create();
for (const file of process.argv.slice(2)) {
  const roots = await generateCommitments(provider, readFileSync(file));
  console.log(JSON.stringify({ root: roots.blob_merkle_root, size: roots.raw_data_size }));
}
