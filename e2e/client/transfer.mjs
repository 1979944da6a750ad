// Uses the public client as a user's program would: it uploads and downloads blobs of sizes around
// the client's limits. It prints one JSON line for each case, with the SHA-256 of the bytes sent
// and received.
//
//   node transfer.mjs 0.1.0|0.0.4 http://localhost:PORT [API-KEY]
import { createHash, randomBytes } from "node:crypto";
import { Network } from "@aptos-labs/ts-sdk";

const [version, baseUrl, apiKey] = process.argv.slice(2);
const { ShelbyRPCClient } = await import(`sdk-${version}/node`);

// Nothing listens at the indexer's address, which the client requires.
const rpc = new ShelbyRPCClient({
  network: Network.LOCAL,
  apiKey,
  rpc: { baseUrl },
  indexer: { baseUrl: "http://localhost:9/unused" },
});
const account = "0x1";
const KiB = 1024;
const MiB = 1024 * KiB;

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const print = (line) => console.log(JSON.stringify({ version, ...line }));

async function get(blobName, range) {
  const blob = await rpc.getBlob({ account, blobName, range });
  const bytes = new Uint8Array(await new Response(blob.readable).arrayBuffer());
  return { bytes, contentLength: blob.contentLength };
}

// check runs one case and prints its outcome, or the exception.
async function check(name, run) {
  try {
    print({ case: name, ...(await run()) });
  } catch (error) {
    print({ case: name, error: String(error?.stack ?? error) });
  }
}

async function roundTrip(blobName, blobData, options = {}) {
  await rpc.putBlob({ account, blobName, blobData: options.source ?? blobData, ...options.extra });
  const { bytes, contentLength } = await get(blobName);
  return { blobName, size: blobData.length, sent: sha256(blobData), received: sha256(bytes), contentLength };
}

for (const [name, size] of [["0 B", 0], ["1 B", 1], ["5 MiB", 5 * MiB], ["5 MiB + 1", 5 * MiB + 1], ["60 MiB", 60 * MiB]]) {
  await check(name, () => roundTrip(`sizes/${name}`, randomBytes(size)));
}

for (const name of ["a b", "héllo/日本語.txt", "😀.png", "100%", "%20", "a%2Fb", "a//b", "/a", "//a", "what?x=1#y", "a+b&c=d;e,f", "x".repeat(1024), "日".repeat(1024)]) {
  await check(`name ${name.slice(0, 20)}`, () => roundTrip(name, randomBytes(1000)));
}

const data = randomBytes(7 * MiB);
await check("overwrite", async () => {
  await roundTrip("ranged", randomBytes(10));
  return roundTrip("ranged", data);
});

if (version === "0.1.0") {
  await check("stream", () => {
    const stream = new ReadableStream({
      start(controller) {
        for (let i = 0; i < data.length; i += 100_000) controller.enqueue(data.subarray(i, i + 100_000));
        controller.close();
      },
    });
    return roundTrip("stream", data, { source: stream, extra: { totalBytes: data.length } });
  });
  const ranges = [
    [{ start: 0 }, data],
    [{ start: 7 * MiB - 5 }, data.subarray(7 * MiB - 5)],
    [{ start: 100, end: 199 }, data.subarray(100, 200)],
    [{ start: 5 * MiB - 3, end: 5 * MiB + 3 }, data.subarray(5 * MiB - 3, 5 * MiB + 4)],
  ];
  for (const [range, want] of ranges) {
    await check(`range ${JSON.stringify(range)}`, async () => {
      const { bytes, contentLength } = await get("ranged", range);
      return { size: want.length, sent: sha256(want), received: sha256(bytes), contentLength };
    });
  }
} else {
  // This version never sends a range, so its caller gets the whole blob.
  await check("range ignored by the client", async () => {
    const { bytes, contentLength } = await get("ranged", { start: 100, end: 199 });
    return { size: data.length, sent: sha256(data), received: sha256(bytes), contentLength };
  });
}

// The client's error for a missing blob.
try {
  await get("absent");
  print({ case: "absent", error: "getBlob of a missing blob succeeded" });
} catch (error) {
  print({ case: "absent", message: error.message });
}
