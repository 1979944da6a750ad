// Package places is the contract for the settings of places: who may read and list the blobs in an
// account or below a prefix, and which ones are blocked. Package database has the rules about
// transactions, waiting and time. Package sqlstore implements it; package placestest is the
// conformance suite that an implementation must pass. Package access applies the settings.
package places

import (
	"context"
	"errors"
	"time"

	"sluice/access/actions"
)

// Most is the greatest number of places that an instance has: every node keeps all in memory.
const Most = 100_000

// ErrTooMany means that there are Most places.
var ErrTooMany = errors.New("places: there are too many places with settings")

// Place is where settings apply: an account's blobs with names that begin with Name, or if it is
// Exact the blob of this name. The store does not interpret Account, Name and the settings, which
// are stored as bytes.
type Place struct {
	Account string
	Name    string // a prefix, in bytes; "": all blobs in the account
	Exact   bool
}

// Settings are a place's settings. The zero value has none.
type Settings struct {
	Reads   string // who may read; "": as without this place
	Lists   string // who may list; "": as without this place
	MayOpen bool   // the operator lets the account open itself beyond the instance's reads
	Guard   Guard  // an account's protection from being opened beyond the instance's reads
	Blocked *Block // nil: it is not blocked
}

// Guard is a set of protections, as in S3's public access block. The store does not interpret it.
type Guard int64

// The protections.
const (
	RefuseLists    Guard = 1 << iota // access lists that open the account are refused
	IgnoreLists                      // nothing that opens the account has an effect
	RefusePolicies                   // all other settings that open the account are refused
	IgnorePolicies                   // as IgnoreLists
)

// Block is the operator's reason for refusing all reads.
type Block struct {
	Reason string
	By     string    // the key's id, or "" for the operator at the database
	Since  time.Time // set by the store when Blocked was nil before
}

// Set reports whether there are any settings.
func (s Settings) Set() bool { return s != Settings{} }

// Same reports whether settings are equal, except when a block began.
func (s Settings) Same(other Settings) bool {
	a, b := s.Blocked, other.Blocked
	s.Blocked, other.Blocked = nil, nil
	return s == other && (a == nil) == (b == nil) && (a == nil || a.Reason == b.Reason && a.By == b.By)
}

// Row is a place with its settings.
type Row struct {
	Place
	Settings

	Mark int64 // a random number that each change sets anew; not 0
}

// Version identifies a state of all places. It is zero if there never was one. Sum is the exclusive
// or of all rows' marks, so that states in different histories have different versions, even if the
// database was set back.
type Version struct{ Number, Sum int64 }

// Changes are the changes between two versions.
type Changes struct {
	Version Version // the later one
	Whole   bool    // Rows are all places with settings, and every other place has none
	Rows    []Row   // those that have changed, also places that have no settings any more
}

// Store stores the settings of places.
type Store interface {
	// ChangePlaces changes places of an account and returns them as stored. Within the transaction,
	// possibly several times, it calls change with the whole account's settings and those at some
	// places, or if some is nil at all; where there are none, they may be absent. change changes
	// the map, so that no concurrent change is lost, and must have no other effect. With an error
	// of change nothing is changed, and ChangePlaces returns it. If anything changes, it records
	// the act that change returns, which may be nil. It returns ErrTooMany if there would be more
	// than Most places, or actions.ErrTooMany.
	ChangePlaces(ctx context.Context, account string, some []Place, change func(of map[Place]Settings) (*actions.Act, error)) (map[Place]Settings, error)

	// ListPlaces returns up to limit places with settings, sorted by account, name and Exact (false
	// first), starting behind after; in one account only, unless account is empty.
	ListPlaces(ctx context.Context, account string, after Place, limit int) ([]Row, error)

	// PlaceChanges returns the changes since a version. They are whole if the store does not know
	// what has changed.
	PlaceChanges(ctx context.Context, since Version) (Changes, error)
}
