package nodes

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/database"
	"sluice/e2e"
	"sluice/internal/testenv"
)

// olderNode creates an older version's database, and connects to it like a node from that version.
// The function that it returns ends the node.
func olderNode(t *testing.T, dsn string, schema int) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn+"&application_name=sluice")
	testenv.OK(t, err)
	if _, err := conn.PgConn().Exec(t.Context(), olderMigrations(t, "postgres", schema)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestUpgradeWaitsForOlderNodes starts new nodes beside an older one. The older version's payments
// would fail on the new schema. The new nodes must be alive and not ready, and must not migrate the
// database; once the older node has ended, all are ready.
func TestUpgradeWaitsForOlderNodes(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{})
	end := olderNode(t, c.Database.DSN(), database.OldestSchema-1)
	addresses := []string{testenv.ReserveAddress(t), testenv.ReserveAddress(t)}
	waited := make(chan struct{}) // closed when both new nodes wait
	go func() {
		defer close(waited)
		defer end()
		for _, address := range addresses {
			s := &e2e.Server{T: t, Scheme: "http", Host: address, URL: "http://" + address, Client: e2e.Client}
			s.Await("a new node does not answer beside an older one", func() bool {
				r, err := s.Try("GET", "/livez", nil)
				return err == nil && r.Status == 200
			})
			e2e.CheckProblem(t, s.Do("GET", "/readyz", nil), 503, "not_ready")
			e2e.CheckProblem(t, s.Do("PUT", e2e.BlobTarget("0x1", "name"), []byte("early")), 503, "not_ready")
		}
	}()
	started := make(chan *e2e.Server)
	for _, address := range addresses {
		go func() {
			o := c.Options
			o.Addr = address
			started <- e2e.Start(t, o)
		}()
	}
	for range addresses {
		s := <-started
		select {
		case <-waited:
		default:
			t.Error("a new node started while an older one ran")
		}
		s.Must(200, "GET", "/readyz", nil)
		s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("stored"))
		if text := s.Log.String(); !strings.Contains(text, "stop those at the machine of the database (application_name sluice)") {
			t.Errorf("the log does not name the older node:\n%s", e2e.Tail(text))
		}
	}
}
