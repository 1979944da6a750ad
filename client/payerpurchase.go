package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// buy buys at least n chunksets and adds them to the session to, or to a new one if to has no id.
func (p *Payer) buy(ctx context.Context, s *payerState, n int64, to Session) (Session, error) {
	price, err := p.price(ctx, s)
	if err != nil {
		return Session{}, err
	}
	ch, err := p.channel(ctx, s)
	if err != nil {
		return Session{}, err
	}
	if err := p.catchUp(ctx, s, ch.Accepted); err != nil {
		return Session{}, err
	}
	// As many as a purchase has, or as the budget and the deposit permit, but no fewer than n.
	c := s.Channel
	room := min(p.o.MaxPurchase, less(p.o.MaxSpend, s.Earlier+c.Bought), less(ch.Deposit, c.Bought))
	count := max(n, min(p.o.Chunksets, int64(room/price)))
	amount, err := p.affordable(s, ch.Deposit, count, price)
	if err != nil {
		return Session{}, err
	}
	c.Pending = &purchase{ID: rand.Text(), Amount: amount, Chunksets: count, SessionID: to.ID, Total: to.ChunksetsTotal}
	if err := p.sign(s); err != nil {
		return Session{}, err
	}
	return p.settle(ctx, s, false)
}

// affordable returns the amount of a micropayment that buys count chunksets, or an error if a limit
// does not permit it.
func (p *Payer) affordable(s *payerState, deposit uint64, count int64, price uint64) (uint64, error) {
	c := s.Channel
	if uint64(count) > maxAmount/price || uint64(count)*price > maxAmount-c.Bought-s.Earlier {
		return 0, fmt.Errorf("client: %w: %d chunksets at a price of %d", ErrBudget, count, price)
	}
	cost := uint64(count) * price
	amount := c.Bought + cost
	switch {
	case s.Earlier+max(amount, c.Signed) > p.o.MaxSpend:
		return 0, fmt.Errorf("client: %w: a purchase of %d chunksets costs %d, %d is spent already, and MaxSpend is %d", ErrBudget, count, cost, s.Earlier+c.Bought, p.o.MaxSpend)
	case cost > p.o.MaxPurchase:
		return 0, fmt.Errorf("client: %w: a purchase of %d chunksets costs %d, and MaxPurchase is %d", ErrBudget, count, cost, p.o.MaxPurchase)
	case amount > deposit:
		return 0, fmt.Errorf("client: %w: the deposit of the channel is %d, and %d is needed; add to it with Deposit", ErrPaymentRequired, deposit, amount)
	}
	return amount, nil
}

func less(a, b uint64) uint64 { return a - min(a, b) }

// sign signs a micropayment for the pending purchase and writes the state: a micropayment is sent only
// after it is durable that it was signed.
func (p *Payer) sign(s *payerState) error {
	c := s.Channel
	if c.Sequence == maxAmount {
		return fmt.Errorf("client: %w: the sequence numbers of the channel are used up", ErrBudget)
	}
	c.Sequence++
	c.Signed = max(c.Signed, c.Pending.Amount)
	m, err := p.micropayment(s, c.Pending.Amount)
	if err != nil {
		return err
	}
	c.Pending.Micropayments = append(c.Pending.Micropayments, m.Base64())
	return p.file.save(s)
}

// micropaymentLife is how long a micropayment is valid: as with the public client.
const micropaymentLife = time.Minute

