// A fullnode for tests. It serves the REST API of the chain's fullnodes on a loopback port, and is controlled by
// lines of JSON on standard input; each has a response on standard output. It ends with its standard input.
//
//   node main.mjs '{"chainId", "module", "clock", "rule": {"amounts", "balance"}}'
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Deserializer } from "@aptos-labs/ts-sdk";
import { abi } from "./abi.mjs";
import { Ledger } from "./ledger.mjs";
import { Refusal, decode } from "./transaction.mjs";

let ledger;
let statedChainId; // that of the headers and of the ledger information
let statedAhead; // by how many microseconds the time in all answers is ahead of the ledger's clock
let gasPrices; // the estimates: lowest, usual, highest
let faults;
let requests; // that reached their outcome
let waiting = []; // callbacks that want to know of more requests

function reset({ chainId, module, clock, rule }) {
  ledger = new Ledger({ chainId, module, clock: clock === undefined ? null : BigInt(clock), rule });
  statedChainId = chainId;
  statedAhead = 0n;
  gasPrices = { lowest: 100, usual: 100, highest: 150 };
  faults = [];
  requests = [];
}
reset(JSON.parse(process.argv[2]));

const operations = [
  ["ledger", "GET", /^\/v1\/?$/, ledgerInformation],
  ["gas", "GET", /^\/v1\/estimate_gas_price$/, gasEstimates],
  ["submit", "POST", /^\/v1\/transactions$/, submit],
  ["simulate", "POST", /^\/v1\/transactions\/simulate$/, simulate],
  ["lookup", "GET", /^\/v1\/transactions\/by_hash\/(0x[0-9a-f]{64})$/, ({ found }) => ledger.lookup(found[1])],
  ["wait", "GET", /^\/v1\/transactions\/wait_by_hash\/(0x[0-9a-f]{64})$/, ({ found }) => ledger.lookup(found[1])],
  ["view", "POST", /^\/v1\/view(?:\?ledger_version=(\d+))?$/, view],
  ["account", "GET", /^\/v1\/accounts\/(0x[0-9a-f]+)$/, ({ found }) => ledger.account(found[1])],
  ["module", "GET", /^\/v1\/accounts\/(0x[0-9a-f]+)\/module\/micropayments$/, module],
];

function ledgerInformation() {
  return {
    chain_id: statedChainId,
    epoch: "1",
    ledger_version: String(ledger.version),
    oldest_ledger_version: String(ledger.oldest),
    ledger_timestamp: String(statedTime()),
    node_role: "full_node",
    oldest_block_height: "0",
    block_height: String(ledger.version),
    git_hash: "",
  };
}

function statedTime() {
  return ledger.now() + statedAhead;
}

function gasEstimates() {
  return { deprioritized_gas_estimate: gasPrices.lowest, gas_estimate: gasPrices.usual, prioritized_gas_estimate: gasPrices.highest };
}

function submit({ type, body, fault }) {
  const transaction = signedTransaction(type, body);
  if (fault.effect !== "drop") ledger.submit(transaction, failureOf(fault));
  return { hash: transaction.hash };
}

function simulate({ type, body, fault }) {
  return [ledger.simulate(signedTransaction(type, body), failureOf(fault))];
}

function signedTransaction(type, body) {
  if (type !== "application/x.aptos.signed_transaction+bcs") throw new Refusal(415, "web_framework_error", `the content type is ${type}`);
  return decode(body);
}

const failureOf = (fault) => (fault.effect === "fail" ? fault.vmStatus : "");

function view({ found, type, body }) {
  if (type !== "application/x.aptos.view_function+bcs") throw new Refusal(415, "web_framework_error", `the content type is ${type}`);
  const encoded = new Deserializer(body);
  const address = () => "0x" + Buffer.from(encoded.deserializeFixedBytes(32)).toString("hex");
  const [account, name, called] = [address(), encoded.deserializeStr(), encoded.deserializeStr()];
  const types = encoded.deserializeUleb128AsU32();
  const parameters = [];
  for (let rest = encoded.deserializeUleb128AsU32(); rest > 0; rest--) parameters.push("0x" + Buffer.from(encoded.deserializeBytes()).toString("hex"));
  if (account !== ledger.module || name !== "micropayments") throw new Refusal(404, "module_not_found", `Module not found by Address(${account}), Module name(${name})`);
  const wanted = { get_all_channels_from_sender: 1, get_all_channels_from_sender_to_receiver: 2 }[called];
  if (types !== 0 || parameters.length !== wanted || encoded.remaining() > 0) throw new Refusal(400, "invalid_input", `${called} with ${parameters.length} arguments`);
  const version = found[1] === undefined ? undefined : BigInt(found[1]);
  return [ledger.channelsAt(version, ...parameters)];
}

