package paychan_test

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/database"
	"sluice/ledger"
	"sluice/test/testenv"
)

// model simply implements the interface's promises about channels, payments and sessions. Its
// methods return the expected error.
type model struct {
	now      time.Time
	price    int64
	limit    int64 // limit for the unsettled amount
	channels []*modelChannel
	sessions []*ledger.Session
}

// modelChannel is a channel as it should be, with its internal counts.
type modelChannel struct {
	ledger.Channel
	sold     int64 // cost of its chunksets, less returns
	read     int64 // chunksets that were read, less those returned
	accepted []ledger.Settlement
	pending  *ledger.Settlement
}

// open adds a channel, unless one with these parties exists.
func (m *model) open(c ledger.Channel) error {
	for _, other := range m.channels {
		if other.PaymentChannelID == c.PaymentChannelID && (other.Sender == c.Sender || other.Sender == "" || c.Sender == "") {
			return database.ErrExists
		}
	}
	m.channels = append(m.channels, &modelChannel{Channel: c})
	return nil
}

// examine returns a payment's channel and the amount that it can spend.
func (m *model) examine(p ledger.Payment) (c *modelChannel, spendable int64, err error) {
	for _, one := range m.channels {
		if one.PaymentChannelID == p.PaymentChannelID && (one.Sender == p.Sender || one.Sender == "") {
			c = one
		}
	}
	switch {
	case c == nil:
		return nil, 0, ledger.ErrNoChannel
	case m.ended(c) != nil:
		return nil, 0, m.ended(c)
	case p.Amount <= c.Accepted, p.Sequence <= c.Sequence && c.Proof != nil:
		return nil, 0, &ledger.StaleError{Stored: c.Proof}
	case p.Amount > c.Deposit:
		return nil, 0, &ledger.InsufficientFundsError{Required: p.Amount, Available: c.Deposit}
	case p.Amount-c.Settled > m.limit:
		return nil, 0, ledger.ErrUnsettledLimit
	}
	return c, p.Amount - c.Accepted + c.Credit, nil
}

// ended returns why a channel is not open.
func (m *model) ended(c *modelChannel) error {
	switch {
	case !c.Closed.IsZero():
		return ledger.ErrChannelClosed
	case !m.now.Before(c.Expires):
		return ledger.ErrChannelExpired
	}
	return nil
}

// accept accepts a payment that was examined, for count chunksets.
func (m *model) accept(c *modelChannel, p ledger.Payment, count int64) {
	c.Sender = p.Sender
	c.Credit += p.Amount - c.Accepted - count*m.price
	c.sold += count * m.price
	c.Accepted, c.Sequence, c.Proof = p.Amount, p.Sequence, p.Proof
	c.pending = &ledger.Settlement{Channel: c.ID, Sequence: p.Sequence, Amount: p.Amount, Proof: p.Proof, Expires: p.Expires}
	c.accepted = append(c.accepted, *c.pending)
}

// buy sells to fresh or, if refill names a session, to that one. It returns the session. Only the
// count and the channel of fresh are set.
func (m *model) buy(p ledger.Payment, refill string, fresh ledger.Session) (ledger.Session, error) {
	c, spendable, err := m.examine(p)
	if err != nil {
		return fresh, err
	}
	count := spendable / m.price
	if count == 0 {
		return fresh, &ledger.InsufficientFundsError{Required: m.price, Available: spendable}
	}
	s := &fresh
	if refill != "" {
		if s, err = m.live(refill); err != nil {
			return fresh, err
		}
	} else {
		fresh.Channel = c.ID
		m.sessions = append(m.sessions, s)
	}
	s.Total += count
	s.Left += count
	m.accept(c, p, count)
	return *s, nil
}

func (m *model) payRead(p ledger.Payment, count int64) (ledger.Channel, error) {
	c, spendable, err := m.examine(p)
	if err != nil {
		return ledger.Channel{}, err
	}
	if spendable < count*m.price {
		return ledger.Channel{}, &ledger.InsufficientFundsError{Required: count * m.price, Available: spendable}
	}
	m.accept(c, p, count)
	c.read += count
	return c.Channel, nil
}

