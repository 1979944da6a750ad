package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/test/testenv"
)

// Cluster is several nodes over one PostgreSQL and one object store.
type Cluster struct {
	T        testing.TB
	Database *testenv.PostgresServer
	Objects  *testenv.S3Server
	Options  Options // of every node
	Nodes    []*Server
}

// NewCluster starts the shared stores, but no node. It stops everything when the test ends.
func NewCluster(t testing.TB, o Options) *Cluster {
	t.Helper()
	database := testenv.StartPostgres(t)
	return ClusterOn(t, database, database.DSN(), o)
}

// ClusterOn is NewCluster for a database that runs, with the DSN that the nodes have for it.
func ClusterOn(t testing.TB, database *testenv.PostgresServer, dsn string, o Options) *Cluster {
	t.Helper()
	return ClusterOver(t, database, dsn, testenv.S3(t, testenv.S3Options{}), o)
}

// ClusterOver is ClusterOn for an object store that runs.
func ClusterOver(t testing.TB, database *testenv.PostgresServer, dsn string, objects *testenv.S3Server, o Options) *Cluster {
	t.Helper()
	c := &Cluster{T: t, Database: database, Objects: objects, Options: o}
	c.Options.Wrapper = OnObjects(c.Objects).Wrapper
	c.Options.Flags = slices.Concat(c.placesAt(dsn), o.Flags)
	return c
}

// OnObjects returns options for a server with its bytes in the bucket. It gets the keys only from
// the environment that the test gives it, none from the test's own.
func OnObjects(objects *testenv.S3Server) Options {
	return Options{
		Wrapper: []string{"env", "AWS_ACCESS_KEY_ID=" + testenv.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.S3SecretKey},
		Flags:   []string{"--bytes", fmt.Sprintf("s3://%s?endpoint=http://%s&path-style=on", objects.Bucket, objects.Addr)},
	}
}

// Places returns the flags for a node on this database and the bucket.
func (c *Cluster) Places(database *testenv.PostgresServer) []string {
	return c.placesAt(database.DSN())
}

func (c *Cluster) placesAt(dsn string) []string {
	return []string{"--meta", dsn, "--bytes", fmt.Sprintf("s3://%s/blobs?endpoint=http://%s&path-style=on", c.Objects.Bucket, c.Objects.Addr)}
}

// Start starts count more nodes concurrently. Each keeps its address through restarts.
func (c *Cluster) Start(count int) {
	c.T.Helper()
	started := make([]*Server, count)
	var starts sync.WaitGroup
	for i := range started {
		starts.Go(func() {
			o := c.Options
			o.Addr = testenv.ReserveAddress(c.T)
			started[i] = Start(c.T, o)
		})
	}
	starts.Wait()
	if c.T.Failed() {
		c.T.FailNow()
	}
	c.Nodes = append(c.Nodes, started...)
}

// Views returns the nodes as their clients see them. They stay valid while nodes stop and start
// again.
func (c *Cluster) Views(t testing.TB) []*Server {
	t.Helper()
	through := &http.Client{Timeout: Patience, CheckRedirect: Client.CheckRedirect, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	// Idle connections would delay a node's shutdown.
	t.Cleanup(through.CloseIdleConnections)
	views := make([]*Server, len(c.Nodes))
	for i, node := range c.Nodes {
		view := *node
		view.T, view.Client = t, through
		views[i] = &view
	}
	return views
}

// Hosts returns the nodes' addresses.
func (c *Cluster) Hosts() []string {
	var hosts []string
	for _, node := range c.Nodes {
		hosts = append(hosts, node.Host)
	}
	return hosts
}

// Balanced runs nginx with deploy/nginx.conf in front of three nodes, with other texts in place of
// some, and returns the service as seen through it.
func (c *Cluster) Balanced(t testing.TB, replaced ...[2]string) *Server {
	t.Helper()
	listener := ListenHere(t)
	host := listener.Addr().String()
	StartNginx(t, listener, replaceEach(t, Front{Nodes: c.Hosts()}.Nginx(t, host), replaced))
	return c.ViewAt(t, host)
}

// ViewAt returns the service as seen at a load balancer's address.
func (c *Cluster) ViewAt(t testing.TB, host string) *Server {
	view := *c.Views(t)[0]
	view.Host, view.URL, view.Proxied = host, "http://"+host+view.Base, true
	return &view
}

// Refused starts a node that must not start, and returns its output.
func (c *Cluster) Refused(places []string) string {
	c.T.Helper()
	return RefusedStart(c.T, Options{Wrapper: c.Options.Wrapper, Data: filepath.Join(c.T.TempDir(), "data"), Flags: places})
}

// RefusedStart starts a server that must not start, and returns its output.
func RefusedStart(t testing.TB, o Options) string {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	line := slices.Concat(o.Wrapper, []string{Sluice, "serve", "--addr", "127.0.0.1:0", "--data", o.Data}, o.Flags)
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

// started keeps a server's output and then kills it. A server prints something only if it starts.
type started struct {
	kill func()
	text string
}

func (s *started) Write(p []byte) (int, error) {
	s.text += string(p)
	s.kill()
	return len(p), nil
}

// HostedBase is the hosted services' base path in these tests.
const HostedBase = "/sluice"

// HostedChoices returns the flags without which a hosted service does not start.
func HostedChoices(reads string) []string {
	return []string{"--profile", "hosted", "--base-path", HostedBase, "--external-url", "https://blobs.example.org" + HostedBase,
		"--reads", reads, "--receiver", "0x7a"}
}

// StartHosted runs a hosted service with the given access to reads. It listens on free ports only.
// Its requests are sent without a key; see as.
func StartHosted(t testing.TB, reads string, flags ...string) *Server {
	t.Helper()
	return Start(t, Options{Flags: slices.Concat(HostedChoices(reads), []string{"--admin-addr", "127.0.0.1:0", "--drain-wait", "0s"}, flags)})
}

// NewKey creates a key with the key command.
func (s *Server) NewKey(args ...string) string {
	s.T.Helper()
	r := Key(s.T, s.Data, "create", args...)
	if !Credential.MatchString(r.Stdout) {
		s.T.Fatalf("key create prints %q, want only the secret", r.Stdout)
	}
	return strings.TrimSpace(r.Stdout)
}

// As returns the server as a key's holder sees it, or without a key if key is "".
func (s *Server) As(key string) *Server {
	at := *s
	at.Key = key
	return &at
}

// AsAdmin returns the server as the holder of an all-scopes key sees it.
func (s *Server) AsAdmin() *Server {
	s.T.Helper()
	return s.As(s.NewKey("--scopes", "admin", "--all-accounts"))
}
