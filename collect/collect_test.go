package collect

import (
	"bytes"
	"crypto/sha3"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/chain"
	"sluice/micropay"
	"sluice/test/testenv"
)

// memoryNode is a fullnode with the contract, in memory, for tests in a bubble: it executes
// submitted transactions by the contract's rules, and fails as configured.
type memoryNode struct {
	mu       sync.Mutex
	channels map[uint64]*contract
	known    map[string]*transaction
	count    map[string]int // submissions by hash
	executed map[uint64]int // successful executions by channel

	takes     time.Duration // for each call
	late      time.Duration // by which the chain's clock is ahead
	fail      int           // submissions that are executed without success
	hang      map[uint64]bool
	additive  bool // the contract adds amounts instead of taking them as cumulative
	untouched bool // withdrawals do not reduce the balance

	version  uint64          // the chain's, which each execution increases by two
	after    func(*contract) // called after each execution, for a third party's acts on the chain
	stands   time.Time       // the time of https://stands.example; it executes nothing
	versions int             // with which a view at a version is refused; 0: it is served
	timeless bool            // views at a version show the present
	past     int             // views that show the channel before its last change
	behind   time.Duration   // by which these are behind
}

type contract struct {
	sender                   micropay.Address
	deposit, withdrawn, next uint64
	gone                     bool
	states                   []state // before and after each execution
}

// state is a contract at a version.
type state struct {
	version uint64
	contract
}

// at returns the contract at a version.
func (c *contract) at(version uint64) contract {
	for _, s := range slices.Backward(c.states) {
		if s.version <= version {
			return s.contract
		}
	}
	return *c
}

type transaction struct {
	success bool
	status  string
	version uint64
}

func (f *memoryNode) now() time.Time { return time.Now().Add(f.late) }

func (f *memoryNode) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	takes := f.takes
	if r.URL.Path == "/v1/transactions" && f.hangs(body) {
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.URL.Host == "stands.example" {
		return f.standsStill(r, body)
	}
	ledger := f.now()
	if r.URL.Path == "/v1/view" && f.past > 0 {
		ledger = ledger.Add(-f.behind)
	}
	status, text, err := f.answer(r, body)
	if err != nil {
		return nil, err
	}
	return response(r, ledger, status, text), nil
}

// standsStill answers for a fullnode at which time stands still: it accepts transactions and never
// executes them.
func (f *memoryNode) standsStill(r *http.Request, body []byte) (*http.Response, error) {
	switch r.URL.Path {
	case "/v1/transactions":
		return response(r, f.stands, 202, fmt.Sprintf(`{"hash":"%s"}`, hashOf(body))), nil
	case "/v1/view":
		return response(r, f.stands, 200, "[[]]"), nil
	case "/v1/":
		return response(r, f.stands, 200, fmt.Sprintf(`{"chain_id":4,"ledger_version":"1","ledger_timestamp":"%d"}`, f.stands.UnixMicro())), nil
	default:
		return response(r, f.stands, 404, `{"message":"not found","error_code":"transaction_not_found"}`), nil
	}
}

func response(r *http.Request, ledger time.Time, status int, text string) *http.Response {
	h := http.Header{}
	h.Set("X-Aptos-Chain-Id", "4")
	h.Set("X-Aptos-Ledger-Timestampusec", fmt.Sprint(ledger.UnixMicro()))
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(text)), Request: r}
}

// hashOf returns a transaction's hash.
func hashOf(body []byte) string {
	prefix := sha3.Sum256([]byte("APTOS::Transaction"))
	sum := sha3.Sum256(append(append(prefix[:], 0), body...))
	return "0x" + hex.EncodeToString(sum[:])
}

func number(body []byte, at int) uint64 { return binary.LittleEndian.Uint64(body[at:]) }

func (f *memoryNode) hangs(body []byte) bool { return f.hang[number(body, 119)] }

func (f *memoryNode) answer(r *http.Request, body []byte) (int, string, error) {
	switch path := strings.TrimPrefix(r.URL.Path, "/v1"); path {
	case "/":
		return 200, fmt.Sprintf(`{"chain_id":4,"ledger_version":"%d","ledger_timestamp":"%d"}`, f.version, f.now().UnixMicro()), nil
	case "/transactions":
		return f.submit(body)
	case "/view":
		version := f.version
		if at := r.URL.Query().Get("ledger_version"); at != "" && f.versions != 0 {
			return f.versions, `{"message":"the version is not known","error_code":"version"}`, nil
		} else if at != "" && !f.timeless {
			version, _ = strconv.ParseUint(at, 10, 64)
		} else if f.past > 0 {
			f.past--
			version--
		}
		var list []string
		for id, c := range f.channels {
			c := *c
			if version != f.version {
				c = c.at(version)
			}
			if c.gone || !bytes.Contains(body, c.sender[:]) {
				continue
			}
			balance := c.deposit - c.withdrawn
			if f.untouched {
				balance = c.deposit
			}
			list = append(list, fmt.Sprintf(`{"asset_metadata":{"inner":"%s"},"balance":"%d","creation_micros":"1","expiration_micros":"%d","next_withdrawn_sequence_number":"%d","payment_channel_id":"%d","receiver_withdrawn_amount":"%d"}`,
				asset, balance, time.Now().Add(time.Hour).UnixMicro(), c.next, id, c.withdrawn))
		}
		return 200, "[[" + strings.Join(list, ",") + "]]", nil
	default:
		hash := path[strings.LastIndex(path, "/")+1:]
		t := f.known[hash]
		if t == nil {
			return 404, `{"message":"not found","error_code":"transaction_not_found"}`, nil
		}
		return 200, fmt.Sprintf(`{"type":"user_transaction","hash":"%s","success":%t,"vm_status":"%s","gas_used":"7","gas_unit_price":"100","version":"%d"}`, hash, t.success, t.status, t.version), nil
	}
}

