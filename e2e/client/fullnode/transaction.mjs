// Decodes and verifies submitted transactions with the chain's own package.
import { createHash, createPublicKey, verify } from "node:crypto";
import {
  AccountAuthenticatorEd25519,
  AccountAuthenticatorMultiEd25519,
  AccountAuthenticatorMultiKey,
  AccountAuthenticatorSingleKey,
  AccountAddress,
  Deserializer,
  Ed25519PublicKey,
  FeePayerRawTransaction,
  MultiKeySignature,
  SignedTransaction,
  TransactionAuthenticatorFeePayer,
  TransactionPayloadEntryFunction,
  TransactionInnerPayloadV1,
  generateSigningMessage,
} from "@aptos-labs/ts-sdk";

// The numbers of the chain's virtual machine for refused transactions (vm_status.rs of aptos-core). Those of
// the last two are a guess: clients must recognize them by their names.
const codes = {
  INVALID_SIGNATURE: 1,
  INVALID_AUTH_KEY: 2,
  SEQUENCE_NUMBER_TOO_OLD: 3,
  INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE: 5,
  TRANSACTION_EXPIRED: 6,
  GAS_UNIT_PRICE_BELOW_MIN_BOUND: 15,
  BAD_CHAIN_ID: 23,
  TRANSACTION_EXPIRATION_TOO_FAR_IN_FUTURE: 41,
  NONCE_ALREADY_USED: 42,
};

// Refusal is an error of the REST API.
export class Refusal extends Error {
  constructor(status, code, message, vmCode = null) {
    super(message);
    this.status = status;
    this.body = { message, error_code: code, vm_error_code: vmCode };
  }

  // ofTheMachine returns the refusal of a transaction by the virtual machine.
  static ofTheMachine(name) {
    return new Refusal(400, "vm_error", `Invalid transaction: Type: Validation Code: ${name}`, codes[name]);
  }
}

function require(condition, message) {
  if (!condition) throw new Refusal(400, "invalid_input", message);
}

const sha3 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha3-256")).digest();

// hashOf returns the hash of a submitted transaction.
const hashOf = (body) => "0x" + sha3(sha3("APTOS::Transaction"), Buffer.of(0), body).toString("hex");

// decode returns the fields of a submission that collects a micropayment. It throws a Refusal unless the
// bytes are the only encoding of such a transaction, signed by its sender and its receiver.
export function decode(body) {
  const { raw, authenticator } = parse(body);
  const [receiver] = authenticator.secondary_signer_addresses;
  require(authenticator.secondary_signer_addresses.length === 1 && authenticator.secondary_signers.length === 1, "want one secondary signer");
  require(authenticator.fee_payer.address.equals(receiver), "the fee payer is not the receiver");

  verifyAuthenticator(raw, receiver, raw.sender, authenticator.sender);
  const [ofSigner, ofPayer] = [authenticator.secondary_signers[0], authenticator.fee_payer.authenticator];
  verifyAuthenticator(raw, receiver, receiver, ofSigner);
  if (ofPayer.bcsToHex().toString() !== ofSigner.bcsToHex().toString()) verifyAuthenticator(raw, receiver, receiver, ofPayer);
  return {
    hash: hashOf(body),
    sender: raw.sender.toStringLong(),
    receiver: receiver.toStringLong(),
    accountSequence: raw.sequence_number,
    maxGas: raw.max_gas_amount,
    gasPrice: raw.gas_unit_price,
    expiration: raw.expiration_timestamp_secs,
    chainId: raw.chain_id.chainId,
    ...payloadOf(raw.payload),
  };
}

function parse(body) {
  let signed;
  try {
    signed = SignedTransaction.deserialize(new Deserializer(body));
  } catch (error) {
    throw new Refusal(400, "invalid_input", `Failed to deserialize input into SignedTransaction: ${error.message}`);
  }
  // The package accepts trailing bytes and lengths that are not in the shortest form.
  require(Buffer.from(signed.bcsToBytes()).equals(body), "the encoding is not canonical");
  require(signed.authenticator instanceof TransactionAuthenticatorFeePayer, "the authenticator has no fee payer");
  return { raw: signed.raw_txn, authenticator: signed.authenticator };
}

