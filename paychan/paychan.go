// Package paychan implements payment channels: a payer opens a channel with a deposit and pays over
// it by micropayments. Each promises a cumulative amount.
//
// A micropayment lives like this:
//
//  1. The payer signs it (package micropay), with a greater sequence number and a greater
//     cumulative amount than the last one over the channel, and sends it with a request.
//  2. Service.Verify makes the checks that need no state: the encoding, the signature, the signer,
//     and that it pays this receiver, in this asset, on this chain, and has not expired.
//  3. Service.Buy (chunksets of a session) or Service.PayRead (of one read) accepts it, in the
//     transaction that also records the sale. The transaction finds the channel and compares the
//     micropayment with the accepted sequence and amount, the deposit and the unsettled limit. The
//     difference to the accepted amount, and the channel's credit, can be spent; the rest becomes
//     the credit. So no order of retries, races and crashes charges twice or serves unpaid.
//  4. The same transaction makes it the channel's pending settlement. It replaces an older one,
//     because its amount includes the older amount.
//  5. Service.Run books pending settlements in the ledger or, with a chain, package collect submits
//     them. Then the amount is settled. A settlement that expires before that is reported; the
//     next micropayment over the channel includes its amount.
//
// If a sale is made but nothing could be served for it, Service.Return or Service.ReturnRead adds
// its price to the channel's credit.
package paychan

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
)

var (
	// ErrExpiryPast means that a new channel would have expired already.
	ErrExpiryPast = errors.New("the expiry lies in the past")
	// ErrOtherChannel means that a renewal is a payment over another channel than the one to renew.
	ErrOtherChannel = errors.New("the micropayment is one over another channel")
)

// Options are a Service's settings. Addresses are accepted in any spelling.
type Options struct {
	// TTL is the time from a channel's opening to its expiry, unless the payer requests
	// another expiry. Default DefaultTTL.
	TTL time.Duration
	// SessionTTL is the time from a session's purchase to its expiry. It is required.
	SessionTTL time.Duration
	// Receiver is the address to be paid.
	Receiver string
	// Asset is the asset of micropayments, and of channels unless the payer requests another.
	Asset string
	// Module is the module that a micropayment must call.
	Module string
	// ChainID is the chain on which micropayments are collected.
	ChainID uint8
	// Price is a chunkset's price in the asset's units, at least 1.
	Price int64
	// Deposit is a channel's deposit in the asset's units, unless the payer requests another.
	Deposit int64
	// Chain is set if payments are collected on a chain.
	Chain *ChainOptions
	// UnsettledLimit is the greatest amount that is accepted over a channel and not settled yet, in
	// the asset's units, at least 1.
	UnsettledLimit int64
	// Space is called with 0 before something is stored permanently. It returns an error if
	// there is not enough space. nil: there always is.
	Space func(n int64) error
	// NewID returns a channel's or session's id, which cannot be guessed. nil: crypto/rand.Text.
	NewID func() string
}

// Defaults for a local development instance.
const (
	DefaultTTL     = 90 * 24 * time.Hour
	DefaultDeposit = 1_000_000
	// DefaultAsset is the metadata address of the public client's asset.
	DefaultAsset = "0x1b18363a9f1fe5e6ebf247daba5cc1c18052bb232efdc4c50f556053922d98e1"
	// DefaultModule is the address at which the public client expects the payment module.
	DefaultModule = "0xb42ac038b6dae86f6171e28e297aab9555ce09909445ec579e4ffe6b8d4d63bf"
	// DefaultChainID is a local network's chain id.
	DefaultChainID = 4
	// DefaultPrice is a chunkset's price in the asset's units.
	DefaultPrice = 1
	// DefaultUnsettledLimit is the greatest amount that is accepted and not settled yet.
	DefaultUnsettledLimit = 1_000_000
)

// Store holds channels, and the clock by which they expire.
type Store interface {
	ledger.Channels
	ledger.Payments
	ledger.Settlements
	database.Clock
}

// Service opens channels, accepts payments over them and settles them. Its methods may be called
// concurrently.
type Service struct {
	meta   Store
	opt    Options
	policy micropay.Policy
	kick   chan struct{}
	turns  turns

	chain *onChain // nil without a chain

	unsettled atomic.Pointer[ledger.Unsettled] // the last review's result; nil unless Review runs
	counts    struct{ opened, purchases, reads, settled atomic.Int64 }
}