func (m *model) deposit(c *modelChannel, amount int64) error {
	switch {
	case m.ended(c) != nil:
		return m.ended(c)
	case amount > math.MaxInt64-c.Deposit:
		return ledger.ErrAmountOverflow
	}
	c.Deposit += amount
	return nil
}

// settled records that a payment was collected.
func (c *modelChannel) settled(s ledger.Settlement) {
	c.Settled = max(c.Settled, s.Amount)
	if c.pending != nil && c.pending.Sequence <= s.Sequence {
		c.pending = nil
	}
}

// due returns the pending settlements, expired ones included.
func (m *model) due() []ledger.Settlement {
	var list []ledger.Settlement
	for _, c := range m.channels {
		if c.pending != nil {
			list = append(list, *c.pending)
		}
	}
	slices.SortFunc(list, func(a, b ledger.Settlement) int { return strings.Compare(a.Channel, b.Channel) })
	return list
}

// session returns a session within its retention.
func (m *model) session(id string) (*ledger.Session, error) {
	for _, s := range m.sessions {
		if s.ID == id && m.now.Before(s.Expires.Add(ledger.SessionRetention)) {
			return s, nil
		}
	}
	return nil, database.ErrNotFound
}

// live returns a session that can be used.
func (m *model) live(id string) (*ledger.Session, error) {
	s, err := m.session(id)
	if err == nil && !m.now.Before(s.Expires) {
		err = database.ErrExpired
	}
	return s, err
}

// bought lists a channel's sessions.
func (m *model) bought(channel string) []ledger.Session {
	var list []ledger.Session
	for _, s := range m.sessions {
		if _, err := m.session(s.ID); err == nil && s.Channel == channel {
			list = append(list, *s)
		}
	}
	return list
}

func (m *model) use(id string, n int64) (ledger.Session, error) {
	s, err := m.live(id)
	if err != nil {
		return ledger.Session{}, err
	}
	if n > s.Left {
		return *s, ledger.ErrExhausted
	}
	s.Left -= n
	s.Used += n
	return *s, nil
}

// broken describes the model's first contradiction.
func (m *model) broken() error {
	for _, c := range m.channels {
		if c.sold+c.Credit != c.Accepted || c.Accepted > c.Deposit || c.Settled > c.Accepted || c.Credit < 0 {
			return fmt.Errorf("sales of %d of %+v", c.sold, c.Channel)
		}
	}
	for _, s := range m.sessions {
		if s.Used+s.Left != s.Total || s.Left < 0 || s.Used < 0 {
			return fmt.Errorf("%+v", *s)
		}
	}
	return nil
}

// TestMain makes the histories longer than rapid's default, and fewer with the race detector, which
// slows SQLite down, because each of them runs in one goroutine. Flags on the command line take
// precedence.
func TestMain(m *testing.M) {
	settings := map[string]string{"rapid.steps": "80"}
	if testenv.Race {
		settings["rapid.checks"] = "10"
	}
	for name, value := range settings {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// TestModel plays random histories on a real store, which is sometimes closed and opened again, and
// compares every result and every state with the model.
// Invariant 17.
func TestModel(t *testing.T) {
	folder, round := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		h := newHistory(t, filepath.Join(folder, fmt.Sprint(round)))
		defer h.stop()
		for range 3 { // most other operations need a channel
			h.open(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"open":        h.open,
			"buy":         h.buyFresh,
			"buy more":    h.buyFresh,
			"refill":      h.refill,
			"pay read":    h.payRead,
			"send again":  h.sendAgain,
			"repeat":      h.repeat,
			"use":         h.use,
			"return":      h.returnChunksets,
			"cut a read":  h.cutRead,
			"deposit":     h.deposit,
			"close":       h.close,
			"advance":     h.advance,
			"settle":      h.settle,
			"settle late": h.settleLate,
			"reopen":      h.reopen,
			"":            h.compare,
		})
		h.audit()
	})
}
