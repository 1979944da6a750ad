package client_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/client"
	"sluice/micropay"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/wire"
)

// chainService is a service that collects on a chain, as docs/protocol.md describes one: it sells
// one channel's payments within its selling limit, and collects the newest one some time after it
// was accepted, unless that has expired by then.
type chainService struct {
	t *testing.T

	price, start, ceiling uint64
	minGas, minGasPrice   uint64
	maxFee                uint64
	collects              time.Duration // how long a payment waits
	sessionTTL            time.Duration

	mu       sync.Mutex
	number   uint64 // of the only channel on the chain, which the account 1 has opened
	known    bool   // the channel is known to the service
	deposit  uint64
	accepted uint64
	settled  uint64
	sequence uint64
	proof    *micropay.Micropayment // of accepted
	stopped  string
	away     bool // the chain cannot be reached

	sessions map[string]*wire.Session
	sent     []sentPayment
	requests int
	refuse   wire.Code                      // every purchase with this code
	fault    func(*http.Request) fault.Kind // nil: none
	before   func(path string, m *micropay.Micropayment)
}

// sentPayment is a micropayment that was sent.
type sentPayment struct {
	path             string
	amount, sequence uint64
}

// newChainService returns a service with the channel 7, which has a deposit of 10,000.
func newChainService(t *testing.T) *chainService {
	return &chainService{
		t: t, price: 3, start: 10, ceiling: 1000, minGas: 1000, minGasPrice: 150, maxFee: 15_000_000, collects: 5 * time.Second, sessionTTL: time.Hour,
		number: 7, deposit: 10_000, sessions: map[string]*wire.Session{},
	}
}

func (s *chainService) client() *client.Client {
	return newClient(s.t, &faulty{s, func(r *http.Request) fault.Kind {
		if s.fault == nil {
			return fault.None
		}
		return s.fault(r)
	}})
}

// overChannel7 names the channel by its number.
func overChannel7(o *client.PayerOptions) { o.PaymentChannelID, o.Deposit = 7, 0 }

// pay returns a payer over the channel.
func (s *chainService) pay(dir string, change ...func(*client.PayerOptions)) *client.Payer {
	return newPayer(s.t, s.client(), dir, slices.Insert(change, 0, overChannel7)...)
}

func (s *chainService) limit() uint64 { return min(s.ceiling, s.start+s.settled) }

// expired returns the amount that is collected only after a renewal.
func (s *chainService) expired() uint64 {
	if s.accepted <= s.settled || time.Now().Before(s.proof.Expires()) {
		return 0
	}
	return s.accepted - s.settled
}

// collect collects the accepted amount, unless it has expired.
func (s *chainService) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away && s.expired() == 0 {
		s.settled, s.stopped = max(s.settled, s.accepted), ""
	}
}

func (s *chainService) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	var body struct {
		UserIdentity, MicropaymentUpdate, SessionID string
		PaymentChannelID, Deposit                   string
		Write                                       bool
	}
	if r.Body != nil {
		if text, err := io.ReadAll(r.Body); err != nil || len(text) > 0 && json.Unmarshal(text, &body) != nil {
			s.t.Errorf("request %s %s has the body %q, %v", r.Method, r.URL, text, err)
		}
	}
	var m *micropay.Micropayment
	if body.MicropaymentUpdate != "" {
		var err error
		policy := micropay.Policy{Receiver: micropay.Address{31: 0xa}, Asset: micropay.Address{31: 0xb}, ModuleAddress: micropay.Address{31: 0xc}, ChainID: 4, MaxFee: s.maxFee, MinGasPrice: s.minGasPrice}
		if m, err = micropay.ParseBase64(body.MicropaymentUpdate); err == nil {
			err = cmp.Or(m.Check(policy, time.Now()), m.Verify())
		}
		if err != nil || m.PaymentChannelID != s.number || m.MaxGas < s.minGas {
			s.t.Errorf("the micropayment %+v is refused: %v", m, err)
			return problem(400, "micropayment_malformed", "")(r)
		}
		s.sent = append(s.sent, sentPayment{r.URL.Path, m.Amount, m.Sequence})
		if s.before != nil {
			s.before(r.URL.Path, m)
		}
	}
	const channel = "/v1/sessions/micropaymentchannels"
	switch path := r.URL.Path; {
	case path == "/v1/info":
		info := wire.Info{Payment: wire.Payment{
			Receiver: "0xa", Asset: "0xb", Module: "0xc", ChainID: 4, Settlement: wire.SettlementChain, ChunksetPrice: strconv.FormatUint(s.price, 10),
			UnsettledLimit: strconv.FormatUint(s.ceiling, 10), StartingLimit: strconv.FormatUint(s.start, 10), MinGas: strconv.FormatUint(s.minGas, 10),
			MinGasPrice: strconv.FormatUint(s.minGasPrice, 10), MaxGasPrice: "1000", MaxFee: strconv.FormatUint(s.maxFee, 10),
		}}
		return respondJSON(200, info)(r)
	case path == channel && body.PaymentChannelID != strconv.FormatUint(s.number, 10):
		return problem(404, "channel_not_found", "")(r)
	case path == channel && body.Deposit != "":
		return problem(400, "bad_parameter", "")(r)
	case path == channel && s.known:
		return problem(409, "channel_exists", "")(r)
	case path == channel:
		s.known = true
		return respondJSON(201, s.channel())(r)
	case path == channel+"/C/renew":
		return s.renew(r, m)
	case path == channel+"/C/reconcile":
		chain := map[string]any{"deposit": "10000", "withdrawn": "8", "nextSequenceNumber": "3", "expires": time.Unix(1000, 0).UTC()}
		answer := map[string]any{"channel": s.channel(), "chain": chain}
		if body.Write {
			s.settled = 8
			answer["after"] = s.channel()
		}
		return respondJSON(200, answer)(r)
	case strings.HasPrefix(path, channel) && !s.known:
		return problem(410, "lost_in_rollback", "")(r)
	case strings.HasPrefix(path, channel):
		return respondJSON(200, s.channel())(r)
	case r.Method == http.MethodGet:
		if session := s.sessions[strings.TrimPrefix(path, "/v1/sessions/")]; session != nil {
			return respondJSON(200, session)(r)
		}
		return problem(404, "session_not_found", "")(r)
	}
	return s.sell(r, m, body.SessionID, body.UserIdentity)
}

