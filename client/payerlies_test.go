package client_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/client"
	"sluice/micropay"
	"sluice/test/testenv"
)

// liar is a service that responds whatever it likes. It keeps every micropayment.
type liar struct {
	t *rapid.T

	other *micropay.Signer // another account

	highest   uint64 // amount of any micropayment over the channel: the most that it can collect
	earlier   uint64 // the same of the channels before
	closed    uint64 // how many these are
	paid      uint64 // regarded as bought over them
	delivered int64  // chunksets in the sessions that it has shown
	sessions  map[string]*lieSession
	seen      [][]byte
	number    string // of the channel
	honest    bool
	renewals  int
	accepted  uint64 // amount of the last purchase that it delivered
}

type lieSession struct {
	SessionID      string    `json:"sessionId"`
	UserIdentity   string    `json:"userIdentity"`
	ChunksetsLeft  int64     `json:"chunksetsLeft"`
	ChunksetsTotal int64     `json:"chunksetsTotal"`
	Created        time.Time `json:"created"`
	Expires        time.Time `json:"expires"`
}

func (l *liar) lie(name string, choices ...string) string {
	if l.honest {
		return choices[0]
	}
	return rapid.SampledFrom(choices).Draw(l.t, name)
}

func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct {
		UserIdentity, MicropaymentUpdate, SessionID string
		PaymentChannelID                            string
	}
	if r.Body != nil {
		if text, err := io.ReadAll(r.Body); err != nil || len(text) > 0 && json.Unmarshal(text, &body) != nil {
			l.t.Errorf("request %s %s has the body %q, %v", r.Method, r.URL, text, err)
		}
	}
	switch path := r.URL.Path; {
	case path == "/v1/info":
		price := l.lie("price", "1", "1", "1", "4")
		asks := l.lie("gas", "", `,"minGas":"9223372036854775807","minGasPrice":"9223372036854775807","maxFee":"1"`, `,"maxGasPrice":"1"`)
		return respond(200, nil, `{"payment":{"receiver":"0xa","asset":"0xb","module":"0xc","chainId":4,"chunksetPrice":"`+price+`"`+asks+`}}`)(r)
	case strings.HasSuffix(path, "/close"):
		return respond(200, nil, l.channel())(r)
	case strings.HasSuffix(path, "/renew"):
		return l.renew(r, body.MicropaymentUpdate)
	case strings.HasPrefix(path, "/v1/sessions/micropaymentchannels"):
		if body.PaymentChannelID != "" {
			l.number = body.PaymentChannelID
		}
		return respond(200, nil, l.channel())(r)
	case r.Method == http.MethodGet:
		s := l.sessions[strings.TrimPrefix(path, "/v1/sessions/")]
		if s == nil {
			return problem(404, "session_not_found", "")(r)
		}
		shown := *s
		if l.lie("left", "true", "none") == "none" {
			shown.ChunksetsLeft = 0
		}
		return respondJSON(200, shown)(r)
	}
	return l.sell(r, body.MicropaymentUpdate, body.SessionID, body.UserIdentity)
}

// channel returns the channel, with an accepted amount that was never signed.
func (l *liar) channel() string {
	number := l.number
	if l.lie("number", "true", "true", "true", "another") == "another" {
		number = "77"
	}
	sessions := []map[string]any{}
	for id, s := range l.sessions {
		if l.lie("session in channel", "shown", "hidden") == "shown" {
			sessions = append(sessions, map[string]any{"sessionId": id, "chunksetsLeft": s.ChunksetsLeft, "expires": s.Expires})
		}
	}
	text, err := json.Marshal(sessions)
	if err != nil {
		l.t.Error(err)
	}
	state := l.lie("channel state", "open", "open", "open", "stopped", "closed")
	limits := l.lie("limits", "", `,"sellingLimit":"3"`, `,"sellingLimit":"9223372036854775807"`, `,"sellingLimit":"0","expired":"2"`, `,"sellingLimit":"0","expired":"3"`, `,"sellingLimit":"0","expired":"10"`, `,"sellingLimit":"1","expired":"1"`, `,"sellingLimit":"0","expired":"9000000"`)
	settled := l.lie("settled", "0", "0", "0", "9223372036854775807")
	return fmt.Sprintf(`{"channelId":"C","paymentChannelId":%q,"receiver":"0xa","asset":"0xb","deposit":"9000000","accepted":%q,"credit":"0","settled":%q,"unsettled":"0","sequenceNumber":"5","state":%q,"sessions":%s%s}`,
		number, l.lie("accepted", strconv.FormatUint(l.accepted, 10), strconv.FormatUint(l.accepted, 10), "0", "15", "8000000"), settled, state, text, limits)
}

