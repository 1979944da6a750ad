package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"sluice/micropay"
)

// payer signs micropayments for one account.
type payer struct {
	signer *micropay.Signer
	terms  micropay.Payment // the server's receiver, asset, module and chain
}

// payer returns the payer with a number, with the terms that the server publishes.
func (s *server) payer(number byte) *payer {
	s.t.Helper()
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{number}, 32))
	if err != nil {
		s.t.Fatal(err)
	}
	signer, err := micropay.NewSigner(micropay.SchemeEd25519, key)
	if err != nil {
		s.t.Fatal(err)
	}
	return &payer{signer, s.terms()}
}

// published is the payment part of /v1/info.
type published struct {
	Receiver       string `json:"receiver"`
	Asset          string `json:"asset"`
	Module         string `json:"module"`
	ChainID        uint8  `json:"chainId"`
	ChunksetPrice  string `json:"chunksetPrice"`
	UnsettledLimit string `json:"unsettledLimit"`
}

// info returns the payment part of /v1/info, and the mode of reads.
func (s *server) info() (p published, reads string) {
	s.t.Helper()
	var facts struct {
		Reads   string    `json:"reads"`
		Payment published `json:"payment"`
	}
	s.must(200, "GET", "/v1/info", nil).decode(s.t, &facts)
	return facts.Payment, facts.Reads
}

// terms returns a payment with the terms that the server accepts, without channel, sequence and
// amount.
func (s *server) terms() micropay.Payment {
	s.t.Helper()
	p, _ := s.info()
	return micropay.Payment{
		Receiver:        address(s.t, p.Receiver),
		Asset:           address(s.t, p.Asset),
		ModuleAddress:   address(s.t, p.Module),
		ChainID:         p.ChainID,
		AccountSequence: micropay.NoAccountSequence,
		MaxGas:          200_000,
		GasPrice:        100,
		Nonce:           1,
	}
}

