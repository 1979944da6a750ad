// A fullnode's REST API over a chain. Several nodes may have the same chain. A node differs from
// them by its statements, its memory and its failures.
import { createServer } from "node:http";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Deserializer } from "@aptos-labs/ts-sdk";
import { abi } from "./abi.mjs";
import { Refusal, decode } from "./transaction.mjs";

export class Node {
  killed = false;

  constructor(ledger) {
    this.reset(ledger);
    this.waiting = []; // callbacks that want to know of more requests
    this.server = createServer((request, response) => this.serve(request, response));
    this.server.on("connection", (socket) => this.killed && socket.destroy());
  }

  // reset forgets everything but the port, and whether the node is killed.
  reset(ledger) {
    this.ledger = ledger;
    this.chainId = ledger.chainId; // in the headers and in the ledger information
    this.ahead = 0n; // by how many microseconds the time in all answers is ahead of the chain's time
    this.gasPrices = { lowest: 100, usual: 100, highest: 150 }; // the estimates
    this.oldest = 0n; // the oldest version that is not pruned
    this.forgotten = new Set(); // hashes of executed transactions
    this.faults = [];
    this.requests = []; // that reached their outcome
  }

  // start listens on a free port, and returns it.
  async start() {
    this.server.listen(0, "127.0.0.1");
    await once(this.server, "listening");
    return this.server.address().port;
  }

  // kill closes all connections, and each further one until restart, and loses the transactions
  // that wait in the node's memory. It does not close the port, which another process could take.
  kill() {
    this.killed = true;
    this.server.closeAllConnections();
    this.ledger.drop((t) => t.node === this);
  }

  restart() {
    this.killed = false;
  }

  operations = [
    ["head", "GET", /^\/v1\/?$/, () => this.information()],
    ["gas", "GET", /^\/v1\/estimate_gas_price$/, () => this.gasEstimates()],
    ["submit", "POST", /^\/v1\/transactions$/, (request) => this.submit(request)],
    ["simulate", "POST", /^\/v1\/transactions\/simulate(?:\?(?:estimate_[a-z_]+=false&?)*)?$/, (request) => this.simulate(request)],
    ["lookup", "GET", /^\/v1\/transactions\/by_hash\/(0x[0-9a-f]{64})$/, ({ found }) => this.lookup(found[1])],
    ["wait", "GET", /^\/v1\/transactions\/wait_by_hash\/(0x[0-9a-f]{64})$/, ({ found }) => this.lookup(found[1])],
    ["view", "POST", /^\/v1\/view(?:\?ledger_version=(\d+))?$/, (request) => this.view(request)],
    ["account", "GET", /^\/v1\/accounts\/(0x[0-9a-f]+)$/, ({ found }) => this.ledger.account(found[1])],
    ["module", "GET", /^\/v1\/accounts\/(0x[0-9a-f]+)\/module\/micropayments$/, ({ found }) => ({ bytecode: "0x", abi: abi(found[1]) })],
  ];

  time() {
    return this.ledger.now() + this.ahead;
  }

  information() {
    return {
      chain_id: this.chainId,
      epoch: "1",
      ledger_version: String(this.ledger.version),
      oldest_ledger_version: String(this.oldest),
      ledger_timestamp: String(this.time()),
      node_role: "full_node",
      oldest_block_height: "0",
      block_height: String(this.ledger.version),
      git_hash: "",
    };
  }

  gasEstimates() {
    const { lowest, usual, highest } = this.gasPrices;
    return { deprioritized_gas_estimate: lowest, gas_estimate: usual, prioritized_gas_estimate: highest };
  }

  submit({ type, body, fault }) {
    const transaction = signedTransaction(type, body);
    if (fault.effect !== "drop") this.ledger.submit(Object.assign(transaction, { node: this }), failureOf(fault));
    return { hash: transaction.hash };
  }

  simulate({ type, body, fault }) {
    return [this.ledger.simulate(signedTransaction(type, body), failureOf(fault))];
  }

  lookup(hash) {
    if (this.forgotten.has(hash)) throw new Refusal(404, "transaction_not_found", `Transaction not found by Transaction hash(${hash})`);
    return this.ledger.lookup(hash);
  }

