// Package metastore is the contract for everything that sluice remembers
// beside the bytes themselves: blobs, uploads, sessions, channels, what waits
// to be deleted, and the few facts about the instance.
//
// Every method is one atomic and durable transaction: when it returns nil, its
// effect survives a power cut and every later call on any handle sees it; when
// it returns an error other than ErrUnknownOutcome, it had no effect. Methods
// may be called at once from many goroutines and, where the engine allows it,
// from many processes. No transaction object leaves an implementation; where a
// decision must be taken inside the transaction, the caller hands in a Guard.
//
// A context that ends before a call's mutation has begun makes the call fail
// with the context's error; once it has begun, the call runs to its end.
//
// Times are kept to the microsecond, in UTC. The store has its own (injected)
// clock, and every rule below that speaks of now means that clock, read inside
// the transaction.
package metastore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Errors that a Store promises. They arrive wrapped; compare with errors.Is.
var (
	// ErrNotFound: no such blob, upload, session or channel (any more).
	ErrNotFound = errors.New("metastore: not found")
	// ErrExpired: the blob or session is there, but its time is over.
	ErrExpired = errors.New("metastore: expired")
	// ErrExists: what was to be created exists already.
	ErrExists = errors.New("metastore: exists")
	// ErrAborted: the upload was aborted, by a caller or for being idle.
	ErrAborted = errors.New("metastore: upload aborted")
	// ErrCommitted: the upload was completed before.
	ErrCommitted = errors.New("metastore: upload committed")
	// ErrRevision: the upload changed since the revision that was given.
	ErrRevision = errors.New("metastore: upload changed meanwhile")
	// ErrStaleExtent: an extent is older than MaxExtentAge at its commit.
	ErrStaleExtent = errors.New("metastore: extent too old to commit")
	// ErrExhausted: the session has no chunksets left.
	ErrExhausted = errors.New("metastore: session exhausted")
	// ErrNoChannel: no channel of these parties, in Payment's four members.
	ErrNoChannel = errors.New("metastore: no such channel")
	// ErrChannelClosed: the channel was closed.
	ErrChannelClosed = errors.New("metastore: channel closed")
	// ErrChannelExpired: the channel's time is over.
	ErrChannelExpired = errors.New("metastore: channel expired")
	// ErrStalePayment: sequence or amount is not above the accepted one. It
	// arrives as a *StaleError.
	ErrStalePayment = errors.New("metastore: payment is stale")
	// ErrFunds: the payment exceeds the deposit, or does not cover what it is
	// to pay. It arrives as a *FundsError.
	ErrFunds = errors.New("metastore: funds do not suffice")
	// ErrUnsettledLimit: too much would be accepted and not settled yet.
	ErrUnsettledLimit = errors.New("metastore: unsettled limit reached")
	// ErrAmount: an amount would exceed 2^63-1.
	ErrAmount = errors.New("metastore: amount too large")
	// ErrIdempotencyReuse: the idempotency key was used for another request.
	ErrIdempotencyReuse = errors.New("metastore: idempotency key reused")
	// ErrNoSpace: the engine's disk is full. Nothing was stored.
	ErrNoSpace = errors.New("metastore: no space left")
	// ErrUnknownOutcome: the engine did not say whether the transaction was
	// committed. The caller looks, or repeats what is safe to repeat.
	ErrUnknownOutcome = errors.New("metastore: outcome unknown")
	// ErrNewer: the database was written by a newer version of the program.
	ErrNewer = errors.New("metastore: database is newer than this program")
)

// StaleError is ErrStalePayment with the bytes that prove what was accepted.
type StaleError struct{ Stored []byte }

// Error gives the text of ErrStalePayment.
func (*StaleError) Error() string { return ErrStalePayment.Error() }

// Unwrap gives ErrStalePayment.
func (*StaleError) Unwrap() error { return ErrStalePayment }

// FundsError is ErrFunds with the amounts, in units of the asset.
type FundsError struct{ Required, Available int64 }

// Error tells both amounts.
func (e *FundsError) Error() string {
	return fmt.Sprintf("%s: %d required, %d available", ErrFunds, e.Required, e.Available)
}