func address(t testing.TB, text string) micropay.Address {
	t.Helper()
	a, err := micropay.ParseAddress(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return a
}

// sign signs a micropayment that is valid for a minute, after applying the changes to it.
func (p *payer) sign(t testing.TB, channel, sequence, amount uint64, change ...func(*micropay.Payment)) *micropay.Micropayment {
	t.Helper()
	payment := p.terms
	payment.PaymentChannelID, payment.Sequence, payment.Amount = channel, sequence, amount
	payment.Nonce = channel<<20 + sequence + 1 // the chain executes each of a sender's nonces once
	payment.Expiration = uint64(time.Now().Add(time.Minute).Unix())
	for _, f := range change {
		f(&payment)
	}
	m, err := p.signer.Sign(payment)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// channel is an open channel, and the state of its payer.
type channel struct {
	s        *server
	payer    *payer
	id       string
	number   uint64 // paymentChannelId
	sequence uint64 // of the last signed micropayment
	amount   uint64 // of the last signed micropayment
}

const channels = "/v1/sessions/micropaymentchannels"

// open opens a channel for a payer with a deposit.
func (s *server) open(p *payer, deposit int64) *channel {
	s.t.Helper()
	body := asJSON(s.t, map[string]any{"userIdentity": p.signer.Address().String(), "deposit": strconv.FormatInt(deposit, 10)})
	return s.opened(p, s.must(201, "POST", channels, body))
}

// opened parses the response to opening a channel.
func (s *server) opened(p *payer, r response) *channel {
	s.t.Helper()
	var state channelState
	r.decode(s.t, &state)
	return &channel{s: s, payer: p, id: state.ChannelID, number: uint64(number(s.t, state.PaymentChannelID))}
}

// next signs the micropayment that adds more to the amount, and returns it encoded.
func (c *channel) next(more uint64, change ...func(*micropay.Payment)) string {
	c.s.t.Helper()
	c.sequence++
	c.amount += more
	return c.again(change...)
}

// again signs the last micropayment once more, and returns it encoded.
func (c *channel) again(change ...func(*micropay.Payment)) string {
	c.s.t.Helper()
	return c.payer.sign(c.s.t, c.number, c.sequence, c.amount, change...).Base64()
}

// channelState is a channel's state in a response.
type channelState struct {
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

// money formats the members that a payment changes.
func (c channelState) money() string {
	return fmt.Sprintf("deposit %s accepted %s credit %s sequence %s %s", c.Deposit, c.Accepted, c.Credit, c.SequenceNumber, c.State)
}

// state returns the channel's state.
func (c *channel) state() channelState {
	c.s.t.Helper()
	r := c.s.must(200, "GET", channels+"/"+c.id, nil)
	checkChannelForm(c.s.t, r)
	var state channelState
	r.decode(c.s.t, &state)
	return state
}

// settled waits until everything accepted is settled.
func (c *channel) settled() channelState {
	c.s.t.Helper()
	var state channelState
	c.s.eventually("the accepted amount is not settled", func() bool {
		state = c.state()
		return state.Settled == state.Accepted && state.Unsettled == "0"
	})
	return state
}

// checkChannelForm checks that every amount is a decimal string, and that the amounts add up.
func checkChannelForm(t testing.TB, r response) {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(r.body, &members); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	numbers := map[string]int64{}
	for _, member := range []string{"paymentChannelId", "deposit", "accepted", "credit", "settled", "unsettled", "sellingLimit", "sequenceNumber"} {
		written, ok := members[member].(string)
		value, err := strconv.ParseInt(written, 10, 64)
		if !ok || err != nil || value < 0 {
			t.Fatalf("channel: %s is %v, want a number in a string: %s", member, members[member], r.body)
		}
		numbers[member] = value
	}
	if _, ok := members["sessions"].([]any); !ok {
		t.Errorf("channel: sessions is not a list: %s", r.body)
	}
	if numbers["settled"] > numbers["accepted"] || numbers["accepted"] > numbers["deposit"] || numbers["credit"] > numbers["accepted"] ||
		numbers["unsettled"] != numbers["accepted"]-numbers["settled"] {
		t.Errorf("channel: the amounts do not add up: %s", r.body)
	}
}

// sessionState is a session's state in a response.
type sessionState struct {
	SessionID      string `json:"sessionId"`
	UserIdentity   string `json:"userIdentity"`
	ChunksetsLeft  int64  `json:"chunksetsLeft"`
	ChunksetsTotal int64  `json:"chunksetsTotal"`
}

func asSession(t testing.TB, r response) sessionState {
	t.Helper()
	var state sessionState
	r.decode(t, &state)
	return state
}

// sessionState returns a session's state.
func (s *server) sessionState(id string) sessionState {
	s.t.Helper()
	return asSession(s.t, s.must(200, "GET", "/v1/sessions/"+id, nil))
}

// purchaseBody returns the body for a request that buys a session, or adds to the one with the
// given id.
func purchaseBody(t testing.TB, micropayment, sessionID string) []byte {
	t.Helper()
	body := map[string]any{"micropaymentUpdate": micropayment}
	if sessionID != "" {
		body["sessionId"] = sessionID
	}
	return asJSON(t, body)
}

// buy pays for a new session.
func (c *channel) buy(more uint64) sessionState {
	c.s.t.Helper()
	return asSession(c.s.t, c.s.must(201, "POST", "/v1/sessions", purchaseBody(c.s.t, c.next(more), "")))
}

// member returns an error's additional member as text.
func member(t testing.TB, r response, name string) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	value, ok := body[name].(string)
	if !ok {
		t.Errorf("member %q is missing or not a string: %s", name, r.body)
	}
	return value
}

// asBase64 encodes bytes as in a header.
func asBase64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// decoded returns an encoded micropayment's bytes.
func decoded(t testing.TB, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parseTime parses a time in a JSON object.
func parseTime(t testing.TB, o map[string]any, member string) time.Time {
	t.Helper()
	m, err := time.Parse(time.RFC3339Nano, text(t, o, member))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
