// Signs micropayments with the public packages only, without a network: a stub serves the two
// requests that they send to a full node.
import { createServer } from "node:http";
import { once } from "node:events";
import { Account, AccountAddress, Ed25519PrivateKey, Network, Secp256k1PrivateKey } from "@aptos-labs/ts-sdk";
import { ShelbyMicropaymentChannelClient } from "sdk-0.1.0/node";
import { abi } from "./fullnode/abi.mjs";

// startNode starts the stub on a free port; close stops it.
async function startNode() {
  const server = createServer((request, response) => {
    const module = /^\/v1\/accounts\/(0x[0-9a-f]+)\/module\/micropayments$/.exec(request.url);
    let body;
    if (module) body = { bytecode: "0x", abi: abi(module[1]) };
    if (request.url === "/v1/estimate_gas_price") body = { gas_estimate: 100 };
    response.writeHead(body ? 200 : 404, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body ?? { message: `the stub does not serve ${request.url}` }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const accounts = {
  ed25519: (secret) => Account.fromPrivateKey({ privateKey: new Ed25519PrivateKey(secret, false) }),
  secp256k1: (secret) => Account.fromPrivateKey({ privateKey: new Secp256k1PrivateKey(secret, false) }),
};

// openPayer returns a payer for a key: pay signs a micropayment, close stops the stub. terms are
// the addresses, as text: receiver, asset and module.
export async function openPayer(scheme, secret, terms) {
  const node = await startNode();
  const sender = accounts[scheme](secret);
  const client = new ShelbyMicropaymentChannelClient({
    network: Network.LOCAL,
    aptos: { fullnode: node.url },
    indexer: { baseUrl: "http://localhost:9/unused" },
    deployer: AccountAddress.fromString(terms.module),
  });
  const pay = (paymentChannelId, sequenceNumber, amount) =>
    client.createMicropayment({
      sender,
      receiver: AccountAddress.fromString(terms.receiver),
      fungibleAssetAddress: AccountAddress.fromString(terms.asset),
      amount,
      paymentChannelId,
      sequenceNumber,
    });
  return { address: sender.accountAddress.toString(), pay, close: node.close };
}

// base64 encodes a micropayment as in a header.
export const base64 = (micropayment) => Buffer.from(micropayment.bcsToBytes()).toString("base64");

// fields decodes a micropayment's three numbers.
export function fields(micropayment) {
  const [amount, paymentChannelId, sequenceNumber] = micropayment.micropayment.rawTransaction.payload.executable.entryFunction.args
    .slice(0, 3)
    .map((argument) => Buffer.from(argument.bcsToBytes()).readBigUInt64LE().toString());
  return { amount, paymentChannelId, sequenceNumber };
}