// Unwrap gives ErrFunds.
func (*FundsError) Unwrap() error { return ErrFunds }

// The size of an extent, how long things are remembered, and the age rules of DESIGN "Order of
// writes": because a commit refuses extents older than MaxExtentAge and the
// orphan sweep spares those younger than four times that, the two never meet.
const (
	// MaxExtentSize is the greatest length of an extent, in bytes.
	MaxExtentSize = 64 << 20
	// MaxExtentAge is the greatest age of an extent that may still be committed.
	MaxExtentAge = 12 * time.Hour
	// ExpiredBlobGrace is how long an expired blob answers ErrExpired; after
	// that it is ErrNotFound and Purge removes it.
	ExpiredBlobGrace = 24 * time.Hour
	// UploadIdleLimit is how long an open upload may go without a part.
	UploadIdleLimit = 24 * time.Hour
	// UploadMemory is how long the outcome of an ended upload is remembered.
	UploadMemory = 7 * 24 * time.Hour
	// SessionMemory is how long a session is remembered after its expiry.
	SessionMemory = 30 * 24 * time.Hour
	// IdempotencyMemory is how long an idempotency key is remembered.
	IdempotencyMemory = 24 * time.Hour
)

// The limits of the verbs that handle many contents at once: they keep a
// transaction short.
const (
	// MaxSmallExtents is the greatest number of extents of a small content.
	MaxSmallExtents = 16
	// MaxContents is the greatest number of contents in a call.
	MaxContents = 1000
)

// Store is everything that is remembered.
type Store interface {
	Blobs
	Uploads
	Sessions
	Channels
	Garbage
	Facts
}

// ContentID names one immutable content: the bytes of one version of a blob,
// or of one upload. Ids ascend with the time of their making.
type ContentID [16]byte

// NewContentID makes a fresh id: 48 bits of milliseconds, then 80 random bits.
func NewContentID(now time.Time) ContentID {
	var id ContentID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	rand.Read(id[6:])
	return id
}

// String gives the id as 32 hex digits.
func (id ContentID) String() string { return hex.EncodeToString(id[:]) }

// Blob is what is known of a blob. Account and Name are stored and ordered as
// bytes.
type Blob struct {
	Account     string
	Name        string
	Content     ContentID
	Size        int64     // bytes
	CRC64       uint64    // CRC-64/NVME of the content; with Size, the ETag
	PartSize    int64     // size of every part of the content but the last; 0: one part, number 0
	SHA256      []byte    // of the content; nil when not known
	ContentType string    // as the writer gave it, or empty
	Modified    time.Time // set by the store at the commit
	Expires     time.Time // zero: never
}

// Extent is a run of a content's bytes that is stored as one object, or, when
// it is small, inline in the metadata. A content's extents are ordered by Part,
// then Offset, and cover each part without gap or overlap.
type Extent struct {
	Part   int      // number of the part, from 0
	Offset int64    // of the extent's first byte, within its part
	Size   int64    // bytes, 1 to MaxExtentSize
	Blocks []uint32 // CRC-32C of each MiB of the extent, counted from its start
	Key    string   // of the object in the byte store; empty when inline
	Body   []byte   // the bytes themselves when inline, else nil
	// Created is when the object's key was made; not stored, only checked
	// against MaxExtentAge by the verbs that take extents in. Inline: ignored.
	Created time.Time
}

// Position is a place in a content.
type Position struct {
	Part   int
	Offset int64 // within the part
}

// Guard decides inside a transaction whether a write may go on. It is given
// the blob that the write would replace or delete, nil when there is none or it
// has expired. Its error aborts the transaction and is returned as it is. A
// Guard is pure and may be called more than once.
type Guard func(current *Blob) error

// ListQuery asks for a page of an account's blobs.
type ListQuery struct {
	Account   string
	Prefix    string // only names that begin with it
	Delimiter string // when set, names that hold it after the prefix are grouped
	After     string // only names and groups greater than it
	Limit     int    // entries, names and groups together, at least 1
}

// Page is a page of a listing. Blobs and Prefixes are each in byte order.
type Page struct {
	Blobs    []Blob
	Prefixes []string // groups: the prefix, and on to the end of the delimiter
	Next     string   // After for the next page; empty on the last one
}

