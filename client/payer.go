package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// A Payer's errors. The service's errors are *Error, as everywhere.
var (
	// ErrTermsChanged is returned if the service, or a channel, has other terms of payment than
	// those that were pinned. Nothing was signed.
	ErrTermsChanged = errors.New("the terms of payment are not those that were pinned")

	// ErrNotDelivered is returned if the service has accepted a micropayment and does not have the
	// chunksets that it paid for. The payer signs nothing more until WriteOff is called.
	ErrNotDelivered = errors.New("the service was paid and did not deliver")

	// ErrNoChannel is returned if the service collects payments on a chain, and neither the options
	// nor the state name a channel. Open one there first.
	ErrNoChannel = errors.New("the payer has no channel on the chain")

	// ErrUnproven is returned if the service states that more was withdrawn from the channel on the
	// chain than the payer knows, and no signature proves it. Nothing was signed above that.
	ErrUnproven = errors.New("the withdrawn amount is not proven by a signature")

	// ErrOtherChannel is returned if the options name another channel than the state's.
	// CloseChannel forgets that.
	ErrOtherChannel = errors.New("the state file has another channel")
)

// Defaults of PayerOptions.
const (
	DefaultPurchase = 100
	DefaultMaxWait  = 2 * time.Minute
)

// PayerOptions configure a Payer. Amounts are in asset units.
type PayerOptions struct {
	// Signer signs for the account that pays. It is required.
	Signer *micropay.Signer

	// StateFile is where the payer keeps its state. It is required, and its folder must exist. Each
	// file belongs to one account and one service. Several processes on a machine may use it
	// concurrently. A file beside it has the suffix .lock.
	StateFile string

	// MaxPrice is the greatest price of a chunkset. It is required.
	MaxPrice uint64

	// MaxSpend limits the sum of all that is bought with this state file, and of signed amounts
	// beyond that which may still be collected; see PayerStatus.Spent. It is required. Amounts that
	// another state signed over the same channel count too, once this payer knows of them.
	MaxSpend uint64

	// MaxPurchase limits a single purchase. 0 means MaxSpend.
	MaxPurchase uint64

	// Chunksets is how many chunksets a purchase buys, unless more are needed or the budget permits
	// only fewer. 0 means DefaultPurchase.
	Chunksets int64

	// Terms are the terms that the caller trusts. If they are nil, the payer trusts the service's
	// terms when it first writes the state file. Other terms are never paid.
	Terms *Terms

	// Deposit is the deposit with which the payer opens a channel. 0 means the service's default.
	// On a hosted network, opening one requires a key with the scope channels for the account. It
	// must be 0 if the service collects on a chain, because the deposit is made there.
	Deposit uint64

	// ChannelID names the open channel to use. No other state file may use it at the same time. If
	// it is "", the payer opens one.
	ChannelID string

	// PaymentChannelID is the channel's number. If the service collects on a chain, the channel
	// must exist there, and the payer makes it known to the service; the number is required then,
	// unless ChannelID is set. 0 means the number of ChannelID's channel, or a random one.
	PaymentChannelID uint64

	// Withdrawn is the amount that the caller has seen withdrawn from the channel on the chain, if
	// the state does not know it: another state has signed it, and the service has no signature,
	// because it was set back. The payer goes on above it, and counts it towards MaxSpend.
	Withdrawn uint64

	// MaxWait is how long a purchase waits for the service to collect earlier payments, if there is
	// too much that it has not collected. After each purchase that was delivered the time begins
	// again. 0 means DefaultMaxWait, and a negative time that it does not wait. OnWait, if it is
	// not nil, is called with the channel when a purchase begins to wait.
	MaxWait time.Duration
	OnWait  func(Channel)
}