// micropayment signs an amount with the sequence number of the state.
func (p *Payer) micropayment(s *payerState, amount uint64) (*micropay.Micropayment, error) {
	payment := micropay.Payment{
		Amount: amount, PaymentChannelID: s.Channel.PaymentChannelID, Sequence: s.Channel.Sequence,
		ChainID: s.Terms.ChainID, Expiration: uint64(time.Now().Add(micropaymentLife).Unix()),
		Nonce:           uint64(s.Mark)<<32 | s.Channel.Sequence&(1<<32-1),
		AccountSequence: micropay.NoAccountSequence, MaxGas: 200_000, GasPrice: 100,
	}
	for _, a := range []struct {
		text string
		to   *micropay.Address
	}{{s.Terms.Receiver, &payment.Receiver}, {s.Terms.Asset, &payment.Asset}, {s.Terms.Module, &payment.ModuleAddress}} {
		var err error
		if *a.to, err = micropay.ParseAddress(a.text); err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	m, err := p.o.Signer.Sign(payment)
	if err != nil {
		return nil, fmt.Errorf("client: the micropayment cannot be signed: %w", err)
	}
	return m, nil
}

// maxSignatures bounds the rounds of settle: one to sign after the last micropayment has expired, one to
// adopt the numbers of another state, one to buy, and one more.
const maxSignatures = 4

// settle sends the pending purchase until its outcome is known, and returns its session. A purchase
// that was refused is no longer pending. It is sent with the same micropayment and Idempotency-Key
// while that lives, and then with another micropayment of the same amount: the service can accept only
// one of them. doubt means that an earlier attempt may have taken effect.
func (p *Payer) settle(ctx context.Context, s *payerState, doubt bool) (Session, error) {
	for range maxSignatures {
		purchase := s.Channel.Pending
		m, err := micropay.ParseBase64(purchase.Micropayments[len(purchase.Micropayments)-1])
		if err != nil {
			return Session{}, err
		}
		if !time.Now().Before(m.Expires()) {
			if found, err := p.find(ctx, s); err != nil || found.ID != "" {
				return found, err
			}
			if err := p.sign(s); err != nil {
				return Session{}, err
			}
			continue
		}
		bought, err := p.c.CreateSession(ctx, CreateSessionOptions{
			Micropayment: m, SessionID: purchase.SessionID, UserIdentity: purchase.ID,
			IdempotencyKey: purchase.ID + "-" + strconv.FormatUint(m.Sequence, 10),
		})
		if err == nil {
			return p.delivered(s, bought)
		}
		found, err := p.resolve(ctx, s, m, err, doubt)
		if err != nil || found.ID != "" {
			return found, err
		}
		doubt = true
	}
	return Session{}, fmt.Errorf("client: a purchase was sent %d times: %w", maxSignatures, ErrOutcomeUnknown)
}

// settlePending resolves the purchase that is pending, if any. It returns an error if its outcome is still
// unknown; if it was refused, that is its outcome.
func (p *Payer) settlePending(ctx context.Context, s *payerState) error {
	if s.Channel == nil || s.Channel.Pending == nil {
		return nil
	}
	if _, err := p.settle(ctx, s, true); err != nil && s.Channel.Pending != nil {
		return err
	}
	return nil
}

// resolve handles the error of a purchase that was sent with the micropayment m. It returns the session
// if the purchase was successful nevertheless, and a session without an id if settle must go on.
func (p *Payer) resolve(ctx context.Context, s *payerState, m *micropay.Micropayment, err error, doubt bool) (Session, error) {
	e, _ := errors.AsType[*Error](err)
	if e != nil && e.Code == wire.CodeMicropaymentStale {
		return p.stale(ctx, s, m, e)
	}
	inDoubt := errors.Is(err, ErrOutcomeUnknown)
	if !inDoubt && !doubt {
		return Session{}, p.dropped(s, err)
	}
	found, findErr := p.find(ctx, s)
	switch {
	case found.ID != "" || errors.Is(findErr, ErrNotDelivered):
		return found, findErr
	case findErr != nil:
		return Session{}, unknown(err)
	case e != nil && e.Code == wire.CodeMicropaymentRefused && e.Reason == string(micropay.ReasonExpired):
		return Session{}, p.sign(s)
	case !inDoubt && isRefusal(err):
		return Session{}, p.dropped(s, err)
	case ctx.Err() == nil && !time.Now().Before(m.Expires()):
		return Session{}, nil
	}
	return Session{}, unknown(err)
}

// dropped removes the pending purchase, which was refused, and returns err. What was signed remains
// counted: the service has the micropayment.
func (p *Payer) dropped(s *payerState, err error) error {
	s.Channel.Pending = nil
	return errors.Join(err, p.file.save(s))
}

// delivered checks that the session has what was bought, and writes that the purchase is complete.
func (p *Payer) delivered(s *payerState, bought Session) (Session, error) {
	c := s.Channel
	cost := c.Pending.Amount - c.Bought
	got := bought.ChunksetsTotal - c.Pending.Total
	// The price may have changed since it was read, and is acceptable up to MaxPrice.
	if bought.ID == "" || c.Pending.SessionID != "" && bought.ID != c.Pending.SessionID || got < 1 || uint64(got) < min(uint64(c.Pending.Chunksets), cost/p.o.MaxPrice) {
		return Session{}, fmt.Errorf("client: %w: %d chunksets were bought, and the session has %d more", ErrNotDelivered, c.Pending.Chunksets, max(0, got))
	}
	c.Bought, c.Pending, s.SessionID = c.Pending.Amount, nil, bought.ID
	return bought, p.file.save(s)
}

// find looks for the session of the pending purchase. If it has what was bought, the purchase is
// complete. It returns a session without an id if there is none.
func (p *Payer) find(ctx context.Context, s *payerState) (Session, error) {
	purchase := s.Channel.Pending
	if purchase.SessionID != "" {
		found, err := p.c.Session(ctx, purchase.SessionID)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) || err == nil && found.ChunksetsTotal <= purchase.Total {
			return Session{}, nil
		}
		if err != nil {
			return Session{}, err
		}
		return p.delivered(s, found)
	}
	ch, err := p.c.Channel(ctx, s.Channel.ID)
	if err != nil {
		return Session{}, err
	}
	if !ch.SessionsKnown {
		return Session{}, fmt.Errorf("client: the service cannot read the sessions of the channel: %w", ErrUnavailable)
	}
	for _, of := range ch.Sessions {
		found, err := p.c.Session(ctx, of.ID)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrGone):
			continue
		case err != nil:
			return Session{}, err
		case found.UserIdentity == purchase.ID:
			return p.delivered(s, found)
		}
	}
	return Session{}, nil
}
