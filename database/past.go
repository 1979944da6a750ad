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

// Mark identifies a committed transaction that exists for this purpose. A database that was set
// back to before it lacks it.
type Mark struct {
	Sequence int64  // from 1; a later mark of the same database has a greater one
	Nonce    string // MarkNonceLen characters of [a-z0-9]; different in databases that part
}

// MarkNonceLen is the length of a mark's nonce.
const MarkNonceLen = 16

// MarksRetained is how many marks a database retains: the newest.
const MarksRetained = 1000

// MaxSetbackLines is how many lines RecordSetback records.
const MaxSetbackLines = 100

// KeptObjects are the objects that were made before a time, until another time: when the instance
// was set back, the database may have lost the rows that referred to them. It is zero if none are
// kept.
type KeptObjects struct{ MadeBefore, Until time.Time }

// PastState is a database's record of its past.
type PastState struct {
	// Generation is 1 in a new database, and greater after each recovery.
	Generation int64
	// SetBack describes, in a line for each node that has seen it, how it was seen that the
	// instance was set back. It is empty if it was not. The next generation begins with an empty
	// one.
	SetBack string
	// Kept are the objects that are kept though nothing refers to them.
	Kept KeptObjects
	// Newest is the newest mark, and Outside the newest one that is known to be recorded outside
	// the database in this generation; zero if there is none.
	Newest, Outside Mark
}

// Past stores the records that show that a database was set back.
type Past interface {
	// Past returns the state.
	Past(ctx context.Context) (PastState, error)

	// AddMark adds a mark to a generation and returns it. It returns ErrNotFound if the database
	// has another generation, or was found to be set back.
	AddMark(ctx context.Context, generation int64) (Mark, error)

	// MarkOutside records that a mark is recorded outside the database. If the database lacks the
	// mark, or has another generation, it has no effect.
	MarkOutside(ctx context.Context, generation int64, m Mark) error

	// LackedMarks returns those among the marks that the database lacks. One that is older than all
	// retained ones does not count as lacked.
	LackedMarks(ctx context.Context, marks []Mark) ([]Mark, error)

	// RecordSetback records that the instance was found to be set back in a generation, and how, in
	// one line. If this line is recorded, if MaxSetbackLines are, or if the database has another
	// generation, it has no effect.
	RecordSetback(ctx context.Context, generation int64, how string) error

	// BeginGeneration replaces a generation by a later one, which begins without a setback, and in
	// which objects are kept. It returns ErrNotFound if the database has another generation than
	// old.
	BeginGeneration(ctx context.Context, old, next int64, kept KeptObjects) error

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