// take keeps a micropayment.
func (l *liar) take(sent string) (*micropay.Micropayment, []byte) {
	raw, err := base64.StdEncoding.DecodeString(sent)
	if err != nil {
		l.t.Errorf("a micropayment is not base64: %v", err)
	}
	m, err := micropay.Parse(raw)
	if err != nil {
		l.t.Fatalf("a micropayment is malformed: %v", err)
	}
	l.highest = max(l.highest, m.Amount)
	l.seen = append(l.seen, raw)
	return m, raw
}

// renew answers a renewal, which must not be of more than was delivered.
func (l *liar) renew(r *http.Request, sent string) (*http.Response, error) {
	m, raw := l.take(sent)
	if m.Amount > l.accepted {
		l.t.Errorf("a renewal is of %d, and %d was delivered", m.Amount, l.accepted)
	}
	l.renewals++
	switch answer := l.lie("renewed", "renewed", "renewed", "nothing", "refuse", "cut", "unknown", "stale by it", "stale by an earlier one", "stale by another account",
		"stale by another channel", "stale by a forgery", "stale by nothing"); answer {
	case "renewed":
		return respond(200, nil, l.channel())(r)
	case "nothing":
		return problem(409, "nothing_expired", "")(r)
	case "refuse":
		return problem(402, "micropayment_refused", `,"reason":"expired"`)(r)
	case "cut":
		return nil, errCut
	case "unknown":
		return problem(503, "outcome_unknown", `,"retryable":false`)(r)
	default:
		return l.stale(r, answer, raw)
	}
}

func (l *liar) stale(r *http.Request, answer string, raw []byte) (*http.Response, error) {
	return problem(409, "micropayment_stale", `,"storedMicropayment":"`+base64.StdEncoding.EncodeToString(l.stored(answer, raw))+`"`)(r)
}

// sell answers a purchase.
func (l *liar) sell(r *http.Request, sent, sessionID, identity string) (*http.Response, error) {
	m, raw := l.take(sent)
	s := l.sessions[sessionID]
	if s == nil {
		s = &lieSession{SessionID: fmt.Sprintf("S%d", len(l.sessions)), UserIdentity: identity, Expires: time.Now().Add(time.Hour)}
		if l.lie("life", "an hour", "at its end") == "at its end" {
			s.Created = time.Now().Add(-100 * time.Hour)
		}
	}
	answer := l.lie("answer", "deliver", "deliver", "deliver too little", "cut", "deliver and cut", "refuse", "stopped", "stale by it", "stale by an earlier one", "stale by another account",
		"stale by another channel", "stale by a forgery", "stale by nothing", "expired", "unknown", "503", "garbage")
	switch answer {
	case "deliver", "deliver too little", "deliver and cut":
		n := int64(10)
		if answer == "deliver too little" {
			n = 1
		}
		l.sessions[s.SessionID] = s
		s.ChunksetsLeft += n
		s.ChunksetsTotal += n
		l.delivered += n
		l.accepted = m.Amount
		if answer == "deliver and cut" {
			return nil, errCut
		}
		return respondJSON(200, s)(r)
	case "cut":
		return nil, errCut
	case "refuse":
		return problem(402, "unsettled_limit", l.lie("limit", "", `,"limit":"3","unsettled":"0"`, `,"limit":"9223372036854775807","unsettled":"0","expired":"5"`))(r)
	case "stopped":
		return problem(402, "channel_stopped", "")(r)
	case "expired":
		return problem(402, "micropayment_refused", `,"reason":"expired"`)(r)
	case "unknown":
		return problem(503, "outcome_unknown", `,"retryable":false`)(r)
	case "503":
		return respond(503, nil, "")(r)
	case "garbage":
		return respond(201, nil, "}{")(r)
	}
	return l.stale(r, answer, raw)
}

// stored returns the micropayment that a stale one is compared with.
func (l *liar) stored(answer string, raw []byte) []byte {
	huge := micropay.Payment{
		Receiver: micropay.Address{31: 0xa}, Asset: micropay.Address{31: 0xb}, ModuleAddress: micropay.Address{31: 0xc}, ChainID: 4,
		Amount: 7_000_000, Sequence: 1 << 40, Expiration: 1 << 40,
	}
	number := inCheck(micropay.Parse(raw))(l.t)
	signer := l.other
	switch answer {
	case "stale by it":
		return raw
	case "stale by an earlier one":
		return rapid.SampledFrom(l.seen).Draw(l.t, "earlier")
	case "stale by a forgery": // the amount, the sequence number and the nonce are changed
		forged := slices.Clone(raw)
		for _, offset := range []int{110, 128, 172} {
			binary.LittleEndian.PutUint64(forged[offset:], 6_000_000)
		}
		return forged
	case "stale by another account":
		huge.PaymentChannelID = number.PaymentChannelID
	case "stale by another channel":
		huge.PaymentChannelID = number.PaymentChannelID + 1
		signer = inCheck(newSigner(1))(l.t)
	default:
		return nil
	}
	m := inCheck(signer.Sign(huge))(l.t)
	return m.Bytes()
}