// Blobs are the named contents. Expired blobs are not listed, and count as
// absent wherever a Guard looks.
type Blobs interface {
	// Blob finds a blob. ErrExpired for ExpiredBlobGrace after its expiry;
	// ErrNotFound later, and when there is none.
	Blob(ctx context.Context, account, name string) (Blob, error)

	// CommitBlob makes b visible with these extents as its content, in place
	// of the blob of that name, whose content becomes garbage. The extents are
	// those of part 0, in order; none for an empty blob. b.Content is fresh,
	// b.PartSize is 0, b.Modified is ignored. It returns the blob as stored.
	// guard may be nil. ErrStaleExtent when an extent is too old; ErrExpired
	// when the blob's own expiry has passed by then: guard is not asked.
	CommitBlob(ctx context.Context, b Blob, extents []Extent, guard Guard) (Blob, error)

	// DeleteBlob removes a blob and makes its content garbage. It returns the
	// id of that content, and true when there was a blob (expired or not).
	// guard may be nil.
	DeleteBlob(ctx context.Context, account, name string, guard Guard) (ContentID, bool, error)

	// ListBlobs gives one page. Its cost grows with the entries it returns,
	// not with the names it skips. With a delimiter a group is listed only if
	// the group itself is greater than After.
	ListBlobs(ctx context.Context, q ListQuery) (Page, error)

	// Extents gives up to limit extents of a content, in order, beginning with
	// the one that holds position from; bodies of inline extents included.
	// An unknown content has none.
	Extents(ctx context.Context, content ContentID, from Position, limit int) ([]Extent, error)
}

// UploadState is where an upload stands.
type UploadState string

// The states of an upload. It begins open; the others are final.
const (
	UploadOpen      UploadState = "open"
	UploadCommitted UploadState = "committed"
	UploadAborted   UploadState = "aborted"
)

// Upload is a multipart upload.
type Upload struct {
	ID          string // unguessable, made by the caller
	Account     string
	Name        string
	Content     ContentID // fresh, made by the caller
	PartSize    int64
	ContentType string
	Expires     time.Time // of the blob to be; zero: never
	CreateOnly  bool      // the commit must find no blob of that name

	// Set by the store.
	State    UploadState
	Bytes    int64     // sum of the parts present
	Revision int64     // grows with every change of the parts
	Created  time.Time //
	Touched  time.Time // when it began or its last part was put
	Ended    time.Time // when it was committed or aborted; zero while open

	// The recorded outcome, once committed.
	Size     int64
	CRC64    uint64
	Modified time.Time
}

// Part is one part of an upload, as last written.
type Part struct {
	Index int
	Size  int64
	CRC64 uint64 // CRC-64/NVME of its bytes
}

// Uploads are the multipart uploads. An ended upload is remembered for
// UploadMemory and then ErrNotFound.
type Uploads interface {
	// BeginUpload stores a fresh, open upload and returns it as stored.
	BeginUpload(ctx context.Context, u Upload) (Upload, error)

	// Upload gives an upload in whatever state it is.
	Upload(ctx context.Context, id string) (Upload, error)

	// PutPart makes these extents (all of part p.Index) the part's content.
	// What the part held before becomes garbage. ErrNotFound, ErrAborted,
	// ErrCommitted, ErrStaleExtent.
	PutPart(ctx context.Context, uploadID string, p Part, extents []Extent) error

	// Parts gives up to limit parts whose index is greater than after (-1: from
	// the start), by index.
	Parts(ctx context.Context, uploadID string, after, limit int) ([]Part, error)

	// CompleteUpload makes the upload's content visible as a blob of this size
	// and CRC, provided that the upload is open and still at revision, and
	// records the outcome. It moves no parts: its cost does not grow with them.
	// Repeated on a committed upload it returns the recorded outcome, whatever
	// revision, size and crc64 are, and guard is not asked. ErrNotFound,
	// ErrAborted, ErrRevision; ErrExpired when the blob's expiry has passed by
	// then: guard is not asked. guard may be nil; a refusal leaves the upload
	// open and unchanged.
	CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, guard Guard) (Upload, error)

	// AbortUpload ends an open upload and makes its parts garbage. Repeated: nil.
	// It returns the id of the content. ErrNotFound, ErrCommitted.
	AbortUpload(ctx context.Context, id string) (ContentID, error)

	// ListUploads gives up to limit open uploads of the account by creation,
	// beginning behind the upload whose id is after (empty: at the oldest). An
	// upload that ended since is good as after for as long as it is remembered;
	// an unknown one is ErrNotFound.
	ListUploads(ctx context.Context, account, after string, limit int) ([]Upload, error)
}

