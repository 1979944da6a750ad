package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/database"
)

// Args are a query's parameters, each an int64, a []byte that is not nil, or nil; or the
// destinations of its rows' columns.
type Args = []any

// runner runs statements on a connection, one at a time: a cursor must be closed before the
// next statement.
type runner interface {
	// exec runs a statement and returns the number of rows that it changed.
	exec(query string, in Args) (int64, error)
	// change runs a statement for its effect only, before the next one and before the commit. Its
	// error may be returned by either of them instead. in must not be changed until then.
	change(query string, in Args) error
	query(query string, in Args) (cursor, error)
	// forUpdate returns the clause by which a query locks the rows that it returns until the
	// transaction ends. It is empty where there are no concurrent writers.
	forUpdate() string
	// lock waits until no other transaction holds the lock of this name, before the next statement
	// runs at the latest, and holds it until the transaction ends. It does nothing where there are
	// no concurrent writers.
	lock(kind string, name []string) error
	classify(err error) errorClass
	// embedded reports whether the engine runs in this process, so that a statement costs no round
	// trip.
	embedded() bool
}

// cursor is a query's open result.
type cursor interface {
	// next scans the next row into out. It returns false at the end.
	next(out Args) (bool, error)
	close() error
}

// Tx is a transaction on a connection. It records whether anything was changed and whether
// the engine failed, after which the transaction may have ended.
//
// Statements do not run under a caller's context: some engines roll the whole transaction back if a
// context ends during a statement, and every statement is short.
type Tx struct {
	conn    runner
	lockLag time.Duration
	Now     time.Time // to the microsecond, in UTC
	inDoubt bool      // Now may be wrong
	Changed bool
	Free    bool       // it does not change the instance, so that its commit needs no permission
	failed  error      // the engine's first error
	touched []RowKey   // changed rows that a RowWatcher may keep
	changes *ChangeRun // that the commit stores; nil in a transaction that only reads
}

// guarded reports whether the transaction's commit needs DB.Guard's permission.
func (t *Tx) guarded() bool { return t.Changed && !t.Free }

// Forgotten returns the latest end of a thing that is forgotten now after it was kept for
// retention. While the time is in doubt, that is before everything: nothing is forgotten.
func (t *Tx) Forgotten(retention time.Duration) time.Time {
	if t.inDoubt {
		return time.Time{}
	}
	return t.Now.Add(-retention)
}

// LockLag returns by how much the clock of locks, see metastore.Lock, is behind Now.
func (t *Tx) LockLag() time.Duration { return t.lockLag }

// Touch records that a row changes that a RowWatcher is told about. It must be called by every
// statement that does that.
func (t *Tx) Touch(k RowKey) { t.touched = append(t.touched, k) }

// TouchAll records that any row may change, so that a RowWatcher forgets all rows.
func (t *Tx) TouchAll() { t.Touch(EveryRow) }

// Exec runs a statement and returns the number of rows that it changed.
func (t *Tx) Exec(query string, in ...any) (int64, error) {
	n, err := t.conn.exec(query, in)
	if err != nil {
		return 0, t.fail(err)
	}
	if n > 0 {
		t.Changed = true
	}
	return n, nil
}

// Change runs a statement for its effect only, not for the number of rows. Its error may be
// returned by a later statement or by the transaction instead. Memory to which in refers must not
// be changed until the transaction ends.
func (t *Tx) Change(query string, in ...any) error {
	t.Changed = true
	if err := t.conn.change(query, in); err != nil {
		return t.fail(err)
	}
	return nil
}

// Row scans a query's only row into out. It returns false if there is none.
func (t *Tx) Row(query string, in Args, out ...any) (bool, error) {
	rows, err := t.Open(query, in)
	if err != nil {
		return false, err
	}
	found, err := rows.Next(out)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return found, err
}

// Each scans a query's rows into out and calls fn after each, until fn returns an error.
func (t *Tx) Each(query string, in, out Args, fn func() error) error {
	rows, err := t.Open(query, in)
	if err != nil {
		return err
	}
	for {
		more, err := rows.Next(out)
		if err == nil && !more {
			return rows.Close()
		}
		if err == nil {
			err = fn()
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
	}
}

// Collect returns the values that row has after each of a query's rows is scanned into out, the
// destinations in row.
func Collect[T any](t *Tx, query string, in, out Args, row *T) ([]T, error) {
	var list []T
	err := t.Each(query, in, out, func() error {
		list = append(list, *row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Rows is a query's open result in a transaction.
type Rows struct {
	tx     *Tx
	cursor cursor
}

// Open begins a query. Its result must be closed before the next statement.
func (t *Tx) Open(query string, in Args) (Rows, error) {
	r, err := t.conn.query(query, in)
	if err != nil {
		return Rows{}, t.fail(err)
	}
	return Rows{tx: t, cursor: r}, nil
}

// Next scans the next row into out. It returns false at the end.
func (r Rows) Next(out Args) (bool, error) {
	ok, err := r.cursor.next(out)
	if err != nil {
		return false, r.tx.fail(err)
	}
	return ok, nil
}

// Close ends the query.
func (r Rows) Close() error {
	if err := r.cursor.close(); err != nil {
		return r.tx.fail(err)
	}
	return nil
}

// HasFailed reports whether the engine failed, after which the transaction may have ended.
func (t *Tx) HasFailed() bool { return t.failed != nil }

// Embedded reports whether the engine runs in this process, so that a statement costs no round
// trip.
func (t *Tx) Embedded() bool { return t.conn.embedded() }

// ForUpdate returns the clause by which a query locks the rows that it returns.
func (t *Tx) ForUpdate() string { return t.conn.forUpdate() }

// Lock makes every other transaction that locks the same name wait until this one has
// ended. It is for rows that may not exist yet. The lock is held when the next statement runs.
func (t *Tx) Lock(kind string, name ...string) error {
	if t.Embedded() {
		return nil // there is one writer at a time
	}
	if err := t.conn.lock(kind, slices.Clone(name)); err != nil { // else each call would allocate name
		return t.fail(err)
	}
	return nil
}

// Missing returns the error for an id that is not in the database: database.ErrNotFound, or
// database.ErrLost if the id was made in an earlier generation. kind names the things with such
// ids.
func (t *Tx) Missing(kind, id string) error {
	var generation int64
	if _, err := t.Row(`SELECT generation FROM history`, nil, (*Integer)(&generation)); err != nil {
		return err
	}
	if database.GenerationOf(id) < generation {
		return fmt.Errorf("%s: %w", kind, database.ErrLost)
	}
	return fmt.Errorf("%s: %w", kind, database.ErrNotFound)
}

// fail records the engine's error and translates it.
func (t *Tx) fail(err error) error {
	if t.failed == nil {
		t.failed = err
	}
	return translate(t.conn.classify(err), err)
}

// RowsPerStatement is the number of rows that a statement inserts or deletes, because each
// statement is a round trip.
const RowsPerStatement = 100

// Parameters returns a list of n parameters, such as "$5, $6".
func Parameters(first, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(list, ", ")
}