// Payer pays a service for one account, over one channel: it opens the channel, signs
// micropayments, buys sessions and adds chunksets to them. It may be used concurrently, also by
// several processes with the same state file; purchases are made one at a time.
//
// # Purchases and the selling limit
//
// A service sells no more over a channel than its selling limit beyond the collected amount. A
// payer buys as much as that permits, and the rest, if more is needed, after the service has
// collected: within MaxWait. If a micropayment expires before the service has collected it, the
// payer signs the same amount once more, without a purchase, as soon as a purchase needs that.
//
// A session ends at its time, whatever is added to it. In the last tenth of its life it is used as
// long as it has enough, and then the payer buys another.
//
// # The loss to a service that lies
//
// A micropayment is cumulative: the service can collect the highest amount that was ever signed for
// the channel, once. The payer never signs more than its delivered purchases cost, plus one
// purchase of at most MaxPurchase. If a purchase is refused, or its outcome is unknown, the next
// micropayment does not add to it. A purchase is delivered if the service has shown a session with
// the chunksets, at MaxPrice at most; if the price has changed meanwhile, less than MaxPrice of
// each channel may remain as credit. So a service that accepts payments and delivers nothing takes
// at most MaxPurchase: the payer then returns ErrNotDelivered and signs nothing more. A stale
// payment is believed only if the service proves it by a micropayment that the account has validly
// signed for this channel, so an adopted amount was already owed. A renewal signs only an amount
// that was delivered, so it adds nothing, however often a service asks for one.
//
// A refused amount counts as spent until it has expired. A service that collects it nevertheless
// gains nothing over the same channel, where the next purchase pays that amount again; but each
// CloseChannel after a refusal permits it to have taken one purchase that MaxSpend does not count.
//
// A service that was set back has forgotten payments. The payer signs the forgotten amount once
// more, before it adds anything, and so gets the lost chunksets again.
//
// A session is a promise: a service may sell one and then refuse to serve. A call of Ensure buys at
// most as many chunksets as it was asked for, or Chunksets if that is more. A paid read's request
// buys at most three times as many. All together never exceed MaxSpend.
type Payer struct {
	c     *Client
	o     PayerOptions
	file  *stateFile
	known atomic.Pointer[string] // the session's id, as far as this process knows

	refilling chan struct{} // holds a token while no read of this process adds to the session
	added     atomic.Uint64 // to the amount bought, by this payer
	signed    atomic.Uint64 // the last amount that this payer signed for a purchase
}

// NewPayer returns a payer that uses the service of c. It sends no request. It returns an error if
// an option is missing, or if the state file exists and belongs to another account or service, has
// other terms, cannot be parsed, or can be accessed by other users.
func (c *Client) NewPayer(ctx context.Context, o PayerOptions) (*Payer, error) {
	if o.MaxPurchase == 0 {
		o.MaxPurchase = o.MaxSpend
	}
	if o.Chunksets == 0 {
		o.Chunksets = DefaultPurchase
	}
	if o.MaxWait == 0 {
		o.MaxWait = DefaultMaxWait
	}
	var missing string
	switch {
	case o.Signer == nil:
		missing = "Signer"
	case o.StateFile == "":
		missing = "StateFile"
	case o.MaxPrice == 0 || o.MaxPrice > maxAmount:
		missing = "MaxPrice"
	case o.MaxSpend == 0 || o.MaxSpend > maxAmount:
		missing = "MaxSpend"
	case o.Chunksets < 0:
		missing = "Chunksets"
	case o.PaymentChannelID > maxAmount:
		missing = "PaymentChannelID"
	case o.Withdrawn > maxAmount:
		missing = "Withdrawn"
	}
	if missing != "" {
		return nil, fmt.Errorf("client: %w: PayerOptions.%s is missing or out of range", ErrInvalid, missing)
	}
	if o.Terms != nil {
		terms, err := o.Terms.canonical()
		if err != nil {
			return nil, fmt.Errorf("client: %w: PayerOptions.Terms: %w", ErrInvalid, err)
		}
		o.Terms = &terms
	}
	p := &Payer{c: c, o: o, file: newStateFile(o.StateFile), refilling: make(chan struct{}, 1)}
	p.refilling <- struct{}{}
	// The state is read now, so that a wrong file is reported early.
	err := p.locked(ctx, func(*payerState) error { return nil })
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Address returns the paying account's address.
func (p *Payer) Address() string { return p.o.Signer.Address().String() }

// locked calls f with the state while this goroutine alone, among all processes, may use it. f
// saves its changes.
func (p *Payer) locked(ctx context.Context, f func(*payerState) error) (err error) {
	unlock, err := p.file.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := p.load()
	if err != nil {
		return err
	}
	before := s.bought()
	err = f(s)
	p.added.Add(s.bought() - before)
	id := cmp.Or(s.EndingID, s.SessionID)
	p.known.Store(&id)
	return err
}

// load returns the state, which is new if there is no file.
func (p *Payer) load() (*payerState, error) {
	s, err := p.file.load()
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = &payerState{Version: stateVersion, Service: p.c.URL(), Account: p.Address(), Mark: rand.Uint32()}
	}
	if s.Account != p.Address() {
		return nil, fmt.Errorf("client: %w: the state file %s belongs to the account %s, and the key to %s", ErrInvalid, p.file.path, s.Account, p.Address())
	}
	if s.Service != p.c.URL() {
		return nil, fmt.Errorf("client: %w: the state file %s belongs to the service %s, not %s", ErrInvalid, p.file.path, s.Service, p.c.URL())
	}
	if p.o.Terms != nil {
		if s.Terms != nil && *s.Terms != *p.o.Terms {
			return nil, fmt.Errorf("client: %w: the state file %s has %+v, and the options have %+v", ErrTermsChanged, p.file.path, *s.Terms, *p.o.Terms)
		}
		s.Terms = p.o.Terms
	}
	return s, nil
}

