// Opens, extends, tops up and ends channels as their payer, with the public client's own calls.
// Prints one line: after each step its transaction's vm_status, or the client's error, and the
// channels between payer and receiver.
//
//   node payer.mjs '{"node", "module", "secret", "scheme", "receiver", "asset", "steps": [{"call", ...arguments}...]}'
import { Account, AccountAddress, Ed25519PrivateKey, Network, Secp256k1PrivateKey } from "@aptos-labs/ts-sdk";
import { ShelbyMicropaymentChannelClient } from "sdk-0.1.0/node";

const accounts = {
  ed25519: (secret) => Account.fromPrivateKey({ privateKey: new Ed25519PrivateKey(secret, false) }),
  "single-ed25519": (secret) => Account.fromPrivateKey({ privateKey: new Ed25519PrivateKey(secret, false), legacy: false }),
  "single-secp256k1": (secret) => Account.fromPrivateKey({ privateKey: new Secp256k1PrivateKey(secret, false) }),
};

const { node, module, secret, scheme, receiver: to, asset, steps } = JSON.parse(process.argv[2]);
const client = new ShelbyMicropaymentChannelClient({
  network: Network.LOCAL,
  aptos: { fullnode: node },
  indexer: { baseUrl: "http://localhost:9/unused" },
  deployer: AccountAddress.fromString(module),
});
const sender = accounts[scheme](secret);
const receiver = AccountAddress.fromString(to);
const fungibleAssetAddress = AccountAddress.fromString(asset);
const results = [];
for (const { call, ...rest } of steps) {
  let status;
  try {
    const { transaction } = await client[call]({ sender, receiver, fungibleAssetAddress, ...rest });
    const executed = await client.aptos.waitForTransaction({ transactionHash: transaction.hash, options: { checkSuccess: false } });
    status = executed.vm_status;
  } catch (error) {
    status = error.message;
  }
  results.push({ status, channels: await client.getChannelInfo({ sender: sender.accountAddress, receiver }) });
}
console.log(JSON.stringify({ address: sender.accountAddress.toStringLong(), results }));
