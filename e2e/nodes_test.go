package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/testenv"
)

// cluster is several nodes over one PostgreSQL and one object store.
type cluster struct {
	t        testing.TB
	database *testenv.PostgresServer
	objects  *testenv.S3Server
	options  options // of every node
	nodes    []*server
}

// newCluster starts the shared stores, but no node. It stops everything when the test ends.
func newCluster(t testing.TB, o options) *cluster {
	t.Helper()
	c := &cluster{t: t, database: testenv.StartPostgres(t), objects: testenv.S3(t, testenv.S3Options{}), options: o}
	// The nodes get their keys only from the environment that the test gives them, none from the
	// test's own.
	c.options.wrapper = []string{"env", "AWS_ACCESS_KEY_ID=" + testenv.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.S3SecretKey}
	c.options.flags = slices.Concat(c.places(c.database), o.flags)
	return c
}

// places returns the flags for a node on this database and the bucket.
func (c *cluster) places(database *testenv.PostgresServer) []string {
	return []string{"--meta", database.DSN(), "--bytes", fmt.Sprintf("s3://%s/blobs?endpoint=http://%s&path-style=on", c.objects.Bucket, c.objects.Addr)}
}

// start starts count more nodes concurrently. Each keeps its address through restarts.
func (c *cluster) start(count int) {
	c.t.Helper()
	started := make([]*server, count)
	var starts sync.WaitGroup
	for i := range started {
		starts.Go(func() {
			o := c.options
			o.addr = testenv.ReserveAddress(c.t)
			started[i] = start(c.t, o)
		})
	}
	starts.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
	c.nodes = append(c.nodes, started...)
}

