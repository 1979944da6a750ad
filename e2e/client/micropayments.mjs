// Makes micropayments with the public packages alone, without a network: a stub
// stands in for the two questions that they ask a full node.
import { createServer } from "node:http";
import { once } from "node:events";
import { Account, AccountAddress, Ed25519PrivateKey, Network, Secp256k1PrivateKey } from "@aptos-labs/ts-sdk";
import { ShelbyMicropaymentChannelClient } from "sdk-0.1.0/node";

// What a full node tells of the module: the one function that is called.
const abi = (address) => ({
  address,
  name: "micropayments",
  friends: [],
  exposed_functions: [
    {
      name: "receiver_withdraw",
      visibility: "public",
      is_entry: true,
      is_view: false,
      generic_type_params: [],
      params: ["&signer", "&signer", "u64", "u64", "u64", "address"],
      return: [],
    },
  ],
  structs: [],
});

// startNode serves the stub on a free port; close ends it.
async function startNode() {
  const server = createServer((request, response) => {
    const module = /^\/v1\/accounts\/(0x[0-9a-f]+)\/module\/micropayments$/.exec(request.url);
    let answer;
    if (module) answer = { bytecode: "0x", abi: abi(module[1]) };
    if (request.url === "/v1/estimate_gas_price") answer = { gas_estimate: 100 };
    response.writeHead(answer ? 200 : 404, { "Content-Type": "application/json" });
    response.end(JSON.stringify(answer ?? { message: `the stub knows no ${request.url}` }));
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

// openPayer gives a payer for a key: pay makes a micropayment, close ends the
// stub. terms are receiver, asset and module, as addresses in text.
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

// base64 is how a micropayment travels.
export const base64 = (micropayment) => Buffer.from(micropayment.bcsToBytes()).toString("base64");

// fields reads the three numbers of a micropayment that came as bytes.
export function fields(micropayment) {
  const [amount, paymentChannelId, sequenceNumber] = micropayment.micropayment.rawTransaction.payload.executable.entryFunction.args
    .slice(0, 3)
    .map((argument) => Buffer.from(argument.bcsToBytes()).readBigUInt64LE().toString());
  return { amount, paymentChannelId, sequenceNumber };
}
