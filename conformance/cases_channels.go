package conformance

import (
	"strconv"
	"strings"
	"time"
)

// channelCases check how channels are opened, shown, extended and closed.
var channelCases = needing([]Case{
	{Name: "channel/open", Section: channels, Level: Extended, check: func(c *trial) {
		state := c.openChannel(250).state()
		if state.State != "open" || state.Deposit != "250" || state.Accepted != "0" || state.Credit != "0" || state.Settled != "0" ||
			state.Unsettled != "0" || state.SequenceNumber != "0" || len(state.Sessions) != 0 || state.Refund != "" {
			c.fatalf("a new channel with a deposit of 250 is %+v", state)
		}
		if state.Receiver != c.info.Payment.Receiver || state.Asset != c.info.Payment.Asset || state.Sender != c.payer.Address().String() {
			c.fatalf("the channel has sender %s, receiver %s and asset %s, which are not the payer's and the published ones", state.Sender, state.Receiver, state.Asset)
		}
	}},
	{Name: "channel/id", Section: unitsLimits, Level: Extended, check: func(c *trial) {
		if id := c.openChannel(1).id; len(id) != 26 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			c.fatalf("the channelId %q does not match [A-Z2-7]{26}", id)
		}
	}},
	{Name: "channel/empty-list-is-present", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		o := c.send(request{method: "GET", target: c.openChannel(1).target("")}).want(200).members()
		if list, ok := o["sessions"].([]any); !ok || len(list) != 0 {
			c.fatalf("sessions is %v, want an empty list", o["sessions"])
		}
		for member, value := range o {
			if value == nil {
				c.fatalf("the member %s is null, and must be absent", member)
			}
		}
	}},
	{Name: "channel/default-expiry", Section: channels, Level: Extended, check: func(c *trial) {
		state := c.openChannel(1).state()
		want := time.Duration(c.info.Limits.ChannelTTLSeconds) * time.Second
		if got := state.Expires.Sub(state.Created); (got - want).Abs() > time.Minute {
			c.fatalf("the channel expires after %v, and /v1/info states %v", got, want)
		}
	}},
	{Name: "channel/chosen-expiry", Section: channels, Level: Extended, check: func(c *trial) {
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		state := c.openChannel(1, `"expires": "`+expires.Format(time.RFC3339)+`"`).state()
		if !state.Expires.Equal(expires) {
			c.fatalf("the channel expires at %v, want %v", state.Expires, expires)
		}
	}},
	{Name: "channel/number-is-random", Section: channels, Level: Extended, check: func(c *trial) {
		a, b := c.openChannel(1), c.openChannel(1)
		if a.number == b.number || a.number >= 1<<53 || b.number >= 1<<53 {
			c.fatalf("two channels have the numbers %d and %d, want two different ones below 2^53", a.number, b.number)
		}
	}},
	{Name: "channel/chosen-number", Section: channels, Level: Extended, check: func(c *trial) {
		number := c.openChannel(1).number + 1 // random, so nobody has it
		if got := c.openChannel(1, `"paymentChannelId": "`+strconv.FormatUint(number, 10)+`"`); got.number != number {
			c.fatalf("the channel has the number %d, want %d", got.number, number)
		}
	}},
	{Name: "channel/exists", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1)
		again := c.tryChannel(`"paymentChannelId": "`+strconv.FormatUint(ch.number, 10)+`"`).refused(409, "channel_exists")
		if strings.Contains(again.body, ch.id) {
			c.fatalf("the refusal reveals the channelId, which is a capability: %s", again.body)
		}
	}},
	{Name: "channel/exists-after-close", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1)
		c.post(ch.target("/close"), "").want(200)
		c.tryChannel(`"paymentChannelId": "`+strconv.FormatUint(ch.number, 10)+`"`).refused(409, "channel_exists")
	}},
	{Name: "channel/other-asset", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1)
		c.tryChannel(`"paymentChannelId": "`+strconv.FormatUint(ch.number, 10)+`"`, `"asset": "0x5ec"`).want(201)
	}},
	{Name: "channel/amount-as-number", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		state := c.opened(c.payer, c.tryChannel(`"deposit": 9007199254740991`)).state()
		if state.Deposit != "9007199254740991" {
			c.fatalf("the deposit is %s, want 2^53-1", state.Deposit)
		}
	}},
	{Name: "channel/greatest-amount", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		if state := c.openChannel(1<<63 - 1).state(); state.Deposit != "9223372036854775807" {
			c.fatalf("the deposit is %s, want 2^63-1", state.Deposit)
		}
	}},
	{Name: "channel/deposit", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(100)
		for _, want := range []string{"105", "110"} {
			state := c.changed(c.post(ch.target("/deposit"), `{"amount": "5"}`))
			if state.Deposit != want || ch.state().Deposit != want {
				c.fatalf("the deposit is %s and then %s, want %s", state.Deposit, ch.state().Deposit, want)
			}
		}
	}},
	{Name: "channel/deposit-overflow", Section: jsonBodies, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1<<63 - 1)
		c.post(ch.target("/deposit"), `{"amount": "1"}`).want(400)
		if state := ch.state(); state.Deposit != "9223372036854775807" {
			c.fatalf("a refused deposit has changed the deposit to %s", state.Deposit)
		}
	}},
	{Name: "channel/deposit-once", Section: sessions, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(100)
		key := []string{"Idempotency-Key", "deposit-" + ch.id}
		first := c.post(ch.target("/deposit"), `{"amount": "5"}`, key...).want(200)
		c.post(ch.target("/deposit"), `{"amount": "5"}`, key...).want(200).wantBody(first.body)
		c.post(ch.target("/deposit"), `{"amount": "6"}`, key...).refused(422, "idempotency_key_reused")
		if state := ch.state(); state.Deposit != "105" {
			c.fatalf("the deposit is %s, want 105: the request was repeated with its Idempotency-Key", state.Deposit)
		}
	}},
	{Name: "channel/open-once", Section: sessions, Level: Extended, check: func(c *trial) {
		key := []string{"Idempotency-Key", "open-" + c.prefix}
		body := `{"userIdentity": "` + c.payer.Address().String() + `", "deposit": "7"}`
		c.openChannel(1) // skips the case if the key may not open one
		first := c.post(channelsTarget, body, key...).want(201)
		c.post(channelsTarget, body, key...).want(201).wantBody(first.body)
		c.post(channelsTarget, strings.Replace(body, "7", "8", 1), key...).refused(422, "idempotency_key_reused")
	}},
	{Name: "channel/close", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(100)
		state := c.changed(c.post(ch.target("/close"), ""))
		if state.State != "closed" || state.Refund != "100" {
			c.fatalf("the closed channel is %s with a refund of %q, want closed with 100", state.State, state.Refund)
		}
		if got := ch.state(); got.State != "closed" {
			c.fatalf("the channel is %s after it was closed", got.State)
		}
	}},
	{Name: "channel/close-again", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(100)
		first := c.changed(c.post(ch.target("/close"), ""))
		again := c.changed(c.post(ch.target("/close"), ""))
		if first.Refund != again.Refund || first.Accepted != again.Accepted || again.State != "closed" {
			c.fatalf("closed again, the channel is %+v, and was %+v", again, first)
		}
	}},
	{Name: "channel/close-refunds-the-rest", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		paid := 2*c.price() + c.price() - 1
		c.buy(ch.next(paid), "").want(201)
		state := c.changed(c.post(ch.target("/close"), ""))
		if state.Refund != strconv.FormatUint(1_000_000-paid, 10) || state.Credit != strconv.FormatUint(c.price()-1, 10) {
			c.fatalf("the refund is %s and the credit %s of a channel that has accepted %d of 1000000", state.Refund, state.Credit, paid)
		}
	}},
	{Name: "channel/deposit-after-close", Section: errorResponses, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(100)
		c.post(ch.target("/close"), "").want(200)
		c.post(ch.target("/deposit"), `{"amount": "5"}`).refused(410, "channel_closed")
	}},
	{Name: "channel/renew-nothing", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(100)
		c.without().post(ch.target("/renew"), `{"micropaymentUpdate": `+quoted(ch.next(0))+`}`).refused(409, "nothing_expired")
	}},
	{Name: "channel/renew-another", Section: channels, Level: Extended, check: func(c *trial) {
		ch, other := c.openChannel(100), c.openChannel(100)
		c.without().post(ch.target("/renew"), `{"micropaymentUpdate": `+quoted(other.next(0))+`}`).refused(400, "bad_parameter")
	}},
	{Name: "channel/sessions-newest-first", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.openChannel(1_000_000)
		var want []string
		for range 3 {
			want = append([]string{c.buy(ch.next(c.price()), "").want(201).session().SessionID}, want...)
		}
		var got []string
		for _, s := range ch.state().Sessions {
			got = append(got, s.SessionID)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			c.fatalf("the channel's sessions are not the newest first: %d of them, want %d", len(got), len(want))
		}
	}},
	{Name: "channel/word-before-session", Section: operations, Level: Extended, check: func(c *trial) {
		c.send(request{method: "GET", target: channelsTarget}).refused(405, "method_not_allowed").wantToken("Allow", "POST")
	}},
}, booksInLedger)

