// Package paychan holds the rules for micropayment channels.
package paychan

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"sluice/metastore"
)

// ErrExpiryPast says that the expiry lies in the past.
var ErrExpiryPast = errors.New("the expiry lies in the past")

// Options are the settings of a Service.
type Options struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// TTL is how long a channel lives when nothing else is asked for. Default
	// DefaultTTL.
	TTL time.Duration
	// Receiver is the address that is paid.
	Receiver string
	// Asset is the asset that channels hold when nothing else is asked for.
	Asset string
	// Deposit is what a channel holds when nothing else is asked for, in units
	// of the asset.
	Deposit int64
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

// Service keeps channels. Its methods may be called at once from many
// goroutines.
type Service struct {
	meta metastore.Channels
	opt  Options
}

// New gives a Service over a store.
func New(meta metastore.Channels, opt Options) *Service {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.TTL == 0 {
		opt.TTL = DefaultTTL
	}
	return &Service{meta: meta, opt: opt}
}

// Open asks for a channel. Zero values are filled with the defaults.
type Open struct {
	Sender           string // canonical address of the payer; empty: not bound
	Asset            string // canonical address
	Deposit          *int64
	PaymentChannelID *int64 // nil: assigned at random, below 2^53
	Expires          time.Time
}

// Open opens a channel and returns it, or, when idem was seen before, the
// channel as it was first returned. idem may be nil. ErrExpiryPast,
// metastore.ErrExists, metastore.ErrIdempotencyReuse.
func (s *Service) Open(ctx context.Context, o Open, idem *metastore.Idempotency) (metastore.Channel, error) {
	now := s.opt.Now()
	c := metastore.Channel{
		ID:               rand.Text(),
		Sender:           o.Sender,
		Receiver:         s.opt.Receiver,
		Asset:            o.Asset,
		Deposit:          s.opt.Deposit,
		PaymentChannelID: randomChannelID(),
		Expires:          o.Expires,
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
	return s.meta.OpenChannel(ctx, c, idem)
}

// Get gives a channel, in whatever state it is. metastore.ErrNotFound.
func (s *Service) Get(ctx context.Context, id string) (metastore.Channel, error) {
	return s.meta.Channel(ctx, id)
}

// State tells where a channel stands now.
func (s *Service) State(c metastore.Channel) metastore.ChannelState {
	if !c.Expires.After(s.opt.Now()) {
		return metastore.ChannelExpired
	}
	return metastore.ChannelOpen
}

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