// module returns the module of the contract, which the public client reads.
function module({ found }) {
  return { bytecode: "0x", abi: abi(found[1]) };
}

const server = createServer(async (request, response) => {
  const parts = [];
  try {
    for await (const part of request) parts.push(part);
  } catch {
    return; // the client ended its request, so it wants no answer
  }
  const body = Buffer.concat(parts);
  const [operation, , path, handle] = operations.find(([, method, path]) => method === request.method && path.test(request.url)) ?? ["", "", /$/, notServed];
  const fault = takeFault(operation);
  if (fault.delayMillis) await sleep(fault.delayMillis);

  const answer = fault.effect === "skip" ? { status: 200, body: {} } : execute(handle, operation, { request, found: path.exec(request.url), type: request.headers["content-type"], body, fault });
  requests.push({ operation, method: request.method, path: request.url, contentType: request.headers["content-type"] ?? "", authorization: request.headers.authorization ?? "", body: body.toString("hex") });
  waiting = waiting.filter((wait) => !wait());
  send(response, fault, answer);
});

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

// takeFault returns the first fault of an operation, and counts it.
function takeFault(operation) {
  const fault = faults.find((fault) => fault.on === "" || fault.on === operation);
  if (fault?.times > 0 && --fault.times === 0) faults.splice(faults.indexOf(fault), 1);
  return fault ?? {};
}

function send(response, fault, answer) {
  const headers = {
    "Content-Type": "application/json",
    "X-Aptos-Chain-Id": statedChainId,
    "X-Aptos-Ledger-Version": ledger.version,
    "X-Aptos-Ledger-Oldest-Version": ledger.oldest,
    "X-Aptos-Ledger-TimestampUsec": statedTime(),
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

// Numbers that JSON cannot represent exactly are strings of digits.
const asText = (value) => JSON.stringify(value, (_, member) => (typeof member === "bigint" ? String(member) : member));

const keyOf = (channel) => ledger.contract.key(channel);

const commands = {
  reset,
  open({ sender, receiver, asset, ...numbers }) {
    const channel = { sender, receiver, asset };
    for (const [name, value] of Object.entries(numbers)) channel[name] = BigInt(value);
    ledger.put(channel);
  },
  remove: (channel) => ledger.change(keyOf(channel), () => ({}), true),
  deposit: ({ amount, ...channel }) => ledger.change(keyOf(channel), ({ deposit }) => ({ deposit: deposit + BigInt(amount) })),
  extend: ({ until, ...channel }) => ledger.change(keyOf(channel), () => ({ expires: BigInt(until) })),
  channels: () => [...ledger.contract.channels.values()],
  gas: ({ address, units }) => (units === undefined ? (ledger.gas.get(address) ?? "unlimited") : void ledger.gas.set(address, BigInt(units))),
  costs: ({ minGas, execution }) => {
    ledger.minGas = BigInt(minGas);
    ledger.gasOfExecution = BigInt(execution);
  },
  gasPrices: (prices) => void (gasPrices = prices),
  key: ({ address, key }) => void ledger.keys.set(address, key),
  prune: () => void (ledger.oldest = ledger.version),
  forget: () => ledger.forget(),
  lie: ({ micros }) => void (statedAhead = BigInt(micros)),
  accountSequence: ({ address, sequence }) => void ledger.accountSequences.set(address, BigInt(sequence)),
  fault: (fault) => void faults.push(fault),
  heal: () => void (faults = []),
  chain: ({ chainId }) => void (statedChainId = chainId),
  rule: (rule) => void (ledger.contract.rule = rule),
  advance: ({ micros }) => ledger.advance(BigInt(micros)),
  hold: () => void (ledger.held = true),
  execute: ({ reversed }) => {
    ledger.held = false;
    ledger.execute(reversed);
  },
  executed: () => ledger.executed,
  requests: ({ operation }) => requests.filter((request) => request.operation === operation),
  awaitRequests: ({ operation, count }) =>
    new Promise((resolve) => {
      const reached = () => requests.filter((request) => request.operation === operation).length >= count && (resolve(), true);
      if (!reached()) waiting.push(reached);
    }),
};

server.listen(0, "127.0.0.1");
await once(server, "listening");
console.log(JSON.stringify({ port: server.address().port }));
createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const { id, command, parameters } = JSON.parse(line);
    try {
      console.log(asText({ id, result: (await commands[command](parameters)) ?? null }));
    } catch (error) {
      console.log(asText({ id, error: String(error) }));
    }
  })
  .on("close", () => process.exit(0));
