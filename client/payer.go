package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
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

// micropaymentLife is how long a micropayment is valid: as with the public client.
const micropaymentLife = time.Minute

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
		s = &payerState{Version: stateVersion, Service: p.c.URL(), Account: p.Address(), Mark: mathrand.Uint32()}
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
		if s.Channel != nil && s.Channel.Pending != nil {
			if _, err := p.settle(ctx, s, true); err != nil && s.Channel.Pending != nil {
				return err
			}
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

// price checks the terms of the service and returns its price of a chunkset. It sets the terms of the
// state if there are none.
func (p *Payer) price(ctx context.Context, s *payerState) (uint64, error) {
	info, err := p.c.Info(ctx)
	if err != nil {
		return 0, err
	}
	offered := Terms{Receiver: info.Payment.Receiver, Asset: info.Payment.Asset, Module: info.Payment.Module, ChainID: uint8(info.Payment.ChainID)}
	offered, err = offered.canonical()
	if err != nil || info.Payment.ChainID != int(offered.ChainID) {
		return 0, fmt.Errorf("client: %w: the terms of the service are invalid: %+v", ErrTermsChanged, info.Payment)
	}
	if s.Terms == nil {
		s.Terms = &offered
	}
	if *s.Terms != offered {
		return 0, fmt.Errorf("client: %w: they are %+v, and were %+v", ErrTermsChanged, offered, *s.Terms)
	}
	price, err := strconv.ParseUint(info.Payment.ChunksetPrice, 10, 63)
	if err != nil || price == 0 {
		return 0, fmt.Errorf("client: %w: the price of a chunkset is %q", ErrTermsChanged, info.Payment.ChunksetPrice)
	}
	if price > p.o.MaxPrice {
		return 0, fmt.Errorf("client: %w: the price of a chunkset is %d, and MaxPrice is %d", ErrBudget, price, p.o.MaxPrice)
	}
	return price, nil
}

// channel returns the channel, which must be open. It opens one, or looks at that of the options, if
// the state has none.
func (p *Payer) channel(ctx context.Context, s *payerState) (Channel, error) {
	var ch Channel
	var err error
	switch {
	case s.Channel != nil && s.Channel.ID != "" && p.o.ChannelID != "" && s.Channel.ID != p.o.ChannelID:
		return Channel{}, fmt.Errorf("client: %w: the state file %s has another channel than PayerOptions.ChannelID; CloseChannel forgets it", ErrInvalid, p.file.path)
	case s.Channel != nil && s.Channel.ID != "":
		ch, err = p.c.Channel(ctx, s.Channel.ID)
	case p.o.ChannelID != "":
		ch, err = p.c.Channel(ctx, p.o.ChannelID)
		if err == nil {
			// The accepted amount that the service reports is not believed: see adopt.
			s.Channel = &channelRecord{PaymentChannelID: ch.PaymentChannelID}
		}
	default:
		ch, err = p.open(ctx, s)
	}
	if err != nil {
		return Channel{}, err
	}
	if err := p.checkChannel(&ch, s); err != nil {
		return Channel{}, err
	}
	if s.Channel.ID == "" {
		s.Channel.ID = ch.ID
		return ch, p.file.save(s)
	}
	return ch, nil
}

// checkChannel returns an error unless the payer can pay over the channel.
func (p *Payer) checkChannel(ch *Channel, s *payerState) error {
	switch {
	case ch.ID == "" || ch.PaymentChannelID != s.Channel.PaymentChannelID:
		return fmt.Errorf("client: %w: the service returned another channel than requested: number %d, not %d", ErrTermsChanged, ch.PaymentChannelID, s.Channel.PaymentChannelID)
	case ch.Sender != "" && ch.Sender != p.Address():
		return fmt.Errorf("client: %w: the channel is that of %s, and the key is that of %s", ErrTermsChanged, ch.Sender, p.Address())
	case ch.Receiver != s.Terms.Receiver || ch.Asset != s.Terms.Asset:
		return fmt.Errorf("client: %w: the channel pays %s in %s", ErrTermsChanged, ch.Receiver, ch.Asset)
	case ch.State != "open":
		return fmt.Errorf("client: %w: the state of the channel is %q", ErrGone, ch.State)
	}
	return nil
}

// open opens a channel. The payer chooses its number and writes it before it sends the request, so that
// the same channel is found if the response is lost.
func (p *Payer) open(ctx context.Context, s *payerState) (Channel, error) {
	fresh := s.Channel == nil
	if fresh {
		s.Channel = &channelRecord{PaymentChannelID: 1 + mathrand.Uint64N(1<<53-1), OpenKey: rand.Text(), Deposit: p.o.Deposit}
		if err := p.file.save(s); err != nil {
			return Channel{}, err
		}
	}
	ch, err := p.c.OpenChannel(ctx, OpenChannelOptions{
		Sender: s.Account, Asset: s.Terms.Asset, Deposit: s.Channel.Deposit,
		PaymentChannelID: s.Channel.PaymentChannelID, IdempotencyKey: s.Channel.OpenKey,
	})
	if err == nil || errors.Is(err, ErrOutcomeUnknown) || !fresh && !isRefusal(err) {
		return ch, err
	}
	if !fresh && errors.Is(err, ErrConflict) { // the response of a request was lost more than 24 hours ago
		return Channel{}, fmt.Errorf("client: a channel with number %d exists, and its id is not known: its deposit is refunded when it expires; remove the state file %s to open another: %w",
			s.Channel.PaymentChannelID, p.file.path, err)
	}
	s.Channel = nil // refused: the next attempt may have other options
	return Channel{}, errors.Join(err, p.file.save(s))
}

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

// stale handles a response that says that the micropayment m is stale. It believes only what the stored
// micropayment proves.
func (p *Payer) stale(ctx context.Context, s *payerState, m *micropay.Micropayment, e *Error) (Session, error) {
	stored, err := p.own(s, e.StoredMicropayment)
	if err != nil {
		return Session{}, unknown(fmt.Errorf("client: the service says that a micropayment is stale and does not prove it: %w: %w", err, e))
	}
	c := s.Channel
	switch {
	case c.Pending.has(stored):
		found, err := p.find(ctx, s)
		if err == nil && found.ID == "" {
			err = fmt.Errorf("client: %w: it accepted %d for %d chunksets, and no session has them", ErrNotDelivered, c.Pending.Amount-c.Bought, c.Pending.Chunksets)
		}
		return found, err
	case stored.Sequence < m.Sequence && stored.Amount < m.Amount:
		return Session{}, unknown(fmt.Errorf("client: the service says that a micropayment is stale, and it is newer than the stored one: %w", e))
	case p.signedHere(s, stored):
		// It was signed here and its purchase was refused, or the state file is an old copy.
		return Session{}, fmt.Errorf("client: %w: it accepted a micropayment of %d that it had refused: %w", ErrNotDelivered, stored.Amount, e)
	}
	// None of the micropayments of the purchase so far can be accepted any more, or they add nothing.
	cost := c.Pending.Amount - c.Bought
	if err := p.adopt(s, stored, cost); err != nil {
		return Session{}, p.dropped(s, err)
	}
	c.Pending.Amount, c.Pending.Micropayments = c.Bought+cost, nil
	return Session{}, p.sign(s)
}

// own parses a micropayment and returns an error unless the account signed it for this channel.
func (p *Payer) own(s *payerState, raw []byte) (*micropay.Micropayment, error) {
	m, err := micropay.Parse(raw)
	if err != nil {
		return nil, err
	}
	if err := m.Verify(); err != nil {
		return nil, err
	}
	signed := Terms{Receiver: m.Receiver.String(), Asset: m.Asset.String(), Module: m.ModuleAddress.String(), ChainID: m.ChainID}
	switch {
	case m.Sender != p.o.Signer.Address():
		return nil, fmt.Errorf("the stored micropayment is that of %v", m.Sender)
	case signed != *s.Terms || m.PaymentChannelID != s.Channel.PaymentChannelID:
		return nil, errors.New("the stored micropayment is for another channel")
	case m.Amount > maxAmount || m.Sequence > maxAmount:
		return nil, errors.New("the stored micropayment has a number above 2^63-1")
	}
	return m, nil
}

// catchUp adopts the numbers of the service if it has accepted more than this state knows of: the state
// is new and the channel is not, or the state is an old copy. The service must prove it: it is sent a
// micropayment of an amount that is owed already, or of 1 unit, and says that it is stale.
func (p *Payer) catchUp(ctx context.Context, s *payerState, accepted uint64) error {
	c := s.Channel
	if accepted <= c.Bought {
		return nil
	}
	if c.Sequence == maxAmount {
		return fmt.Errorf("client: %w: the sequence numbers of the channel are used up", ErrBudget)
	}
	amount := max(c.Bought, 1)
	c.Sequence++
	c.Signed = max(c.Signed, amount)
	m, err := p.micropayment(s, amount)
	if err == nil {
		err = p.file.save(s)
	}
	if err != nil {
		return err
	}
	_, err = p.c.CreateSession(ctx, CreateSessionOptions{Micropayment: m})
	var stored *micropay.Micropayment
	if e, reported := errors.AsType[*Error](err); reported && e.Code == wire.CodeMicropaymentStale {
		stored, err = p.own(s, e.StoredMicropayment)
	} else if err != nil && !isRefusal(err) {
		return err
	}
	if stored == nil || stored.Amount <= c.Bought {
		return fmt.Errorf("client: %w: the service says that it has accepted %d over the channel, and does not prove it: %w", ErrTermsChanged, accepted, cmp.Or(err, errNoProof))
	}
	if p.signedHere(s, stored) {
		return fmt.Errorf("client: %w: it accepted a micropayment of %d that it had refused", ErrNotDelivered, stored.Amount)
	}
	if err := p.adopt(s, stored, 0); err != nil {
		return err
	}
	return p.file.save(s)
}

var errNoProof = errors.New("it has no stored micropayment")

// signedHere reports whether this state signed m, so that it knows what became of it.
func (p *Payer) signedHere(s *payerState, m *micropay.Micropayment) bool {
	return m.Nonce>>32 == uint64(s.Mark) && m.Sequence <= s.Channel.Sequence
}

// adopt continues after a micropayment that another state signed: a lost state file of this channel, or
// the lost end of this one. Its amount is owed already. It returns ErrBudget, and changes nothing, if
// that and cost exceed the budget.
func (p *Payer) adopt(s *payerState, stored *micropay.Micropayment, cost uint64) error {
	c := s.Channel
	bought := max(c.Bought, stored.Amount)
	if s.Earlier > maxAmount-bought || cost > maxAmount-bought-s.Earlier || s.Earlier+max(c.Signed, bought+cost) > p.o.MaxSpend {
		return fmt.Errorf("client: %w: another state signed %d over the channel, and MaxSpend is %d", ErrBudget, stored.Amount, p.o.MaxSpend)
	}
	c.Sequence, c.Bought, c.Signed = max(c.Sequence, stored.Sequence), bought, max(c.Signed, bought)
	return nil
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

// Deposit adds to the deposit of the channel of the payer. key identifies the request, as
// DepositOptions describes; "": the client makes one for this call.
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
		if s.Channel.Pending != nil {
			if _, err := p.settle(ctx, s, true); err != nil && s.Channel.Pending != nil {
				return err
			}
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
