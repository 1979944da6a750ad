package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/e2e"
	"sluice/test/testenv"
)

// keptBlobs are a cluster's blobs and locked versions that nobody changes, and that a backup in the
// bucket has.
type keptBlobs struct {
	t      *testing.T
	c      *e2e.Cluster
	place  string
	conn   *pgx.Conn
	bodies map[string][]byte // by target
}

// keep stores blobs, every third one small and every fifth one deleted, so that a version with a
// lock has its bytes, and makes a backup.
func keep(t *testing.T, c *e2e.Cluster, n int) *keptBlobs {
	t.Helper()
	k := &keptBlobs{t: t, c: c, bodies: map[string][]byte{}}
	k.place = fmt.Sprintf("s3://%s/backups?endpoint=http://%s&path-style=on", c.Objects.Bucket, c.Objects.Addr)
	k.conn = testenv.Must(pgx.Connect(t.Context(), c.Database.DSN()))(t)
	t.Cleanup(func() { _ = k.conn.Close(context.Background()) })
	c.Nodes[0].Must(200, "PUT", "/v1/admin/versions/kept", []byte(`{"keep":"on","locks":{}}`), "If-Match", "*")
	for i := range n {
		size := 100_000 + i
		if i%3 == 0 {
			size = 1_000 + i
		}
		node, name, body := c.Nodes[i%len(c.Nodes)], fmt.Sprint("blob", i), e2e.Content(uint64(i), size)
		target := e2e.BlobTarget("kept", name)
		stored := node.Must(204, "PUT", target, body, "Blob-Hold", fmt.Sprint(i%5 == 4))
		if i%5 == 4 {
			node.Must(204, "DELETE", target, nil)
			target = e2e.VersionTarget("kept", stored.Header.Get("Blob-Version"), name)
		}
		k.bodies[target] = body
	}
	k.backUp()
	return k
}

func (k *keptBlobs) backUp() {
	k.t.Helper()
	if r := e2e.StartBackup(k.t, k.c.Options.Wrapper, append([]string{k.place}, k.c.Places(k.c.Database)...)...).Wait(); r.Code != 0 {
		k.t.Fatalf("backup: %+v", r)
	}
}

// damage damages n random blobs: it removes or changes their objects in the bucket, or changes
// their bodies in the database. It returns their targets.
func (k *keptBlobs) damage(random *rand.Rand, n int) (damaged []string) {
	k.t.Helper()
	targets := slices.Sorted(func(yield func(string) bool) {
		for target := range k.bodies {
			if !yield(target) {
				return
			}
		}
	})
	random.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	for i, target := range targets[:n] {
		var content []byte
		var object *string
		name := target[strings.LastIndex(target, "/")+1:]
		err := k.conn.QueryRow(k.t.Context(), `SELECT b.content, convert_from(e.object, 'UTF8') FROM blobs b JOIN extents e ON e.content = b.content
			WHERE b.account IN ('kept', '~~kept') AND substring(b.name_head FROM 1 FOR length($1::bytea) + 1) IN ($1, $1 || '\x00'::bytea)`, []byte(name)).Scan(&content, &object)
		testenv.OK(k.t, err)
		switch {
		case object == nil:
			_, err = k.conn.Exec(k.t.Context(), `UPDATE bodies SET body = set_byte(body, 500, 255 - get_byte(body, 500)) WHERE content = $1`, content)
		case i%2 == 0:
			err = os.Remove(k.file(*object))
		default:
			var f *os.File
			if f, err = os.OpenFile(k.file(*object), os.O_WRONLY, 0); err == nil {
				_, err = f.WriteAt([]byte("damaged"), 50_000)
				err = errors.Join(err, f.Close())
			}
		}
		testenv.OK(k.t, err)
	}
	return targets[:n]
}

// file returns the file with an object in the bucket.
func (k *keptBlobs) file(object string) string {
	k.t.Helper()
	for _, path := range []string{filepath.Join(k.c.Objects.Folder(), "blobs", object), filepath.Join(k.c.Objects.Folder(), "blobs", object[:2], object)} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	k.t.Fatalf("the bucket has no object %s", object)
	return ""
}