// PayerStatus is a payer's state, known without a request.
type PayerStatus struct {
	Account          string
	ChannelID        string // "": no channel is open
	PaymentChannelID uint64
	SessionID        string // "": none was bought
	Signed           uint64 // highest amount that was signed for the channel
	Bought           uint64 // part of Signed for which chunksets were delivered
	Pending          bool   // reports whether a purchase's outcome is unknown

	// Spent is the amount bought with the state file, and the amount that may still be collected in
	// addition: a purchase with an unknown outcome, or a refused one, until a minute after its
	// micropayment has expired. (This machine's clock may be ahead of the chain's by so much.)
	// MaxSpend limits it. Added is the part of it that this Payer has added, and no other with the
	// state file.
	Spent, Added uint64
}

// Status returns the payer's state. It sends no request.
func (p *Payer) Status(ctx context.Context) (PayerStatus, error) {
	var status PayerStatus
	err := p.locked(ctx, func(s *payerState) error {
		now := time.Now()
		status = PayerStatus{Account: s.Account, SessionID: s.SessionID, Spent: s.spent(now), Added: p.added.Load()}
		if c := s.Channel; c != nil {
			if c.Signed == p.signed.Load() {
				status.Added += c.collectable(now) - c.Bought
			}
			status.ChannelID, status.PaymentChannelID = c.ID, c.PaymentChannelID
			status.Signed, status.Bought, status.Pending = c.Signed, c.Bought, c.Pending != nil
		}
		return nil
	})
	return status, err
}

// Channel returns the payer's channel. It opens one if there is none yet.
func (p *Payer) Channel(ctx context.Context) (Channel, error) {
	var ch Channel
	err := p.locked(ctx, func(s *payerState) error {
		of, err := p.offer(ctx, s)
		if err == nil {
			err = p.affordable(of)
		}
		if err == nil {
			ch, err = p.channel(ctx, s, of)
		}
		return err
	})
	return ch, err
}

// Ensure returns a session that has at least the given number of chunksets left. It buys a session,
// or adds to the one that the payer has, if that is needed. If the response to the purchase is
// lost, it finds the session again, in this call or in a later one, also in another process. If the
// channel's selling limit permits only a part, it buys that, and the rest when the service has
// collected.
//
// It returns ErrBudget, ErrTermsChanged, ErrNotDelivered, ErrNoChannel, ErrOtherChannel, ErrGone if
// the channel was closed or has expired (CloseChannel forgets it), ErrPaymentRequired if the
// service has not collected enough within MaxWait or sells nothing over the channel, or
// ErrOutcomeUnknown if it is unknown whether the service accepted a purchase: then the next call
// resolves it, and never pays for it twice. Chunksets that were bought before the error are in the
// session.
func (p *Payer) Ensure(ctx context.Context, chunksets int64) (Session, error) {
	session, _, err := p.obtain(ctx, demand{chunksets: chunksets})
	return session, err
}

// Buy buys the given number of chunksets, whatever the payer's session has left, and returns the
// session. It returns the same errors as Ensure. It first resolves a purchase with an unknown
// outcome, and then buys in addition. If the session ends soon, Buy buys another, and paid reads
// and Ensure use up the former one first.
func (p *Payer) Buy(ctx context.Context, chunksets int64) (Session, error) {
	if chunksets < 1 {
		return Session{}, fmt.Errorf("client: %w: a purchase of %d chunksets", ErrInvalid, chunksets)
	}
	session, _, err := p.obtain(ctx, demand{chunksets: chunksets, more: true})
	return session, err
}

// demand is the need of obtain's caller: a session with so many chunksets left or, with more, so
// many in addition. The session with the id unusable, if it is not "", is replaced by another.
type demand struct {
	chunksets int64
	more      bool
	unusable  string
}

// missing returns how many chunksets are missing in a session that has some left.
func (n demand) missing(left int64) int64 {
	if n.more {
		return n.chunksets
	}
	return n.chunksets - left
}

