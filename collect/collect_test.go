package collect_test

import (
	"bytes"
	"context"
	"crypto/sha3"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/chain"
	"sluice/collect"
	"sluice/database/sqlstore"
	"sluice/internal/task"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/micropay"
)

// fullnode is a fullnode with the contract, in memory: it executes what is submitted to it by the
// contract's rules, and fails as configured.
type fullnode struct {
	mu       sync.Mutex
	channels map[uint64]*contract
	known    map[string]*transaction
	count    map[string]int // submissions by hash
	executed map[uint64]int // successful executions by channel

	takes     time.Duration // for each call
	late      time.Duration // by which the chain's clock is ahead
	lose      int           // submissions that are executed without an answer
	drop      int           // submissions that are accepted and never executed
	fail      int           // submissions that are executed without success
	refuse    int           // submissions that are refused, because the receiver has no coins
	hang      map[uint64]bool
	additive  bool // the contract adds amounts instead of taking them as cumulative
	untouched bool // withdrawals do not reduce the balance

	version  uint64          // the chain's, which each execution increases by two
	after    func(*contract) // called after each execution, for what others do on the chain
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

func (f *fullnode) now() time.Time { return time.Now().Add(f.late) }

func (f *fullnode) RoundTrip(r *http.Request) (*http.Response, error) {
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

// standsStill answers for a fullnode at which time stands still: it accepts what it never executes.
func (f *fullnode) standsStill(r *http.Request, body []byte) (*http.Response, error) {
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

func (f *fullnode) hangs(body []byte) bool { return f.hang[number(body, 119)] }

func (f *fullnode) answer(r *http.Request, body []byte) (int, string, error) {
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
			list = append(list, fmt.Sprintf(`{"asset_metadata":{"inner":"0xa2"},"balance":"%d","creation_micros":"1","expiration_micros":"%d","next_withdrawn_sequence_number":"%d","payment_channel_id":"%d","receiver_withdrawn_amount":"%d"}`,
				balance, time.Now().Add(time.Hour).UnixMicro(), c.next, id, c.withdrawn))
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

func (f *fullnode) submit(body []byte) (int, string, error) {
	hash := hashOf(body)
	f.count[hash]++
	accepted := fmt.Sprintf(`{"hash":"%s"}`, hash)
	refused := func(code int, what string) (int, string, error) {
		return 400, fmt.Sprintf(`{"message":"%s","error_code":"vm_error","vm_error_code":%d}`, what, code), nil
	}
	switch {
	case f.known[hash] != nil:
		return refused(39, "NONCE_ALREADY_USED")
	case !f.now().Before(time.Unix(int64(number(body, 196)), 0)):
		return refused(6, "TRANSACTION_EXPIRED")
	case f.refuse > 0:
		f.refuse--
		return refused(5, "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE")
	case f.drop > 0:
		f.drop--
		return 202, accepted, nil
	case f.fail > 0:
		f.fail--
		f.known[hash] = &transaction{status: "Move abort in 0x3::micropayments"}
		return 202, accepted, nil
	}
	f.known[hash] = f.execute(number(body, 110), number(body, 119), number(body, 128))
	if f.lose > 0 {
		f.lose--
		return 0, "", errors.New("the connection was cut")
	}
	return 202, accepted, nil
}

func (f *fullnode) execute(amount, id, sequence uint64) *transaction {
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

// world is a store, a fullnode, and a payer and a receiver, in a bubble.
type world struct {
	t        *testing.T
	node     *fullnode
	store    *sqlstore.Store
	payer    *micropay.Signer // opens all channels
	receiver *micropay.Signer
	parallel int
	price    int64              // a coin's
	last     *collect.Collector // that was run

	mu      sync.Mutex
	reports []error
}

func signer(t *testing.T, seed byte) *micropay.Signer {
	t.Helper()
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{seed}, 32))
	testenv.OK(t, err)
	s, err := micropay.NewSigner(micropay.SchemeEd25519, key)
	testenv.OK(t, err)
	return s
}

// inWorld runs a test in a bubble, at a whole second: expirations are whole seconds.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	path := filepath.Join(testenv.MemoryDir(t), "meta.db")
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, payer: signer(t, 1), receiver: signer(t, 2),
			node: &fullnode{channels: map[uint64]*contract{}, known: map[string]*transaction{}, count: map[string]int{}, executed: map[uint64]int{}, hang: map[uint64]bool{}},
		}
		var err error
		if w.store, err = sqlstore.OpenSQLite(path, sqlstore.Options{Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		defer func() { testenv.Check(t, w.store.Close()) }()
		test(t, w)
		found, err := w.store.Audit(t.Context())
		if err != nil || len(found) > 0 {
			t.Errorf("the audit found %q, %v", found, err)
		}
	})
}

func (w *world) collector() *collect.Collector {
	nodes := []string{"https://node.example/v1"}
	if !w.node.stands.IsZero() {
		nodes = slices.Insert(nodes, 0, "https://stands.example/v1")
	}
	client, err := chain.New(chain.Options{Nodes: nodes, ChainID: 4, Transport: w.node, Timeout: 5 * time.Second, Rounds: 2})
	testenv.OK(w.t, err)
	return collect.New(w.store, collect.Options{Chain: client, Receiver: w.receiver, Parallel: w.parallel, CoinPrice: w.price})
}

// run runs a collector until the returned function is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	c := w.collector()
	w.last = c
	go func() {
		defer close(ended)
		c.Run(ctx, func(run task.Run) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if run.Err != nil {
				w.reports = append(w.reports, run.Err)
			}
		})
	}()
	return func() {
		cancel()
		<-ended
	}
}