// views returns the nodes as their clients see them. They stay valid while nodes stop and start
// again.
func (c *cluster) views(t testing.TB) []*server {
	t.Helper()
	through := &http.Client{Timeout: patience, CheckRedirect: client.CheckRedirect, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	// Idle connections would delay a node's shutdown.
	t.Cleanup(through.CloseIdleConnections)
	views := make([]*server, len(c.nodes))
	for i, node := range c.nodes {
		view := *node
		view.t, view.client = t, through
		views[i] = &view
	}
	return views
}

// replacedNodes pairs the nodes' addresses in the documentation with the nodes' addresses here.
func (c *cluster) replacedNodes() [][2]string {
	var list [][2]string
	for i, node := range c.nodes {
		list = append(list, [2]string{fmt.Sprintf("10.0.0.%d:9090", i+1), node.host})
	}
	return list
}

// balanced runs nginx with the documented configuration in front of three nodes, with some of the
// upstream's texts replaced, and returns the service as seen through it.
func (c *cluster) balanced(t testing.TB, replaced ...[2]string) *server {
	t.Helper()
	const open = "upstream sluice {\n"
	upstream := documentedBlock(t, "nginx", open+"    server 10.0.0.1", append(c.replacedNodes(), replaced...))
	listener := listenHere(t)
	host := listener.Addr().String()
	_, server, found := strings.Cut(documentedServer(t, host, ""), open)
	_, server, closed := strings.Cut(server, "}")
	if !found || !closed {
		t.Fatal("the server in docs/operations.md has no upstream of its own")
	}
	before, _, _ := strings.Cut(documentedServer(t, host, ""), open)
	startNginx(t, listener, before+upstream+server[strings.Index(server, "\n"):])
	return c.viewAt(t, host)
}

// viewAt returns the service as seen at a load balancer's address.
func (c *cluster) viewAt(t testing.TB, host string) *server {
	view := *c.views(t)[0]
	view.host, view.url, view.proxied = host, "http://"+host+view.base, true
	return &view
}

// TestNodesAreOneService starts three nodes for the first time, concurrently, and uses them as one.
func TestNodesAreOneService(t *testing.T) {
	testenv.Require(t, testenv.NPM, testenv.Nginx)
	t.Parallel()
	c := newCluster(t, options{flags: []string{"--base-path", hostedBase}})
	c.start(3)
	views := c.views(t)
	for _, view := range views[1:] {
		first, _ := views[0].info()
		if published, _ := view.info(); published != first {
			t.Errorf("nodes with concurrent first starts publish %+v and %+v", first, published)
		}
	}
	t.Run("acknowledged writes are read on all nodes", func(t *testing.T) { readByAll(t, c.views(t)) })
	t.Run("parts to each, complete at another", func(t *testing.T) { uploadToAll(t, c.views(t)) })
	t.Run("uses of one session", func(t *testing.T) { useAtAll(t, c.views(t)) })
	t.Run("public client", func(t *testing.T) {
		through := c.balanced(t)
		lines := runClient(t, "0.1.0", through.url, "")
		if len(lines) != 25 {
			t.Errorf("the client ran %d cases, want 25", len(lines))
		}
		for _, line := range lines {
			checkTransfer(t, through, line)
		}
		for i, node := range c.nodes {
			if !strings.Contains(node.settledLog(), "/parts/") {
				t.Errorf("the balancer sent no part to node %d", i)
			}
		}
	})
}

// readByAll writes on one node after another, and immediately reads on all of them.
func readByAll(t *testing.T, views []*server) {
	random := rand.New(rand.NewPCG(seed(t), 0))
	target := blobTarget("0x1", "shared")
	for round := range 60 {
		writes := views[round%len(views)]
		data := content(random.Uint64(), sizes[random.IntN(len(sizes))])
		removed := round%5 == 4
		var etag string
		switch {
		case removed:
			writes.must(204, "DELETE", target, nil)
		case round%2 == 0:
			etag = writes.must(204, "PUT", target, data).header.Get("ETag")
		default:
			etag = writes.upload("0x1", "shared", data, max(1, len(data)/3)).header.Get("ETag")
		}
		for i, view := range views {
			switch r := view.do("GET", target, nil); {
			case removed:
				checkProblem(t, r, 404, "blob_not_found")
			case r.status != 200 || digest(r.body) != digest(data) || r.header.Get("ETag") != etag:
				t.Fatalf("round %d: node %d responds with %d, %d bytes and %s, another node acknowledged %d bytes and %s",
					round, i, r.status, len(r.body), r.header.Get("ETag"), len(data), etag)
			}
			if listed := slices.Contains(view.names("0x1"), "shared"); listed == removed {
				t.Errorf("round %d: node %d lists the blob: %t, it was removed: %t", round, i, listed, removed)
			}
		}
	}
}

// uploadToAll sends one upload's parts to all nodes concurrently.
func uploadToAll(t *testing.T, views []*server) {
	const partSize, parts = 300 << 10, 9
	data := content(seed(t), partSize*parts-1000)
	id := views[0].begin("0x1", "by parts", partSize)
	views[0].atOnce(parts, func(i int) (response, error) {
		r, err := views[i%len(views)].try("PUT", partTarget(id, i), data[i*partSize:min(len(data), (i+1)*partSize)])
		if err == nil && r.status != 200 {
			t.Errorf("part %d: %v", i, r)
		}
		return r, err
	})
	// Concurrent completes all get the same response.
	for _, r := range views[0].atOnce(6, func(i int) (response, error) {
		return views[i%len(views)].try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	}) {
		if r.status != 200 {
			t.Errorf("complete: %v", r)
		}
	}
	for i, view := range views {
		if r := view.must(200, "GET", blobTarget("0x1", "by parts"), nil); digest(r.body) != digest(data) {
			t.Errorf("node %d returns %d bytes of another content", i, len(r.body))
		}
	}
}

// useAtAll spreads 1,000 uses over all nodes; the session has 500.
func useAtAll(t *testing.T, views []*server) {
	const users = 40
	id := views[0].open(views[0].payer(1), 1000).buy(500).SessionID
	var taken, refused atomic.Int64
	var wg sync.WaitGroup
	for user := range users {
		wg.Go(func() {
			for use := range 1000 / users {
				switch r, err := views[(user+use)%len(views)].try("POST", "/v1/sessions/"+id+"/use", nil); {
				case err != nil:
					t.Errorf("use: %v", err)
				case r.status == 200:
					taken.Add(1)
				default:
					checkProblem(t, r, 402, "no_chunksets_left")
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
		if left := view.left(id); left != "0" {
			t.Errorf("node %d: %s chunksets left", i, left)
		}
	}
}

// TestForeignStoresStopTheStart checks that a node does not start with a database that does not
// belong to its bucket, that it reports why, and that it leaves both unchanged.
func TestForeignStoresStopTheStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{})
	c.start(1)
	data := content(1, 100_000)
	c.nodes[0].must(204, "PUT", blobTarget("0x1", "kept"), data)
	other := newCluster(t, options{})

	mixed := c.places(other.database)
	if said := c.refused(mixed); !strings.Contains(said, "there are bytes, but the metadata has no instance id") {
		t.Errorf("with an empty database: %s", said)
	}
	if said := c.refused(other.places(c.database)); !strings.Contains(said, "there is metadata, but the bytes have no instance id") {
		t.Errorf("with an empty bucket: %s", said)
	}
	// The refused starts must not have adopted the empty store.
	other.start(1)
	other.nodes[0].must(204, "PUT", blobTarget("0x1", "kept"), data)
	for _, places := range [][]string{mixed, other.places(c.database)} {
		if said := c.refused(places); !strings.Contains(said, "the metadata belongs to instance ") || !strings.Contains(said, "the bytes belong to instance ") {
			t.Errorf("with another service's stores: %s", said)
		}
	}
	for _, s := range []*server{c.nodes[0], other.nodes[0]} {
		s.stop()
		s.restart()
		if r := s.must(200, "GET", blobTarget("0x1", "kept"), nil); digest(r.body) != digest(data) {
			t.Errorf("after the refusals the blob has %d bytes of another content", len(r.body))
		}
	}
}

// refused starts a node that must not start, and returns its output.
func (c *cluster) refused(places []string) string {
	c.t.Helper()
	return refusedStart(c.t, options{wrapper: c.options.wrapper, data: filepath.Join(c.t.TempDir(), "data"), flags: places})
}

// refusedStart starts a server that must not start, and returns its output.
func refusedStart(t testing.TB, o options) string {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	line := slices.Concat(o.wrapper, []string{sluice, "serve", "--addr", "127.0.0.1:0", "--data", o.data}, o.flags)
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	stdout := started{kill: kill}
	var stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := command.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 || stdout.text != "" {
		t.Fatalf("a node starts although it must not: %v, %q", err, stdout.text)
	}
	return stderr.String()
}

// started keeps what a server prints and then kills it. A server prints something only if it
// starts.
type started struct {
	kill func()
	text string
}

func (s *started) Write(p []byte) (int, error) {
	s.text += string(p)
	s.kill()
	return len(p), nil
}
