package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"sluice/metastore"
)

// fault is what an engine's error means.
type errorClass int

const (
	classOther   errorClass = iota
	classBusy               // another transaction is in the way: try again
	classFull               // no space left
	classIO                 // reading, writing or syncing failed
	classCorrupt            // the database is damaged
	classUnique             // a key exists already
	classLost               // the engine cannot be reached (any more): try again
)

// args are the parameters of a query, each an int64, a []byte that is not nil,
// or nil; or the places for the columns of its rows.
type args = []any

// runner runs statements on a connection, one at a time: a cursor is closed
// before the next statement.
type runner interface {
	// exec runs a statement and tells how many rows it changed.
	exec(query string, in args) (int64, error)
	query(query string, in args) (cursor, error)
	classify(err error) errorClass
}

// cursor is the open result of a query.
type cursor interface {
	// next scans the next row; false at the end.
	next(out args) (bool, error)
	close() error
}

// tx is what a verb works on: a connection within a transaction. It remembers
// what its runner must know: whether anything was changed, and whether the
// engine failed, after which the transaction may be gone.
//
// Statements run under no caller's context. Some engines undo the whole
// transaction when a context ends in a statement, and every statement here is
// short.
type tx struct {
	conn    runner
	now     time.Time // to the microsecond, UTC
	locking string    // what locks the row that a query finds; empty where no others write meanwhile
	changed bool
	failed  error // the first error of the engine
}

// exec runs a statement and tells how many rows it changed.
func (t *tx) exec(query string, in ...any) (int64, error) {
	n, err := t.conn.exec(query, in)
	if err != nil {
		return 0, t.fail(err)
	}
	if n > 0 {
		t.changed = true
	}
	return n, nil
}

// row scans the only row of a query into out; false when there is none.
func (t *tx) row(query string, in args, out ...any) (bool, error) {
	rows, err := t.open(query, in)
	if err != nil {
		return false, err
	}
	found, err := rows.next(out)
	if cerr := rows.close(); err == nil {
		err = cerr
	}
	return found, err
}

// each scans the rows of a query into out, one after the other, and calls fn
// after each, until fn returns false or an error.
func (t *tx) each(query string, in, out args, fn func() (bool, error)) error {
	rows, err := t.open(query, in)
	if err != nil {
		return err
	}
	for more := true; more; {
		if more, err = rows.next(out); err == nil && more {
			more, err = fn()
		}
		if err != nil {
			return errors.Join(err, rows.close())
		}
	}
	return rows.close()
}

// rows is an open result within a transaction.
type rows struct {
	tx     *tx
	cursor cursor
}

func (t *tx) open(query string, in args) (rows, error) {
	r, err := t.conn.query(query, in)
	if err != nil {
		return rows{}, t.fail(err)
	}
	return rows{tx: t, cursor: r}, nil
}

// next scans the next row into out; false at the end.
func (r rows) next(out args) (bool, error) {
	ok, err := r.cursor.next(out)
	if err != nil {
		return false, r.tx.fail(err)
	}
	return ok, nil
}

func (r rows) close() error {
	if err := r.cursor.close(); err != nil {
		return r.tx.fail(err)
	}
	return nil
}

// lock keeps every other transaction that locks the same thing waiting until
// this one has ended. It is for what has no row yet that could be locked.
func (t *tx) lock(kind string, name ...string) error {
	if t.locking == "" {
		return nil
	}
	h := sha256.New()
	for _, s := range append([]string{kind}, name...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) // keeps them apart
		h.Write([]byte(s))
	}
	var one integer
	_, err := t.row(postgresLock, args{int64(binary.BigEndian.Uint64(h.Sum(nil)))}, &one)
	return err
}

// fail notes an error of the engine and translates it.
func (t *tx) fail(err error) error {
	if t.failed == nil {
		t.failed = err
	}
	return translate(t.conn.classify(err), err)
}

// translate gives an engine's error its meaning in the contract.
func translate(f errorClass, err error) error {
	switch f {
	case classFull:
		return fmt.Errorf("sqlstore: %w: %w", metastore.ErrNoSpace, err)
	case classUnique:
		return fmt.Errorf("sqlstore: %w: %w", metastore.ErrExists, err)
	case classLost:
		return fmt.Errorf("sqlstore: %w: %w", metastore.ErrUnavailable, err)
	default:
		return fmt.Errorf("sqlstore: %w", err)
	}
}