// Idempotency asks that a success be remembered, in the transaction that has
// the effect, for IdempotencyMemory: the same Scope and Key with the same Hash
// then gives the first outcome again and has no effect; with another Hash it is
// ErrIdempotencyReuse. Two at once: one has the effect, the other its outcome.
type Idempotency struct {
	Scope string   // the operation, its resource and the caller
	Key   string   // as the client sent it
	Hash  [32]byte // of the request
}

// Session is a count of chunksets. Ledger: Used + Left = Total, and of what is
// Left when it expires nothing can be used any more (it is forfeited).
type Session struct {
	ID           string `json:"id"` // unguessable, made by the caller
	UserIdentity string `json:"userIdentity,omitempty"`
	Channel      string `json:"channel,omitempty"` // id of the channel that it was first bought over; empty: granted
	Total        int64  `json:"total"`             // chunksets bought and granted, ever
	Left         int64  `json:"left"`              // chunksets not yet used
	Used         int64  `json:"used"`              // chunksets used and not returned

	Created time.Time `json:"created"` // set by the store
	Expires time.Time `json:"expires"`
}

// Sessions are the counters. A session is remembered for SessionMemory after
// its expiry and then ErrNotFound.
type Sessions interface {
	// CreateSession stores a fresh session that was not paid for and returns it
	// as stored, or, when idem was seen before, the session as it was first
	// returned. Used and Channel are ignored. idem may be nil.
	CreateSession(ctx context.Context, s Session, idem *Idempotency) (Session, error)

	// Session gives a session, expired or not.
	Session(ctx context.Context, id string) (Session, error)

	// UseSession takes exactly n chunksets (at least 1), or none, and returns the
	// session as it then is; Left never goes below zero, whatever runs at once.
	// ErrNotFound, ErrExpired, ErrExhausted; with ErrExhausted the session as
	// it is comes beside the error. idem may be nil.
	UseSession(ctx context.Context, id string, n int64, idem *Idempotency) (Session, error)

	// ReturnChunksets gives n chunksets back that were used and of which nothing
	// was served, and returns the session as it then is; also when the session
	// has expired. request names this return: repeated, it has no effect.
	// ErrNotFound; an error when more would be returned than was used.
	ReturnChunksets(ctx context.Context, id string, n int64, request string) (Session, error)
}

// ChannelState is where a channel stands.
type ChannelState string

// The states of a channel. A closed channel stays closed when its time is over.
const (
	ChannelOpen    ChannelState = "open"
	ChannelClosed  ChannelState = "closed"
	ChannelExpired ChannelState = "expired"
)

// Channel is a payment channel. Amounts are in units of the asset, from 0 to
// 2^63-1. Ledger: the sum over its sales of count times price, less what was
// returned, plus Credit, is Accepted; Settled <= Accepted <= Deposit.
type Channel struct {
	ID               string `json:"id"` // unguessable, made by the caller
	PaymentChannelID int64  `json:"paymentChannelId"`
	Sender           string `json:"sender,omitempty"` // empty: not bound yet
	Receiver         string `json:"receiver"`
	Asset            string `json:"asset"`
	Deposit          int64  `json:"deposit"`

	// Kept by the store.
	Accepted int64     `json:"accepted"`        // the highest accepted cumulative amount
	Sequence int64     `json:"sequence"`        // of the micropayment that proves it
	Proof    []byte    `json:"proof,omitempty"` // its bytes; nil: nothing was accepted yet
	Credit   int64     `json:"credit"`          // of Accepted, not sold for
	Settled  int64     `json:"settled"`         // of Accepted, collected
	Closed   time.Time `json:"closed,omitzero"` // when it was closed; zero: it was not

	Created time.Time `json:"created"` // set by the store
	Expires time.Time `json:"expires"`
}