// payloadOf returns the called function's module and arguments, and the nonce, or null in the plain form.
function payloadOf(payload) {
  let call, nonce;
  if (payload instanceof TransactionPayloadEntryFunction) {
    call = payload.entryFunction;
    nonce = null;
  } else {
    require(payload instanceof TransactionInnerPayloadV1, "the payload is not a call");
    require(payload.extra_config.multisigAddress === undefined, "the payload has a multisig address");
    call = payload.executable.entryFunction;
    nonce = payload.extra_config.replayProtectionNonce ?? null;
  }
  require(call !== undefined, "the payload is not an entry function");
  require(
    call.module_name.name.identifier === "micropayments" && call.function_name.identifier === "receiver_withdraw",
    `the function is ${call.module_name.name.identifier}::${call.function_name.identifier}`,
  );
  const values = call.args.map((argument) => Buffer.from(argument.bcsToBytes()));
  require(call.type_args.length === 0 && values.map((value) => value.length).join() === "8,8,8,32", "the arguments are not those of receiver_withdraw");
  return {
    module: call.module_name.address.toStringLong(),
    amount: values[0].readBigUInt64LE(),
    channel: values[1].readBigUInt64LE(),
    sequence: values[2].readBigUInt64LE(),
    asset: "0x" + values[3].toString("hex"),
    nonce,
  };
}

// verifyAuthenticator throws unless the authenticator is that of the account, and signed the transaction.
// The signed message contains the fee payer, or 32 zero bytes where the signer did not know it.
function verifyAuthenticator(raw, receiver, account, authenticator) {
  const signedBy = [receiver, AccountAddress.ZERO].some((payer) => {
    const message = generateSigningMessage(new FeePayerRawTransaction(raw, [receiver], payer).bcsToBytes(), "APTOS::RawTransactionWithData");
    return verifies(authenticator, message);
  });
  if (!signedBy) throw Refusal.ofTheMachine("INVALID_SIGNATURE");
  const key = authenticator.public_key ?? authenticator.public_keys;
  if (!key.authKey().derivedAddress().equals(account)) throw Refusal.ofTheMachine("INVALID_AUTH_KEY");
}

function verifies(authenticator, message) {
  const { public_key: key, public_keys: keys, signature, signatures } = authenticator;
  try {
    if (authenticator instanceof AccountAuthenticatorEd25519) return verifiesOne(key, message, signature);
    if (authenticator instanceof AccountAuthenticatorMultiEd25519) return verifiesSeveral(verifiesOne, key.publicKeys, key.threshold, message, signature);
    if (authenticator instanceof AccountAuthenticatorSingleKey) return verifiesAny(key, message, signature);
    if (authenticator instanceof AccountAuthenticatorMultiKey) return verifiesSeveral(verifiesAny, keys.publicKeys, keys.signaturesRequired, message, signatures);
  } catch {
    return false; // the packages throw if a key or a signature is malformed
  }
  throw new Refusal(400, "invalid_input", "the authenticator has an unknown scheme");
}

// verifiesSeveral accepts, unlike the package, more signatures than are required.
function verifiesSeveral(verifies, keys, required, message, multi) {
  const { signatures } = multi;
  const indices = MultiKeySignature.prototype.bitMapToSignerIndices.call(multi);
  return indices.length === signatures.length && indices.length >= required && indices.every((key, i) => verifies(keys[key], message, signatures[i]));
}

// verifiesAny checks, unlike the package, that the type of the signature is that of the key.
function verifiesAny(key, message, signature) {
  return key.bcsToBytes()[0] === signature.bcsToBytes()[0] && verifiesOne(key.publicKey, message, signature.signature);
}

const ed25519Prefix = Buffer.from("302a300506032b6570032100", "hex"); // RFC 8410, section 4

// verifiesOne verifies Ed25519 with Node.js, which is twenty times as fast as the package.
function verifiesOne(key, message, signature) {
  if (!(key instanceof Ed25519PublicKey)) return key.verifySignature({ message, signature });
  const encoded = Buffer.concat([ed25519Prefix, key.toUint8Array()]);
  return verify(null, message, createPublicKey({ key: encoded, format: "der", type: "spki" }), signature.toUint8Array());
}