// obtain returns the payer's session with the needed chunksets. It reports whether it bought any.
func (p *Payer) obtain(ctx context.Context, n demand) (session Session, bought bool, err error) {
	err = p.locked(ctx, func(s *payerState) error {
		if err := p.checkNamed(s); err != nil {
			return err
		}
		if err := p.settlePending(ctx, s); err != nil {
			return err
		}
		var err error
		if !n.more {
			session, err = p.session(ctx, &s.EndingID, n.unusable)
			if err != nil || session.ID != "" && n.missing(session.ChunksetsLeft) <= 0 {
				return err
			}
			s.EndingID = "" // it has not enough left
		}
		if session, err = p.session(ctx, &s.SessionID, n.unusable); err != nil {
			return err
		}
		missing := n.missing(session.ChunksetsLeft)
		if missing <= 0 && session.ID != "" {
			return nil
		}
		if endsSoon(session) {
			if n.more && session.ChunksetsLeft > 0 {
				s.EndingID = session.ID
			}
			session, missing = Session{}, n.missing(0)
		}
		bought = true
		refilled := session.ID != ""
		session, err = p.buy(ctx, s, max(missing, 1), session)
		if refilled && s.Channel != nil && s.Channel.Pending == nil && hasEnded(err, wire.EndedSession) { // meanwhile
			session, err = p.buy(ctx, s, max(n.missing(0), 1), Session{})
		}
		return err
	})
	return session, bought, err
}

// session returns a session from the state, or one without an id if there is none, or it is
// unusable or has expired. Then the id becomes "".
func (p *Payer) session(ctx context.Context, id *string, unusable string) (Session, error) {
	if *id == unusable {
		*id = ""
	}
	if *id == "" {
		return Session{}, nil
	}
	session, err := p.c.Session(ctx, *id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) || err == nil && !time.Now().Before(session.Expires) {
		*id = ""
		return Session{}, nil
	}
	return session, err
}

// lastPart is the share at the end of a session's life in which nothing is added to it.
const lastPart = 10

// endsSoon reports whether chunksets that are added to a session would be lost soon.
func endsSoon(s Session) bool {
	return s.ID != "" && !s.Created.IsZero() && time.Until(s.Expires) < s.Expires.Sub(s.Created)/lastPart
}

// Deposit adds amount to the deposit in the payer's channel, as Client.Deposit does. It returns
// ErrNotFound if the payer has no channel yet.
func (p *Payer) Deposit(ctx context.Context, amount uint64, o DepositOptions) (Channel, error) {
	var ch Channel
	err := p.locked(ctx, func(s *payerState) error {
		if s.Channel == nil || s.Channel.ID == "" {
			return fmt.Errorf("client: %w: the payer has no channel", ErrNotFound)
		}
		var err error
		ch, err = p.c.Deposit(ctx, s.Channel.ID, amount, o)
		return err
	})
	return ch, err
}

// CloseChannel closes the payer's channel, if it is still open; the next purchase opens another.
// Chunksets that were bought remain usable. A pending purchase is resolved first. A channel that
// has expired, or does not exist, is forgotten, and the error is ErrGone or ErrNotFound.
func (p *Payer) CloseChannel(ctx context.Context) (Channel, error) {
	var ch Channel
	err := p.locked(ctx, func(s *payerState) error {
		if s.Channel == nil || s.Channel.ID == "" {
			return fmt.Errorf("client: %w: the payer has no channel", ErrNotFound)
		}
		if err := p.settlePending(ctx, s); err != nil {
			return err
		}
		var err error
		ch, err = p.c.CloseChannel(ctx, s.Channel.ID)
		if err != nil && !hasEnded(err, wire.EndedChannel) {
			return err
		}
		s.leave(time.Now())
		return errors.Join(err, p.file.save(s))
	})
	return ch, err
}

// WriteOff abandons a purchase that the service does not deliver, after ErrNotDelivered or
// ErrOutcomeUnknown, and returns the amount that may be lost. The payer then signs again: each
// WriteOff permits a service that lies to take one more purchase, within MaxSpend.
func (p *Payer) WriteOff(ctx context.Context) (lost uint64, err error) {
	err = p.locked(ctx, func(s *payerState) error {
		if s.Channel == nil {
			return nil
		}
		c := s.Channel
		lost = c.Signed - c.Bought
		c.Bought, c.Credit, c.Pending = c.Signed, 0, nil
		return p.file.save(s)
	})
	return lost, err
}
