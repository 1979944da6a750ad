package nodes

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestAsynchronousFailover promotes a standby that lacks the last changes, while two nodes run.
// Both must refuse everything but reads within seconds, and go on after sluice recover.
func TestAsynchronousFailover(t *testing.T) {
	c := e2e.NewCluster(t, e2e.Options{Dirty: true}) // the nodes log the setback as an error
	standby := testenv.StartStandby(t, c.Database)
	dsn := testenv.Must(url.Parse(c.Database.DSN()))(t)
	query := dsn.Query()
	query.Set("host", query.Get("host")+","+filepath.Dir(standby.Socket()))
	dsn.RawQuery = query.Encode()
	places := c.Places(c.Database)
	places[slices.Index(places, "--meta")+1] = dsn.String()
	c.Options.Flags = places
	c.Start(2)
	active, idle := c.Nodes[0], c.Nodes[1]
	kept, lost := e2e.BlobTarget("0x1", "kept"), e2e.BlobTarget("0x1", "lost")
	data := e2e.Content(1, 100_000)
	active.Must(204, "PUT", kept, data)
	session := active.Session()
	testenv.OK(t, c.Database.AwaitStandby())
	testenv.OK(t, standby.Stop())
	active.Must(204, "PUT", lost, data)
	active.Must(200, "POST", "/v1/sessions/"+session+"/use", []byte("{}"))
	testenv.OK(t, c.Database.StopFast())
	testenv.OK(t, standby.Start())
	testenv.OK(t, standby.Promote())

	for _, node := range c.Nodes {
		node.Eventually("the node does not notice", func() bool {
			r := node.Do("POST", "/v1/sessions/"+session+"/use", []byte("{}"))
			return r.Status == 503 && e2e.Member(t, r, "code") == "rolled_back"
		})
		node.Must(503, "GET", "/readyz", nil)
		node.Holds(kept, data)
		e2e.CheckProblem(t, node.Do("PUT", lost, data), 503, "rolled_back")
		node.Logged("everything but reads is refused")
	}
	idle.Must(404, "GET", lost, nil)
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.S3AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.S3SecretKey)
	r := e2e.SluiceRuns(t, append([]string{"recover", "--yes"}, places...)...)
	for _, want := range []string{"transactions that were acknowledged to this node", "at most 1 chunksets used and 0 payments", "Objects that nothing refers to: 1, with"} {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			t.Errorf("the recovery lacks %q: %+v", want, r)
		}
	}
	for _, node := range c.Nodes {
		node.Eventually("the node is not ready", func() bool { return node.Do("GET", "/readyz", nil).Status == 200 })
		node.Must(204, "PUT", lost, data)
		node.Logged("another generation has begun")
	}
	idle.Must(200, "POST", "/v1/sessions/"+session+"/use", []byte("{}"))
}
