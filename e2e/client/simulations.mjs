// Simulates micropayments with the chain's own package, which sends nothing. Prints one line with
// two bodies of POST /transactions/simulate for each, in hexadecimal:
//
//   package   the result of generateSignedTransactionForSimulation, or its error
//   classes   the encoding by the package's classes if each authenticator has the submission's keys and signers
//
//   node simulations.mjs '[{"micropayment", "receiver"}...]'
//
// The micropayment is in base64; the receiver is the authenticator with which it submits, in
// hexadecimal.
import {
  AccountAuthenticator,
  AccountAuthenticatorEd25519,
  AccountAuthenticatorMultiEd25519,
  AccountAuthenticatorMultiKey,
  AccountAuthenticatorSingleKey,
  AnySignature,
  Deserializer,
  Ed25519Signature,
  MultiEd25519Signature,
  MultiKeySignature,
  SignedTransaction,
  TransactionAuthenticatorFeePayer,
  generateSignedTransactionForSimulation,
} from "@aptos-labs/ts-sdk";
import { SenderBuiltMicropayment } from "sdk-0.1.0/node";

const zeros = () => new Ed25519Signature(new Uint8Array(64));

// unsigned returns the authenticator with zeros in place of its signatures.
function unsigned(authenticator) {
  const { public_key: key, public_keys: keys, signature, signatures } = authenticator;
  if (authenticator instanceof AccountAuthenticatorEd25519) return new AccountAuthenticatorEd25519(key, zeros());
  if (authenticator instanceof AccountAuthenticatorSingleKey) return new AccountAuthenticatorSingleKey(key, new AnySignature(zeros()));
  if (authenticator instanceof AccountAuthenticatorMultiKey) {
    return new AccountAuthenticatorMultiKey(keys, new MultiKeySignature({ signatures: signatures.signatures.map(() => new AnySignature(zeros())), bitmap: signatures.bitmap }));
  }
  return new AccountAuthenticatorMultiEd25519(key, new MultiEd25519Signature({ signatures: signature.signatures.map(zeros), bitmap: signature.bitmap }));
}

const hex = (bytes) => Buffer.from(bytes).toString("hex");

function ofPackage(transaction, sender, receiver) {
  const keyOf = (authenticator) => authenticator.public_key ?? authenticator.public_keys;
  try {
    return hex(
      generateSignedTransactionForSimulation({
        transaction: { ...transaction, feePayerAddress: transaction.secondarySignerAddresses[0] },
        signerPublicKey: keyOf(sender),
        secondarySignersPublicKeys: [keyOf(receiver)],
        feePayerPublicKey: keyOf(receiver),
      }),
    );
  } catch (error) {
    return error.message;
  }
}

function ofClasses(transaction, sender, receiver) {
  const [address] = transaction.secondarySignerAddresses;
  const authenticator = unsigned(receiver);
  return hex(
    new SignedTransaction(
      transaction.rawTransaction,
      new TransactionAuthenticatorFeePayer(unsigned(sender), [address], [authenticator], { address, authenticator }),
    ).bcsToBytes(),
  );
}

const results = JSON.parse(process.argv[2]).map(({ micropayment, receiver }) => {
  const { micropayment: transaction, senderSignature: sender } = SenderBuiltMicropayment.deserialize(Buffer.from(micropayment, "base64"));
  const ofReceiver = AccountAuthenticator.deserialize(new Deserializer(Buffer.from(receiver, "hex")));
  return { package: ofPackage(transaction, sender, ofReceiver), classes: ofClasses(transaction, sender, ofReceiver) };
});
console.log(JSON.stringify(results));
