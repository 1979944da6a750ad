// A chain: accounts, the contract for payment channels, and the transactions submitted to it.
import { Refusal, require } from "./transaction.mjs";

// The bounds for a transaction's gas (transaction.rs of aptos-gas-schedule in aptos-core, with a
// scaling factor of 10^6).
const minGasPrice = 100n;
const maxGasPrice = 10_000_000_000n;
const maxGas = 2_000_000n;
// How far in the future a transaction with a nonce may expire, in seconds
// (transaction_validation.move in the chain's framework).
const maxLifeWithNonce = 100n;

// Abort is the reason for which the contract does not execute a call.
class Abort extends Error {}

function abortUnless(condition, reason) {
  if (!condition) throw new Abort(reason);
}

// Contract is the state of payment channels. Where the public client documents nothing, a rule
// decides: amounts is "cumulative" or "single" (the contract pays each micropayment's amount in
// addition); balance is "falls" (with withdrawals) or "stays".
class Contract {
  channels = new Map();
  history = new Map(); // a channel's states by its key, each with the version from which it holds

  constructor(rule) {
    this.rule = rule;
  }

  // put replaces a channel's state, or removes it, at a version of the chain.
  put(channel, version, gone = false) {
    const key = this.key(channel);
    if (gone) this.channels.delete(key);
    else this.channels.set(key, channel);
    if (!this.history.has(key)) this.history.set(key, []);
    this.history.get(key).push({ ...channel, version, gone });
  }

  // at returns the channels at a version of the chain.
  at(version) {
    return [...this.history.values()].map((states) => states.findLast((state) => state.version <= version)).filter((state) => state && !state.gone);
  }

  key = ({ sender, receiver, asset, channel }) => [sender, receiver, asset, channel].join();

  // call returns a transaction's effect: a channel's new state, whether it is gone, and the units
  // that the receiver gets. It throws an Abort. It has no effect.
  call(t, now) {
    switch (t.name) {
      case "receiver_withdraw":
        return this.receiverWithdraw(t, now);
      case "create_channel":
        return this.createChannel(t, now);
      case "extend_expiration_time": {
        const channel = this.channelOf(t);
        abortUnless(t.expires > channel.expires, "EEXPIRATION_NOT_EXTENDED(0x10006)");
        return { channel: { ...channel, expires: t.expires } };
      }
      case "increase_deposit_amount": {
        const channel = this.channelOf(t);
        return { channel: { ...channel, deposit: channel.deposit + t.amount } };
      }
      case "sender_withdraw": {
        const channel = this.channelOf(t);
        abortUnless(channel.expires <= now, "ECHANNEL_NOT_EXPIRED(0x30007)");
        return { channel, gone: true };
      }
      default:
        return {}; // initialize_payment_channels
    }
  }

  receiverWithdraw(payment, now) {
    const channel = this.channels.get(this.key(payment));
    abortUnless(channel, "ECHANNEL_NOT_FOUND(0x60001)");
    abortUnless(channel.expires > now, "ECHANNEL_EXPIRED(0x30002)");
    abortUnless(payment.sequence >= channel.nextSequence, "ESTALE_SEQUENCE_NUMBER(0x30003)");
    const due = this.rule.amounts === "single" ? payment.amount : payment.amount - channel.withdrawn;
    abortUnless(due >= 0n, "EAMOUNT_DECREASED(0x30004)");
    abortUnless(due <= channel.deposit - channel.withdrawn, "EINSUFFICIENT_BALANCE(0x30005)");
    return { channel: { ...channel, withdrawn: channel.withdrawn + due, nextSequence: payment.sequence + 1n }, paid: due };
  }

  // createChannel opens the only channel of its sender, receiver and asset, because later calls
  // name no other property of it. How the contract numbers channels is not known: here each sender
  // counts its own.
  createChannel({ sender, receiver, asset, expires, amount }, now) {
    abortUnless(!this.find(sender, receiver, asset), "ECHANNEL_ALREADY_EXISTS(0x80008)");
    abortUnless(expires > now, "EEXPIRATION_IN_THE_PAST(0x10009)");
    const numbers = [...this.history.values()].map(([first]) => first).filter((first) => first.sender === sender);
    const channel = numbers.reduce((most, first) => (first.channel > most ? first.channel : most), 0n) + 1n;
    return { channel: { sender, receiver, asset, channel, deposit: amount, withdrawn: 0n, nextSequence: 0n, created: now, expires } };
  }

  // channelOf returns the channel that a call of its sender is about. It throws an Abort.
  channelOf({ sender, receiver, asset }) {
    const channel = this.find(sender, receiver, asset);
    abortUnless(channel, "ECHANNEL_NOT_FOUND(0x60001)");
    return channel;
  }

  find(sender, receiver, asset) {
    return [...this.channels.values()].findLast((channel) => channel.sender === sender && channel.receiver === receiver && channel.asset === asset);
  }