// reported reports whether a failure was reported.
func (w *world) reported(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(errors.Join(append(w.reports, nil)...).Error(), text)
}

// open opens a channel on the chain and in the store.
func (w *world) open(number uint64, deposit uint64) {
	w.node.channels[number] = &contract{sender: w.payer.Address(), deposit: deposit, next: 1}
	_, err := w.store.OpenChannel(w.t.Context(), ledger.Channel{
		ID: fmt.Sprintf("channel-%05d", number), PaymentChannelID: int64(number), Sender: w.payer.Address().String(), Receiver: w.receiver.Address().String(),
		Asset: address(0xa2), Deposit: int64(deposit), NextSequence: 1, ChainTime: time.Now(), Expires: time.Now().Add(time.Hour),
	}, nil)
	testenv.OK(w.t, err)
}

func address(last byte) string { return micropay.Address{31: last}.String() }

// pay accepts a micropayment that lives for a minute.
func (w *world) pay(number, sequence, amount uint64) error {
	_, err := w.store.PayRead(w.t.Context(), ledger.ReadPurchase{Payment: w.payment(number, sequence, amount), Price: 1, Count: 1})
	return err
}

// renew replaces the newest micropayment by one that lives for a minute.
func (w *world) renew(number, sequence, amount uint64) {
	w.t.Helper()
	if _, err := w.store.Renew(w.t.Context(), w.payment(number, sequence, amount)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) payment(number, sequence, amount uint64) ledger.Payment {
	m, err := w.payer.Sign(micropay.Payment{
		Receiver: w.receiver.Address(), Asset: micropay.Address{31: 0xa2}, Amount: amount, PaymentChannelID: number, Sequence: sequence,
		ModuleAddress: micropay.Address{31: 0xa3}, ChainID: 4, Expiration: uint64(time.Now().Add(time.Minute).Unix()), Nonce: sequence,
		AccountSequence: micropay.NoAccountSequence, MaxGas: 1000, GasPrice: 100,
	})
	testenv.OK(w.t, err)
	return ledger.Payment{
		Sender: m.Sender.String(), Receiver: m.Receiver.String(), Asset: address(0xa2), PaymentChannelID: int64(number), Sequence: int64(sequence), Amount: int64(amount),
		Proof: m.Bytes(), Expires: m.Expires(), UnsettledLimit: 1000, SettleAt: 500,
	}
}

func (w *world) mustPay(number, sequence, amount uint64) {
	w.t.Helper()
	testenv.OK(w.t, w.pay(number, sequence, amount))
}

func (w *world) channel(number uint64) ledger.Channel {
	w.t.Helper()
	c, err := w.store.Channel(w.t.Context(), fmt.Sprintf("channel-%05d", number))
	testenv.OK(w.t, err)
	return c
}

// settled checks what is settled, and that the chain agrees.
func (w *world) settled(number uint64, want int64) {
	w.t.Helper()
	synctest.Wait()
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	if c := w.channel(number); c.Settled != want || c.Withdrawn != want || w.node.channels[number].withdrawn != uint64(want) {
		w.t.Errorf("settled %d, withdrawn %d, on the chain %d, want %d: %v", c.Settled, c.Withdrawn, w.node.channels[number].withdrawn, want, w.reports)
	}
}

func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// settlesOne checks that a payment over a new channel is settled after a time.
func (w *world) settlesOne(after time.Duration) {
	w.open(1, 10_000)
	defer w.run()()
	w.mustPay(1, 1, 600)
	w.wait(after)
	w.settled(1, 600)
}

// TestGasIsSpentOnceForManyPayments checks that payments are collected together after half the
// first one's life, and at once when enough is unsettled.
func TestGasIsSpentOnceForManyPayments(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.open(1, 10_000)
		defer w.run()()
		for i := range uint64(29) {
			w.mustPay(1, i+1, 10*(i+1))
			w.wait(time.Second)
		}
		w.settled(1, 0)
		w.wait(5 * time.Second)
		w.settled(1, 290)
		w.mustPay(1, 30, 789)
		w.wait(5 * time.Second)
		w.settled(1, 290)
		w.mustPay(1, 31, 790) // 500 are unsettled
		w.wait(5 * time.Second)
		w.settled(1, 790)
		if n := w.node.executed[1]; n != 2 {
			t.Errorf("%d transactions, want 2", n)
		}
	})
}

