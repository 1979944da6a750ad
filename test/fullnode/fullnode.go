// Package fullnode runs a fullnode of the payment chain for tests. It is a Node.js process
// (e2e/client/fullnode) that decodes and verifies each submitted transaction with the chain's own
// npm package, keeps accounts and the contract's payment channels, executes each transaction once,
// simulates, and serves the part of the REST API that package chain and the public client use. The
// public client's transactions open, extend and end channels too.
//
// It differs from a real fullnode where a test commands it to: it loses, delays and falsifies
// responses, drops transactions or executes them with failure, changes their order, forgets them,
// prunes versions, belongs to another chain, has another clock, and lies about its time. A test can
// replace the contract's rules that are not documented.
package fullnode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"sluice/test/testenv"
)

// The defaults of Options.
const (
	DefaultChainID = 4
	// DefaultModule is the address at which the public client expects the contract.
	DefaultModule = "0xb42ac038b6dae86f6171e28e297aab9555ce09909445ec579e4ffe6b8d4d63bf"
)

// Options configure a fullnode. The zero value selects the defaults.
type Options struct {
	ChainID uint8
	Module  string // the contract's address, with 64 digits
	// Clock is the chain's time, which stands still until Advance. The zero time selects the
	// machine's clock.
	Clock time.Time
	Rule  Rule
}

// MarshalJSON returns the options with their defaults as the process reads them.
func (o Options) MarshalJSON() ([]byte, error) {
	parameters := map[string]any{"chainId": cmp.Or(o.ChainID, DefaultChainID), "module": cmp.Or(o.Module, DefaultModule), "rule": o.Rule}
	if !o.Clock.IsZero() {
		parameters["clock"] = Time{o.Clock}
	}
	return json.Marshal(parameters)
}

// Rule is one of the contract's rules that the public client does not document. The zero value is
// the rule that we assume.
type Rule struct {
	// SingleAmounts means that the amount of each micropayment is paid in addition to the earlier
	// ones. Otherwise amounts are cumulative.
	SingleAmounts bool
	// BalanceStays means that a channel's balance is its deposit. Otherwise it falls with
	// withdrawals.
	BalanceStays bool
}

// MarshalJSON returns the rule as the process reads it.
func (r Rule) MarshalJSON() ([]byte, error) {
	names := map[string]string{"amounts": "cumulative", "balance": "falls"}
	if r.SingleAmounts {
		names["amounts"] = "single"
	}
	if r.BalanceStays {
		names["balance"] = "stays"
	}
	return json.Marshal(names)
}

// Channel is a payment channel on the chain. Addresses have 64 digits.
type Channel struct {
	Sender       string `json:"sender"`
	Receiver     string `json:"receiver"`
	Asset        string `json:"asset"`
	ID           uint64 `json:"channel,string"`
	Deposit      uint64 `json:"deposit,string"`
	Withdrawn    uint64 `json:"withdrawn,string"`
	NextSequence uint64 `json:"nextSequence,string"` // the least that is accepted
	Created      Time   `json:"created"`
	Expires      Time   `json:"expires"`
}

// Time is a time as the process writes it: microseconds since 1970 as text.
type Time struct{ time.Time }

// MarshalJSON returns the microseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatInt(t.UnixMicro(), 10))
}

// UnmarshalJSON parses the microseconds.
func (t *Time) UnmarshalJSON(text []byte) error {
	micros, err := strconv.ParseInt(string(text[1:len(text)-1]), 10, 64)
	t.Time = time.UnixMicro(micros).UTC()
	return err
}

// Executed is an executed transaction.
type Executed struct {
	Hash     string `json:"hash"`
	Function string `json:"name"`
	Sender   string `json:"sender"`
	Receiver string `json:"receiver"`
	Asset    string `json:"asset"`
	Channel  uint64 `json:"channel,string"`
	Sequence uint64 `json:"sequence,string"`
	Amount   uint64 `json:"amount,string"`
	Success  bool   `json:"success"`
	VMStatus string `json:"vmStatus"`
	Paid     uint64 `json:"paid,string"` // the asset's units that the receiver got
	Gas      uint64 `json:"gasUsed,string"`
}

// Operation is one of the REST API's operations.
type Operation string

// The operations.
const (
	Any      Operation = "" // in a Fault
	Head     Operation = "head"
	Gas      Operation = "gas"
	Account  Operation = "account"
	Simulate Operation = "simulate"
	Submit   Operation = "submit"
	Lookup   Operation = "lookup"
	View     Operation = "view"
)

// Effect is how a request with a fault is executed.
type Effect string

// The effects.
const (
	Executes Effect = ""
	Skip     Effect = "skip" // not at all
	Drop     Effect = "drop" // the transaction is accepted and forgotten
	Fail     Effect = "fail" // the transaction is executed or simulated with failure
)

// Answer is how a request with a fault is answered.
type Answer string

// The answers.
const (
	Answers     Answer = ""
	Hang        Answer = "hang"    // not before the client closes the connection
	Cut         Answer = "cut"     // the connection is closed
	Garbage     Answer = "garbage" // the body is the start of one
	WrongStatus Answer = "status"
)