func (f *memoryNode) submit(body []byte) (int, string, error) {
	hash := hashOf(body)
	f.count[hash]++
	accepted := fmt.Sprintf(`{"hash":"%s"}`, hash)
	refused := func(code int, label string) (int, string, error) {
		return 400, fmt.Sprintf(`{"message":"%s","error_code":"vm_error","vm_error_code":%d}`, label, code), nil
	}
	switch {
	case f.known[hash] != nil:
		return refused(39, "NONCE_ALREADY_USED")
	case !f.now().Before(time.Unix(int64(number(body, 196)), 0)):
		return refused(6, "TRANSACTION_EXPIRED")
	case f.fail > 0:
		f.fail--
		f.known[hash] = &transaction{status: "Move abort in 0x3::micropayments"}
		return 202, accepted, nil
	}
	f.known[hash] = f.execute(number(body, 110), number(body, 119), number(body, 128))
	return 202, accepted, nil
}

func (f *memoryNode) execute(amount, id, sequence uint64) *transaction {
	c := f.channels[id]
	if f.additive {
		amount += c.withdrawn
	}
	if sequence < c.next || amount <= c.withdrawn || amount > c.deposit {
		return &transaction{status: "Move abort: insufficient"}
	}
	f.version += 2
	c.states = append(c.states, state{f.version - 1, *c})
	c.withdrawn, c.next = amount, sequence+1
	c.states = append(c.states, state{f.version, *c})
	done := &transaction{success: true, status: "Executed successfully", version: f.version}
	if f.executed[id]++; f.after != nil {
		f.after(c)
		f.version++
	}
	return done
}

// deposit is the deposit of a world's channels. Their payments are due at once when settleAt units
// wait.
const deposit, settleAt = 10_000, 500

// world is a market on a memoryNode in a bubble.
type world struct {
	*market
	node  *memoryNode
	stops []func() // of collectors that run until the test ends
}

// inWorld runs a test in a bubble, at a whole second: expirations are whole seconds.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	dir := testenv.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		node := &memoryNode{channels: map[uint64]*contract{}, known: map[string]*transaction{}, count: map[string]int{}, executed: map[uint64]int{}, hang: map[uint64]bool{}}
		store := openSQLite(t, dir)
		w := &world{market: newMarket(t, store, node.client("https://node.example/v1")), node: node}
		defer func() {
			for _, stop := range w.stops {
				stop()
			}
			w.audit()
			testenv.Check(t, store.Close())
		}()
		test(t, w)
	})
}

// client returns options for a client of these fullnodes.
func (f *memoryNode) client(nodes ...string) chain.Options {
	return chain.Options{Nodes: nodes, Transport: f, Rounds: 2}
}

// start runs a collector until the test ends.
func (w *world) start() { w.stops = append(w.stops, w.run()) }

// open opens a channel on the chain and in the store.
func (w *world) open(number uint64) *channel {
	w.t.Helper()
	c := w.market.open(number, deposit)
	w.node.channels[number] = &contract{sender: c.payer.Address(), deposit: deposit, next: 1}
	return c
}

// openMany opens channels, and accepts a payment over each.
func (w *world) openMany(n, amount uint64) (channels []*channel) {
	w.t.Helper()
	for number := range n {
		c := w.open(number)
		c.offer(amount)
		channels = append(channels, c)
	}
	return channels
}

// offer accepts a payment of more units that lives for a minute.
func (c *channel) offer(more uint64) { c.t.Helper(); c.pay(more, time.Minute, settleAt) }

// wantReport fails the test unless a failure was reported.
func (w *world) wantReport(text string) {
	w.t.Helper()
	if !w.hasReported(text) {
		w.t.Errorf("it is not reported that %s: %v", text, w.errors())
	}
}

// wantSettled checks a channel's settled amount, and that the chain agrees.
func (w *world) wantSettled(c *channel, want int64) {
	w.t.Helper()
	synctest.Wait()
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	paid := w.node.channels[c.number].withdrawn
	if state := c.state(); state.Settled != want || state.Withdrawn != want || paid != uint64(want) {
		w.t.Errorf("settled %d, withdrawn %d, on the chain %d, want %d: %v", state.Settled, state.Withdrawn, paid, want, w.errors())
	}
}