  // view returns the channels from a sender to a receiver, or to all receivers, as the REST API
  // writes them, at a version or, if it is undefined, now.
  view(version, sender, receiver) {
    return (version === undefined ? [...this.channels.values()] : this.at(version))
      .filter((channel) => channel.sender === sender && (receiver === undefined || channel.receiver === receiver))
      .map((channel) => ({
        asset_metadata: { inner: channel.asset },
        balance: String(this.rule.balance === "stays" ? channel.deposit : channel.deposit - channel.withdrawn),
        creation_micros: String(channel.created),
        expiration_micros: String(channel.expires),
        next_withdrawn_sequence_number: String(channel.nextSequence),
        payment_channel_id: String(channel.channel),
        receiver_withdrawn_amount: String(channel.withdrawn),
      }));
  }
}

// Ledger executes transactions. Times are bigints in microseconds since 1970.
export class Ledger {
  accountSequences = new Map(); // by address
  keys = new Map(); // authentication keys by address; an account that is not in it never changed its key
  gas = new Map(); // by address; an account that is not in it has enough
  minGas = 3n; // a transaction's least maximum gas
  gasOfExecution = 12n;
  usedNonces = new Set(); // "sender,nonce" of executed transactions
  transactions = new Map(); // by hash, pending and executed, in the order of submission
  executed = []; // in the order of execution
  version = 1n;
  held = false; // transactions stay pending until execute is called
  offset = 0n; // added to the clock

  // The chain's time stands still at clock until advance is called; if clock is null it is the
  // machine's.
  constructor({ chainId, module, clock = null, rule }) {
    Object.assign(this, { chainId, module, clock });
    this.contract = new Contract(rule);
  }

  now() {
    return (this.clock ?? BigInt(Date.now()) * 1000n) + this.offset;
  }

  advance(micros) {
    this.offset += micros;
    this.dropExpired();
  }

  // put replaces a channel's state, or removes it, by somebody else's transaction.
  put(channel, gone = false) {
    this.version++;
    this.contract.put(channel, this.version, gone);
  }

  // change changes a channel's fields, or removes it, by somebody else's transaction.
  change(key, changes, gone = false) {
    const channel = this.contract.channels.get(key);
    if (!channel) throw new Error("there is no such channel");
    this.put({ ...channel, ...changes(channel) }, gone);
  }

  // submit accepts a transaction, or throws a Refusal. A transaction that is pending already is
  // accepted again. failure is the vm_status with which it will be executed in place of its effect,
  // or "".
  submit(transaction, failure) {
    this.dropExpired();
    if (!transaction.signed) throw Refusal.ofTheMachine("INVALID_SIGNATURE");
    if (this.transactions.get(transaction.hash)?.pending) return;
    this.validate(transaction);
    for (const other of this.transactions.values()) {
      if (other.pending && other.sender === transaction.sender && other.nonce !== null && other.nonce === transaction.nonce) {
        throw new Refusal(400, "invalid_transaction_update", "Transaction already in mempool with the same nonce");
      }
    }
    this.transactions.set(transaction.hash, Object.assign(transaction, { pending: true, failure }));
    if (!this.held) this.execute(false);
  }

  // simulate returns a submission's result if it was executed now, as the REST API writes it. It has
  // no effect. It throws a Refusal if the transaction could be submitted, because whoever asks for a
  // simulation does not want it executed.
  simulate(t, failure) {
    require(!t.signed, "Simulated transactions must not have a valid signature");
    let outcome;
    try {
      this.validate(t);
      if (t.nonce === null && t.accountSequence > this.sequenceOf(t.sender)) throw Refusal.ofTheMachine("SEQUENCE_NUMBER_TOO_NEW");
      outcome = this.outcome({ ...t, failure });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      outcome = { success: false, vmStatus: error.statusOfMachine, gasUsed: 0n };
    }
    return this.asExecuted({ ...t, ...outcome, version: this.version });
  }

  // validate throws a Refusal unless the transaction can be executed now, or, in the forms without
  // a nonce, when its account has executed its earlier ones.
  validate(t) {
    const seconds = this.now() / 1_000_000n;
    const unless = (condition, name) => {
      if (!condition) throw Refusal.ofTheMachine(name);
    };
    unless(t.maxGas <= maxGas, "MAX_GAS_UNITS_EXCEEDS_MAX_GAS_UNITS_BOUND");
    unless(t.maxGas >= this.minGas, "MAX_GAS_UNITS_BELOW_MIN_TRANSACTION_GAS_UNITS");
    unless(t.gasPrice >= minGasPrice, "GAS_UNIT_PRICE_BELOW_MIN_BOUND");
    unless(t.gasPrice <= maxGasPrice, "GAS_UNIT_PRICE_ABOVE_MAX_BOUND");
    unless(t.chainId === this.chainId, "BAD_CHAIN_ID");
    unless(t.expiration > seconds, "TRANSACTION_EXPIRED");
    // A sponsored transaction creates its sender's account.
    unless(t.payer !== t.sender || this.exists(t.sender), "SENDING_ACCOUNT_DOES_NOT_EXIST");
    unless(t.signers.every(({ account, key }) => key === undefined || key === this.keyOf(account)), "INVALID_AUTH_KEY");
    unless(t.nonce === null || t.expiration <= seconds + maxLifeWithNonce, "TRANSACTION_EXPIRATION_TOO_FAR_IN_FUTURE");
    unless(t.nonce === null || !this.usedNonces.has(`${t.sender},${t.nonce}`), "NONCE_ALREADY_USED");
    unless(t.nonce !== null || t.accountSequence >= this.sequenceOf(t.sender), "SEQUENCE_NUMBER_TOO_OLD");
    const gas = this.gas.get(t.payer);
    unless(gas === undefined || t.maxGas * t.gasPrice <= gas, "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE");
  }

