// Package paychan holds the rules for micropayment channels: how a payer opens
// one, what a micropayment is good for, and how what was accepted is collected.
//
// A micropayment is verified here (its bytes by package micropay) and accepted
// in the metadata transaction that sells something for it, so that no order of
// retries, races and crashes charges twice or serves unpaid.
package paychan

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"sluice/metastore"
	"sluice/micropay"
)

// ErrExpiryPast says that the expiry lies in the past.
var ErrExpiryPast = errors.New("the expiry lies in the past")

// Depositor is asked, where there is a chain, before a deposit is believed:
// whether the payer has put amount units more aside for this channel, beyond its
// present Deposit. (A channel that is about to be opened has a Deposit of 0.)
// nil means yes; an error is the refusal of the request. It only looks, so that
// a request that is repeated may ask again.
type Depositor func(ctx context.Context, c metastore.Channel, amount int64) error

// Options are the settings of a Service. Addresses are in any spelling.
type Options struct {
	// TTL is how long a channel lives when nothing else is asked for. Default
	// DefaultTTL.
	TTL time.Duration
	// SessionTTL is how long a session lives that is bought.
	SessionTTL time.Duration
	// Receiver is the address that is paid.
	Receiver string
	// Asset is what is paid in, and what channels hold when nothing else is
	// asked for.
	Asset string
	// Module is the address of the module that a micropayment calls.
	Module string
	// ChainID is the chain on which micropayments are collected.
	ChainID uint8
	// Price is that of a chunkset, in units of the asset, at least 1.
	Price int64
	// Deposit is what a channel holds when nothing else is asked for, in units
	// of the asset.
	Deposit int64
	// Deposited is asked about deposits; nil: whoever asks is believed.
	Deposited Depositor
	// UnsettledLimit bounds what is accepted over a channel and not collected
	// yet, in units of the asset.
	UnsettledLimit int64
	// Space is asked before something is written that stays; it returns an error
	// when there is no room. nil: there always is.
	Space func(n int64) error
}

// Defaults of a local development instance.
const (
	DefaultTTL     = 90 * 24 * time.Hour
	DefaultDeposit = 1_000_000
	// DefaultAsset is the metadata address of the public client's asset.
	DefaultAsset = "0x1b18363a9f1fe5e6ebf247daba5cc1c18052bb232efdc4c50f556053922d98e1"
	// DefaultModule is where the public client looks for the payment module.
	DefaultModule = "0xb42ac038b6dae86f6171e28e297aab9555ce09909445ec579e4ffe6b8d4d63bf"
	// DefaultChainID is the chain id of a local network.
	DefaultChainID = 4
	// DefaultPrice is the price of a chunkset, in units of the asset.
	DefaultPrice = 1
	// DefaultUnsettledLimit bounds what is accepted and not settled yet.
	DefaultUnsettledLimit = 1_000_000
)

// Store is where channels are kept, and whose time they live by.
type Store interface {
	metastore.Channels
	metastore.Clock
}

// Service keeps channels. Its methods may be called at once from many
// goroutines.
type Service struct {
	meta   Store
	opt    Options
	policy micropay.Policy
	kick   chan struct{}

	uncollected uncollected
}

// New gives a Service over a store. It fails when an address is none, and when
// the price, the unsettled limit or the life of a session is below 1.
func New(meta Store, opt Options) (*Service, error) {
	if opt.TTL == 0 {
		opt.TTL = DefaultTTL
	}
	if opt.Deposited == nil {
		opt.Deposited = func(context.Context, metastore.Channel, int64) error { return nil }
	}
	if opt.Space == nil {
		opt.Space = func(int64) error { return nil }
	}
	if opt.Price < 1 {
		return nil, fmt.Errorf("the price of a chunkset must be at least 1, not %d", opt.Price)
	}
	if opt.SessionTTL <= 0 || opt.UnsettledLimit < 1 {
		return nil, fmt.Errorf("sessions must live (%s) and some money be accepted before it is settled (%d)", opt.SessionTTL, opt.UnsettledLimit)
	}
	s := &Service{meta: meta, opt: opt, policy: micropay.Policy{ChainID: opt.ChainID}, kick: make(chan struct{}, 1)}
	for _, a := range []struct {
		what string
		text *string
		into *micropay.Address
	}{
		{"receiver", &s.opt.Receiver, &s.policy.Receiver},
		{"asset", &s.opt.Asset, &s.policy.Asset},
		{"module", &s.opt.Module, &s.policy.ModuleAddress},
	} {
		var err error
		if *a.into, err = micropay.ParseAddress(*a.text); err != nil {
			return nil, fmt.Errorf("the %s %q is not an address: %w", a.what, *a.text, err)
		}
		*a.text = a.into.String()
	}
	return s, nil
}

