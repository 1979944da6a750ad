package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/micropay"
	"sluice/test/testenv"
)

// Payer signs micropayments for one account.
type Payer struct {
	Signer *micropay.Signer
	Terms  micropay.Payment // the server's receiver, asset, module and chain
}

// Payer returns the payer with a number, with the terms that the server publishes.
func (s *Server) Payer(number byte) *Payer {
	s.T.Helper()
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{number}, 32))
	testenv.OK(s.T, err)
	signer, err := micropay.NewSigner(micropay.SchemeEd25519, key)
	testenv.OK(s.T, err)
	return &Payer{signer, s.Terms()}
}

// Published is the payment part of /v1/info.
type Published struct {
	Receiver       string `json:"receiver"`
	Asset          string `json:"asset"`
	Module         string `json:"module"`
	ChainID        uint8  `json:"chainId"`
	ChunksetPrice  string `json:"chunksetPrice"`
	UnsettledLimit string `json:"unsettledLimit"`
}

// Info returns the payment part of /v1/info, and the mode of reads.
func (s *Server) Info() (p Published, reads string) {
	s.T.Helper()
	var facts struct {
		Reads   string    `json:"reads"`
		Payment Published `json:"payment"`
	}
	s.Must(200, "GET", "/v1/info", nil).Decode(s.T, &facts)
	return facts.Payment, facts.Reads
}

// Terms returns a payment with the terms that the server accepts, without channel, sequence and
// amount.
func (s *Server) Terms() micropay.Payment {
	s.T.Helper()
	p, _ := s.Info()
	return micropay.Payment{
		Receiver:        Address(s.T, p.Receiver),
		Asset:           Address(s.T, p.Asset),
		ModuleAddress:   Address(s.T, p.Module),
		ChainID:         p.ChainID,
		AccountSequence: micropay.NoAccountSequence,
		MaxGas:          200_000,
		GasPrice:        100,
		Nonce:           1,
	}
}

// Address parses an address.
func Address(t testing.TB, text string) micropay.Address {
	t.Helper()
	a, err := micropay.ParseAddress(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return a
}

// Sign signs a micropayment that is valid for a minute, after applying the changes to it.
func (p *Payer) Sign(t testing.TB, channel, sequence, amount uint64, change ...func(*micropay.Payment)) *micropay.Micropayment {
	t.Helper()
	payment := p.Terms
	payment.PaymentChannelID, payment.Sequence, payment.Amount = channel, sequence, amount
	payment.Nonce = channel<<20 + sequence + 1 // the chain executes each of a sender's nonces once
	payment.Expiration = uint64(time.Now().Add(time.Minute).Unix())
	for _, f := range change {
		f(&payment)
	}
	m, err := p.Signer.Sign(payment)
	testenv.OK(t, err)
	return m
}

// Channel is an open channel, and the state of its payer.
type Channel struct {
	S        *Server
	Payer    *Payer
	ID       string
	Number   uint64 // paymentChannelId
	Sequence uint64 // of the last signed micropayment
	Amount   uint64 // of the last signed micropayment
}

// Channels is the target of requests that open or list channels.
const Channels = "/v1/sessions/micropaymentchannels"

// Open opens a channel for a payer with a deposit.
func (s *Server) Open(p *Payer, deposit int64) *Channel {
	s.T.Helper()
	body := AsJSON(s.T, map[string]any{"userIdentity": p.Signer.Address().String(), "deposit": strconv.FormatInt(deposit, 10)})
	return s.Opened(p, s.Must(201, "POST", Channels, body))
}

// Opened parses the response to opening a channel.
func (s *Server) Opened(p *Payer, r Response) *Channel {
	s.T.Helper()
	var state ChannelState
	r.Decode(s.T, &state)
	return &Channel{S: s, Payer: p, ID: state.ChannelID, Number: uint64(Number(s.T, state.PaymentChannelID))}
}

// Next signs the micropayment that adds more to the amount, and returns it encoded.
func (c *Channel) Next(more uint64, change ...func(*micropay.Payment)) string {
	c.S.T.Helper()
	c.Sequence++
	c.Amount += more
	return c.Again(change...)
}

// Again signs the last micropayment once more, and returns it encoded.
func (c *Channel) Again(change ...func(*micropay.Payment)) string {
	c.S.T.Helper()
	return c.Payer.Sign(c.S.T, c.Number, c.Sequence, c.Amount, change...).Base64()
}

// ChannelState is a channel's state in a response.
type ChannelState struct {
	ChannelID        string `json:"channelId"`
	PaymentChannelID string `json:"paymentChannelId"`
	Sender           string `json:"sender"`
	Receiver         string `json:"receiver"`
	Asset            string `json:"asset"`
	Deposit          string `json:"deposit"`
	Accepted         string `json:"accepted"`
	Credit           string `json:"credit"`
	Settled          string `json:"settled"`
	Unsettled        string `json:"unsettled"`
	SequenceNumber   string `json:"sequenceNumber"`
	State            string `json:"state"`
	Sessions         []struct {
		SessionID     string `json:"sessionId"`
		ChunksetsLeft int64  `json:"chunksetsLeft"`
	} `json:"sessions"`
}

// Money formats the members that a payment changes.
func (c ChannelState) Money() string {
	return fmt.Sprintf("deposit %s accepted %s credit %s sequence %s %s", c.Deposit, c.Accepted, c.Credit, c.SequenceNumber, c.State)
}

// State returns the channel's state.
func (c *Channel) State() ChannelState {
	c.S.T.Helper()
	r := c.S.Must(200, "GET", Channels+"/"+c.ID, nil)
	CheckChannelForm(c.S.T, r)
	var state ChannelState
	r.Decode(c.S.T, &state)
	return state
}

// Settled waits until everything accepted is settled.
func (c *Channel) Settled() ChannelState {
	c.S.T.Helper()
	var state ChannelState
	c.S.Eventually("the accepted amount is not settled", func() bool {
		state = c.State()
		return state.Settled == state.Accepted && state.Unsettled == "0"
	})
	return state
}

// CheckChannelForm checks that every amount is a decimal string, and that the amounts add up. The
// deposit of a channel that has stopped may have shrunk on the chain, and a third party may have
// withdrawn more there than was accepted.
func CheckChannelForm(t testing.TB, r Response) {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(r.Body, &members); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	numbers := map[string]int64{}
	if members["elsewhere"] == nil {
		members["elsewhere"] = "0"
	}
	for _, member := range []string{"elsewhere", "paymentChannelId", "deposit", "accepted", "credit", "settled", "unsettled", "sellingLimit", "sequenceNumber"} {
		written, ok := members[member].(string)
		value, err := strconv.ParseInt(written, 10, 64)
		if !ok || err != nil || value < 0 {
			t.Fatalf("channel: %s is %v, want a number in a string: %s", member, members[member], r.Body)
		}
		numbers[member] = value
	}
	if _, ok := members["sessions"].([]any); !ok {
		t.Errorf("channel: sessions is not a list: %s", r.Body)
	}
	if numbers["settled"] > numbers["accepted"]+numbers["elsewhere"] || numbers["accepted"] > numbers["deposit"] && members["state"] != "stopped" || numbers["credit"] > numbers["accepted"] ||
		numbers["unsettled"] != max(0, numbers["accepted"]-numbers["settled"]) {
		t.Errorf("channel: the amounts do not add up: %s", r.Body)
	}
}

// SessionState is a session's state in a response.
type SessionState struct {
	SessionID      string `json:"sessionId"`
	UserIdentity   string `json:"userIdentity"`
	ChunksetsLeft  int64  `json:"chunksetsLeft"`
	ChunksetsTotal int64  `json:"chunksetsTotal"`
}

// AsSession decodes a session.
func AsSession(t testing.TB, r Response) SessionState {
	t.Helper()
	var state SessionState
	r.Decode(t, &state)
	return state
}

// SessionState returns a session's state.
func (s *Server) SessionState(id string) SessionState {
	s.T.Helper()
	return AsSession(s.T, s.Must(200, "GET", "/v1/sessions/"+id, nil))
}

// PurchaseBody returns the body for a request that buys a session, or adds to the one with the
// given id.
func PurchaseBody(t testing.TB, micropayment, sessionID string) []byte {
	t.Helper()
	body := map[string]any{"micropaymentUpdate": micropayment}
	if sessionID != "" {
		body["sessionId"] = sessionID
	}
	return AsJSON(t, body)
}

// Buy pays for a new session.
func (c *Channel) Buy(more uint64) SessionState {
	c.S.T.Helper()
	return AsSession(c.S.T, c.S.Must(201, "POST", "/v1/sessions", PurchaseBody(c.S.T, c.Next(more), "")))
}

// Member returns an error's additional member as text.
func Member(t testing.TB, r Response, name string) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	value, ok := body[name].(string)
	if !ok {
		t.Errorf("member %q is missing or not a string: %s", name, r.Body)
	}
	return value
}