// Fault is how the fullnode fails. The zero value is no fault.
type Fault struct {
	On         Operation     `json:"on"`
	Times      int           `json:"times"` // how many requests have the fault; 0: all until Heal
	Delay      time.Duration `json:"-"`     // before the effect
	Effect     Effect        `json:"effect"`
	VMStatus   string        `json:"vmStatus"` // of Fail
	Answer     Answer        `json:"answer"`
	Status     int           `json:"status"`     // of WrongStatus
	RetryAfter int           `json:"retryAfter"` // seconds in the Retry-After header of WrongStatus; 0: no header
}

// Interruptions are the steps at which a submission's sender can end, each with the fault that
// makes it wait there.
var Interruptions = []struct {
	Name  string
	Fault Fault
}{
	{"before the submission arrives", Fault{On: Submit, Effect: Skip, Answer: Hang}},
	{"before its response", Fault{On: Submit, Answer: Hang}},
	{"before its outcome is known", Fault{On: Lookup, Answer: Hang}},
	{"before the channel is read", Fault{On: View, Answer: Hang}},
	{"while a dropped one is awaited", Fault{On: Submit, Times: 1, Effect: Drop}},
}

// Request is a request that the fullnode received.
type Request struct {
	Method        string `json:"method"`
	Path          string `json:"path"`
	ContentType   string `json:"contentType"`
	Authorization string `json:"authorization"`
	Body          string `json:"body"` // in hexadecimal
}

// Node is a running fullnode. Its methods may be called concurrently; they end the test on an
// error.
type Node struct {
	tb      testing.TB
	number  int
	port    int
	process *process
}

// Start starts a fullnode, which is stopped when the test ends. It calls testenv.Require for NPM.
func Start(tb testing.TB, opt Options) *Node {
	tb.Helper()
	testenv.Require(tb, testenv.NPM)
	p, err := takeProcess(tb.Context(), opt)
	testenv.OK(tb, err)
	tb.Cleanup(func() {
		if err := p.leave(); err != nil {
			tb.Errorf("the fullnode for tests: %v", err)
		}
	})
	return &Node{tb: tb, port: p.port, process: p}
}

// do runs a command and decodes its result into result, unless that is nil.
func (n *Node) do(command string, parameters, result any) {
	n.tb.Helper()
	if err := n.process.do(n.tb.Context(), n.number, command, parameters, result); err != nil {
		n.tb.Fatalf("the fullnode for tests: %s: %v", command, err)
	}
}

// URL returns the REST API's base URL.
func (n *Node) URL() string { return fmt.Sprintf("http://127.0.0.1:%d/v1", n.port) }

// Beside starts another fullnode of the same chain, which is stopped with this one. Both show one
// chain, but have their own gas prices, faults, requests and time, and only one has forgotten or
// pruned something.
func (n *Node) Beside() *Node {
	n.tb.Helper()
	n.process.changed.Store(true)
	var added struct{ Node, Port int }
	n.do("addNode", nil, &added)
	return &Node{tb: n.tb, number: added.Node, port: added.Port, process: n.process}
}

// Kill lets the node close all connections, and each further one until Restart, and lose the
// transactions that were submitted to it and are pending. Executed transactions remain.
func (n *Node) Kill() {
	n.tb.Helper()
	n.process.changed.Store(true)
	n.do("kill", nil, nil)
}

// Restart ends the effect of Kill.
func (n *Node) Restart() { n.tb.Helper(); n.do("restart", nil, nil) }

// Reset sets the node and those beside it to their state after Start with these options.
func (n *Node) Reset(opt Options) { n.tb.Helper(); n.do("reset", opt, nil) }

// Open opens a channel, or replaces its state.
func (n *Node) Open(c Channel) { n.tb.Helper(); n.do("open", c, nil) }

// Remove ends a channel on the chain.
func (n *Node) Remove(c Channel) { n.tb.Helper(); n.do("remove", c, nil) }

// Reopen ends a channel on the chain, and opens this one under its number, which should have been
// created later.
func (n *Node) Reopen(c Channel) { n.tb.Helper(); n.Remove(c); n.Open(c) }

// Deposit adds an amount to a channel's deposit on the chain, whatever was withdrawn meanwhile.
func (n *Node) Deposit(c Channel, amount uint64) {
	n.tb.Helper()
	n.do("deposit", struct {
		Channel
		Amount uint64 `json:"amount,string"`
	}{c, amount}, nil)
}

// Extend sets the time at which a channel expires on the chain, whatever was withdrawn meanwhile.
func (n *Node) Extend(c Channel, until time.Time) {
	n.tb.Helper()
	n.do("extend", struct {
		Channel
		Until Time `json:"until"`
	}{c, Time{until}}, nil)
}

// Channels returns all channels in the order in which they were opened.
func (n *Node) Channels() (list []Channel) { n.tb.Helper(); n.do("channels", nil, &list); return list }

