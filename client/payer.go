package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// Errors of a Payer. Errors of the service are *Error, as everywhere.
var (
	// ErrBudget is returned if a purchase would exceed a limit of PayerOptions. Nothing was signed.
	ErrBudget = errors.New("the budget of the payer does not permit it")

	// ErrTermsChanged is returned if the service, or a channel, has other terms of payment than those
	// that were pinned. Nothing was signed.
	ErrTermsChanged = errors.New("the terms of payment are not those that were pinned")

	// ErrNotDelivered is returned if the service has accepted a micropayment and does not have the
	// chunksets that it paid for. The payer signs nothing more until WriteOff is called.
	ErrNotDelivered = errors.New("the service was paid and did not deliver")
)

// DefaultPurchase is the default of PayerOptions.Chunksets.
const DefaultPurchase = 100

// PayerOptions configure a Payer. Amounts are in units of the asset.
type PayerOptions struct {
	// Signer signs for the account that pays. It is required.
	Signer *micropay.Signer

	// StateFile is where the payer keeps its state. It is required, and its folder must exist. Each
	// file belongs to one account and one service. Several processes of a machine may use it
	// concurrently. A file beside it has the suffix .lock.
	StateFile string

	// MaxPrice is the highest price of a chunkset. It is required.
	MaxPrice uint64

	// MaxSpend limits the sum of all that is ever signed with this state file. It is required. What
	// another state signed over the same channel counts too, once this payer knows of it.
	MaxSpend uint64

	// MaxPurchase limits a single purchase. 0 means MaxSpend.
	MaxPurchase uint64

	// Chunksets is how many chunksets a purchase buys, unless more are needed or the budget permits
	// only fewer. 0 means DefaultPurchase.
	Chunksets int64

	// Terms are the terms that the caller trusts. If they are nil, they are those of the service when
	// the state file is written first. Other terms are never paid.
	Terms *Terms

	// Deposit is that of a channel that the payer opens. 0 means the default of the service. Opening
	// one requires, on a hosted network, a key with the scope channels for the account.
	Deposit uint64

	// ChannelID is the id of an open channel to use, which no other state file may use at the same
	// time. If it is "", the payer opens one.
	ChannelID string
}

// Payer pays a service for one account, over one channel: it opens the channel, signs micropayments,
// buys sessions and adds chunksets to them. It may be used concurrently, also by several processes
// with the same state file; purchases are made one at a time.
//
// # What a service that lies can take
//
// A micropayment is cumulative: the service can collect the highest amount that was ever signed for
// the channel, once. The payer never signs more than the amount of the purchases that were delivered
// plus one purchase, which is at most MaxPurchase. If a purchase is refused, or its outcome is unknown,
// the next micropayment does not add to it. A purchase is delivered if the service has shown a session
// with the chunksets, at MaxPrice at most. So a service that accepts payments and delivers nothing
// takes at most MaxPurchase: the payer then returns ErrNotDelivered and signs nothing more. A stale
// payment is believed only if the service proves it by a micropayment with a valid signature of the
// account for this channel, so what is adopted was already owed.
//
// A session is a promise: a service may sell one and then refuse to serve. A call of Ensure makes at most
// one purchase, a request of a paid read at most three, and all together never exceed MaxSpend.
type Payer struct {
	c     *Client
	o     PayerOptions
	file  *stateFile
	known atomic.Pointer[string] // id of the session, as far as this process knows

	refilling chan struct{} // holds a token while no read of this process adds to the session
	added     atomic.Uint64 // to what was signed, by this payer
}