// TestLostAnswersAreLookedUp checks that what was executed is never executed again, whatever was
// answered.
func TestLostAnswersAreLookedUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.node.lose = 3
		w.settlesOne(20 * time.Second)
		if n := w.node.executed[1]; n != 1 {
			t.Errorf("executed %d times", n)
		}
	})
}

// TestDroppedTransactionsAreSubmittedAgain checks that the same bytes are sent until the chain has
// them.
func TestDroppedTransactionsAreSubmittedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.node.drop = 3
		w.settlesOne(30 * time.Second)
		if len(w.node.count) != 1 {
			t.Errorf("%d different transactions, want 1", len(w.node.count))
		}
	})
}

// TestExpiryIsForTheChainToSay checks that a submission which is never executed expires by the
// chain's time and stops its channel, and that a renewal collects it.
func TestExpiryIsForTheChainToSay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.open(1, 10_000)
		w.node.drop = 1_000
		defer w.run()()
		w.mustPay(1, 1, 600)
		w.wait(59 * time.Second)
		if s, err := w.store.Submission(t.Context(), "channel-00001"); err != nil || s.State != ledger.InFlight {
			t.Errorf("before its expiration: %+v, %v", s, err)
		}
		w.wait(10 * time.Second)
		if s, err := w.store.Submission(t.Context(), "channel-00001"); err != nil || s.State != ledger.Expired {
			t.Errorf("after its expiration: %+v, %v", s, err)
		}
		if !w.reported("it was submitted, and expired without being executed") {
			t.Errorf("reports: %v", w.reports)
		}
		testenv.Is(t, w.pay(1, 2, 610), ledger.ErrChannelStopped, "a payment before the renewal")
		w.node.drop = 0
		w.renew(1, 2, 600)
		w.wait(10 * time.Second)
		w.settled(1, 600)
		w.mustPay(1, 3, 610)
		w.wait(40 * time.Second)
		w.settled(1, 610)
	})
}

// TestRefusalsAreRetried checks that a receiver without coins loses nothing if it gets some in
// time.
func TestRefusalsAreRetried(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.open(1, 10_000)
		w.node.refuse = 4
		defer w.run()()
		w.mustPay(1, 1, 600)
		w.wait(2 * time.Second)
		w.mustPay(1, 2, 610) // the channel stays open
		w.wait(26 * time.Second)
		w.settled(1, 600)
		w.wait(10 * time.Second)
		w.settled(1, 610)
		if !w.reported("cannot pay the gas: send coins to it") {
			t.Errorf("reports: %v", w.reports)
		}
	})
}

// TestFailureStopsTheChannel checks that a contract that aborts stops sales, with its words, until
// a renewal is collected. A deposit alone does not end that.
func TestFailureStopsTheChannel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.open(1, 10_000)
		w.node.fail = 1
		defer w.run()()
		w.mustPay(1, 1, 600)
		w.wait(10 * time.Second)
		stopped, ok := errors.AsType[*ledger.StoppedError](w.pay(1, 2, 610))
		if !ok || !strings.Contains(stopped.Reason, "Move abort in 0x3::micropayments") {
			t.Errorf("after a failure: %v", stopped)
		}
		if !w.reported("Move abort in 0x3::micropayments") {
			t.Errorf("reports: %v", w.reports)
		}
		w.node.channels[1].deposit += 50
		r, err := collect.Reader{Chain: mustClient(t, w.node), Receiver: w.receiver.Address()}.Read(t.Context(), w.payer.Address().String(), address(0xa2), 1)
		if err == nil {
			_, err = w.store.RecordReading(t.Context(), "channel-00001", r)
		}
		testenv.OK(t, err)
		testenv.Is(t, w.pay(1, 2, 610), ledger.ErrChannelStopped, "after a new deposit")
		w.renew(1, 2, 600)
		w.wait(10 * time.Second)
		w.settled(1, 600)
		w.mustPay(1, 3, 610)
	})
}

