package collect

import (
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/chain"
	"sluice/internal/testenv"
	"sluice/micropay"
)

// slowChain answers requests as a fullnode does, without a network, so that it takes its time on a
// synctest bubble's clock. It knows the transactions that it may receive.
type slowChain struct {
	takes  time.Duration // each call
	prefix []byte

	mu        sync.Mutex
	expected  map[micropay.Hash]*micropay.Micropayment
	newest    map[string]*micropay.Micropayment // executed, by sender
	executed  map[micropay.Hash]time.Time
	calls     int
	most, now int // concurrent calls
}

func newSlowChain(takes time.Duration) *slowChain {
	sum := sha3.Sum256([]byte("APTOS::Transaction"))
	return &slowChain{
		takes: takes, prefix: append(sum[:], 0),
		expected: map[micropay.Hash]*micropay.Micropayment{}, newest: map[string]*micropay.Micropayment{}, executed: map[micropay.Hash]time.Time{},
	}
}

// RoundTrip answers after a time.
func (s *slowChain) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.enter(1)
	defer s.enter(-1)
	select {
	case <-time.After(s.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	status, text := s.answer(r.URL.Path, body)
	h := http.Header{"X-Aptos-Chain-Id": {"4"}, "X-Aptos-Ledger-Timestampusec": {strconv.FormatInt(time.Now().UnixMicro(), 10)}}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(text))}, nil
}

func (s *slowChain) enter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
	s.calls++
}

func (s *slowChain) answer(path string, body []byte) (status int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case path == "/transactions":
		return s.submit(sha3.Sum256(append(s.prefix[:len(s.prefix):len(s.prefix)], body...)))
	case strings.HasPrefix(path, "/transactions/by_hash/"):
		return s.lookUp(strings.TrimPrefix(path, "/transactions/by_hash/"))
	case path == "/view":
		sender := "0x" + hex.EncodeToString(body[len(body)-65:len(body)-33])
		return 200, s.view(s.newest[sender])
	default:
		return 200, fmt.Sprintf(`{"chain_id":4,"ledger_version":"1","ledger_timestamp":"%d"}`, time.Now().UnixMicro())
	}
}

func (s *slowChain) submit(hash micropay.Hash) (int, string) {
	m := s.expected[hash]
	_, again := s.executed[hash]
	if m == nil || again || time.Now().After(m.Expires()) {
		return 400, `{"message":"unknown, executed or expired","error_code":"vm_error"}`
	}
	s.executed[hash] = time.Now()
	s.newest[m.Sender.String()] = m
	return 202, `{"hash":"` + hash.String() + `"}`
}

func (s *slowChain) lookUp(text string) (int, string) {
	var hash micropay.Hash
	if _, err := hex.Decode(hash[:], []byte(text[2:])); err != nil {
		return 400, `{"message":"the hash","error_code":"invalid_input"}`
	}
	if _, ok := s.executed[hash]; !ok {
		return 404, `{"message":"unknown","error_code":"transaction_not_found"}`
	}
	return 200, `{"type":"user_transaction","hash":"` + text + `","success":true,"vm_status":"Executed successfully"}`
}

func (s *slowChain) view(m *micropay.Micropayment) string {
	if m == nil {
		return `[[]]`
	}
	return fmt.Sprintf(`[[{"asset_metadata":{"inner":%q},"balance":"%d","creation_micros":"1","expiration_micros":"%d","next_withdrawn_sequence_number":"%d","payment_channel_id":"%d","receiver_withdrawn_amount":"%d"}]]`,
		asset, manyDeposit-m.Amount, time.Now().Add(time.Hour).UnixMicro(), m.Sequence+1, m.PaymentChannelID, m.Amount)
}

const manyDeposit = 1000

// TestFiveThousandChannels pays over 5,000 channels at the same time, on a chain that takes a
// second for each call. Every payment lives for a minute, and is collected before it expires, and
// once.
func TestFiveThousandChannels(t *testing.T) {
	const many = 5_000
	slow := newSlowChain(time.Second)
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, chain.Options{Nodes: []string{"https://node.example"}, Transport: slow})
		defer m.close()
		channels := make([]*channel, many)
		for i := range channels {
			c := m.open(uint64(i+1), manyDeposit)
			channels[i] = c
			p := c.sign(7, time.Minute)
			of, err := p.Collect(m.receiver)
			testenv.OK(t, err)
			slow.expected[of.Hash] = p
			testenv.OK(t, c.accept(p, 7, manyDeposit))
		}
		stop := m.run()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stop()
		slow.mu.Lock()
		defer slow.mu.Unlock()
		if len(slow.executed) != many {
			t.Errorf("%d of %d payments were collected", len(slow.executed), many)
		}
		for _, c := range channels {
			if state := c.state(); state.Settled != 7 || state.Submitted != 0 {
				t.Fatalf("%d is settled, %d in flight: %+v", state.Settled, state.Submitted, state)
			}
		}
		if len(m.reports) > 0 {
			t.Errorf("reports: %v", m.reports)
		}
		m.audit()
		t.Logf("%d calls, at most %d concurrently", slow.calls/2, slow.most)
	})
}