// verify reads every byte of all blobs but some from each node.
func (k *keptBlobs) verify(except ...string) {
	k.t.Helper()
	for _, node := range k.c.Views(k.t) {
		for target, body := range k.bodies {
			if !slices.Contains(except, target) {
				node.Holds(target, body)
			}
		}
	}
}

// round returns how far the scrub is.
func (k *keptBlobs) round() (round, extents int64, running bool) {
	k.t.Helper()
	var runs int64
	testenv.OK(k.t, k.conn.QueryRow(k.t.Context(), `SELECT round, extents, running FROM scrub`).Scan(&round, &extents, &runs))
	return round, extents, runs == 1
}

// scrubbedBlobs is how many blobs leaveScrub keeps. Each has one extent.
const scrubbedBlobs = 60

// leaveScrub starts two nodes over blobs, some of them damaged, and stops the leader, node 0, while
// it scrubs. It saves where it was, which leaveScrub returns.
func leaveScrub(t *testing.T, random *rand.Rand) (k *keptBlobs, damaged []string, round, checked int64) {
	t.Helper()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Damaged: true, Flags: []string{"--admin-addr", "127.0.0.1:0"}}.Tuned(e2e.Tuning{"SweepEvery": 3 * time.Second}))
	c.Start(1)
	k = keep(t, c, scrubbedBlobs)
	damaged = k.damage(random, 12)
	// No round may begin before all damage is made, or it has passed some.
	leader := c.Nodes[0]
	c.Options.Flags = append(c.Options.Flags, "--scrub-period", "30s")
	leader.Options.Flags = c.Options.Flags
	leader.Stop()
	leader.Launch() // as the only node, so it becomes the leader
	c.Start(1)
	if awaitScrub(t, c.Nodes...) != leader { // the lease has changed its owner
		c.Nodes[0], c.Nodes[1] = c.Nodes[1], leader
	}
	c.Nodes[0].Stop() // which saves the position
	round, checked, running := k.round()
	if !running || checked == 0 || checked == scrubbedBlobs {
		t.Fatalf("the round was left after %d extents of %d, running: %t", checked, scrubbedBlobs, running)
	}
	return k, damaged, round, checked
}

// awaitScrub waits until one of the nodes has checked an extent, and returns it. A run that ended
// in its first extent has read less.
func awaitScrub(t *testing.T, nodes ...*e2e.Server) (scrubs *e2e.Server) {
	t.Helper()
	e2e.Await(t, "no scrub runs", func() bool {
		i := slices.IndexFunc(nodes, func(node *e2e.Server) bool {
			return node.Counter("sluice_scrub_read_bytes_total") > 150_000
		})
		if i >= 0 {
			scrubs = nodes[i]
		}
		return i >= 0
	})
	return scrubs
}

// endRound waits until a round has ended. It must have checked each extent once, and the damage of
// each blob must be listed once.
func (k *keptBlobs) endRound(round int64, damaged []string) {
	k.t.Helper()
	var checked int64
	e2e.Await(k.t, "the round does not end", func() bool {
		now, extents, running := k.round()
		checked = extents
		return now != round || !running
	})
	testenv.Equal(k.t, checked, scrubbedBlobs, "extents that the round has checked")
	e2e.UntilDamaged(k.t, damaged, "--meta", k.c.Database.DSN())
	var listed int
	testenv.OK(k.t, k.conn.QueryRow(k.t.Context(), `SELECT count(*) FROM damaged`).Scan(&listed))
	testenv.Equal(k.t, listed, len(damaged), "extents that are listed as damaged")
}

