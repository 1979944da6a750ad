// Reads a blob with the public client and pays for it, as a user's program would. It prints one
// JSON line for each case.
//
//   node paidread.mjs '{"baseUrl", "account", "blobName", "scheme", "secret", "price", "chunksets",
//     "deposit", "paymentChannelId", "terms": {"receiver", "asset", "module"}}'
//
// With "steps", a list of {"case", "sequenceNumber", "amount"}, it makes these reads instead, until
// one fails.
import { createHash } from "node:crypto";
import { Network } from "@aptos-labs/ts-sdk";
import { ShelbyRPCClient, StaleChannelStateError } from "sdk-0.1.0/node";
import { base64, fields, openPayer } from "./micropayments.mjs";

const order = JSON.parse(process.argv[2]);
const { account, blobName, price, chunksets, deposit, paymentChannelId } = order;
const MiB = 1024 * 1024;
const rpc = new ShelbyRPCClient({
  network: Network.LOCAL,
  rpc: { baseUrl: order.baseUrl },
  indexer: { baseUrl: "http://localhost:9/unused" },
});
const payer = await openPayer(order.scheme, order.secret, order.terms);

// read runs one case: a getBlob with a micropayment, or without one.
async function read(name, { sequenceNumber, amount, range }) {
  const micropayment = amount === undefined ? undefined : await payer.pay(paymentChannelId, sequenceNumber, amount);
  const line = { case: name, sent: micropayment && base64(micropayment) };
  try {
    const blob = await rpc.getBlob({ account, blobName, range, micropayment });
    const bytes = new Uint8Array(await new Response(blob.readable).arrayBuffer());
    Object.assign(line, { size: bytes.length, contentLength: blob.contentLength, sha256: createHash("sha256").update(bytes).digest("hex") });
  } catch (error) {
    Object.assign(line, { error: error.message, name: error.name });
    if (error instanceof StaleChannelStateError) {
      line.stored = error.toBase64();
      line.fields = fields(error.storedMicropayment);
    }
  }
  console.log(JSON.stringify(line));
  return line;
}

async function everyCase() {
  const whole = chunksets * price;
  await read("no payment", {});
  await read("too little", { sequenceNumber: 1, amount: whole - 1 });
  await read("above the deposit", { sequenceNumber: 1, amount: deposit + 1 });
  await read("whole", { sequenceNumber: 1, amount: whole });
  await read("range", { sequenceNumber: 2, amount: whole + price, range: { start: 100, end: 299 } });
  await read("range over two chunksets", { sequenceNumber: 3, amount: whole + 3 * price, range: { start: 10 * MiB - 3, end: 10 * MiB + 3 } });
  const stale = await read("stale", { sequenceNumber: 3, amount: whole + 4 * price });
  await read("stale amount", { sequenceNumber: 4, amount: whole + 3 * price });
  // The error contains enough to continue.
  await read("resumed", {
    sequenceNumber: Number(stale.fields?.sequenceNumber) + 1,
    amount: Number(stale.fields?.amount) + price,
    range: { start: 5, end: 5 },
  });
}

if (order.steps) {
  for (const step of order.steps) if ((await read(step.case, step)).error) break;
} else {
  await everyCase();
}
payer.close();
