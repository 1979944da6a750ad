package sqlstore

import (
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
	ctx    context.Context // of all statements; it is that of the engine, not of a caller
	conn   *pgx.Conn
	writes bool // it is in a write transaction
}

func (c *postgresConn) exec(query string, in args) (int64, error) {
	tag, err := c.conn.Exec(c.ctx, query, in...)
	return tag.RowsAffected(), err
}

func (c *postgresConn) query(query string, in args) (cursor, error) {
	rows, err := c.conn.Query(c.ctx, query, in...)
	if err != nil {
		return nil, err
	}
	return postgresRows{rows}, nil
}

// forUpdate implements runner.
func (c *postgresConn) forUpdate() string {
	if !c.writes {
		return ""
	}
	return " FOR UPDATE"
}

// lock implements runner with an advisory lock, whose key is a hash of the name.
func (c *postgresConn) lock(kind string, name []string) error {
	h := sha256.New()
	for _, s := range append([]string{kind}, name...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) // separates the strings
		h.Write([]byte(s))
	}
	_, err := c.exec(`SELECT pg_advisory_xact_lock($1)`, args{int64(binary.BigEndian.Uint64(h.Sum(nil)))})
	return err
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

// rollback rolls the transaction back. If that fails, the pool closes the connection, which
// ends the transaction as well.
func (c *postgresConn) rollback() { _, _ = c.send("ROLLBACK") }

// classify implements runner. An error on a connection that is closed afterwards is a lost
// connection, for example to a server that did not respond to a request to cancel.
func (c *postgresConn) classify(err error) errorClass {
	if f := classifyPostgres(err); f != classOther {
		return f
	}
	if c.conn.IsClosed() {
		return classLost
	}
	return classOther
}

// postgresRows is the open result of a query.
type postgresRows struct{ rows pgx.Rows }

func (r postgresRows) next(out args) (bool, error) {
	if !r.rows.Next() {
		return false, r.rows.Err()
	}
	fields := r.rows.FieldDescriptions()
	for i, raw := range r.rows.RawValues() {
		v, err := postgresValue(fields[i].DataTypeOID, raw)
		if err == nil {
			err = scan(out[i], v)
		}
		if err != nil {
			return false, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return true, nil
}

func (r postgresRows) close() error {
	r.rows.Close()
	return r.rows.Err()
}

// postgresValue decodes a column, an integer of any size or bytes. pgx requests both in
// the binary format.
func postgresValue(oid uint32, raw []byte) (any, error) {
	if raw == nil {
		return nil, nil
	}
	switch {
	case oid == pgtype.ByteaOID:
		return raw, nil
	case oid == pgtype.Int8OID && len(raw) == 8:
		return int64(binary.BigEndian.Uint64(raw)), nil
	case oid == pgtype.Int4OID && len(raw) == 4:
		return int64(int32(binary.BigEndian.Uint32(raw))), nil
	}
	return nil, fmt.Errorf("no value of type %d in %d bytes", oid, len(raw))
}

// classifyPostgres returns the class of an error code of PostgreSQL.
func classifyPostgres(err error) errorClass {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return classOther
	}
	switch e.Code {
	case "40001", "40P01", // serialization failure, deadlock
		"57P05", "25P03", // idle session timeout, idle in transaction timeout
		"57014", "55P03": // cancelled, by a timeout of the store or by an operator; lock timeout
		return classBusy
	case "23505": // unique violation
		return classUnique
	case "53100": // disk full
		return classFull
	case "57P01", "57P02", "57P03", // the server is stopping, crashed or is starting
		"53300", // too many connections
		"25006": // read-only transaction: the server became a standby
		return classLost
	}
	if strings.HasPrefix(e.Code, "08") { // connection exception
		return classLost
	}
	return classOther
}