// TestKilledScrub kills the leader while it scrubs, after it has gone on from another leader's
// position. The next leader goes on from there, too, because the killed one saved nothing. The
// round checks each extent once, all damage is listed, and nothing is listed twice.
// Invariant 116.
func TestKilledScrub(t *testing.T) {
	t.Parallel()
	k, damaged, round, left := leaveScrub(t, rand.New(rand.NewPCG(e2e.Seed(t), 2)))
	next, killed := k.c.Nodes[0], k.c.Nodes[1]
	awaitScrub(t, killed)
	killed.Kill()
	if now, checked, running := k.round(); now != round || checked != left || !running {
		t.Fatalf("a killed leader leaves round %d after %d extents, running: %t; it was round %d after %d", now, checked, running, round, left)
	}
	next.Launch()
	k.endRound(round, damaged)
	if !strings.Contains(next.MetricsOf(), fmt.Sprintf("\nsluice_damaged_extents %d\n", len(damaged))) {
		t.Errorf("the metrics are\n%s\nwant %d damaged extents", next.MetricsOf(), len(damaged))
	}
	next.WantDamaged(damaged...)
	killed.Restart()
	k.verify(damaged...)
}

// TestDamageOfNodes damages objects in the bucket and bodies in the database of two nodes. The
// leader ends while it scrubs, and the next one goes on from its position: the round checks each
// extent once, and all damage is listed. Every node refuses the damaged blobs, and serves all whole
// ones. With the place of a backup the nodes heal everything, while a node is killed.
// Invariants 116, 118.
func TestDamageOfNodes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(e2e.Seed(t), 1))
	k, damaged, round, _ := leaveScrub(t, random)
	c := k.c
	k.endRound(round, damaged)
	c.Nodes[0].Launch()
	for _, node := range c.Nodes {
		node.WantDamaged(damaged...)
	}
	k.verify(damaged...)

	for _, node := range c.Nodes {
		node.Options.Flags = append(slices.Clone(node.Options.Flags), "--heal-from", k.place)
		node.Stop()
		node.Launch()
	}
	killed := c.Nodes[random.IntN(len(c.Nodes))]
	killed.Kill()
	killed.Restart()
	e2e.UntilDamaged(t, nil, "--meta", c.Database.DSN())
	k.verify()
	e2e.CheckClean(t, c.Options.Wrapper, c.Places(c.Database)...)
}

// TestHealsSurviveKills damages blobs again and again, and kills nodes at random times while they
// heal and clients write.
// Invariant 118.
func TestHealsSurviveKills(t *testing.T) {
	t.Parallel()
	healsSurviveKills(t, func(rounds int) bool { return rounds < 2 })
}

func healsSurviveKills(t *testing.T, more func(rounds int) bool) {
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1<<32))
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Damaged: true, Flags: []string{"--scrub-period", "20s"}}.Tuned(e2e.Tuning{"SweepEvery": 2 * time.Second}))
	c.Options.Flags = append(c.Options.Flags, "--heal-from", fmt.Sprintf("s3://%s/backups?endpoint=http://%s&path-style=on", c.Objects.Bucket, c.Objects.Addr))
	c.Start(2)
	k := keep(t, c, 30)
	sharers := e2e.NewSharers(t, seed, c.Nodes)
	for rounds := 0; more(rounds); rounds++ {
		damaged := k.damage(random, 10)
		for range 2 {
			node := c.Nodes[random.IntN(len(c.Nodes))]
			sharers.RunAndKill(random, 50, node, node.Restart)
		}
		for _, target := range damaged {
			e2e.Await(t, target+" is not healed", func() bool {
				// A node that has just started may not record damage that a read finds.
				r := c.Nodes[random.IntN(len(c.Nodes))].Do("GET", target, nil)
				if r.Status != 200 && r.Status != 500 || r.Status == 200 && string(r.Body) != string(k.bodies[target]) {
					t.Fatalf("GET %s: %d with %d bytes", target, r.Status, len(r.Body))
				}
				return r.Status == 200
			})
		}
		e2e.UntilDamaged(t, nil, "--meta", c.Database.DSN())
		k.verify()
		if t.Failed() {
			return
		}
		k.backUp() // of the objects that are new
	}
	sharers.Delete()
	e2e.CheckClean(t, c.Options.Wrapper, c.Places(c.Database)...)
}