func mustClient(t *testing.T, node *fullnode) *chain.Client {
	t.Helper()
	c, err := chain.New(chain.Options{Nodes: []string{"https://node.example/v1"}, ChainID: 4, Transport: node})
	testenv.OK(t, err)
	return c
}

// TestFullnodeThatStandsStill checks that payments are collected in time if time stands still at
// the first fullnode, although it answers.
func TestFullnodeThatStandsStill(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.node.stands = time.Now().Add(-time.Hour)
		w.settlesOne(20 * time.Second)
	})
}

// TestHangingChannelDelaysNoOther checks that a call that hangs delays no other channel.
func TestHangingChannelDelaysNoOther(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.parallel = 4
		for n := range uint64(10) {
			w.open(n, 10_000)
			w.mustPay(n, 1, 600)
		}
		w.node.hang[0], w.node.hang[1] = true, true
		defer w.run()()
		w.wait(20 * time.Second)
		for n := range uint64(10) {
			if n > 1 {
				w.settled(n, 600)
			}
		}
	})
}

// TestManyChannelsAreCollectedInTime checks that many channels are collected before their payments
// expire, although each call takes a second and few run at the same time.
func TestManyChannelsAreCollectedInTime(t *testing.T) { collectsMany(t, 240, 16) }

// collectsMany pays over channels that are all due after half a minute, and expire after another
// half, on a chain that takes a second for each call.
func collectsMany(t *testing.T, channels uint64, parallel int) {
	inWorld(t, func(t *testing.T, w *world) {
		w.parallel = parallel
		w.node.takes = time.Second
		for n := range channels {
			w.payer = signer(t, byte(10+n%100))
			w.open(n, 10_000)
			w.mustPay(n, 1, 100)
		}
		defer w.run()()
		w.wait(2 * time.Minute)
		for n := range channels {
			testenv.Equal(t, w.node.executed[n], 1, "collections over channel %d", n)
			w.settled(n, 100)
		}
		if len(w.reports) > 0 {
			t.Errorf("reports: %v", w.reports)
		}
	})
}

// TestKilledCollectorIsContinued stops collectors after each second while answers are lost, as a
// crash does, and lets others continue.
func TestKilledCollectorIsContinued(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.node.lose, w.node.drop, w.node.takes = 2, 2, 300*time.Millisecond
		w.open(1, 10_000)
		w.mustPay(1, 1, 600)
		for range 30 {
			stop := w.run()
			time.Sleep(1700 * time.Millisecond)
			stop()
		}
		w.settled(1, 600)
		if n := w.node.executed[1]; n != 1 {
			t.Errorf("executed %d times", n)
		}
	})
}

// TestTwoLeadersCollectOnce runs two collectors, as nodes do while one has not noticed that it lost
// the lease.
func TestTwoLeadersCollectOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for n := range uint64(20) {
			w.open(n, 10_000)
			w.mustPay(n, 1, 600)
		}
		defer w.run()()
		defer w.run()()
		w.wait(40 * time.Second)
		for n := range uint64(20) {
			w.settled(n, 600)
			if w.node.executed[n] != 1 {
				t.Errorf("channel %d was collected %d times", n, w.node.executed[n])
			}
		}
	})
}

// TestClockThatIsLate checks that payments are collected before they expire although the store's
// clock is late.
func TestClockThatIsLate(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.node.late = 40 * time.Second
		w.open(1, 10_000)
		w.mustPay(1, 1, 100) // expires on the chain in 20 s
		defer w.run()()
		w.wait(18 * time.Second)
		w.settled(1, 100)
	})
}

// TestOtherRulesHaltSettling runs contracts with other rules than those that are assumed.
func TestOtherRulesHaltSettling(t *testing.T) {
	for what, rule := range map[string]func(*fullnode){
		"not 600":                     func(f *fullnode) { f.additive = true },
		"has not reduced the balance": func(f *fullnode) { f.untouched = true },
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.open(1, 10_000)
				w.open(2, 10_000)
				w.node.channels[1].withdrawn, w.node.channels[1].next = 7, 1 // what another instance withdrew
				rule(w.node)
				defer w.run()()
				w.mustPay(1, 1, 600)
				w.wait(10 * time.Second)
				halt, err := w.store.Halted(t.Context())
				if err != nil || !strings.Contains(halt, what) {
					t.Errorf("halted: %q, %v, want %q", halt, err, what)
				}
				testenv.Is(t, w.pay(2, 1, 600), ledger.ErrChannelStopped, "a payment over another channel")
				w.wait(10 * time.Second)
				if !w.reported("settling has halted") {
					t.Errorf("reports: %v", w.reports)
				}
			})
		})
	}
}