// TestLyingServiceTakesAtMostOnePurchase checks the bound in the documentation of Payer: a service
// that lies in any way can collect at most MaxPurchase more than the chunksets that it has
// delivered cost at MaxPrice, and never more than MaxSpend, unless channels are closed after
// refusals. Afterwards WriteOff lets the payer go on with a service that has become honest.
// Invariant 143.
func TestLyingServiceTakesAtMostOnePurchase(t *testing.T) {
	const maxPrice, maxPurchase, maxSpend = 2, 20, 10_000_000
	other := testenv.Must(newSigner(2))(t)
	takes := map[string]int{}
	setChecks(t, 100) // a fifth of them, as with -short, often misses an outcome
	rapid.Check(t, func(rt *rapid.T) {
		dir := testenv.MemoryDir(t)
		synctest.Test(t, func(t *testing.T) {
			l := &liar{t: rt, other: other, sessions: map[string]*lieSession{}}
			spend := rapid.SampledFrom([]uint64{50, maxSpend}).Draw(rt, "MaxSpend")
			c := inCheck(client.New("http://localhost:9090", client.Options{Transport: l, MaxAttempts: 2}))(rt)
			o := payerOptions(t, dir, func(o *client.PayerOptions) {
				o.StateFile = filepath.Join(dir, "lies.json")
				o.MaxPrice, o.MaxPurchase, o.MaxSpend = maxPrice, maxPurchase, spend
			})
			for range rapid.IntRange(1, 12).Draw(rt, "calls") {
				p := inCheck(c.NewPayer(t.Context(), o))(rt) // a new process
				n := rapid.Int64Range(1, 12).Draw(rt, "chunksets")
				_, err := p.Ensure(t.Context(), n)
				for range rapid.IntRange(0, 2).Draw(rt, "renew") {
					_, _ = p.Renew(t.Context()) // the liar checks its request
				}
				st := inCheck(p.Status(t.Context()))(rt)
				if st.ChannelID != "" && l.highest != st.Signed {
					rt.Fatalf("%d was signed, and the state has %+v", l.highest, st)
				}
				if l.earlier+l.highest > spend+l.closed*maxPurchase {
					rt.Fatalf("%d and before that %d were signed over %d channels, above MaxSpend", l.highest, l.earlier, l.closed)
				}
				if st.Spent > spend {
					rt.Fatalf("%d is spent, above MaxSpend: %+v", st.Spent, st)
				}
				if l.highest > st.Bought+maxPurchase {
					rt.Fatalf("%d was signed for one more purchase after %d", l.highest, st.Bought)
				}
				if l.paid+st.Bought > uint64(l.delivered)*maxPrice+(maxPrice-1)*(l.closed+1) {
					rt.Fatalf("%d is regarded as bought for %d chunksets", st.Bought, l.delivered)
				}
				if errors.Is(err, client.ErrNotDelivered) {
					takes["not delivered"]++
				} else if err == nil {
					takes["delivered"]++
				}
				time.Sleep(time.Duration(rapid.IntRange(0, 90).Draw(rt, "pause")) * time.Second)
				if rapid.IntRange(0, 5).Draw(rt, "close") == 0 {
					st := inCheck(p.Status(t.Context()))(rt)
					if _, err := p.CloseChannel(t.Context()); err == nil || errors.Is(err, client.ErrGone) {
						l.paid += st.Bought
						l.earlier, l.highest, l.accepted, l.seen = l.earlier+l.highest, 0, 0, nil
						l.closed++
					}
				}
			}
			if takes["renewed"] += l.renewals; l.renewals > 100 {
				rt.Fatalf("%d renewals", l.renewals)
			}
			l.honest = true
			p := inCheck(c.NewPayer(t.Context(), o))(rt)
			inCheck(p.WriteOff(t.Context()))(rt)
			if _, err := p.Buy(t.Context(), 1); err != nil && !errors.Is(err, client.ErrBudget) {
				rt.Fatalf("after WriteOff: %v", err)
			}
		})
	})
	if takes["delivered"] == 0 || takes["not delivered"] == 0 || takes["renewed"] == 0 {
		t.Errorf("outcomes %v: the lies do not cover all", takes)
	}
}
