package conformance

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// Targets of sessions and channels.
const (
	sessionsTarget = "/v1/sessions"
	channelsTarget = "/v1/sessions/micropaymentchannels"
)

// channel is a case's open channel, and the last sequence and amount that its payer has signed.
type channel struct {
	c      *trial
	signer *micropay.Signer
	id     string
	number uint64 // paymentChannelId

	sequence, amount uint64 // of the last payment
}

// openChannel opens a channel of the run's payer. members are appended to the JSON object. The case
// is skipped if the key may not open it.
func (c *trial) openChannel(deposit int64, members ...string) *channel {
	return c.openChannelOf(c.payer, deposit, members...)
}

// openChannelOf opens a channel of another payer.
func (c *trial) openChannelOf(signer *micropay.Signer, deposit int64, members ...string) *channel {
	opened := c.tryChannelOf(signer, append([]string{`"deposit": "` + strconv.FormatInt(deposit, 10) + `"`}, members...)...)
	return c.opened(signer, opened)
}

// opened returns the channel that a response describes.
func (c *trial) opened(signer *micropay.Signer, r *response) *channel {
	var state wire.Channel
	r.want(http.StatusCreated).json(&state)
	number, err := strconv.ParseUint(state.PaymentChannelID, 10, 63)
	c.ok(err)
	return &channel{c: c, signer: signer, id: state.ChannelID, number: number}
}

// tryChannel sends the request that opens a channel of the run's payer, with these members.
func (c *trial) tryChannel(members ...string) *response { return c.tryChannelOf(c.payer, members...) }

func (c *trial) tryChannelOf(signer *micropay.Signer, members ...string) *response {
	members = append([]string{`"userIdentity": "` + signer.Address().String() + `"`}, members...)
	r := c.post(channelsTarget, "{"+strings.Join(members, ", ")+"}")
	if r.status == http.StatusUnauthorized || r.status == http.StatusForbidden {
		c.skipf("the key may not open channels for any payer (%s)", r.problem().Code)
	}
	return r
}

// price returns a chunkset's price.
func (c *trial) price() uint64 {
	price, err := strconv.ParseUint(c.info.Payment.ChunksetPrice, 10, 63)
	c.ok(err)
	return price
}

// payment returns the terms that the server publishes, for the channel's next payment.
func (ch *channel) payment() micropay.Payment {
	address := func(text string) micropay.Address {
		a, err := micropay.ParseAddress(text)
		ch.c.ok(err)
		return a
	}
	terms := ch.c.info.Payment
	return micropay.Payment{
		Receiver: address(terms.Receiver), Asset: address(terms.Asset), ModuleAddress: address(terms.Module), ChainID: uint8(terms.ChainID),
		PaymentChannelID: ch.number, Sequence: ch.sequence, Amount: ch.amount,
		AccountSequence: micropay.NoAccountSequence, Nonce: ch.number<<20 + ch.sequence + 1, MaxGas: 200_000, GasPrice: 100,
		Expiration: uint64(time.Now().Add(time.Minute).Unix()),
	}
}

// sign returns the payment with these changes, signed.
func (ch *channel) sign(change ...func(*micropay.Payment)) *micropay.Micropayment {
	p := ch.payment()
	for _, f := range change {
		f(&p)
	}
	m, err := ch.signer.Sign(p)
	ch.c.ok(err)
	return m
}

// next signs the payment that adds more to the amount, and returns it in base64.
func (ch *channel) next(more uint64, change ...func(*micropay.Payment)) string {
	ch.sequence++
	ch.amount += more
	return ch.sign(change...).Base64()
}

// state returns the channel as the server shows it.
func (ch *channel) state() wire.Channel {
	var state wire.Channel
	ch.c.send(request{method: "GET", target: ch.target("")}).want(http.StatusOK).json(&state)
	return state
}

// target returns the target of the channel's operations; following is appended.
func (ch *channel) target(following string) string { return channelsTarget + "/" + ch.id + following }

// wantMoney expects the channel's accepted amount, and which part of it is credit.
func (ch *channel) wantMoney(accepted, credit uint64) wire.Channel {
	state := ch.state()
	if state.Accepted != strconv.FormatUint(accepted, 10) || state.Credit != strconv.FormatUint(credit, 10) {
		ch.c.fatalf("the channel has accepted %s with a credit of %s, want %d and %d", state.Accepted, state.Credit, accepted, credit)
	}
	return state
}

// buy sends a payment for a session; an id names the session to add to. No key is needed.
func (c *trial) buy(payment, id string, header ...string) *response {
	body := `{"micropaymentUpdate": ` + quoted(payment)
	if id != "" {
		body += `, "sessionId": ` + quoted(id)
	}
	return c.without().post(sessionsTarget, body+"}", header...)
}

// session parses a session in a response.
func (r *response) session() wire.Session {
	var s wire.Session
	r.json(&s)
	return s
}

// sold returns a session with so many chunksets, bought over a new channel.
func (c *trial) sold(chunksets uint64) (*channel, wire.Session) {
	ch := c.openChannel(1_000_000)
	s := c.buy(ch.next(chunksets*c.price()), "").want(http.StatusCreated).session()
	if s.ChunksetsLeft != int64(chunksets) || s.ChunksetsTotal != int64(chunksets) {
		c.fatalf("a payment for %d chunksets has bought %d of %d", chunksets, s.ChunksetsLeft, s.ChunksetsTotal)
	}
	return ch, s
}

// left returns how many chunksets a session has left.
func (c *trial) left(id string) int64 {
	return c.send(request{method: "GET", target: sessionsTarget + "/" + id}).want(http.StatusOK).session().ChunksetsLeft
}

// use uses a session. No key is needed.
func (c *trial) use(id string, header ...string) *response {
	return c.without().send(request{method: "POST", target: sessionsTarget + "/" + id + "/use", header: header})
}

// atOnce calls f n times at once and returns how often each status came. A case that ends within f
// ends when all calls have returned.
func (c *trial) atOnce(n int, f func(*trial) *response) map[int]int {
	type outcome struct {
		status, requests int
		stopped          any
	}
	outcomes := make(chan outcome, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			one := *c
			one.state = &trialState{}
			var o outcome
			defer func() {
				o.stopped, o.requests = recover(), one.state.requests
				outcomes <- o
			}()
			o.status = f(&one).status
		})
	}
	all.Wait()
	close(outcomes)
	statuses := map[int]int{}
	for o := range outcomes {
		c.state.requests += o.requests
		if o.stopped != nil {
			panic(o.stopped)
		}
		statuses[o.status]++
	}
	return statuses
}

// decoded returns a micropayment's bytes.
func decoded(payment string) []byte {
	raw, err := base64.StdEncoding.DecodeString(payment)
	if err != nil {
		panic(err) // it was encoded here
	}
	return raw
}

// changed parses the channel in a response to a change.
func (c *trial) changed(r *response) (state wire.Channel) {
	r.want(http.StatusOK).json(&state)
	return state
}
