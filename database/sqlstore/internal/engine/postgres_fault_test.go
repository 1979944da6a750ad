package engine

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/database"
	"sluice/database/sqlstore/internal/pgproxy"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// TestPostgresUnknownOutcome: a COMMIT's outcome is unknown only while the server cannot be
// reached.
// Invariant 61.
func TestPostgresUnknownOutcome(t *testing.T) {
	t.Parallel()
	var p *pgproxy.Proxy
	p = pgproxy.New(t, testenv.Postgres(t), func() fault.Kind {
		p.Refuse.Store(true)
		return fault.Lose
	})
	s, _ := openNode(t, p.DSN)
	short := func() context.Context { return database.WithPatience(t.Context(), 300*time.Millisecond) }
	// It wraps pgx's error for a connection that was closed properly. Callers must not mistake that
	// error for the end of a request's body. Some calls lose patience during an attempt: their
	// error is a deadline.
	for closed := false; !closed; {
		p.Refuse.Store(false)
		err := s.setFact(short(), "name", "value")
		if !p.Refuse.Load() {
			continue // the patience ended before the COMMIT
		}
		testenv.Is(t, err, database.ErrUnknownOutcome, "a COMMIT without a response, while the server cannot be reached")
		closed = errors.Is(err, io.ErrUnexpectedEOF)
	}
	testenv.Is(t, s.setFact(short(), "other", "value"), database.ErrUnavailable, "a write without a server")
	testenv.Is(t, testenv.Error(s.fact(short(), "name")), database.ErrUnavailable, "a read without a server")
	testenv.Is(t, s.Err(), database.ErrUnavailable, "Err without a server")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testenv.Is(t, s.setFact(ctx, "other", "value"), context.Canceled, "a cancelled write without a server")
	p.Refuse.Store(false)
	testenv.Equal(t, testenv.Must(s.fact(t.Context(), "name"))(t), "value", "the fact")
	testenv.Is(t, s.Err(), nil, "Err while the server is reachable")
}

// TestPostgresDetectsItsServer: a store without calls detects that its server is back.
func TestPostgresDetectsItsServer(t *testing.T) {
	p := pgproxy.New(t, testenv.Postgres(t), func() fault.Kind { return fault.None })
	s, node := openNode(t, p.DSN)
	p.Refuse.Store(true)
	p.CutAll()
	for s.Err() == nil {
		if _, err := s.fact(database.WithPatience(t.Context(), 10*time.Millisecond), "name"); err == nil {
			t.Fatal("a read without a server succeeded")
		}
	}
	p.Refuse.Store(false)
	node.probe(t.Context())
	testenv.Is(t, s.Err(), nil, "Err while the server is reachable")
}

// TestPostgresTooManyConnections: when the server refuses further connections, a store keeps the
// ones that it has, and its calls wait for them.
func TestPostgresTooManyConnections(t *testing.T) {
	server := testenv.StartPostgres(t)
	testenv.OK(t, errors.Join(server.StopFast(), server.Start("max_connections=10")))
	s, node := openNode(t, server.DSN())
	held := testenv.Must(node.acquire(t.Context(), time.Now().Add(database.Patience)))(t)
	for { // until the server has no connection left
		other, err := pgx.Connect(t.Context(), server.DSN())
		if err != nil {
			if f := classifyPostgres(err); f != classLost {
				t.Errorf("the refusal of a connection has the class %d: %v", f, err)
			}
			break
		}
		t.Cleanup(func() {
			testenv.Check(t, other.Close(context.Background()))
		})
	}
	read := make(chan error, 1)
	go func() {
		_, err := s.fact(t.Context(), "name")
		read <- err
	}()
	for node.conflictRetries.Load()+node.lostRetries.Load() == 0 { // until a connection was refused
		runtime.Gosched()
	}
	testenv.Is(t, s.Err(), nil, "Err while the server serves a connection of the store")
	kept := held.conn.PgConn().PID()
	held.release()
	testenv.Is(t, <-read, database.ErrNotFound, "a read that waited for the only connection")
	var pid Integer
	err := node.Read(t.Context(), func(t *Tx) error {
		_, err := t.Row(`SELECT pg_backend_pid()`, nil, &pid)
		return err
	})
	if err != nil || uint32(pid) != kept {
		t.Errorf("the connection %d became %d: %v", kept, pid, err)
	}
}
