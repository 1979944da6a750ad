package nodes

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestNodesShareContents stores, copies, moves and deletes blobs on three nodes, and kills them in
// turn. No byte may be lost, and in the end no content may be left that no blob has.
// Invariant 5.
func TestNodesShareContents(t *testing.T) {
	t.Parallel()
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1<<32))
	c := e2e.NewCluster(t, e2e.Options{Dirty: true}.Tuned(e2e.Tuning{"PurgeEvery": time.Second}))
	c.Start(3)
	sharers := e2e.NewSharers(t, seed, c.Nodes)
	for _, node := range c.Nodes {
		sharers.RunAndKill(random, 150, node, node.Restart)
		endGrace(t, c.Database.DSN())
	}
	sharers.Delete()
	endGrace(t, c.Database.DSN())
	sharers.NoObjectIsLeft(c.Objects.Folder())
	if r := e2e.SluiceRuns(t, "check", "--books", "--meta", c.Database.DSN()); r.Code != 0 {
		t.Errorf("audit: exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// endGrace makes all garbage old enough to be freed while the next requests run.
func endGrace(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	testenv.OK(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `UPDATE garbage SET since = 0 WHERE since <= EXTRACT(EPOCH FROM now()) * 1000000`)
	testenv.OK(t, err)
}
