// Decodes submitted and simulated transactions with the chain's own package, and verifies their
// signatures.
import { createHash, createPublicKey, verify } from "node:crypto";
import {
  AccountAuthenticatorEd25519,
  AccountAuthenticatorMultiEd25519,
  AccountAuthenticatorMultiKey,
  AccountAuthenticatorNoAccountAuthenticator,
  AccountAuthenticatorSingleKey,
  AccountAddress,
  Deserializer,
  Ed25519PublicKey,
  FeePayerRawTransaction,
  MultiKeySignature,
  SignedTransaction,
  TransactionAuthenticatorEd25519,
  TransactionAuthenticatorFeePayer,
  TransactionAuthenticatorMultiEd25519,
  TransactionAuthenticatorSingleSender,
  TransactionPayloadEntryFunction,
  TransactionInnerPayloadV1,
  generateSigningMessage,
} from "@aptos-labs/ts-sdk";
import { functions, signersOf } from "./abi.mjs";

// The numbers that the chain's virtual machine has for refused transactions (vm_status.rs of
// aptos-core). The last two numbers are a guess: clients must recognize them by their names.
const codes = {
  INVALID_SIGNATURE: 1,
  INVALID_AUTH_KEY: 2,
  SEQUENCE_NUMBER_TOO_OLD: 3,
  SEQUENCE_NUMBER_TOO_NEW: 4,
  INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE: 5,
  TRANSACTION_EXPIRED: 6,
  SENDING_ACCOUNT_DOES_NOT_EXIST: 7,
  MAX_GAS_UNITS_EXCEEDS_MAX_GAS_UNITS_BOUND: 13,
  MAX_GAS_UNITS_BELOW_MIN_TRANSACTION_GAS_UNITS: 14,
  GAS_UNIT_PRICE_BELOW_MIN_BOUND: 15,
  GAS_UNIT_PRICE_ABOVE_MAX_BOUND: 16,
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

  // ofTheMachine returns the virtual machine's refusal of a transaction.
  static ofTheMachine(name) {
    const refusal = new Refusal(400, "vm_error", `Invalid transaction: Type: Validation Code: ${name}`, codes[name]);
    refusal.statusOfMachine = name;
    return refusal;
  }
}

export function require(condition, message) {
  if (!condition) throw new Refusal(400, "invalid_input", message);
}

const sha3 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha3-256")).digest();

// hashOf returns a submitted transaction's hash.
const hashOf = (body) => "0x" + sha3(sha3("APTOS::Transaction"), Buffer.of(0), body).toString("hex");

// decode returns a transaction's fields. The transaction is a call to the contract: a micropayment,
// signed by its sender and by its receiver, who pays the fee, or a call by the sender alone. signed
// reports whether all signatures are valid, and signers are compared with the accounts' keys. It
// throws a Refusal unless the bytes are the only encoding of such a transaction.
export function decode(body) {
  const { raw, authenticator } = parse(body);
  const call = callOf(raw.payload);
  const signers = signersOf(call.name) === 2 ? signersOfBoth(raw, authenticator) : signersOfOne(raw, authenticator);
  const { arguments: values, ...rest } = call;
  return {
    hash: hashOf(body),
    sender: raw.sender.toStringLong(),
    payer: signers.at(-1).account,
    signers,
    signed: signers.every(({ signed }) => signed),
    accountSequence: raw.sequence_number,
    maxGas: raw.max_gas_amount,
    gasPrice: raw.gas_unit_price,
    expiration: raw.expiration_timestamp_secs,
    chainId: raw.chain_id.chainId,
    ...(signers.length > 1 && { receiver: signers[1].account }),
    ...rest,
    ...values,
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
  return { raw: signed.raw_txn, authenticator: signed.authenticator };
}

// signersOfBoth returns the signers of a micropayment: its sender, its receiver, and its receiver
// as the fee payer.
function signersOfBoth(raw, authenticator) {
  require(authenticator instanceof TransactionAuthenticatorFeePayer, "the authenticator has no fee payer");
  const [receiver] = authenticator.secondary_signer_addresses;
  require(authenticator.secondary_signer_addresses.length === 1 && authenticator.secondary_signers.length === 1, "want one secondary signer");
  require(authenticator.fee_payer.address.equals(receiver), "the fee payer is not the receiver");
  // The signed message contains the fee payer, or 32 zero bytes where the signer did not know it.
  const messages = [receiver, AccountAddress.ZERO].map((payer) =>
    generateSigningMessage(new FeePayerRawTransaction(raw, [receiver], payer).bcsToBytes(), "APTOS::RawTransactionWithData"),
  );
  const [ofSigner, ofPayer] = [authenticator.secondary_signers[0], authenticator.fee_payer.authenticator];
  const signers = [signer(raw.sender, authenticator.sender, messages), signer(receiver, ofSigner, messages)];
  return [...signers, ofPayer.bcsToHex().toString() === ofSigner.bcsToHex().toString() ? signers[1] : signer(receiver, ofPayer, messages)];
}

// signersOfOne returns a transaction's only signer.
function signersOfOne(raw, authenticator) {
  let own;
  if (authenticator instanceof TransactionAuthenticatorEd25519) own = new AccountAuthenticatorEd25519(authenticator.public_key, authenticator.signature);
  if (authenticator instanceof TransactionAuthenticatorMultiEd25519) own = new AccountAuthenticatorMultiEd25519(authenticator.public_key, authenticator.signature);
  if (authenticator instanceof TransactionAuthenticatorSingleSender) own = authenticator.sender;
  require(own !== undefined, "the authenticator is not that of one signer");
  return [signer(raw.sender, own, [generateSigningMessage(raw.bcsToBytes(), "APTOS::RawTransaction")])];
}

// signer returns an account, the authenticator's authentication key, or undefined if it has none,
// and whether the authenticator signed one of the messages.
function signer(account, authenticator, messages) {
  if (authenticator instanceof AccountAuthenticatorNoAccountAuthenticator) return { account: account.toStringLong(), signed: false };
  const signed = messages.some((message) => verifies(authenticator, message));
  const key = authenticator.public_key ?? authenticator.public_keys;
  return { account: account.toStringLong(), key: key.authKey().toString(), signed };
}

// callOf returns the called function, its module and arguments, and the nonce, or null in the forms
// without one.
function callOf(payload) {
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
  const [module, name] = [call.module_name.name.identifier, call.function_name.identifier];
  require(module === "micropayments" && Object.hasOwn(functions, name), `the function is ${module}::${name}`);
  const parameters = Object.entries(functions[name]);
  const values = call.args.map((argument) => Buffer.from(argument.bcsToBytes()));
  const sizes = parameters.map(([, type]) => (type === "u64" ? 8 : 32));
  require(call.type_args.length === 0 && values.map((value) => value.length).join() === sizes.join(), `the arguments are not those of ${name}`);
  return {
    module: call.module_name.address.toStringLong(),
    name,
    arguments: Object.fromEntries(parameters.map(([parameter, type], i) => [parameter, type === "u64" ? values[i].readBigUInt64LE() : "0x" + values[i].toString("hex")])),
    nonce,
  };
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

// verifiesAny checks, unlike the package, that the signature's type is the key's.
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