// Payee tells whom a micropayment must pay, in what, and which module it must
// call: canonical addresses.
func (s *Service) Payee() (receiver, asset, module string) {
	return s.opt.Receiver, s.opt.Asset, s.opt.Module
}

// TTL is how long a channel lives when nothing else is asked for.
func (s *Service) TTL() time.Duration { return s.opt.TTL }

// Price is that of a chunkset, in units of the asset.
func (s *Service) Price() int64 { return s.opt.Price }

// Open asks for a channel. Zero values are filled with the defaults.
type OpenOptions struct {
	Sender           string // canonical address of the payer; empty: not bound
	Asset            string // canonical address
	Deposit          *int64
	PaymentChannelID *int64 // nil: assigned at random, below 2^53
	Owner            string // whom it counts for; empty: nobody
	Expires          time.Time
}

// Open opens a channel and returns it, or, when idem was seen before, the
// channel as it was first returned. idem may be nil. ErrExpiryPast,
// metastore.ErrExists, metastore.ErrIdempotencyReuse. Beside
// metastore.ErrUnknownOutcome without an idem the channel has the ID that it has
// if it was opened, or will be, and nothing else.
func (s *Service) Open(ctx context.Context, o OpenOptions, idem *metastore.Idempotency) (metastore.Channel, error) {
	now := s.meta.Now()
	c := metastore.Channel{
		ID:               newID(),
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
	if !c.Expires.After(now) {
		return metastore.Channel{}, ErrExpiryPast
	}
	if err := s.opt.Space(0); err != nil {
		return metastore.Channel{}, err
	}
	asked := c
	asked.Deposit = 0
	if err := s.opt.Deposited(ctx, asked, c.Deposit); err != nil {
		return metastore.Channel{}, err
	}
	opened, err := s.meta.OpenChannel(ctx, c, idem)
	if idem == nil && errors.Is(err, metastore.ErrUnknownOutcome) {
		opened = metastore.Channel{ID: c.ID}
	}
	return opened, err
}

// Opened returns the channel that an Open with this idem opened, as it was first
// returned. metastore.ErrNotFound when none did, metastore.ErrIdempotencyReuse.
func (s *Service) Opened(ctx context.Context, idem metastore.Idempotency) (metastore.Channel, error) {
	return s.meta.OpenedChannel(ctx, idem)
}

// Get gives a channel, in whatever state it is. metastore.ErrNotFound.
func (s *Service) Get(ctx context.Context, id string) (metastore.Channel, error) {
	return s.meta.Channel(ctx, id)
}

// State tells where a channel stands now.
func (s *Service) State(c metastore.Channel) metastore.ChannelState {
	return c.State(s.meta.Now())
}

// sessionsShown is how many sessions of a channel are told of.
const sessionsShown = 1_000

// Sessions gives the sessions that were bought over a channel, the newest
// first, at most 1,000.
func (s *Service) Sessions(ctx context.Context, id string) ([]metastore.Session, error) {
	return s.meta.ChannelSessions(ctx, id, sessionsShown)
}

// Deposit adds to the deposit of an open channel and returns the channel, or,
// when idem was seen before, the channel as it was first returned. idem may be
// nil. metastore.ErrNotFound, ErrChannelClosed, ErrChannelExpired, ErrAmountOverflow.
//
// Where there is a chain, Options.Deposited is asked first.
func (s *Service) Deposit(ctx context.Context, id string, amount int64, idem *metastore.Idempotency) (metastore.Channel, error) {
	if err := s.opt.Space(0); err != nil {
		return metastore.Channel{}, err
	}
	c, err := s.meta.Channel(ctx, id)
	if err != nil {
		return metastore.Channel{}, err
	}
	if err := s.opt.Deposited(ctx, c, amount); err != nil {
		return metastore.Channel{}, err
	}
	return s.meta.AddDeposit(ctx, id, amount, idem)
}

// Close ends a channel and returns it with what was settled, what was not, and
// the credit that was not spent. Repeated, it returns the same.
// metastore.ErrNotFound.
func (s *Service) Close(ctx context.Context, id string) (metastore.Channel, error) {
	return s.meta.CloseChannel(ctx, id)
}

// newID gives an unguessable id.
func newID() string { return rand.Text() }

// randomChannelID gives 53 random bits: what every JSON reader takes exactly.
func randomChannelID() int64 {
	var b [8]byte
	rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 11)
}

// NewReceiver gives a random address, for an instance that has none of its own.
func NewReceiver() string {
	var b [32]byte
	rand.Read(b[:])
	return "0x" + hex.EncodeToString(b[:])
}
