package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// postgresConn runs statements on a connection to PostgreSQL. pgx prepares and caches them.
type postgresConn struct {
	ctx    context.Context // of all statements: the engine's, not a caller's
	conn   *pgx.Conn
	writes bool      // it is in a write transaction
	queued pgx.Batch // statements of change, which are sent together with the next other one
}

// maxQueued is the maximum number of queued statements.
const maxQueued = 32

// change implements runner. It queues the statement, so that it costs no round trip of its own.
func (c *postgresConn) change(query string, in Args) error {
	c.queued.Queue(query, in...)
	if c.queued.Len() < maxQueued {
		return nil
	}
	return c.flush()
}

// flush sends the queued statements and waits for their results.
func (c *postgresConn) flush() error {
	if c.queued.Len() == 0 {
		return nil
	}
	results, err := c.sendQueued()
	if err != nil {
		return err
	}
	return results.Close()
}

// sendQueued sends the queued statements and then last. The caller must read the last one's result.
func (c *postgresConn) sendQueued(last ...*pgx.QueuedQuery) (pgx.BatchResults, error) {
	batch := c.queued
	c.queued = pgx.Batch{}
	results := c.conn.SendBatch(c.ctx, &batch)
	for range batch.Len() - len(last) {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // it returns the same error
			return nil, err
		}
	}
	return results, nil
}

// exec implements runner.
func (c *postgresConn) exec(query string, in Args) (int64, error) {
	if c.queued.Len() == 0 {
		tag, err := c.conn.Exec(c.ctx, query, in...)
		return tag.RowsAffected(), err
	}
	results, err := c.sendQueued(c.queued.Queue(query, in...))
	if err != nil {
		return 0, err
	}
	tag, err := results.Exec()
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	return tag.RowsAffected(), err
}

// query implements runner.
func (c *postgresConn) query(query string, in Args) (cursor, error) {
	if c.queued.Len() == 0 {
		rows, err := c.conn.Query(c.ctx, query, in...)
		if err != nil {
			return nil, err
		}
		return postgresRows{rows, nil}, nil
	}
	results, err := c.sendQueued(c.queued.Queue(query, in...))
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // it returns the same error
		return nil, err
	}
	return postgresRows{rows, results}, nil
}

// forUpdate implements runner.
func (c *postgresConn) forUpdate() string {
	if !c.writes {
		return ""
	}
	return " FOR UPDATE"
}

// lock implements runner with an advisory lock; its key is the name's hash.
func (c *postgresConn) lock(kind string, name []string) error {
	h := sha256.New()
	for _, s := range append([]string{kind}, name...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) // separates the strings
		h.Write([]byte(s))
	}
	return c.change(`SELECT pg_advisory_xact_lock($1)`, Args{int64(binary.BigEndian.Uint64(h.Sum(nil)))})
}

// begin begins a transaction and runs its first query, which returns one row, in one round trip.
func (c *postgresConn) begin(statement, first string, in Args, out ...any) error {
	if err := c.change(statement, nil); err != nil {
		return err
	}
	rows, err := c.query(first, in)
	if err != nil {
		return err
	}
	_, err = rows.next(out)
	return cmp.Or(err, rows.close())
}

// send runs statements without parameters in one round trip.
func (c *postgresConn) send(text string) ([]*pgconn.Result, error) {
	return c.conn.PgConn().Exec(c.ctx, text).ReadAll()
}

// script runs a migration.
func (c *postgresConn) script(text string) error {
	_, err := c.send(text)
	return err
}

// nodes implements migrator.
func (c *postgresConn) nodes() (n int64, err error) {
	_, err = (&Tx{conn: c}).Row(`SELECT COUNT(*) FROM nodes WHERE expires > `+postgresMicros, nil, (*Integer)(&n))
	return n, err
}

// rollback rolls the transaction back. If that fails, the pool closes the connection, which
// ends the transaction as well.
func (c *postgresConn) rollback() { _, _ = c.send("ROLLBACK") }

// classify implements runner. An error after which the connection is closed is a lost connection,
// for example because the server did not respond to a request to cancel.
func (c *postgresConn) classify(err error) errorClass {
	if f := classifyPostgres(err); f != classOther {
		return f
	}
	if c.conn.IsClosed() {
		return classLost
	}
	return classOther
}

// embedded implements runner.
func (c *postgresConn) embedded() bool { return false }

// postgresRows is a query's open result.
type postgresRows struct {
	rows  pgx.Rows
	batch pgx.BatchResults // that the rows are the last of; nil: none
}

func (r postgresRows) next(out Args) (bool, error) {
	if !r.rows.Next() {
		return false, r.rows.Err()
	}
	fields := r.rows.FieldDescriptions()
	for i, raw := range r.rows.RawValues() {
		if err := scanPostgres(out[i], fields[i].DataTypeOID, raw); err != nil {
			return false, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return true, nil
}

func (r postgresRows) close() error {
	r.rows.Close()
	err := r.rows.Err()
	if r.batch != nil {
		err = cmp.Or(err, r.batch.Close())
	}
	return err
}

// scanPostgres stores a column, an integer of any size or bytes. pgx requests both in the
// binary format.
func scanPostgres(out any, oid uint32, raw []byte) error {
	switch {
	case raw == nil:
		return scan(out, nil)
	case oid == pgtype.ByteaOID:
		return scanBytes(out, raw)
	case oid == pgtype.Int8OID && len(raw) == 8:
		return scanInteger(out, int64(binary.BigEndian.Uint64(raw)))
	case oid == pgtype.Int4OID && len(raw) == 4:
		return scanInteger(out, int64(int32(binary.BigEndian.Uint32(raw))))
	}
	return fmt.Errorf("no value of type %d in %d bytes", oid, len(raw))
}

// tooManyConnections is the error code from a server that refuses a connection because it has
// max_connections, or as many as the user or the database may have.
const tooManyConnections = "53300"

// classifyPostgres returns the class of a PostgreSQL error code.
func classifyPostgres(err error) errorClass {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return classOther
	}
	switch e.Code {
	case "40001", "40P01", // serialization failure, deadlock
		"57P05", "25P03", // idle session timeout, idle in transaction timeout
		"57014", "55P03": // cancelled, by the store's timeout or by an operator; lock timeout
		return classBusy
	case "23505": // unique violation
		return classUnique
	case "53100": // disk full
		return classFull
	case "57P01", "57P02", "57P03", // the server is stopping, crashed or is starting
		tooManyConnections,
		"25006": // read-only transaction: the server became a standby
		return classLost
	}
	if strings.HasPrefix(e.Code, "08") { // connection exception
		return classLost
	}
	return classOther
}