// Stats are a Service's counters since it was created. A call that is repeated with the same
// Idempotency counts again.
type Stats struct {
	Opened      int64 // channels
	Purchases   int64 // of chunksets for sessions
	Reads       int64 // that were paid for directly
	Settled     int64 // settlements that were booked in the ledger
	ReadsFailed int64 // readings of channels from the chain that failed

	Simulated         int64 // payments that the chain would execute, by a simulation
	SimulationRefused int64 // payments that it would not execute
	SimulationFailed  int64 // simulations without a result
	Verified          int64 // signatures, and keys that did not sign, that Verify has checked
}

// Stats returns the counters.
func (s *Service) Stats() Stats {
	stats := Stats{
		Verified: s.turns.taken.Load(),
		Opened:   s.counts.opened.Load(), Purchases: s.counts.purchases.Load(),
		Reads: s.counts.reads.Load(), Settled: s.counts.settled.Load(),
	}
	if o := s.chain; o != nil {
		stats.ReadsFailed = o.readings.failed.Load()
		stats.Simulated, stats.SimulationRefused, stats.SimulationFailed = o.counts.simulated.Load(), o.counts.refused.Load(), o.simulations.failed.Load()
	}
	return stats
}

// New returns a Service over a store. It returns an error if an address is invalid, or if the
// price, the unsettled limit or SessionTTL is not positive.
func New(meta Store, opt Options) (*Service, error) {
	if opt.TTL == 0 {
		opt.TTL = DefaultTTL
	}
	if opt.Space == nil {
		opt.Space = func(int64) error { return nil }
	}
	if opt.NewID == nil {
		opt.NewID = rand.Text
	}
	if opt.Price < 1 {
		return nil, fmt.Errorf("the price of a chunkset must be at least 1, not %d", opt.Price)
	}
	if opt.SessionTTL <= 0 || opt.UnsettledLimit < 1 {
		return nil, fmt.Errorf("the session TTL (%s) and the unsettled limit (%d) must be positive", opt.SessionTTL, opt.UnsettledLimit)
	}
	s := &Service{meta: meta, opt: opt, policy: micropay.Policy{ChainID: opt.ChainID}, kick: make(chan struct{}, 1), turns: newTurns()}
	if opt.Chain != nil {
		if opt.Chain.SettleAt < 1 {
			return nil, fmt.Errorf("the amount to settle at must be at least 1, not %d", opt.Chain.SettleAt)
		}
		if opt.Chain.StartingLimit < 1 {
			return nil, fmt.Errorf("the starting limit must be at least 1, not %d", opt.Chain.StartingLimit)
		}
		s.chain = newOnChain(*opt.Chain, meta)
		s.policy.MaxFee = opt.Chain.MaxFee
	}
	for _, a := range []struct {
		label string
		text  *string
		into  *micropay.Address
	}{
		{"receiver", &s.opt.Receiver, &s.policy.Receiver},
		{"asset", &s.opt.Asset, &s.policy.Asset},
		{"module", &s.opt.Module, &s.policy.ModuleAddress},
	} {
		var err error
		if *a.into, err = micropay.ParseAddress(*a.text); err != nil {
			return nil, fmt.Errorf("the %s %q is not an address: %w", a.label, *a.text, err)
		}
		*a.text = a.into.String()
	}
	return s, nil
}

// Payee returns three canonical addresses: the receiver and the asset that a micropayment must pay,
// and the module that it must call.
func (s *Service) Payee() (receiver, asset, module string) {
	return s.opt.Receiver, s.opt.Asset, s.opt.Module
}

// TTL returns the time from a channel's opening to its expiry by default.
func (s *Service) TTL() time.Duration { return s.opt.TTL }

// Price returns a chunkset's price in the asset's units.
func (s *Service) Price() int64 { return s.opt.Price }

// OpenOptions describes a channel. Zero values select the defaults.
type OpenOptions struct {
	Sender           string // the payer's canonical address; empty: bound by the first payment
	Asset            string // canonical address
	Deposit          *int64
	PaymentChannelID *int64 // nil: random, below 2^53
	Owner            string // the group that is charged for it; empty: none
	Expires          time.Time
}

