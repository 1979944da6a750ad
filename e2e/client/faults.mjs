// Stores a blob in several parts and reads it with the public client. It prints one JSON line.
//
//   node faults.mjs http://localhost:PORT
import { createHash, randomBytes } from "node:crypto";
import { Network } from "@aptos-labs/ts-sdk";
import { ShelbyRPCClient } from "sdk-0.1.0/node";

const rpc = new ShelbyRPCClient({ network: Network.LOCAL, rpc: { baseUrl: process.argv[2] }, indexer: { baseUrl: "http://localhost:9/unused" } });
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const blobData = randomBytes(11 * 1024 * 1024);
const line = { sent: sha256(blobData) };
try {
  await rpc.putBlob({ account: "0x1", blobName: "faults", blobData });
  const blob = await rpc.getBlob({ account: "0x1", blobName: "faults" });
  line.received = sha256(new Uint8Array(await new Response(blob.readable).arrayBuffer()));
} catch (error) {
  line.error = String(error?.stack ?? error);
}
console.log(JSON.stringify(line));
