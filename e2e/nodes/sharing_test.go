package nodes

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/e2e"
	"sluice/internal/testenv"
)

var previousBinary = flag.String("previous", "", "binary of a previous version, for the older nodes of TestNodesShareContents")

// TestNodesShareContents starts a node beside two older ones, which know no copies, and replaces
// those by current ones, one after another, under load. The blobs that the new nodes copy and move
// are replaced and deleted on the older ones too. Two nodes are killed meanwhile. No byte may be
// lost, and in the end no content may be left that no blob has. Without -previous the older nodes
// have the binary under test, but get no copies and moves.
func TestNodesShareContents(t *testing.T) {
	t.Parallel()
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1<<32))
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Flags: []string{"--purge-every", "1s"}})
	current := c.Options
	c.Options.Binary = *previousBinary
	c.Start(2)
	c.Options = current
	older := c.Nodes
	sharers := e2e.NewSharers(t, seed, nil, older)
	sharers.Run(50, nil)
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		sharers.Run(1<<40, stop)
	}()
	c.Start(1) // it migrates the database
	close(stop)
	<-over
	first := c.Nodes[2]
	sharers.Nodes = []*e2e.Server{first}
	sharers.RunAndKill(random, 150, first, first.Restart)
	endGrace(t, c.Database.DSN())
	sharers.RunAndKill(random, 150, older[0], func() {
		older[0].Options.Binary = ""
		older[0].Restart()
	})
	sharers.Nodes, sharers.Older = []*e2e.Server{first, older[0]}, older[1:]
	endGrace(t, c.Database.DSN())
	sharers.Run(150, nil)
	older[1].Stop()
	older[1].Options.Binary = ""
	older[1].Launch()
	sharers.Nodes, sharers.Older = []*e2e.Server{first, older[0], older[1]}, nil
	sharers.RunAndKill(random, 150, older[1], older[1].Restart)
	sharers.Delete()
	endGrace(t, c.Database.DSN())
	sharers.NoObjectIsLeft(c.Objects.Folder())
	if r := e2e.SluiceRuns(t, "audit", "--meta", c.Database.DSN()); r.Code != 0 {
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
