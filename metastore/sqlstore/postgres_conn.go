package sqlstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// postgresConn runs statements on a connection to PostgreSQL; pgx keeps them
// prepared. ctx bounds them all: it is the engine's own, never a caller's.
type postgresConn struct {
	ctx  context.Context
	conn *pgx.Conn
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

// send runs statements without parameters in one round trip.
func (c *postgresConn) send(text string) ([]*pgconn.Result, error) {
	return c.conn.PgConn().Exec(c.ctx, text).ReadAll()
}

// script runs a migration.
func (c *postgresConn) script(text string) error {
	_, err := c.send(text)
	return err
}

// leave ends the transaction. When that fails the connection is still in it, and
// is closed on its way back to the pool, which ends it too.
func (c *postgresConn) leave() { _, _ = c.send("ROLLBACK") }

// faultOf knows a lost connection by its being closed: also that to a server that
// did not answer when it was told to cancel a statement.
func (c *postgresConn) classify(err error) errorClass {
	if f := classifyPostgres(err); f != classOther {
		return f
	}
	if c.conn.IsClosed() {
		return classLost
	}
	return classOther
}

// postgresRows is an open result.
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

// postgresValue decodes a column: an integer of whatever size, or bytes. pgx
// asks for both in binary.
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

// postgresFault gives PostgreSQL's error codes their meaning.
func classifyPostgres(err error) errorClass {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return classOther
	}
	switch e.Code {
	case "40001", "40P01", // serialization failure, deadlock
		"57P05", "25P03", // the session, or its transaction, was idle for too long
		"57014", "55P03": // cancelled, by us for having waited too long or by an operator; a lock timeout
		return classBusy
	case "23505": // unique violation
		return classUnique
	case "53100": // disk full
		return classFull
	case "57P01", "57P02", "57P03", // the server stops, crashed, or starts
		"53300", // too many connections
		"25006": // it became a replica
		return classLost
	}
	if strings.HasPrefix(e.Code, "08") { // connection exception
		return classLost
	}
	return classOther
}
