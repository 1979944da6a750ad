package money

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/requests"
	"sluice/ledger"
	"sluice/test/testenv"
)

var updateOutcomes = flag.Bool("update-outcomes", false, "write the outcomes of idempotent calls to testdata")

// sessionV1 and channelV1 are the first version's stored outcomes, in JSON. They never change: that
// version's processes may share a database with this one's.
type sessionV1 struct {
	ID           string `json:"id"`
	UserIdentity string `json:"userIdentity,omitempty"`
	Channel      string `json:"channel,omitempty"`
	Total        int64  `json:"total"`
	Left         int64  `json:"left"`
	Used         int64  `json:"used"`

	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

type channelV1 struct {
	ID               string `json:"id"`
	PaymentChannelID int64  `json:"paymentChannelId"`
	Sender           string `json:"sender,omitempty"`
	Receiver         string `json:"receiver"`
	Asset            string `json:"asset"`
	Deposit          int64  `json:"deposit"`
	Owner            string `json:"owner,omitempty"`

	Accepted int64     `json:"accepted"`
	Sequence int64     `json:"sequence"`
	Proof    []byte    `json:"proof,omitempty"`
	Credit   int64     `json:"credit"`
	Settled  int64     `json:"settled"`
	Closed   time.Time `json:"closed,omitzero"`

	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// channel returns the channel as the first version knew it.
func (v channelV1) channel() ledger.Channel {
	return ledger.Channel{
		ID: v.ID, PaymentChannelID: v.PaymentChannelID, Sender: v.Sender, Receiver: v.Receiver, Asset: v.Asset,
		Deposit: v.Deposit, Owner: v.Owner, Accepted: v.Accepted, Sequence: v.Sequence, Proof: v.Proof,
		Credit: v.Credit, Settled: v.Settled, Closed: v.Closed, Created: v.Created, Expires: v.Expires,
	}
}

// outcomeClock is the time of all calls below.
var outcomeClock = time.Date(2026, 3, 4, 5, 6, 7, 890123000, time.UTC)

// outcomeCalls are calls with stored outcomes, one of each kind, in an order in which each
// succeeds. before prepares one call.
func outcomeCalls() []struct {
	name   string
	before func(context.Context, *Ledger) error
	call   func(context.Context, *Ledger, *database.Idempotency) (any, error)
} {
	expires := outcomeClock.Add(30 * 24 * time.Hour)
	pay := func(sequence, amount int64) ledger.Offer {
		return ledger.Offer{Payment: ledger.Payment{Sender: "sender", Receiver: "receiver", Asset: "asset", PaymentChannelID: 1<<63 - 1,
			Sequence: sequence, Amount: amount, Proof: []byte{0, 1, 0xfe, 0xff}, Expires: expires,
		}, Policy: ledger.Policy{UnsettledLimit: 1 << 40}}
	}
	return []struct {
		name   string
		before func(context.Context, *Ledger) error
		call   func(context.Context, *Ledger, *database.Idempotency) (any, error)
	}{
		{name: "open-channel", call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
			return s.OpenChannel(ctx, ledger.Channel{ID: "channel", PaymentChannelID: 1<<63 - 1, Receiver: "receiver", Asset: "asset", Deposit: 1000, Expires: expires}, idem)
		}},
		{name: "open-channel-of-owner", call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
			return s.OpenChannel(ctx, ledger.Channel{ID: "<bound> & \u2028 \xff", PaymentChannelID: 2, Sender: "sender", Receiver: "receiver", Asset: "asset", Owner: "owner", Expires: expires}, idem)
		}},
		{name: "create-session", call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
			return s.CreateSession(ctx, ledger.Session{ID: "granted", Total: 9, Left: 9, Expires: expires}, idem)
		}},
		{name: "create-session-of-user", call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
			return s.CreateSession(ctx, ledger.Session{ID: "user's", UserIdentity: "<user> & \u2028 \xff", Expires: expires.Add(time.Nanosecond)}, idem)
		}},
		{name: "use-session", call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
			return s.UseSession(ctx, "granted", 4, idem)
		}},
		{name: "buy", call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
			return s.Buy(ctx, ledger.Purchase{Offer: pay(1, 100), Price: 7, Session: ledger.Session{ID: "bought", UserIdentity: "user", Expires: expires}}, idem)
		}},
		{name: "refill", call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
			return s.Buy(ctx, ledger.Purchase{Offer: pay(2, 200), Price: 7, Refill: true, Session: ledger.Session{ID: "bought"}}, idem)
		}},
		{name: "add-deposit",
			before: func(ctx context.Context, s *Ledger) error {
				return s.Book(ctx, []ledger.Settlement{{Channel: "channel", Sequence: 2, Amount: 200}})
			},
			call: func(ctx context.Context, s *Ledger, idem *database.Idempotency) (any, error) {
				return s.AddDeposit(ctx, "channel", 5, idem)
			}},
	}
}