// localChannelCases check channels that only a local instance opens.
var localChannelCases = needing([]Case{
	{Name: "channel/without-body", Section: channels, Level: Extended, check: func(c *trial) {
		state := c.opened(c.payer, c.send(request{method: "POST", target: channelsTarget})).state()
		if state.Deposit != "1000000" || state.Sender != "" {
			c.fatalf("a channel of an empty request has the deposit %s and the sender %q, want 1000000 and none", state.Deposit, state.Sender)
		}
	}},
	{Name: "channel/first-payer-becomes-sender", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.opened(c.payer, c.send(request{method: "POST", target: channelsTarget}))
		c.buy(ch.next(c.price()), "").want(201)
		if state := ch.state(); state.Sender != c.payer.Address().String() {
			c.fatalf("the sender is %q after %s has paid", state.Sender, c.payer.Address())
		}
	}},
	{Name: "channel/refused-payment-binds-nobody", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.opened(c.payer, c.post(channelsTarget, `{"deposit": "1"}`))
		c.buy(ch.next(2), "").refused(402, "insufficient_funds")
		if state := ch.wantMoney(0, 0); state.Sender != "" {
			c.fatalf("a refused payment has made %s the sender", state.Sender)
		}
	}},
	{Name: "channel/bound-number-is-free-for-others", Section: channels, Level: Extended, check: func(c *trial) {
		ch, other := c.opened(c.payer, c.send(request{method: "POST", target: channelsTarget})), c.newPayer()
		c.buy(ch.next(c.price()), "").want(201)
		number := `"paymentChannelId": "` + strconv.FormatUint(ch.number, 10) + `"`
		c.tryChannel(number).refused(409, "channel_exists")
		c.opened(other, c.tryChannelOf(other, number))
		c.tryChannelOf(other, number).refused(409, "channel_exists")
	}},
	{Name: "channel/without-sender-excludes-others", Section: channels, Level: Extended, check: func(c *trial) {
		ch := c.opened(c.payer, c.send(request{method: "POST", target: channelsTarget}))
		c.tryChannel(`"paymentChannelId": "`+strconv.FormatUint(ch.number, 10)+`"`).refused(409, "channel_exists")
	}},
	{Name: "channel/reconcile-without-chain", Section: channels, Level: Extended, check: func(c *trial) {
		c.post(c.openChannel(1).target("/reconcile"), "").refused(400, "bad_parameter")
	}},
}, booksInLedger, localInstance)

