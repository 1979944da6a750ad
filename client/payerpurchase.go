package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// buy buys at least n chunksets and adds them to the session to, or to a new one if to has no id.
// It makes as many purchases as the channel's selling limit requires, and waits for the service to
// collect between them.
func (p *Payer) buy(ctx context.Context, s *payerState, n int64, to Session) (Session, error) {
	usual, risen := p.o.Chunksets, uint64(0)
	for w := newWait(p.o.MaxWait); ; {
		of, err := p.offer(ctx, s)
		if err != nil {
			return Session{}, err
		}
		of.price = max(of.price, risen)
		if err := p.affordable(of); err != nil {
			return Session{}, err
		}
		ch, err := p.channel(ctx, s, of)
		if err != nil {
			return Session{}, err
		}
		if err := p.catchUp(ctx, s, of.gas, ch); err != nil {
			return Session{}, err
		}
		if step := p.step(s, ch, of, max(n, usual)); step > 0 && ch.State == "open" && w.steps < maxSteps {
			w.steps++
			bought, err := p.purchase(ctx, s, of.gas, step, 1, to)
			if err == nil {
				n, usual, to = n-gained(bought, to), usual-gained(bought, to), bought
			}
			if err != nil && (!isRefusal(err) || s.Channel.Pending != nil) || n <= 0 {
				return bought, err
			}
			continue
		}
		count, err := p.count(s, ch.Deposit, of, n, usual)
		if err != nil {
			return Session{}, err
		}
		count = min(count, int64(w.room(ch, s.Channel)/of.price))
		if count > 0 && ch.State == "open" {
			bought, err := p.purchase(ctx, s, of.gas, s.Channel.Bought+uint64(count)*of.price, count, to)
			if err == nil {
				got := gained(bought, to)
				if n -= got; n <= 0 {
					return bought, nil
				}
				usual, to, w = usual-got, bought, newWait(p.o.MaxWait)
				continue
			}
			if risen = risenPrice(err); risen > of.price && s.Channel.Pending == nil {
				continue
			}
			if !w.refused(err, ch, s.Channel) {
				return Session{}, err
			}
			if w.room(ch, s.Channel) >= of.price {
				continue // with a smaller purchase
			}
		}
		if ch.Expired > 0 && w.renews() {
			if ch, err = p.renew(ctx, s, of.gas, ch.Accepted); err != nil {
				return Session{}, err
			}
		}
		if err := p.await(ctx, w, ch, of.price); err != nil {
			return Session{}, err
		}
	}
}

// gained returns how many chunksets a purchase has added to the session to, if it has an id, or
// those in a new one.
func gained(bought, to Session) int64 {
	if bought.ID == to.ID {
		return bought.ChunksetsTotal - to.ChunksetsTotal
	}
	return bought.ChunksetsTotal
}

// maxSteps bounds how many of step's amounts a purchase signs.
const maxSteps = 1000

// step returns an amount that was bought already, and that the service has forgotten since, because
// it was set back: as much as pays for n chunksets, and as the selling limit and the deposit
// permit. Signing it costs nothing, and it buys the lost chunksets again. It is 0 if the service
// has forgotten nothing, or if less than a chunkset's price is possible.
func (p *Payer) step(s *payerState, ch Channel, of offer, n int64) uint64 {
	known := ch.known()
	most := min(s.Channel.Bought, ch.Settled+ch.SellingLimit)
	if !of.chain {
		most = min(most, ch.Deposit)
	}
	if room := less(most, known); uint64(n) < room/of.price {
		most = known + uint64(n)*of.price
	}
	if less(most, known) < of.price {
		return 0
	}
	return most
}

// risenPrice returns a chunkset's price, if err means that a payment was too small for it, or 0.
// Another node may have published a lower one.
func risenPrice(err error) uint64 {
	e, reported := errors.AsType[*Error](err)
	if !reported || e.Code != wire.CodeInsufficientFunds {
		return 0
	}
	price, err := strconv.ParseUint(e.ChunksetPrice, 10, 63)
	if err != nil {
		return 0
	}
	return price
}

// count returns how many chunksets a purchase has: the usual number, or as the budget and the
// deposit permit, but no fewer than n. It returns an error if a limit does not permit these.
func (p *Payer) count(s *payerState, deposit uint64, of offer, n, usual int64) (int64, error) {
	c, now := s.Channel, time.Now()
	earlier := s.earlier(now)
	if uint64(n) > maxAmount/of.price || uint64(n)*of.price > less(maxAmount-c.Bought, earlier) {
		return 0, fmt.Errorf("client: %w: %d chunksets at a price of %d", ErrBudget, n, of.price)
	}
	cost := uint64(n) * of.price
	amount := c.Bought + cost
	switch {
	case earlier+max(amount, c.collectable(now)) > p.o.MaxSpend:
		return 0, fmt.Errorf("client: %w: a purchase of %d chunksets costs %d, %d is spent already, and MaxSpend is %d", ErrBudget, n, cost, earlier+c.Bought, p.o.MaxSpend)
	case cost > p.o.MaxPurchase:
		return 0, fmt.Errorf("client: %w: a purchase of %d chunksets costs %d, and MaxPurchase is %d", ErrBudget, n, cost, p.o.MaxPurchase)
	case amount > deposit && !of.chain: // the service reads the deposit from the chain when a payment exceeds it
		return 0, fmt.Errorf("client: %w: the deposit of the channel is %d, and %d is needed; add to it with Deposit", ErrPaymentRequired, deposit, amount)
	}
	room := min(p.o.MaxPurchase, less(p.o.MaxSpend, earlier+c.Bought), less(deposit, c.Bought))
	return max(n, min(usual, int64(room/of.price))), nil
}