  sequenceOf(address) {
    return this.accountSequences.get(address) ?? 0n;
  }

  // keyOf returns an account's authentication key, which at first is its address.
  keyOf(address) {
    return this.keys.get(address) ?? address;
  }

  // exists reports whether an account has sent a transaction, got coins, or was changed by a
  // command.
  exists(address) {
    return [this.accountSequences, this.keys, this.gas].some((known) => known.has(address)) || [...this.contract.history.values()].some(([first]) => first.sender === address);
  }

  // account returns an account as the REST API writes it. It throws a Refusal if there is none.
  account(text) {
    const address = "0x" + text.slice(2).padStart(64, "0");
    if (!this.exists(address)) throw new Refusal(404, "account_not_found", `Account not found by Address(${text}) and Ledger version(${this.version})`);
    return { sequence_number: String(this.sequenceOf(address)), authentication_key: this.keyOf(address) };
  }

  // execute executes the pending transactions in the order of their submission, or in the reverse
  // order.
  execute(reversed) {
    this.dropExpired();
    const pending = [...this.transactions.values()].filter((t) => t.pending);
    for (const t of reversed ? pending.reverse() : pending) {
      if (t.nonce === null && t.accountSequence > this.sequenceOf(t.sender)) continue; // waits for earlier ones
      try {
        this.validate(t);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        this.transactions.delete(t.hash); // the chain discards it
        continue;
      }
      this.run(t);
    }
  }

  // outcome returns the result of a valid transaction's execution: success, vmStatus and gasUsed, and
  // the contract's effect if it succeeds.
  outcome(t) {
    const failed = (vmStatus, gasUsed = this.gasOfExecution) => ({ success: false, vmStatus, gasUsed, paid: 0n });
    if (t.maxGas < this.gasOfExecution) return failed("Out of gas", t.maxGas);
    if (t.failure) return failed(t.failure);
    if (t.module !== this.module) return failed("Linker error: the module does not exist");
    try {
      return { success: true, vmStatus: "Executed successfully", gasUsed: this.gasOfExecution, paid: 0n, ...this.contract.call(t, this.now()) };
    } catch (error) {
      if (!(error instanceof Abort)) throw error;
      return failed(`Move abort in ${this.module}::micropayments: ${error.message}: `);
    }
  }

  // run executes a transaction. Its payer pays for it whether it succeeds or not.
  run(t) {
    const { channel, gone, ...result } = this.outcome(t);
    this.version++;
    if (channel) this.contract.put(channel, this.version, gone);
    if (this.gas.has(t.payer)) this.gas.set(t.payer, this.gas.get(t.payer) - result.gasUsed * t.gasPrice);
    this.accountSequences.set(t.sender, this.sequenceOf(t.sender) + (t.nonce === null ? 1n : 0n));
    if (t.nonce !== null) this.usedNonces.add(`${t.sender},${t.nonce}`);
    Object.assign(t, result, { pending: false, version: this.version });
    this.executed.push(t);
  }

  // drop forgets pending transactions.
  drop(which) {
    for (const t of this.transactions.values()) {
      if (t.pending && which(t)) this.transactions.delete(t.hash);
    }
  }

  // dropExpired forgets the pending transactions that can no longer be executed.
  dropExpired() {
    this.drop((t) => t.expiration * 1_000_000n <= this.now());
  }

  // lookup returns a transaction as the REST API writes it. It throws a Refusal if it is unknown.
  lookup(hash) {
    this.dropExpired();
    const t = this.transactions.get(hash);
    if (!t) throw new Refusal(404, "transaction_not_found", `Transaction not found by Transaction hash(${hash})`);
    return t.pending ? { type: "pending_transaction", ...this.common(t) } : this.asExecuted(t);
  }

  asExecuted(t) {
    return { type: "user_transaction", version: String(t.version), success: t.success, vm_status: t.vmStatus, gas_used: String(t.gasUsed), ...this.common(t) };
  }

  common(t) {
    return {
      hash: t.hash,
      sender: t.sender,
      sequence_number: String(t.accountSequence),
      max_gas_amount: String(t.maxGas),
      gas_unit_price: String(t.gasPrice),
      expiration_timestamp_secs: String(t.expiration),
    };
  }
}