// wrongChannel is a member with which no channel is opened.
type wrongChannel struct{ name, member, code string }

var wrongChannelCases = needing(rows("channel/open-refused", channels, Extended, []wrongChannel{
	{"deposit-negative", `"deposit": "-1"`, "bad_json"},
	{"deposit-fraction", `"deposit": "1.5"`, "bad_json"},
	{"deposit-exponent", `"deposit": "1e3"`, "bad_json"},
	{"deposit-leading-zero", `"deposit": "01"`, "bad_json"},
	{"deposit-empty", `"deposit": ""`, "bad_json"},
	{"deposit-boolean", `"deposit": true`, "bad_json"},
	{"deposit-too-large", `"deposit": "9223372036854775808"`, "number_too_large"},
	{"number-inexact", `"deposit": 9007199254740993`, "bad_json"},
	{"asset-name", `"asset": "gold"`, "bad_parameter"},
	{"sender-name", `"userIdentity": "alice"`, "bad_parameter"},
	{"expires-past", `"expires": "2001-02-03T04:05:06Z"`, "bad_parameter"},
	{"expires-date", `"expires": "2999-01-01"`, "bad_parameter"},
	{"channel-number", `"paymentChannelId": "x"`, "bad_json"},
	{"channel-number-too-large", `"paymentChannelId": "9223372036854775808"`, "number_too_large"},
}, func(w wrongChannel) string { return w.name }, func(c *trial, w wrongChannel) {
	c.openChannel(1) // skips the case if the key may not open one
	body := `{"userIdentity": "` + c.payer.Address().String() + `", ` + w.member + "}"
	if strings.HasPrefix(w.member, `"userIdentity"`) {
		body = "{" + w.member + "}"
	}
	c.post(channelsTarget, body).refused(400, w.code)
}), booksInLedger)

// wrongDeposit is an amount that cannot be added to a deposit.
type wrongDeposit struct{ name, body string }

var wrongDepositCases = needing(rows("channel/deposit-refused", channels, Extended, []wrongDeposit{
	{"missing", `{}`},
	{"negative", `{"amount": "-5"}`},
	{"fraction", `{"amount": 1.5}`},
	{"text", `{"amount": "five"}`},
}, func(w wrongDeposit) string { return w.name }, func(c *trial, w wrongDeposit) {
	ch := c.openChannel(100)
	c.post(ch.target("/deposit"), w.body).want(400)
	if state := ch.state(); state.Deposit != "100" {
		c.fatalf("a refused deposit has changed the deposit to %s", state.Deposit)
	}
}), booksInLedger)

// unknownChannelCases check the response to an id that does not exist.
var unknownChannelCases = rows("channel/unknown", errorResponses, Extended, [][2]string{
	{"GET", ""}, {"POST", "/deposit"}, {"POST", "/close"},
}, func(r [2]string) string { return strings.ToLower(r[0]) + strings.ReplaceAll(r[1], "/", "-") }, func(c *trial, r [2]string) {
	body := ""
	if r[1] == "/deposit" {
		body = `{"amount": "5"}`
	}
	answer := c.send(request{method: r[0], target: channelsTarget + "/AAAAAAAAAAAAAAAAAAAAAAAAAA" + r[1], body: body})
	if answer.status == 401 || answer.status == 403 {
		c.skipf("the key may not change channels (%s)", answer.problem().Code)
	}
	answer.refused(404, "channel_not_found")
})
