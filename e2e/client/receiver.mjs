// Collects micropayments and reads channels with the public client's own receiverWithdraw and
// getChannelInfo. Prints one line: the submitted transactions' hashes, and getChannelInfo's result
// after each.
//
//   node receiver.mjs '{"node", "module", "settlements": [{"scheme", "secret", "micropayment"}...]}'
//
// The scheme and the secret are the receiver's; the micropayment is in base64.
import { Account, AccountAddress, Ed25519PrivateKey, Network, Secp256k1PrivateKey } from "@aptos-labs/ts-sdk";
import { SenderBuiltMicropayment, ShelbyMicropaymentChannelClient } from "sdk-0.1.0/node";

const accounts = {
  ed25519: (secret) => Account.fromPrivateKey({ privateKey: new Ed25519PrivateKey(secret, false) }),
  "single-ed25519": (secret) => Account.fromPrivateKey({ privateKey: new Ed25519PrivateKey(secret, false), legacy: false }),
  "single-secp256k1": (secret) => Account.fromPrivateKey({ privateKey: new Secp256k1PrivateKey(secret, false) }),
};

const { node, module, settlements } = JSON.parse(process.argv[2]);
const client = new ShelbyMicropaymentChannelClient({
  network: Network.LOCAL,
  aptos: { fullnode: node },
  indexer: { baseUrl: "http://localhost:9/unused" },
  deployer: AccountAddress.fromString(module),
});
const results = [];
for (const { scheme, secret, micropayment } of settlements) {
  const receiver = accounts[scheme](secret);
  const built = SenderBuiltMicropayment.deserialize(Buffer.from(micropayment, "base64"));
  const { transaction } = await client.receiverWithdraw({ receiver, micropayment: built });
  const channels = await client.getChannelInfo({ sender: built.micropayment.rawTransaction.sender, receiver: receiver.accountAddress });
  results.push({ hash: transaction.hash, channels });
}
console.log(JSON.stringify(results));