// NewPayer returns a payer that uses the service of c. It sends no request. It returns an error if an
// option is missing, or if the state file exists and belongs to another account or service, has other
// terms, cannot be parsed, or can be accessed by other users.
func (c *Client) NewPayer(ctx context.Context, o PayerOptions) (*Payer, error) {
	if o.MaxPurchase == 0 {
		o.MaxPurchase = o.MaxSpend
	}
	if o.Chunksets == 0 {
		o.Chunksets = DefaultPurchase
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

// Address returns the address of the account that pays.
func (p *Payer) Address() string { return p.o.Signer.Address().String() }

// locked calls f with the state while this goroutine alone, among all processes, may use it. f saves
// what it changes.
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
	before := s.spent()
	err = f(s)
	p.added.Add(s.spent() - before)
	id := s.SessionID
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
		return nil, fmt.Errorf("client: %w: the state file %s belongs to the account %s, and the key is that of %s", ErrInvalid, p.file.path, s.Account, p.Address())
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

// PayerStatus is what a payer knows without a request.
type PayerStatus struct {
	Account          string
	ChannelID        string // "": no channel is open
	PaymentChannelID uint64
	SessionID        string // "": none was bought
	Signed           uint64 // highest amount that was signed for the channel
	Bought           uint64 // part of Signed whose chunksets were delivered
	Spent            uint64 // all that was signed with the state file; MaxSpend limits it
	Added            uint64 // part of Spent that this Payer has added, and no other with the state file
	Pending          bool   // reports whether the outcome of a purchase is unknown
}

// Status returns the state of the payer. It sends no request.
func (p *Payer) Status(ctx context.Context) (PayerStatus, error) {
	var status PayerStatus
	err := p.locked(ctx, func(s *payerState) error {
		status = PayerStatus{Account: s.Account, SessionID: s.SessionID, Spent: s.spent(), Added: p.added.Load()}
		if c := s.Channel; c != nil {
			status.ChannelID, status.PaymentChannelID = c.ID, c.PaymentChannelID
			status.Signed, status.Bought, status.Pending = c.Signed, c.Bought, c.Pending != nil
		}
		return nil
	})
	return status, err
}

// Channel returns the channel of the payer. It opens one if there is none yet.
func (p *Payer) Channel(ctx context.Context) (Channel, error) {
	var ch Channel
	err := p.locked(ctx, func(s *payerState) error {
		_, err := p.price(ctx, s)
		if err == nil {
			ch, err = p.channel(ctx, s)
		}
		return err
	})
	return ch, err
}

// Ensure returns a session that has at least the given number of chunksets left. It buys a session, or
// adds to the one that the payer has, if that is needed. If the response to the purchase is lost, it
// finds the session again, in this call or in a later one, also in another process.
//
// It returns ErrBudget, ErrTermsChanged, ErrNotDelivered, ErrGone if the channel was closed or has
// expired (CloseChannel forgets it), or ErrOutcomeUnknown if it is unknown whether the service accepted
// a purchase: then the next call resolves it, and never pays for it twice.
func (p *Payer) Ensure(ctx context.Context, chunksets int64) (Session, error) {
	session, _, err := p.obtain(ctx, "", func(left int64) int64 { return chunksets - left })
	return session, err
}

// Buy buys the given number of chunksets, whatever the session of the payer has left, and returns the
// session. Its errors are those of Ensure. A purchase whose outcome was unknown is resolved first; then
// Buy buys in addition.
func (p *Payer) Buy(ctx context.Context, chunksets int64) (Session, error) {
	if chunksets < 1 {
		return Session{}, fmt.Errorf("client: %w: a purchase of %d chunksets", ErrInvalid, chunksets)
	}
	session, _, err := p.obtain(ctx, "", func(int64) int64 { return chunksets })
	return session, err
}

// obtain returns the session of the payer after a purchase of as many chunksets as missing returns for
// the number that is left. It reports whether it bought any. The
// session with the id unusable, if it is not "", is replaced by another.
func (p *Payer) obtain(ctx context.Context, unusable string, missing func(left int64) int64) (session Session, bought bool, err error) {
	err = p.locked(ctx, func(s *payerState) error {
		if err := p.settlePending(ctx, s); err != nil {
			return err
		}
		if s.SessionID == unusable {
			s.SessionID = ""
		}
		var err error
		if session, err = p.session(ctx, s); err != nil {
			return err
		}
		n := missing(session.ChunksetsLeft)
		if n <= 0 && session.ID != "" {
			return nil
		}
		bought = true
		refilled := session.ID != ""
		session, err = p.buy(ctx, s, max(n, 1), session)
		if refilled && s.Channel != nil && s.Channel.Pending == nil && sessionEnded(err) { // meanwhile
			session, err = p.buy(ctx, s, max(missing(0), 1), Session{})
		}
		return err
	})
	return session, bought, err
}

// session returns the session of the state, or one without an id if there is none or it has expired.
func (p *Payer) session(ctx context.Context, s *payerState) (Session, error) {
	if s.SessionID == "" {
		return Session{}, nil
	}
	session, err := p.c.Session(ctx, s.SessionID)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) || err == nil && !time.Now().Before(session.Expires) {
		s.SessionID = ""
		return Session{}, nil
	}
	return session, err
}

// sessionEnded reports whether err means that a session does not exist or has expired.
func sessionEnded(err error) bool {
	e, reported := errors.AsType[*Error](err)
	return reported && (e.Code == wire.CodeSessionExpired || e.Code == wire.CodeSessionNotFound)
}

// Deposit adds amount to the deposit of the channel of the payer, as Client.Deposit does. It returns
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

// CloseChannel closes the channel of the payer, if it is still open; the next purchase opens another. Chunksets that were
// bought remain usable. A pending purchase is resolved first. A channel that has expired is forgotten,
// and the error is ErrGone.
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
		if err != nil && !errors.Is(err, ErrGone) {
			return err
		}
		s.Earlier, s.Channel = s.Earlier+s.Channel.Signed, nil
		return errors.Join(err, p.file.save(s))
	})
	return ch, err
}

// WriteOff abandons a purchase that the service does not deliver, after ErrNotDelivered or
// ErrOutcomeUnknown, and returns the amount that may be lost. The payer then signs again: each WriteOff
// permits a service that lies to take one more purchase, within MaxSpend.
func (p *Payer) WriteOff(ctx context.Context) (lost uint64, err error) {
	err = p.locked(ctx, func(s *payerState) error {
		if s.Channel == nil {
			return nil
		}
		c := s.Channel
		lost = c.Signed - c.Bought
		c.Bought, c.Pending = c.Signed, nil
		return p.file.save(s)
	})
	return lost, err
}