// AsBase64 encodes bytes as in a header.
func AsBase64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// Renew sends a renewal for an amount over a channel, with a sequence number.
func (c *Channel) Renew(sequence, amount uint64) Response {
	c.S.T.Helper()
	return c.S.Do("POST", Channels+"/"+c.ID+"/renew", AsJSON(c.S.T, map[string]any{
		"micropaymentUpdate": c.Payer.Sign(c.S.T, c.Number, sequence, amount).Base64(),
	}))
}

// AtOnce sends many concurrent requests and returns the responses.
func (s *Server) AtOnce(count int, send func(i int) (Response, error)) []Response {
	s.T.Helper()
	answers := make([]Response, count)
	var senders sync.WaitGroup
	for i := range count {
		senders.Go(func() {
			r, err := send(i)
			if err != nil {
				s.T.Error(err)
			}
			answers[i] = r
		})
	}
	senders.Wait()
	// Idle connections would delay a shutdown.
	Client.CloseIdleConnections()
	return answers
}

// Piece returns a substring with n characters from the secret that occurs in the text, or "".
func Piece(text, secret string, n int) string {
	for i := 0; i+n <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+n]) {
			return secret[i : i+n]
		}
	}
	return ""
}

// ChunksetSize is the unit in which reads are paid.
const ChunksetSize = 10 << 20

// CheckPaid fails the test unless the response has a paid read's receipt and forbids caching.
func CheckPaid(t testing.TB, r Response, charged, left string) {
	t.Helper()
	for name, want := range map[string]string{"Chunksets-Charged": charged, "Chunksets-Left": left, "Cache-Control": "private, no-store"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%d: %s is %q, want %q", r.Status, name, got, want)
		}
	}
}

// Prints runs a command that must succeed, and returns its standard output, without the last
// newline.
func Prints(t testing.TB, args ...string) string {
	t.Helper()
	r := SluiceRuns(t, args...)
	if r.Code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, r.Code, r.Stderr)
	}
	return strings.TrimSuffix(r.Stdout, "\n")
}

// Refuses runs a command that must fail with an exit code and a message.
func Refuses(t testing.TB, code int, message string, args ...string) {
	t.Helper()
	r := SluiceRuns(t, args...)
	if r.Code != code || r.Stdout != "" || !strings.Contains(r.Stderr, message) || strings.Count(r.Stderr, "\n") != 1 {
		t.Errorf("%q: %+v, want exit code %d and %q", args, r, code, message)
	}
}