// TestOutcomesAreThoseOfThePreviousVersion compares, for each kind of call, the stored bytes with
// the previous version's, and repeats the calls on a database with only the previous version's
// outcomes.
func TestOutcomesAreThoseOfThePreviousVersion(t *testing.T) {
	ctx := t.Context()
	opt := engine.Options{Now: func() time.Time { return outcomeClock }}
	key := func(name string) *database.Idempotency { return &database.Idempotency{Scope: "scope", Key: name} }
	first := openAt(t, databasePath(t), opt)
	returned := map[string]any{}
	var stored strings.Builder
	for _, c := range outcomeCalls() {
		if c.before != nil {
			testenv.OK(t, c.before(ctx, first))
		}
		out, err := c.call(ctx, first, key(c.name))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		returned[c.name] = out
		stored.WriteString(c.name + " " + storedOutcome(t, first, key(c.name)) + "\n")
	}
	golden := filepath.Join("testdata", "outcomes.txt")
	if *updateOutcomes {
		testenv.OK(t, os.WriteFile(golden, []byte(stored.String()), 0o644))
	}
	previous := testenv.Must(os.ReadFile(golden))(t)
	if stored.String() != string(previous) {
		t.Errorf("the previous version stored\n%s\nand this one\n%s", previous, stored.String())
	}

	second := openAt(t, databasePath(t), opt)
	remembered := map[string]string{}
	for line := range strings.Lines(string(previous)) {
		name, outcome, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		remembered[name] = outcome
		rememberOutcome(t, second, key(name), outcome)
	}
	for _, c := range outcomeCalls() {
		out, err := c.call(ctx, second, key(c.name))
		if err != nil {
			t.Fatalf("%s repeated: %v", c.name, err)
		}
		// JSON cannot represent invalid UTF-8, so the first version's struct determines the result.
		var want any
		switch out.(type) {
		case ledger.Session:
			var v sessionV1
			err = json.Unmarshal([]byte(remembered[c.name]), &v)
			want = ledger.Session(v)
		case ledger.Channel:
			var v channelV1
			err = json.Unmarshal([]byte(remembered[c.name]), &v)
			want = v.channel()
		}
		if err != nil || !reflect.DeepEqual(out, want) {
			t.Errorf("%s repeated returned %+v, want %+v, %v", c.name, out, want, err)
		}
		if !strings.Contains(remembered[c.name], `\ufffd`) && !reflect.DeepEqual(out, returned[c.name]) {
			t.Errorf("%s repeated returned %+v, at first %+v", c.name, out, returned[c.name])
		}
	}
}

