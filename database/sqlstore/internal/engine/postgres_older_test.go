package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/database"
	"sluice/internal/testenv"
)

// atSchema creates a database with an older schema.
func atSchema(t *testing.T, schema int) (dsn string) {
	t.Helper()
	dsn = testenv.Postgres(t)
	testenv.OK(t, migrate(connectPostgres(t, dsn), listMigrations(t, postgresMigrations)[:schema]))
	return dsn
}

// TestPostgresOlderNodesAreAwaited: a database is not migrated while a node is connected to it that
// cannot work on the new schema. The nodes of this version that wait for that do not wait for each
// other, and migrate it once the older node has ended.
func TestPostgresOlderNodesAreAwaited(t *testing.T) {
	t.Parallel()
	dsn := atSchema(t, database.OldestSchema-1) + "&application_name=awaited"
	older := testenv.Must(pgx.Connect(t.Context(), dsn))(t)
	if s, err := openNodeDB(t.Context(), dsn, Options{}); !errors.Is(err, errOlderNodes) || !strings.Contains(err.Error(), "stop those at the machine of the database (application_name awaited)") {
		t.Fatalf("a command opened %v, %v while an older node runs", s, err)
	}
	const nodes = 3
	waits, opened := make(chan error), make(chan error)
	ended := make(chan struct{}) // closed when the older node has ended
	for range nodes {
		go func() {
			// Waits since then: a session that has not ended, or is not marked yet, may be a reason
			// for a moment.
			late := 0
			s, err := openNodeDB(t.Context(), dsn+"&pool_min_conns=2", Options{AwaitOlderNodes: func(reason error) error {
				select {
				case waits <- reason:
				case <-ended:
					if late++; late > 10 {
						return reason
					}
				}
				return nil
			}})
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
	}
	for range nodes {
		select {
		case reason := <-waits:
			testenv.Is(t, reason, errOlderNodes, "why a node waits")
		case err := <-opened:
			t.Fatalf("a node opened the database beside an older one: %v", err)
		}
	}
	var have int64
	if err := older.QueryRow(t.Context(), `SELECT MAX(version) FROM schema_version`).Scan(&have); err != nil || have != database.OldestSchema-1 {
		t.Errorf("beside the older node the schema is %d, %v", have, err)
	}
	testenv.OK(t, older.Close(t.Context()))
	close(ended)
	for range nodes {
		testenv.Check(t, <-opened)
	}
	s, _ := openNode(t, dsn)
	holds(t, s, int64(Schema()), `SELECT MAX(version) FROM schema_version`)
}

// TestPostgresConsecutiveVersions: a node migrates a database beside older nodes that can run with
// this version.
func TestPostgresConsecutiveVersions(t *testing.T) {
	dsn := atSchema(t, database.OldestSchema) + "&application_name=consecutive"
	connectTo(t, dsn)
	openNode(t, dsn)
}

// TestPostgresAwaitEnds: an open that waits for older nodes ends when its caller says so.
func TestPostgresAwaitEnds(t *testing.T) {
	dsn := atSchema(t, 1) + "&application_name=ends"
	connectTo(t, dsn)
	no := errors.New("no")
	refuse := Options{AwaitOlderNodes: func(error) error { return no }}
	testenv.Is(t, testenv.Error(openNodeDB(t.Context(), dsn, refuse)), no, "a node that does not wait")
}