// wantExecuted checks how many transactions were executed over a channel.
func (w *world) wantExecuted(c *channel, want int) {
	w.t.Helper()
	testenv.Equal(w.t, w.node.executed[c.number], want, "transactions over channel %d", c.number)
}

func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// paidOne runs a collector until the test ends, pays 600 units over a new channel and waits.
func (w *world) paidOne(after time.Duration) *channel {
	w.t.Helper()
	c := w.open(1)
	w.start()
	c.offer(600)
	w.wait(after)
	return c
}

// settlesOne checks that a payment over a new channel is settled after a time.
func (w *world) settlesOne(after time.Duration) *channel {
	w.t.Helper()
	c := w.paidOne(after)
	w.wantSettled(c, 600)
	return c
}

// TestGasIsSpentOnceForManyPayments checks that payments are collected together after half the
// first one's life, and at once when enough is unsettled.
// Invariant 166.
func TestGasIsSpentOnceForManyPayments(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		c := w.open(1)
		w.start()
		for range 29 {
			c.offer(10)
			w.wait(time.Second)
		}
		w.wantSettled(c, 0)
		w.wait(5 * time.Second)
		w.wantSettled(c, 290)
		c.offer(settleAt - 1)
		w.wait(5 * time.Second)
		w.wantSettled(c, 290)
		c.offer(1)
		w.wait(5 * time.Second)
		w.wantSettled(c, 290+settleAt)
		w.wantExecuted(c, 2)
	})
}

// TestFailureStopsTheChannel checks that a contract that aborts stops sales, with its words, until
// a renewal is collected. A deposit alone does not end that.
// Invariant 166.
func TestFailureStopsTheChannel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const reason = "Move abort in 0x3::micropayments"
		w.node.fail = 1
		c := w.paidOne(10 * time.Second)
		if got := c.refused("after a failure"); !strings.Contains(got, reason) {
			t.Errorf("the channel has stopped: %s", got)
		}
		w.wantReport(reason)
		w.node.channels[1].deposit += 50
		r := Reader{Chain: newClient(t, w.node.client("https://node.example/v1")), Receiver: w.receiver.Address()}
		reading := testenv.Must(r.Read(t.Context(), c.payer.Address().String(), asset, 1))(t)
		testenv.OK(t, testenv.Error(w.store.RecordReading(t.Context(), c.id, reading)))
		c.refused("after a new deposit")
		c.renew(time.Minute, 0)
		w.wait(10 * time.Second)
		w.wantSettled(c, 600)
		c.offer(10)
	})
}

// TestFullnodeThatStandsStill checks that payments are collected in time if time stands still at
// the first fullnode, although it answers.
// Invariant 172.
func TestFullnodeThatStandsStill(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.node.stands = time.Now().Add(-time.Hour)
		w.opt.Chain = newClient(t, w.node.client("https://stands.example/v1", "https://node.example/v1"))
		w.settlesOne(20 * time.Second)
	})
}

// TestHangingChannelDelaysNoOther checks that a call that hangs delays no other channel.
// Invariant 165.
func TestHangingChannelDelaysNoOther(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.opt.Parallel = 4
		channels := w.openMany(10, 600)
		w.node.hang[0], w.node.hang[1] = true, true
		w.start()
		w.wait(20 * time.Second)
		for _, c := range channels[2:] {
			w.wantSettled(c, 600)
		}
	})
}

// TestManyChannelsAreCollectedInTime checks that many channels are collected before their payments
// expire, although each call takes a second and few run at the same time.
// Invariant 165.
func TestManyChannelsAreCollectedInTime(t *testing.T) { collectsMany(t, 240, 16) }

// collectsMany pays over channels that are all due after half a minute, and expire after another
// half, on a chain that takes a second for each call.
func collectsMany(t *testing.T, channels uint64, parallel int) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opt.Parallel = parallel
		w.node.takes = time.Second
		many := w.openMany(channels, 100)
		w.start()
		w.wait(2 * time.Minute)
		for _, c := range many {
			w.wantExecuted(c, 1)
			w.wantSettled(c, 100)
		}
		testenv.Equal(t, len(w.errors()), 0, "reports")
	})
}

// TestOtherRulesHaltSettling runs contracts with other rules than those that are assumed.
// Invariant 166.
func TestOtherRulesHaltSettling(t *testing.T) {
	for label, rule := range map[string]func(*memoryNode){
		"not 600":                     func(f *memoryNode) { f.additive = true },
		"has not reduced the balance": func(f *memoryNode) { f.untouched = true },
	} {
		t.Run(label, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				c, other := w.open(1), w.open(2)
				w.node.channels[1].withdrawn, w.node.channels[1].next = 7, 1 // withdrawn by another instance
				rule(w.node)
				w.start()
				c.offer(600)
				w.wait(10 * time.Second)
				w.wantHalt(label)
				other.refused("over another channel")
				w.wait(10 * time.Second)
				w.wantReport("settling has halted")
			})
		})
	}
}
