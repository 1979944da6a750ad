package nodes

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestNodesAreOneService starts three nodes for the first time, concurrently, and uses them as one.
// Invariants 18, 87.
func TestNodesAreOneService(t *testing.T) {
	testenv.Require(t, testenv.NPM, testenv.Nginx)
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Flags: []string{"--base-path", e2e.HostedBase}})
	c.Start(3)
	views := c.Views(t)
	for _, view := range views[1:] {
		first, _ := views[0].Info()
		if published, _ := view.Info(); published != first {
			t.Errorf("nodes with concurrent first starts publish %+v and %+v", first, published)
		}
	}
	t.Run("acknowledged writes are read on all nodes", func(t *testing.T) { readByAll(t, c.Views(t)) })
	t.Run("parts to each, complete at another", func(t *testing.T) { uploadToAll(t, c.Views(t)) })
	t.Run("uses of one session", func(t *testing.T) { useAtAll(t, c.Views(t)) })
	t.Run("public client", func(t *testing.T) {
		through := c.Balanced(t)
		lines := e2e.RunClient(t, "0.1.0", through.URL, "")
		if len(lines) != 25 {
			t.Errorf("the client ran %d cases, want 25", len(lines))
		}
		for _, line := range lines {
			e2e.CheckTransfer(t, through, line)
		}
		for i, node := range c.Nodes {
			if !strings.Contains(node.SettledLog(), "/parts/") {
				t.Errorf("the balancer sent no part to node %d", i)
			}
		}
	})
}

// sizes cover each way in which a node stores content.
var sizes = []int{0, 1, 100, 4 << 10, 40 << 10, 130 << 10, 600 << 10, 1<<20 + 1, 3 << 20}

// readByAll writes on one node after another, and immediately reads on all of them.
func readByAll(t *testing.T, views []*e2e.Server) {
	random := rand.New(rand.NewPCG(e2e.Seed(t), 0))
	target := e2e.BlobTarget("0x1", "shared")
	for round := range 60 {
		writes := views[round%len(views)]
		data := e2e.Content(random.Uint64(), sizes[random.IntN(len(sizes))])
		removed := round%5 == 4
		var etag string
		switch {
		case removed:
			writes.Must(204, "DELETE", target, nil)
		case round%2 == 0:
			etag = writes.Must(204, "PUT", target, data).Header.Get("ETag")
		default:
			etag = writes.Upload("0x1", "shared", data, max(1, len(data)/3)).Header.Get("ETag")
		}
		for i, view := range views {
			switch r := view.Do("GET", target, nil); {
			case removed:
				e2e.CheckProblem(t, r, 404, "blob_not_found")
			case r.Status != 200 || e2e.Digest(r.Body) != e2e.Digest(data) || r.Header.Get("ETag") != etag:
				t.Fatalf("round %d: node %d responds with %d, %d bytes and %s, another node acknowledged %d bytes and %s",
					round, i, r.Status, len(r.Body), r.Header.Get("ETag"), len(data), etag)
			}
			if listed := slices.Contains(view.Names("0x1"), "shared"); listed == removed {
				t.Errorf("round %d: node %d lists the blob: %t, it was removed: %t", round, i, listed, removed)
			}
		}
	}
}

// uploadToAll sends one upload's parts to all nodes concurrently.
func uploadToAll(t *testing.T, views []*e2e.Server) {
	const partSize, parts = 300 << 10, 9
	data := e2e.Content(e2e.Seed(t), partSize*parts-1000)
	id := views[0].Begin("0x1", "by parts", partSize)
	views[0].AtOnce(parts, func(i int) (e2e.Response, error) {
		r, err := views[i%len(views)].Try("PUT", e2e.PartTarget(id, i), data[i*partSize:min(len(data), (i+1)*partSize)])
		if err == nil && r.Status != 200 {
			t.Errorf("part %d: %v", i, r)
		}
		return r, err
	})
	// Concurrent completes all get the same response.
	for _, r := range views[0].AtOnce(6, func(i int) (e2e.Response, error) {
		return views[i%len(views)].Try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	}) {
		if r.Status != 200 {
			t.Errorf("complete: %v", r)
		}
	}
	for _, view := range views {
		view.Holds(e2e.BlobTarget("0x1", "by parts"), data)
	}
}

// useAtAll spreads 1,000 uses over all nodes; the session has 500.
func useAtAll(t *testing.T, views []*e2e.Server) {
	const users = 40
	id := views[0].Open(views[0].Payer(1), 1000).Buy(500).SessionID
	var taken, refused atomic.Int64
	var wg sync.WaitGroup
	for user := range users {
		wg.Go(func() {
			for use := range 1000 / users {
				switch r, err := views[(user+use)%len(views)].Try("POST", "/v1/sessions/"+id+"/use", nil); {
				case err != nil:
					t.Errorf("use: %v", err)
				case r.Status == 200:
					taken.Add(1)
				default:
					e2e.CheckProblem(t, r, 402, "no_chunksets_left")
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != 500 || refused.Load() != 500 {
		t.Errorf("of 1000 uses %d succeeded and %d were refused, want 500 and 500", taken.Load(), refused.Load())
	}
	for i, view := range views {
		if left := view.Left(id); left != "0" {
			t.Errorf("node %d: %s chunksets left", i, left)
		}
	}
}

// TestForeignStoresStopTheStart checks that a node does not start with a database that does not
// belong to its bucket, that it reports why, and that it leaves both unchanged.
// Invariant 91.
func TestForeignStoresStopTheStart(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{})
	c.Start(1)
	data := e2e.Content(1, 100_000)
	c.Nodes[0].Must(204, "PUT", e2e.BlobTarget("0x1", "kept"), data)
	other := e2e.NewCluster(t, e2e.Options{})

	mixed := c.Places(other.Database)
	if said := c.Refused(mixed); !strings.Contains(said, "there are bytes, but the metadata has no instance id") {
		t.Errorf("with an empty database: %s", said)
	}
	if said := c.Refused(other.Places(c.Database)); !strings.Contains(said, "there is metadata, but the bytes have no instance id") {
		t.Errorf("with an empty bucket: %s", said)
	}
	// The refused starts must not have adopted the empty store.
	other.Start(1)
	other.Nodes[0].Must(204, "PUT", e2e.BlobTarget("0x1", "kept"), data)
	for _, places := range [][]string{mixed, other.Places(c.Database)} {
		if said := c.Refused(places); !strings.Contains(said, "the metadata belongs to instance ") || !strings.Contains(said, "the bytes belong to instance ") {
			t.Errorf("with another service's stores: %s", said)
		}
	}
	for _, s := range []*e2e.Server{c.Nodes[0], other.Nodes[0]} {
		s.Stop()
		s.Restart()
		s.Holds(e2e.BlobTarget("0x1", "kept"), data)
	}
}
