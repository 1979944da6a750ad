// The ledger: accounts, the contract of payment channels, and the transactions submitted to it.
import { Refusal } from "./transaction.mjs";

const minGasPrice = 100n;
const gasPerTransaction = 12n;
// How far in the future a transaction with a nonce may expire, in seconds (transaction_validation.move of the
// chain's framework).
const maxLifeWithNonce = 100n;

// Abort is the reason for which the contract does not execute a call.
class Abort extends Error {}

// Contract is the state of payment channels. What the public client does not document is a rule:
// amounts is "cumulative" or "single" (the amount of each micropayment is paid in addition); balance is
// "falls" (with withdrawals) or "stays".
class Contract {
  channels = new Map();
  history = new Map(); // by key of the channel: its states, each with the version from which on it has it

  constructor(rule) {
    this.rule = rule;
  }

  // put replaces the state of a channel, or removes it, at a version of the ledger.
  put(channel, version, gone = false) {
    const key = this.key(channel);
    if (gone) this.channels.delete(key);
    else this.channels.set(key, channel);
    if (!this.history.has(key)) this.history.set(key, []);
    this.history.get(key).push({ ...channel, version, gone });
  }

  // at returns the channels at a version.
  at(version) {
    return [...this.history.values()].map((states) => states.findLast((state) => state.version <= version)).filter((state) => state && !state.gone);
  }

  key = ({ sender, receiver, asset, channel }) => [sender, receiver, asset, channel].join();

  // withdraw pays a micropayment and returns the units that the receiver gets. It throws an Abort.
  withdraw(payment, now, version) {
    const channel = this.channels.get(this.key(payment));
    if (!channel) throw new Abort("ECHANNEL_NOT_FOUND(0x60001)");
    if (channel.expires <= now) throw new Abort("ECHANNEL_EXPIRED(0x30002)");
    if (payment.sequence < channel.nextSequence) throw new Abort("ESTALE_SEQUENCE_NUMBER(0x30003)");
    const due = this.rule.amounts === "single" ? payment.amount : payment.amount - channel.withdrawn;
    if (due < 0n) throw new Abort("EAMOUNT_DECREASED(0x30004)");
    if (due > channel.deposit - channel.withdrawn) throw new Abort("EINSUFFICIENT_BALANCE(0x30005)");
    channel.withdrawn += due;
    channel.nextSequence = payment.sequence + 1n;
    this.put(channel, version);
    return due;
  }

  // view returns the channels from a sender to a receiver, or to all receivers, as the REST API writes them, at a
  // version or, if it is undefined, now.
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
  gas = new Map(); // by address; an account that is not in it has enough
  usedNonces = new Set(); // "sender,nonce" of executed transactions
  transactions = new Map(); // by hash, pending and executed, in the order of submission
  executed = []; // in the order of execution
  version = 1n;
  held = false; // transactions stay pending until execute is called
  offset = 0n; // added to the clock

  // The ledger's clock stands still at clock until advance is called; if clock is null it is that of the machine.
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

  // put replaces the state of a channel, or removes it, by a transaction of somebody else.
  put(channel, gone = false) {
    this.version++;
    this.contract.put(channel, this.version, gone);
  }

  // submit accepts a transaction, or throws a Refusal. A transaction that is pending already is accepted again.
  // failure is the vm_status with which it will be executed in place of its effect, or "".
  submit(transaction, failure) {
    this.dropExpired();
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

  // validate throws a Refusal unless the transaction can be executed now, or, in the plain form, when its
  // account has executed its earlier ones.
  validate(t) {
    const seconds = this.now() / 1_000_000n;
    const unless = (condition, name) => {
      if (!condition) throw Refusal.ofTheMachine(name);
    };
    unless(t.chainId === this.chainId, "BAD_CHAIN_ID");
    unless(t.expiration > seconds, "TRANSACTION_EXPIRED");
    unless(t.nonce === null || t.expiration <= seconds + maxLifeWithNonce, "TRANSACTION_EXPIRATION_TOO_FAR_IN_FUTURE");
    unless(t.nonce === null || !this.usedNonces.has(`${t.sender},${t.nonce}`), "NONCE_ALREADY_USED");
    unless(t.nonce !== null || t.accountSequence >= this.sequenceOf(t.sender), "SEQUENCE_NUMBER_TOO_OLD");
    unless(t.gasPrice >= minGasPrice, "GAS_UNIT_PRICE_BELOW_MIN_BOUND");
    const gas = this.gas.get(t.receiver);
    unless(gas === undefined || t.maxGas * t.gasPrice <= gas, "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE");
  }

  sequenceOf(address) {
    return this.accountSequences.get(address) ?? 0n;
  }

  // execute executes the pending transactions in the order of their submission, or in the reverse order.
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

  // run executes a transaction, for which the fee payer pays whether it succeeds or not.
  run(t) {
    let status = t.failure;
    t.paid = 0n;
    if (status === "" && t.module !== this.module) status = "Linker error: the module does not exist";
    if (status === "" && t.maxGas < gasPerTransaction) status = "Out of gas";
    if (status === "") {
      try {
        t.paid = this.contract.withdraw(t, this.now(), this.version + 1n);
      } catch (error) {
        if (!(error instanceof Abort)) throw error;
        status = `Move abort in ${this.module}::micropayments: ${error.message}: `;
      }
    }
    if (this.gas.has(t.receiver)) this.gas.set(t.receiver, this.gas.get(t.receiver) - gasPerTransaction * t.gasPrice);
    if (t.nonce === null) this.accountSequences.set(t.sender, t.accountSequence + 1n);
    else this.usedNonces.add(`${t.sender},${t.nonce}`);
    this.version++;
    Object.assign(t, {
      pending: false,
      success: status === "",
      vmStatus: status || "Executed successfully",
      gasUsed: gasPerTransaction,
      version: this.version,
    });
    this.executed.push(t);
  }

  // dropExpired forgets the pending transactions that can no longer be executed.
  dropExpired() {
    for (const t of this.transactions.values()) {
      if (t.pending && t.expiration * 1_000_000n <= this.now()) this.transactions.delete(t.hash);
    }
  }

  // lookup returns a transaction as the REST API writes it. It throws a Refusal if it is unknown.
  lookup(hash) {
    this.dropExpired();
    const t = this.transactions.get(hash);
    if (!t) throw new Refusal(404, "transaction_not_found", `Transaction not found by Transaction hash(${hash})`);
    const common = {
      hash,
      sender: t.sender,
      sequence_number: String(t.accountSequence),
      max_gas_amount: String(t.maxGas),
      gas_unit_price: String(t.gasPrice),
      expiration_timestamp_secs: String(t.expiration),
    };
    if (t.pending) return { type: "pending_transaction", ...common };
    return { type: "user_transaction", version: String(t.version), success: t.success, vm_status: t.vmStatus, gas_used: String(t.gasUsed), ...common };
  }
}
