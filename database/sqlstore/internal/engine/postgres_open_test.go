package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/database"
	"sluice/test/testenv"
)

// patientDSN is appended to a DSN if the test itself holds a transaction open.
const patientDSN = "&idle_in_transaction_session_timeout=0"

// sessionsOf counts a process's sessions (by application_name) for which the condition holds.
func sessionsOf(t *testing.T, conn *pgx.Conn, name, condition string) (n int) {
	t.Helper()
	testenv.OK(t, conn.QueryRow(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = $1 AND `+condition, name).Scan(&n))
	return n
}

// TestPostgresOpensWithOneConnection: the first server replaces none, so the connection to it stays
// in the pool.
func TestPostgresOpensWithOneConnection(t *testing.T) {
	_, p := openNode(t, testenv.Postgres(t))
	testenv.Equal(t, p.pool.Stat().NewConnsCount(), 1, "connections that opening made")
}

func TestPostgresRacingFirstOpens(t *testing.T) {
	testenv.Postgres(t)
	for range 3 {
		dsn := testenv.Postgres(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := openNodeDB(context.Background(), dsn+"&pool_max_conns=2", Options{})
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		s, _ := openNode(t, dsn)
		holds(t, s, int64(Schema()), `SELECT MAX(version) FROM schema_version`)
	}
}

// TestPostgresMigrationIsAwaited: while one node migrates a database, another that opens it waits
// until the migration ends, even longer than transactions wait for a lock.
// Invariant 90.
func TestPostgresMigrationIsAwaited(t *testing.T) {
	dsn := testenv.Postgres(t)
	migrating := connectTo(t, dsn)
	testenv.Must(migrating.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, int64(migrationLock)))(t)
	opened := make(chan error)
	go func() {
		s, err := openNodeDB(t.Context(), dsn+"&application_name=opening&lock_timeout=10", Options{})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	// By the server's time, so that a slow test does not end the wait early.
	for sessionsOf(t, migrating, "opening", "wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '100 ms'") == 0 {
		select {
		case err := <-opened:
			t.Fatalf("a node opened the database during a migration: %v", err)
		default:
		}
	}
	testenv.Must(migrating.Exec(t.Context(), `SELECT pg_advisory_unlock($1)`, int64(migrationLock)))(t)
	testenv.Check(t, <-opened)
}

// Invariant 109.
func TestPostgresExisting(t *testing.T) {
	dsn := testenv.Postgres(t)
	existing := Options{Schema: Keep}
	testenv.Is(t, testenv.Error(openNodeDB(t.Context(), dsn, existing)), database.ErrOlder, "an empty schema")
	s, _ := openNode(t, dsn)
	testenv.OK(t, s.setFact(t.Context(), "name", "value"))
	other := testenv.Must(openNodeDB(t.Context(), dsn, existing))(t)
	testenv.Equal(t, testenv.Must(other.fact(t.Context(), "name"))(t), "value", "the fact")
	testenv.Check(t, other.Close())
}

// TestPostgresMustBeDurable: a store refuses a server that could lose acknowledged writes in a
// crash, wherever that is configured.
// Invariant 81.
func TestPostgresMustBeDurable(t *testing.T) {
	server := testenv.StartPostgres(t)
	refused := func(dsn, why string) {
		t.Helper()
		s, err := openNodeDB(t.Context(), dsn, Options{})
		if err == nil {
			err = s.Close()
			t.Fatalf("opened a server with %s (closing: %v)", why, err)
		}
		if !errors.Is(err, errUnfit) || !strings.Contains(err.Error(), why) {
			t.Errorf("got error %v, want one that contains %q", err, why)
		}
	}
	refused(server.DSN()+"&synchronous_commit=off", "synchronous_commit is off")
	refused(server.DSN()+"&synchronous_commit=local", "synchronous_commit is local")

	s, _ := openNode(t, server.DSN()+"&pool_max_conns=2")
	for _, statement := range []string{"ALTER ROLE sluice SET synchronous_commit = off", "ALTER SYSTEM SET synchronous_commit = off", "SELECT 1 FROM pg_reload_conf()"} {
		testenv.OK(t, s.Read(t.Context(), func(t *Tx) error {
			_, err := t.Exec(statement)
			return err
		}))
	}
	refused(server.DSN(), "synchronous_commit is off")
	holds(t, s, 1, `SELECT CASE WHEN current_setting('synchronous_commit') = 'on' THEN 1 ELSE 0 END`)

	testenv.OK(t, errors.Join(server.Stop(), server.Start("fsync=off")))
	refused(server.DSN(), "fsync is off")
}

// TestPostgresUsesIndexes: queries over names use indexes.
func TestPostgresUsesIndexes(t *testing.T) {
	_, p := openNode(t, testenv.Postgres(t))
	for query, index := range map[string]string{
		`SELECT name_tail FROM blobs WHERE account = $1 AND name_head = $2 AND sha256(name_head) = sha256($2) AND length(name_head) = 2000 AND name_tail >= $1 ORDER BY name_tail LIMIT 10`: "blobs_long_names",
		`SELECT name_head FROM blobs WHERE account = $1 AND name_head >= $2 ORDER BY name_head, name_hash LIMIT 10`:                                                                         "blobs_pkey",
		`SELECT e.off FROM extents e WHERE e.content = $1 AND length($2) > 0 AND (e.part, e.off) > (1, 2) ORDER BY e.part, e.off LIMIT 10`:                                                  "extents_pkey",
		`SELECT created FROM uploads WHERE account = $1 AND state = 0 AND (created, id) > (5, $2) ORDER BY created, id LIMIT 10`:                                                            "uploads_open",
		`SELECT channel FROM settlements WHERE expires > 1 AND (expires, channel) > (2, $1) AND length($2) > 0 ORDER BY expires, channel LIMIT 10`:                                          "settlements_expires",
	} {
		rows := testenv.Must(p.pool.Query(t.Context(), "EXPLAIN "+query, []byte("a"), []byte("b")))(t)
		var plan []string
		for rows.Next() {
			plan = append(plan, string(rows.RawValues()[0]))
		}
		testenv.OK(t, rows.Err())
		if text := strings.Join(plan, "\n"); !strings.Contains(text, index) || (strings.Contains(text, "Sort") && !strings.Contains(text, "Incremental Sort")) {
			t.Errorf("%s does not use %s:\n%s", query, index, text)
		}
	}
}

func TestPostgresForgetsTransactions(t *testing.T) {
	s, p := openNode(t, testenv.Postgres(t))
	for _, name := range []string{"a", "b"} {
		testenv.OK(t, s.setFact(t.Context(), name, ""))
	}
	p.deleteIDs(t.Context(), time.Hour)
	holds(t, s, 2, `SELECT COUNT(*) FROM transactions`)
	p.deleteIDs(t.Context(), -time.Hour)
	holds(t, s, 1, `SELECT COUNT(*) FROM transactions`) // the greatest
}

func TestPostgresClosed(t *testing.T) {
	s, _ := openNode(t, testenv.Postgres(t))
	testenv.OK(t, s.Close())
	_, err := s.fact(t.Context(), "name")
	if !errors.Is(err, ErrClosed) || !errors.Is(s.setFact(t.Context(), "name", ""), ErrClosed) || !errors.Is(s.Err(), ErrClosed) {
		t.Errorf("a call of a closed store: %v", err)
	}
}

// TestPostgresPanic: a panic in a transaction reaches the caller and leaves no lock.
func TestPostgresPanic(t *testing.T) {
	s, _ := openNode(t, testenv.Postgres(t))
	func() {
		defer func() {
			testenv.Equal(t, recover(), "guard", "the value that was recovered")
		}()
		err := s.WriteLocked(t.Context(), func(t *Tx) error {
			if err := hold(t, "name"); err != nil {
				return err
			}
			panic("guard")
		})
		t.Errorf("no panic, error %v", err)
	}()
	testenv.Check(t, s.WriteLocked(t.Context(), func(t *Tx) error { return hold(t, "name") }))
}

// TestRetriesEnd: a call is retried until its patience ends.
func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := retries{postgresEngine: &postgresEngine{}}
		begin := time.Now()
		var err error
		for err == nil {
			err = r.wait(t.Context(), classLost, begin.Add(database.Patience))
		}
		if took := time.Since(begin); !errors.Is(err, errPatience) || took < database.Patience-time.Second || took > database.Patience {
			t.Errorf("ended after %v with %v, want %v", took, err, database.Patience)
		}
	})
}