// Open opens a channel and returns it, or, if idem was recorded before, the channel as it was first
// returned. idem may be nil. With a chain, the channel must exist there: Sender and
// PaymentChannelID are required, and Deposit and Expires are read. It returns ErrExpiryPast,
// ErrChainTerms, ErrNotOnChain, ErrChain, database.ErrExists or database.ErrIdempotencyReuse.
// With database.ErrUnknownOutcome, and without an idem, it also returns a Channel with only ID
// set: the channel's id if it was, or will be, opened.
func (s *Service) Open(ctx context.Context, o OpenOptions, idem *database.Idempotency) (ledger.Channel, error) {
	now := s.meta.Now()
	c := ledger.Channel{
		ID:               s.opt.NewID(),
		Sender:           o.Sender,
		Receiver:         s.opt.Receiver,
		Asset:            o.Asset,
		Deposit:          s.opt.Deposit,
		PaymentChannelID: randomChannelID(),
		Expires:          o.Expires,
		Owner:            o.Owner,
	}
	if c.Asset == "" {
		c.Asset = s.opt.Asset
	}
	if o.Deposit != nil {
		c.Deposit = *o.Deposit
	}
	if o.PaymentChannelID != nil {
		c.PaymentChannelID = *o.PaymentChannelID
	}
	if c.Expires.IsZero() {
		c.Expires = now.Add(s.opt.TTL)
	}
	if s.chain != nil {
		if o.Sender == "" || o.PaymentChannelID == nil || o.Deposit != nil || !o.Expires.IsZero() {
			return ledger.Channel{}, ErrChainTerms
		}
		if err := s.chain.describe(ctx, &c); err != nil {
			return ledger.Channel{}, err
		}
	}
	if !c.Expires.After(now) {
		return ledger.Channel{}, ErrExpiryPast
	}
	if err := s.opt.Space(0); err != nil {
		return ledger.Channel{}, err
	}
	opened, err := s.meta.OpenChannel(ctx, c, idem)
	if err == nil {
		s.counts.opened.Add(1)
	}
	if idem == nil && errors.Is(err, database.ErrUnknownOutcome) {
		opened = ledger.Channel{ID: c.ID}
	}
	return opened, err
}

// Recorded returns the channel that Open or Deposit returned with this idem, as it was first
// returned. It returns database.ErrNotFound if there is none, or database.ErrIdempotencyReuse.
func (s *Service) Recorded(ctx context.Context, idem database.Idempotency) (ledger.Channel, error) {
	return s.meta.RecordedChannel(ctx, idem)
}

// Get returns a channel in any state, or database.ErrNotFound.
func (s *Service) Get(ctx context.Context, id string) (ledger.Channel, error) {
	return s.meta.Channel(ctx, id)
}

// State returns a channel's present state.
func (s *Service) State(c ledger.Channel) ledger.ChannelState {
	return c.State(s.meta.Now())
}

// maxSessions bounds how many sessions Sessions returns.
const maxSessions = 1_000

// Sessions returns the sessions that were bought over a channel, newest first, at most 1,000.
func (s *Service) Sessions(ctx context.Context, id string) ([]ledger.Session, error) {
	return s.meta.ChannelSessions(ctx, id, maxSessions)
}

// Deposit adds to an open channel's deposit and returns the channel without its Proof, or, if idem
// was recorded before, the channel as it was first returned. idem may be nil. It returns
// database.ErrNotFound, ledger.ErrChannelClosed, ledger.ErrChannelExpired,
// ledger.ErrAmountOverflow or database.ErrIdempotencyReuse, and with a chain always
// ErrDepositOnChain.
func (s *Service) Deposit(ctx context.Context, id string, amount int64, idem *database.Idempotency) (ledger.Channel, error) {
	if s.chain != nil {
		return ledger.Channel{}, ErrDepositOnChain
	}
	if err := s.opt.Space(0); err != nil {
		return ledger.Channel{}, err
	}
	return s.meta.AddDeposit(ctx, id, amount, idem)
}

// Close closes a channel and returns it. Repeated, it returns the channel in its present state. It
// returns database.ErrNotFound if there is no such channel.
func (s *Service) Close(ctx context.Context, id string) (ledger.Channel, error) {
	return s.meta.CloseChannel(ctx, id)
}

// randomChannelID returns 53 random bits, which every JSON parser represents exactly.
func randomChannelID() int64 {
	var b [8]byte
	rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 11)
}

// NewReceiver returns a random address, for an instance without one.
func NewReceiver() string {
	var b [32]byte
	rand.Read(b[:])
	return "0x" + hex.EncodeToString(b[:])
}