  view({ found, type, body }) {
    if (type !== "application/x.aptos.view_function+bcs") throw new Refusal(415, "web_framework_error", `the content type is ${type}`);
    const encoded = new Deserializer(body);
    const address = () => "0x" + Buffer.from(encoded.deserializeFixedBytes(32)).toString("hex");
    const [account, name, called] = [address(), encoded.deserializeStr(), encoded.deserializeStr()];
    const types = encoded.deserializeUleb128AsU32();
    const parameters = [];
    for (let rest = encoded.deserializeUleb128AsU32(); rest > 0; rest--) parameters.push("0x" + Buffer.from(encoded.deserializeBytes()).toString("hex"));
    if (account !== this.ledger.module || name !== "micropayments") throw new Refusal(404, "module_not_found", `Module not found by Address(${account}), Module name(${name})`);
    const wanted = { get_all_channels_from_sender: 1, get_all_channels_from_sender_to_receiver: 2 }[called];
    if (types !== 0 || parameters.length !== wanted || encoded.remaining() > 0) throw new Refusal(400, "invalid_input", `${called} with ${parameters.length} arguments`);
    const version = found[1] === undefined ? undefined : BigInt(found[1]);
    if (version > this.ledger.version) throw new Refusal(404, "version_not_found", `Ledger version(${version}) is in the future`);
    if (version < this.oldest) throw new Refusal(410, "version_pruned", `Ledger version(${version}) has been pruned`);
    return [this.ledger.contract.view(version, ...parameters)];
  }

  async serve(request, response) {
    const parts = [];
    try {
      for await (const part of request) parts.push(part);
    } catch {
      return; // the client ended its request, so it wants no answer
    }
    const body = Buffer.concat(parts);
    const [operation, , path, handle] = this.operations.find(([, method, path]) => method === request.method && path.test(request.url)) ?? ["", "", /$/, notServed];
    const fault = this.takeFault(operation);
    if (fault.delayMillis) await sleep(fault.delayMillis);
    if (this.killed) return;

    const answer = fault.effect === "skip" ? { status: 200, body: {} } : execute(handle, operation, { request, found: path.exec(request.url), type: request.headers["content-type"], body, fault });
    this.requests.push({ operation, method: request.method, path: request.url, contentType: request.headers["content-type"] ?? "", authorization: request.headers.authorization ?? "", body: body.toString("hex") });
    this.waiting = this.waiting.filter((wait) => !wait());
    this.send(response, fault, answer);
  }

  // takeFault returns an operation's first fault, and counts it.
  takeFault(operation) {
    const fault = this.faults.find((fault) => fault.on === "" || fault.on === operation);
    if (fault?.times > 0 && --fault.times === 0) this.faults.splice(this.faults.indexOf(fault), 1);
    return fault ?? {};
  }

  // of returns an operation's requests.
  of(operation) {
    return this.requests.filter((request) => request.operation === operation);
  }

  // reached waits for a number of requests for an operation.
  reached(operation, count) {
    return new Promise((resolve) => {
      const reached = () => this.of(operation).length >= count && (resolve(), true);
      if (!reached()) this.waiting.push(reached);
    });
  }

  send(response, fault, answer) {
    const headers = {
      "Content-Type": "application/json",
      "X-Aptos-Chain-Id": this.chainId,
      "X-Aptos-Ledger-Version": this.ledger.version,
      "X-Aptos-Ledger-Oldest-Version": this.oldest,
      "X-Aptos-Ledger-TimestampUsec": this.time(),
    };
    switch (fault.answer) {
      case "hang":
        return;
      case "cut":
        response.socket.destroy();
        return;
      case "garbage":
        response.writeHead(answer.status, headers);
        response.end('{"hash":');
        return;
      case "status":
        if (fault.retryAfter) headers["Retry-After"] = fault.retryAfter;
        response.writeHead(fault.status, headers);
        response.end(JSON.stringify({ message: "the fullnode for tests fails", error_code: "internal_error", vm_error_code: null }));
        return;
      default:
        response.writeHead(answer.status, headers);
        response.end(JSON.stringify(answer.body));
    }
  }
}

function signedTransaction(type, body) {
  if (type !== "application/x.aptos.signed_transaction+bcs") throw new Refusal(415, "web_framework_error", `the content type is ${type}`);
  return decode(body);
}

const failureOf = (fault) => (fault.effect === "fail" ? fault.vmStatus : "");

function notServed({ request }) {
  throw new Refusal(404, "web_framework_error", `the fullnode for tests does not serve ${request.method} ${request.url}`);
}

function execute(handle, operation, request) {
  try {
    return { status: operation === "submit" ? 202 : 200, body: handle(request) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { status: error.status, body: error.body };
  }
}