// State tells where the channel stands at a time.
func (c *Channel) State(now time.Time) ChannelState {
	switch {
	case !c.Closed.IsZero():
		return ChannelClosed
	case !now.Before(c.Expires):
		return ChannelExpired
	default:
		return ChannelOpen
	}
}

// Payment is a verified micropayment: signature, signer and policy are right.
// Its channel is found by Sender, Receiver, Asset and PaymentChannelID.
type Payment struct {
	Sender           string // canonical addresses
	Receiver         string
	Asset            string
	PaymentChannelID int64
	Sequence         int64
	Amount           int64     // cumulative
	Proof            []byte    // the bytes as received
	Expires          time.Time // when the chain refuses it

	// UnsettledLimit is the greatest Accepted - Settled that it may lead to.
	UnsettledLimit int64
}

// Purchase buys chunksets for a session.
type Purchase struct {
	Payment Payment
	Price   int64 // of a chunkset, at least 1
	// Session is the fresh session to be made (ID, UserIdentity and Expires
	// count), or, with Refill, the one to add to (only ID counts).
	Session Session
	Refill  bool
}

// Read buys chunksets that are read at once.
type Read struct {
	Payment Payment
	Price   int64 // of a chunkset, at least 1
	Count   int64 // chunksets, at least 1
}

// Settlement is the newest accepted micropayment of a channel that has not been
// collected yet.
type Settlement struct {
	Channel  string // id
	Sequence int64
	Amount   int64 // cumulative
	Proof    []byte
	Expires  time.Time // it must be collected before
}

// Channels are the payment channels. They are remembered for ever.
//
// A payment is accepted by Buy and PayRead, in the transaction that sells: the
// channel is found (an unbound one is bound to the sender), it must be open,
// sequence and amount must both be above the accepted ones, the amount within
// the deposit, and Amount - Settled within the unsettled limit, in this order:
// ErrNoChannel, ErrChannelClosed or ErrChannelExpired, *StaleError, *FundsError
// with Required the amount and Available the deposit, ErrUnsettledLimit. Then
// Amount - Accepted + Credit is there to be spent. The transaction also writes
// the settlement, in place of a pending one. A refusal changes nothing.
type Channels interface {
	// OpenChannel stores a fresh channel and returns it as stored, or, when
	// idem was seen before, the channel as it was first returned. ErrExists
	// when a channel of the same sender, receiver, asset and PaymentChannelID
	// was ever opened, and when either that one or this one has no sender and
	// the other three are the same. idem may be nil.
	OpenChannel(ctx context.Context, c Channel, idem *Idempotency) (Channel, error)

	// Channel gives a channel.
	Channel(ctx context.Context, id string) (Channel, error)

	// FindChannel gives the channel that a payment of these parties is for:
	// that of the sender, or else the one that is not bound. ErrNoChannel.
	FindChannel(ctx context.Context, sender, receiver, asset string, paymentChannelID int64) (Channel, error)

	// ChannelSessions gives up to limit sessions that were bought over the
	// channel and are remembered, the newest first.
	ChannelSessions(ctx context.Context, id string, limit int) ([]Session, error)

	// Buy accepts the payment and sells as many chunksets as it covers, with
	// what the channel has in credit; the rest becomes the credit. It returns
	// the session as it then is, or, when idem was seen before, as it was first
	// returned. When not one chunkset is covered it is a *FundsError with
	// Required the price and Available what was there to be spent. With Refill:
	// ErrNotFound and ErrExpired of the session. ErrAmount when the session
	// would hold more than 2^63-1. idem may be nil.
	Buy(ctx context.Context, p Purchase, idem *Idempotency) (Session, error)

	// PayRead accepts the payment and sells Count chunksets; what is over
	// becomes the credit. It returns the channel as it then is. When they are
	// not covered it is a *FundsError with Required Count times Price and
	// Available what was there to be spent.
	PayRead(ctx context.Context, r Read) (Channel, error)

	// ReturnCredit gives count chunksets, sold at price, back to the channel's
	// credit, whatever its state, and returns the channel as it then is.
	// request names this return: repeated, it has no effect. ErrNotFound.
	ReturnCredit(ctx context.Context, id string, count, price int64, request string) (Channel, error)

	// AddDeposit adds to the deposit of an open channel and returns it as it
	// then is, or, when idem was seen before, as it was first returned.
	// ErrNotFound, ErrChannelClosed, ErrChannelExpired, ErrAmount. idem may be
	// nil.
	AddDeposit(ctx context.Context, id string, amount int64, idem *Idempotency) (Channel, error)

	// CloseChannel ends an open or expired channel and returns it. Repeated, it
	// returns the channel as it then is. ErrNotFound.
	CloseChannel(ctx context.Context, id string) (Channel, error)

	// Settlements gives up to limit settlements that are pending and have not
	// expired at now, those that expire first at the front, beginning behind
	// after, of which Expires and Channel count (zero: at the first).
	Settlements(ctx context.Context, after Settlement, limit int) ([]Settlement, error)

	// Settle notes that a channel's payment of this sequence and cumulative
	// amount was collected: Settled becomes at least amount, and a pending
	// settlement up to that sequence is gone. Repeated, it has no effect.
	// ErrNotFound; an error when amount is above Accepted.
	Settle(ctx context.Context, channel string, sequence, amount int64) error

	// Collect is the embedded ledger of an instance without a chain: it notes
	// the settlement as paid out, once for each channel and sequence, in
	// whatever order they come.
	Collect(ctx context.Context, s Settlement) error

	// Audit checks the ledgers of all channels and sessions, and tells what
	// does not add up; nothing when all is well.
	Audit(ctx context.Context) ([]string, error)
}