func (s *chainService) channel() wire.Channel {
	signer := testenv.Must(newSigner(1))(s.t)
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	c := wire.Channel{
		ChannelID: "C", PaymentChannelID: n(s.number), Sender: signer.Address().String(), Receiver: "0xa", Asset: "0xb", Deposit: n(s.deposit),
		Accepted: n(s.accepted), Credit: "0", Settled: n(s.settled), Unsettled: n(max(s.accepted, s.settled) - s.settled), SellingLimit: n(s.limit()),
		SequenceNumber: n(s.sequence), State: "open", Sessions: []wire.ChannelSession{},
	}
	if expired := s.expired(); expired > 0 {
		c.Expired = n(expired)
	}
	if s.stopped != "" {
		c.State, c.Stopped = "stopped", s.stopped
	}
	for id, session := range s.sessions {
		c.Sessions = append(c.Sessions, wire.ChannelSession{SessionID: id, ChunksetsLeft: session.ChunksetsLeft, Expires: session.Expires})
	}
	return c
}

// sell sells for a micropayment.
func (s *chainService) sell(r *http.Request, m *micropay.Micropayment, id, identity string) (*http.Response, error) {
	if m == nil {
		return problem(402, "payment_required", "")(r)
	}
	paid := max(s.accepted, s.settled)
	switch {
	case !s.known:
		return problem(404, "channel_not_found", "")(r)
	case s.refuse != "":
		return problem(402, string(s.refuse), "")(r)
	case s.stopped != "":
		return problem(402, "channel_stopped", "")(r)
	case m.Sequence <= s.sequence || m.Amount <= paid:
		stored := ""
		if s.proof != nil {
			stored = `,"storedMicropayment":"` + s.proof.Base64() + `"`
		}
		return problem(409, "micropayment_stale", stored)(r)
	case m.Amount > s.deposit:
		return problem(402, "insufficient_funds", "")(r)
	case m.Amount-s.settled > s.limit():
		return problem(402, "unsettled_limit", fmt.Sprintf(`,"limit":"%d","unsettled":"%d","expired":"%d"`, s.limit(), s.accepted-s.settled, s.expired()))(r)
	}
	session := s.sessions[id]
	if session == nil && id != "" {
		return problem(410, "lost_in_rollback", "")(r)
	}
	if session == nil {
		now := time.Now()
		session = &wire.Session{SessionID: fmt.Sprintf("S%d", len(s.sessions)), UserIdentity: identity, Created: now, Expires: now.Add(s.sessionTTL)}
		s.sessions[session.SessionID] = session
	}
	n := int64((m.Amount - paid) / s.price)
	session.ChunksetsLeft += n
	session.ChunksetsTotal += n
	s.accept(m)
	return respondJSON(201, session)(r)
}

func (s *chainService) accept(m *micropay.Micropayment) {
	time.AfterFunc(s.collects, s.collect)
	s.accepted, s.sequence, s.proof = m.Amount, m.Sequence, m
}

func (s *chainService) renew(r *http.Request, m *micropay.Micropayment) (*http.Response, error) {
	switch {
	case s.proof != nil && m.Base64() == s.proof.Base64():
	case m.Amount != s.accepted || m.Sequence <= s.sequence:
		return problem(409, "micropayment_stale", `,"storedMicropayment":"`+s.proof.Base64()+`"`)(r)
	case s.expired() == 0:
		return problem(409, "nothing_expired", "")(r)
	default:
		s.accept(m)
	}
	return respondJSON(200, s.channel())(r)
}

// setBack lets the service forget all that happened over the channel, and perhaps the channel.
func (s *chainService) setBack(known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.accepted, s.settled, s.sequence, s.proof, s.sessions = known, 0, 0, 0, nil, map[string]*wire.Session{}
}

// total returns how many chunksets were sold.
func (s *chainService) total() (n int64) {
	for _, session := range s.sessions {
		n += session.ChunksetsTotal
	}
	return n
}
