package database

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrSetBack means that the database, or the bytes, lack changes that they have acknowledged: they
// were restored from an older state, or replaced by a server that did not have everything. Nothing
// is changed until an operator has begun a new generation.
var ErrSetBack = errors.New("the instance was set back: it lacks changes that it has acknowledged")

// ErrLost means that there is no session, upload or channel with an id that was made in an earlier
// generation: it may have been lost when the instance was set back. It wraps ErrNotFound.
var ErrLost = fmt.Errorf("database: it may have been lost when the instance was set back: %w", ErrNotFound)

// NewID returns a new id, which cannot be guessed and carries its generation.
func NewID(generation int64) string {
	if generation == 1 {
		return rand.Text()
	}
	return rand.Text() + "-" + strconv.FormatInt(generation, 10)
}

// GenerationOf returns the generation in which NewID made an id. It returns 1 for other texts.
func GenerationOf(id string) int64 {
	_, digits, _ := strings.Cut(id, "-")
	generation, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || generation < 1 {
		return 1
	}
	return generation
}

// Record is a link of the chain that shows which database may change an instance, and whether one
// of its parts was set back. It is a transaction of its own, so that a database that was set back
// to before it lacks it, and an object beside the bytes.
type Record struct {
	Number int64  // from 1, without gaps in a generation
	Owner  string // of OwnerLen characters of [a-z0-9]; the databases that share it have parted since
	Nonce  string // as long; different in databases that have parted
}

// OwnerLen is the length of a record's owner, and of its nonce.
const OwnerLen = 16

// RecordsRetained is how many records a database retains: the newest.
const RecordsRetained = 1000

// MaxSetbackLines is how many lines RecordSetback records.
const MaxSetbackLines = 100

// KeptObjects are the objects that were made before a time, until another time: when the instance
// was set back, the database may have lost the rows that referred to them. It is zero if none are
// kept.
type KeptObjects struct{ MadeBefore, Until time.Time }

// HistoryState is the history as a database knows it.
type HistoryState struct {
	// Generation is 1 in a new database, and greater after each recovery.
	Generation int64
	// SetBack describes, in a line for each node that has seen it, how it was seen that the
	// instance was set back. It is empty if it was not. The next generation begins with an empty
	// one.
	SetBack string
	// Kept are the objects that are kept though nothing refers to them.
	Kept KeptObjects
	// Newest is the newest record, and Outside the newest one that is known to be beside the bytes
	// in this generation; zero if there is none.
	Newest, Outside Record
}

// History stores the chain of records.
type History interface {
	// History returns the state.
	History(ctx context.Context) (HistoryState, error)

	// AddRecord adds the record that follows another, which must be Newest and Outside, or zero if
	// there is none. An empty owner is a new one. It returns ErrNotFound if the database has
	// another generation or another newest record, or was found to be set back.
	AddRecord(ctx context.Context, generation int64, after Record, owner string) (Record, error)

	// RecordOutside records that a record is beside the bytes. If the database lacks the record, or
	// has another generation, it has no effect.
	RecordOutside(ctx context.Context, generation int64, r Record) error

	// LackedRecords returns those among the records that the database lacks. One that is older than
	// all retained ones does not count as lacked.
	LackedRecords(ctx context.Context, records []Record) ([]Record, error)

	// RecordSetback records that the instance was found to be set back in a generation, and how, in
	// one line. If this line is recorded, if MaxSetbackLines are, or if the database has another
	// generation, it has no effect.
	RecordSetback(ctx context.Context, generation int64, how string) error

	// BeginGeneration replaces a generation by a later one, which begins without a setback, and in
	// which objects are kept. No record is Outside then. It pauses the tasks task.Waiting for the
	// reason; see Tasks. If number is not 0, it adds the record with that number, which must be
	// greater than all, and a new owner. It returns ErrNotFound if the database has another
	// generation than old.
	BeginGeneration(ctx context.Context, old, next, number int64, kept KeptObjects, reason string) error

	// ReleaseObjects makes Kept zero.
	ReleaseObjects(ctx context.Context) error

	// LostCommits returns an ErrSetBack if this handle has found, when it connected to the engine
	// again, that the engine lacks a transaction that it had acknowledged to this handle.
	// Otherwise, and for an embedded engine, it returns nil.
	LostCommits() error

	// ForgetCommits makes LostCommits return nil for commits that were acknowledged until now. It
	// is called when another generation has begun.
	ForgetCommits()
}