// Garbage is what waits to be deleted from the byte store. A content becomes
// garbage in the same transaction that takes the last reference to it away, and
// is never referenced again.
type Garbage interface {
	// GarbageContents gives up to limit contents that have been garbage since
	// before, by id, beginning behind after (zero: at the first).
	GarbageContents(ctx context.Context, before time.Time, after ContentID, limit int) ([]ContentID, error)

	// GarbageObjects gives the keys of the objects of each of the contents that
	// is garbage and small (at most MaxSmallExtents extents, inline ones
	// included): a list without entries when it has no objects. Contents that
	// are live, unknown or not small are not in the map; what is not small is
	// freed by Extents, DropExtents and DropContent. At most MaxContents a call.
	GarbageObjects(ctx context.Context, contents []ContentID) (map[ContentID][]string, error)

	// DropContents forgets the contents that are garbage and small, with all
	// their extents, after all objects that GarbageObjects gave for them were
	// deleted. The others are left as they are. At most MaxContents a call.
	// Repeated: nil.
	DropContents(ctx context.Context, contents []ContentID) error

	// DropExtents forgets these extents (by Part and Offset) of a garbage
	// content, after their objects were deleted. Extents of a content that is
	// not garbage are ErrNotFound and stay. Repeated: nil.
	DropExtents(ctx context.Context, content ContentID, extents []Position) error

	// DropContent forgets a garbage content that has no extents left.
	// ErrExists while it has some. Repeated: nil.
	DropContent(ctx context.Context, content ContentID) error

	// Unreferenced gives those of the keys that no extent has, neither of a
	// live content nor of a garbage one. At most 1,000 keys a call.
	Unreferenced(ctx context.Context, keys []string) ([]string, error)

	// Purge ends what has run out: idle uploads are aborted; expired blobs,
	// ended uploads, expired sessions and idempotency keys past their memory
	// are removed. It handles at most about limit rows of each kind and returns
	// how many it did; 0 means there is no more to do now.
	Purge(ctx context.Context, limit int) (int, error)
}

// Facts are what the instance knows of itself.
type Facts interface {
	// Fact gives a stored fact, or ErrNotFound.
	Fact(ctx context.Context, name string) (string, error)

	// SetFact stores a fact that is not there yet. ErrExists otherwise.
	SetFact(ctx context.Context, name, value string) error

	// Empty reports whether nothing is stored but facts: no blob, upload,
	// session, channel or garbage.
	Empty(ctx context.Context) (bool, error)
}
