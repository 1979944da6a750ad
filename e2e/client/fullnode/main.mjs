// Fullnodes for tests over one chain. On a loopback port, each serves the REST API that the chain's
// fullnodes have. Lines of JSON on standard input control them, {"id", "node", "command",
// "parameters"}, where node is a fullnode's number, from 0; each line has a response on standard
// output. They end with standard input.
//
//   node main.mjs '{"chainId", "module", "clock", "rule": {"amounts", "balance"}}'
import { createInterface } from "node:readline";
import { Ledger } from "./ledger.mjs";
import { Node } from "./node.mjs";

const newLedger = ({ clock, ...options }) => new Ledger({ ...options, clock: clock === undefined ? null : BigInt(clock) });
let ledger = newLedger(JSON.parse(process.argv[2]));
const nodes = [];

// addNode starts a fullnode, and returns its number and port.
async function addNode() {
  const node = new Node(ledger);
  return { node: nodes.push(node) - 1, port: await node.start() };
}

// Numbers that JSON cannot represent exactly are strings of digits. Nodes are left out.
const asText = (value) => JSON.stringify(value, (_, member) => (typeof member === "bigint" ? String(member) : member instanceof Node ? undefined : member));

const keyOf = (channel) => ledger.contract.key(channel);

// The commands. The second parameter is the fullnode.
const commands = {
  reset(options) {
    ledger = newLedger(options);
    for (const node of nodes) node.reset(ledger);
  },
  addNode,
  kill: (_, node) => node.kill(),
  restart: (_, node) => node.restart(),
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
  gasPrices: (prices, node) => void (node.gasPrices = prices),
  key: ({ address, key }) => void ledger.keys.set(address, key),
  accountSequence: ({ address, sequence }) => void ledger.accountSequences.set(address, BigInt(sequence)),
  prune: (_, node) => void (node.oldest = ledger.version),
  forget: (_, node) => void (node.forgotten = new Set(ledger.executed.map(({ hash }) => hash))),
  lie: ({ micros }, node) => void (node.ahead = BigInt(micros)),
  fault: (fault, node) => void node.faults.push(fault),
  heal: (_, node) => void (node.faults = []),
  chain: ({ chainId }, node) => void (node.chainId = chainId),
  rule: (rule) => void (ledger.contract.rule = rule),
  advance: ({ micros }) => ledger.advance(BigInt(micros)),
  hold: () => void (ledger.held = true),
  execute: ({ reversed }) => {
    ledger.held = false;
    ledger.execute(reversed);
  },
  executed: () => ledger.executed,
  requests: ({ operation }, node) => node.of(operation),
  awaitRequests: ({ operation, count }, node) => node.reached(operation, count),
};

console.log(JSON.stringify(await addNode()));
createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const { id, node, command, parameters } = JSON.parse(line);
    try {
      console.log(asText({ id, result: (await commands[command](parameters, nodes[node])) ?? null }));
    } catch (error) {
      console.log(asText({ id, error: String(error) }));
    }
  })
  .on("close", () => process.exit(0));