// TestEveryFieldIsRemembered encodes results with every field set: the first version reads the same
// result from them.
func TestEveryFieldIsRemembered(t *testing.T) {
	var session ledger.Session
	var channel ledger.Channel
	for i, v := range []reflect.Value{reflect.ValueOf(&session).Elem(), reflect.ValueOf(&channel).Elem()} {
		for f := range v.NumField() {
			switch field := v.Field(f).Addr().Interface().(type) {
			case *string:
				*field = fmt.Sprint("text ", i, f)
			case *int64:
				*field = int64(100*i + f + 1)
			case *[]byte:
				*field = []byte{byte(f), 0xff}
			case *time.Time:
				*field = outcomeClock.Add(time.Duration(f) * time.Microsecond)
			default:
				t.Fatalf("field %s has a type that this test does not set", v.Type().Field(f).Name)
			}
		}
	}
	var oldSession sessionV1
	var oldChannel channelV1
	s, serr := encodeOutcome(outcomeOfSession(session))
	c, cerr := encodeOutcome(outcomeOfChannel(channel))
	testenv.OK(t, errors.Join(serr, cerr, json.Unmarshal(s, &oldSession), json.Unmarshal(c, &oldChannel)))
	if ledger.Session(oldSession) != session {
		t.Errorf("the first version reads %+v from %s", oldSession, s)
	}
	known := channel
	known.Submitted, known.Stopped, known.Withdrawn, known.NextSequence = 0, "", 0, 0
	known.ChainTime, known.Read, known.ChainCreated = time.Time{}, time.Time{}, time.Time{}
	known.Collected, known.Elsewhere, known.Form, known.Expired = 0, 0, "", 0
	if !reflect.DeepEqual(oldChannel.channel(), known) {
		t.Errorf("the first version reads %+v from %s", oldChannel, c)
	}
	if got, err := decodeOutcome[ledger.Session, sessionOutcome](s); err != nil || got != session {
		t.Errorf("%+v is read from %s, %v", got, s, err)
	}
	if got, err := decodeOutcome[ledger.Channel, channelOutcome](c); err != nil || !reflect.DeepEqual(got, channel) {
		t.Errorf("%+v is read from %s, %v", got, c, err)
	}
}

// TestOutcomesOfNewerVersions: members that this version does not know are ignored, and
// an outcome that it would misunderstand is an error, so that nothing is done twice.
func TestOutcomesOfNewerVersions(t *testing.T) {
	s := openAt(t, databasePath(t), engine.Options{Now: func() time.Time { return outcomeClock }})
	ignored := &database.Idempotency{Key: "ignored"}
	rememberOutcome(t, s, ignored, `{"version":1,"id":"session","total":9,"left":9,"colour":"blue"}`)
	fresh := ledger.Session{ID: "session", Total: 9, Left: 9}
	testenv.Equal(t, testenv.Must(s.CreateSession(t.Context(), fresh, ignored))(t), fresh, "with an unknown member")
	refused := &database.Idempotency{Key: "refused"}
	rememberOutcome(t, s, refused, `{"version":2,"id":"session","total":9,"left":9}`)
	if got, err := s.CreateSession(t.Context(), fresh, refused); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("of version 2: %+v, %v", got, err)
	}
	testenv.Is(t, testenv.Error(s.Session(t.Context(), "session")), database.ErrNotFound, "a session was created")
}

func storedOutcome(t *testing.T, s *Ledger, idem *database.Idempotency) string {
	t.Helper()
	var outcome string
	testenv.OK(t, s.db.Read(t.Context(), func(t *engine.Tx) error {
		_, err := t.Row(`SELECT outcome FROM idempotency WHERE id = $1`, engine.Args{requests.ID(idem)}, &outcome)
		return err
	}))
	return outcome
}

func rememberOutcome(t *testing.T, s *Ledger, idem *database.Idempotency, outcome string) {
	t.Helper()
	testenv.OK(t, s.db.Write(t.Context(), func(t *engine.Tx) error {
		_, err := t.Exec(`INSERT INTO idempotency (id, request, outcome, created) VALUES ($1, $2, $3, $4)`,
			requests.ID(idem), idem.Hash[:], []byte(outcome), engine.Micros(t.Now))
		return err
	}))
}