// purchase buys at least count chunksets with one micropayment for an amount.
func (p *Payer) purchase(ctx context.Context, s *payerState, g gas, amount uint64, count int64, to Session) (Session, error) {
	s.Channel.Pending = &purchase{ID: rand.Text(), Amount: amount, Chunksets: count, SessionID: to.ID, Total: to.ChunksetsTotal}
	if err := p.sign(s, g); err != nil {
		return Session{}, err
	}
	p.signed.Store(s.Channel.Signed)
	return p.settle(ctx, s, false)
}

// sign signs a micropayment for the pending purchase and writes the state: a micropayment is sent
// only after it is durable that it was signed.
func (p *Payer) sign(s *payerState, g gas) error {
	m, err := p.next(s, s.Channel.Pending.Amount, g)
	if err != nil {
		return err
	}
	s.Channel.Pending.Micropayments = append(s.Channel.Pending.Micropayments, m.Base64())
	return p.file.save(s)
}

// next signs an amount with the next sequence number. It records in the state, which the caller
// writes, the amount that can be collected with the micropayment.
func (p *Payer) next(s *payerState, amount uint64, g gas) (*micropay.Micropayment, error) {
	c := s.Channel
	if c.Sequence == maxAmount {
		return nil, fmt.Errorf("client: %w: the sequence numbers of the channel are used up", ErrBudget)
	}
	c.Sequence++
	m, err := p.micropayment(s, amount, g)
	if err != nil {
		return nil, err
	}
	if c.Signed = max(c.Signed, amount); amount > c.Bought {
		c.SignedUntil = later(c.SignedUntil, m.Expires().Add(chainMargin))
	}
	return m, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// micropayment signs an amount with the state's sequence number.
func (p *Payer) micropayment(s *payerState, amount uint64, g gas) (*micropay.Micropayment, error) {
	payment := micropay.Payment{
		Amount: amount, PaymentChannelID: s.Channel.PaymentChannelID, Sequence: s.Channel.Sequence,
		ChainID: s.Terms.ChainID, Expiration: uint64(time.Now().Add(micropaymentLife).Unix()),
		Nonce:           uint64(s.Mark)<<32 | s.Channel.Sequence&(1<<32-1),
		AccountSequence: micropay.NoAccountSequence, MaxGas: g.max, GasPrice: g.price,
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

// maxSignatures bounds the rounds of settle: one to sign after the last micropayment has expired,
// one to adopt the numbers of another state, one to buy, and one more.
const maxSignatures = 4

// settle sends the pending purchase until its outcome is known, and returns its session. A purchase
// that was refused is no longer pending. It is sent with the same micropayment and Idempotency-Key
// while that lives, and then with another micropayment for the same amount: the service can accept
// only one of them. doubt means that an earlier attempt may have taken effect.
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
			if err := p.sign(s, gas{m.MaxGas, m.GasPrice}); err != nil {
				return Session{}, err
			}
			continue
		}
		bought, err := p.c.CreateSession(ctx, CreateSessionOptions{
			Micropayment: m, MaxPrice: p.o.MaxPrice, SessionID: purchase.SessionID, UserIdentity: purchase.ID,
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

// settlePending resolves the purchase that is pending, if any. It returns an error if its outcome
// is still unknown; if it was refused, that is its outcome.
func (p *Payer) settlePending(ctx context.Context, s *payerState) error {
	if s.Channel == nil || s.Channel.Pending == nil {
		return nil
	}
	if _, err := p.settle(ctx, s, true); err != nil && s.Channel.Pending != nil {
		return err
	}
	return nil
}

// resolve handles the error after a purchase was sent with the micropayment m. It returns the
// session if the purchase was successful nevertheless, and a session without an id if settle must
// go on.
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
		return Session{}, p.sign(s, gas{m.MaxGas, m.GasPrice})
	case !inDoubt && isRefusal(err):
		return Session{}, p.dropped(s, err)
	case ctx.Err() == nil && !time.Now().Before(m.Expires()):
		return Session{}, nil
	}
	return Session{}, unknown(err)
}

// dropped removes the pending purchase, which was refused, and returns err. The signed amount
// remains counted: the service has the micropayment.
func (p *Payer) dropped(s *payerState, err error) error {
	s.Channel.Pending = nil
	return errors.Join(err, p.file.save(s))
}

// delivered checks that the session has the bought chunksets, and writes that the purchase is
// complete.
func (p *Payer) delivered(s *payerState, bought Session) (Session, error) {
	c := s.Channel
	got := bought.ChunksetsTotal - c.Pending.Total
	// The price may have changed since it was read, and is acceptable up to MaxPrice. The rest is
	// credit.
	paid := less(c.Pending.Amount, c.Bought) + c.Credit
	if bought.ID == "" || c.Pending.SessionID != "" && bought.ID != c.Pending.SessionID || got < 1 || uint64(got) < min(uint64(c.Pending.Chunksets), paid/p.o.MaxPrice) {
		return Session{}, fmt.Errorf("client: %w: %d chunksets were bought, and the session has %d more", ErrNotDelivered, c.Pending.Chunksets, max(0, got))
	}
	c.Credit = 0
	if high, cost := bits.Mul64(uint64(got), p.o.MaxPrice); high == 0 {
		c.Credit = less(paid, cost)
	}
	c.Bought, c.Pending, s.SessionID = max(c.Bought, c.Pending.Amount), nil, bought.ID
	return bought, p.file.save(s)
}

// find looks for the pending purchase's session. If it has the bought chunksets, the purchase is
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
	ch, err := p.present(ctx, s, s.Channel.ID)
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