// SetGas sets the units of gas, times their price, that an account can pay. Without it they are
// unlimited. An account that sends a transaction alone must have been given some, or a sequence
// number.
func (n *Node) SetGas(address string, units uint64) {
	n.tb.Helper()
	n.do("gas", map[string]string{"address": address, "units": strconv.FormatUint(units, 10)}, nil)
}

// GasLeft returns the amount that SetGas has set, less the account's payments since. Without SetGas
// it ends the test.
func (n *Node) GasLeft(address string) (units uint64) {
	n.tb.Helper()
	var text string
	n.do("gas", map[string]string{"address": address}, &text)
	units, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		n.tb.Fatal(err)
	}
	return units
}

// SetCosts sets the least maximum gas that a transaction may have, and the gas that its execution
// uses: with a lower maximum it fails. Without it they are 3 and 12.
func (n *Node) SetCosts(minGas, execution uint64) {
	n.tb.Helper()
	n.do("costs", map[string]string{"minGas": strconv.FormatUint(minGas, 10), "execution": strconv.FormatUint(execution, 10)}, nil)
}

// GasPrices are the estimates of a unit of gas's price.
type GasPrices struct {
	Lowest  uint64 `json:"lowest"`
	Usual   uint64 `json:"usual"`
	Highest uint64 `json:"highest"`
}

// SetGasPrices sets the estimates. Without it they are 100, 100 and 150. A transaction is executed
// at any price from 100.
func (n *Node) SetGasPrices(p GasPrices) { n.tb.Helper(); n.do("gasPrices", p, nil) }

// RotateKey replaces an account's authentication key, which at first is its address, by the address
// that the new keys would have.
func (n *Node) RotateKey(address, authenticationKey string) {
	n.tb.Helper()
	n.do("key", map[string]string{"address": address, "key": authenticationKey}, nil)
}

// SetAccountSequence sets the sequence number for an account's next transaction without a nonce.
func (n *Node) SetAccountSequence(address string, sequence uint64) {
	n.tb.Helper()
	n.do("accountSequence", map[string]string{"address": address, "sequence": strconv.FormatUint(sequence, 10)}, nil)
}

// Fail adds a fault. A request has the first fault of its operation.
func (n *Node) Fail(f Fault) {
	n.tb.Helper()
	type plain Fault
	n.do("fault", struct {
		plain
		DelayMillis int64 `json:"delayMillis"`
	}{plain(f), f.Delay.Milliseconds()}, nil)
}

// Heal removes all faults. Requests that hang continue to do so.
func (n *Node) Heal() { n.tb.Helper(); n.do("heal", nil, nil) }

// SetChain sets the chain to which the node states that it belongs.
func (n *Node) SetChain(id uint8) { n.tb.Helper(); n.do("chain", map[string]uint8{"chainId": id}, nil) }

// SetRule replaces the contract's rule.
func (n *Node) SetRule(r Rule) { n.tb.Helper(); n.do("rule", r, nil) }

// Advance advances the chain's clock.
func (n *Node) Advance(d time.Duration) {
	n.tb.Helper()
	n.do("advance", map[string]string{"micros": strconv.FormatInt(d.Microseconds(), 10)}, nil)
}

// Lie lets the node state a time in its answers that is ahead of the chain's clock, or behind it if
// d is negative.
func (n *Node) Lie(d time.Duration) {
	n.tb.Helper()
	n.do("lie", map[string]string{"micros": strconv.FormatInt(d.Microseconds(), 10)}, nil)
}

// Prune lets the node forget the chain's state at all versions before the newest.
func (n *Node) Prune() { n.tb.Helper(); n.do("prune", nil, nil) }

// Forget lets the node forget the executed transactions, but not their effects.
func (n *Node) Forget() { n.tb.Helper(); n.do("forget", nil, nil) }

// Hold leaves transactions pending until Execute or ExecuteReversed. Without it they are executed
// when they are submitted.
func (n *Node) Hold() { n.tb.Helper(); n.do("hold", nil, nil) }

// Execute ends Hold and executes the pending transactions in the order of their submission.
func (n *Node) Execute() { n.tb.Helper(); n.do("execute", map[string]bool{"reversed": false}, nil) }

// ExecuteReversed is Execute in the reverse order.
func (n *Node) ExecuteReversed() {
	n.tb.Helper()
	n.do("execute", map[string]bool{"reversed": true}, nil)
}

// Executed returns the executed transactions in their order, both those that succeeded and those
// that did not.
func (n *Node) Executed() (list []Executed) { n.tb.Helper(); n.do("executed", nil, &list); return list }

// Requests returns an operation's requests that were answered or will not be.
func (n *Node) Requests(of Operation) (list []Request) {
	n.tb.Helper()
	n.do("requests", map[string]Operation{"operation": of}, &list)
	return list
}

// AwaitRequests waits until Requests would return count requests or more. The client may not have
// seen the answer to the last one yet.
func (n *Node) AwaitRequests(of Operation, count int) {
	n.tb.Helper()
	n.do("awaitRequests", map[string]any{"operation": of, "count": count}, nil)
}
