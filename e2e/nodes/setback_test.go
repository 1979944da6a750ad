package nodes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/e2e"
	"sluice/test/testenv"
)

// setback is a cluster of two nodes whose database loses its last changes.
type setback struct {
	*e2e.Cluster
	active, idle        *e2e.Server
	kept, deleted, lost string
	session, closed     string
	data                []byte
}

// newSetback starts the nodes, and stores blobs that remain.
func newSetback(c *e2e.Cluster) *setback {
	c.T.Helper()
	c.Start(2)
	s := &setback{Cluster: c, active: c.Nodes[0], idle: c.Nodes[1], data: e2e.Content(1, 100_000),
		kept: e2e.BlobTarget("0x1", "kept"), deleted: e2e.BlobTarget("0x1", "deleted"), lost: e2e.BlobTarget("0x1", "lost")}
	s.active.Must(204, "PUT", s.kept, s.data)
	s.active.Must(204, "PUT", s.deleted, s.data)
	s.session = s.active.Session()
	s.closed = s.active.Open(s.active.Payer(1), 1000).ID
	return s
}

// change makes changes that the database will not have.
func (s *setback) change() {
	s.T.Helper()
	s.active.Must(204, "PUT", s.lost, s.data)
	s.active.Must(204, "DELETE", s.deleted, nil)
	s.active.Must(200, "POST", "/v1/sessions/"+s.session+"/use", []byte("{}"), "Idempotency-Key", "once")
	s.active.Must(200, "POST", e2e.Channels+"/"+s.closed+"/close", nil)
}

// check checks that both nodes notice, without a restart, and refuse everything but reads, and that
// they go on after sluice recover.
func (s *setback) check() {
	s.T.Helper()
	for _, node := range s.Nodes {
		node.Eventually("the node does not notice", func() bool {
			r := node.Do("POST", "/v1/sessions/"+s.session+"/use", []byte("{}"), "Idempotency-Key", "once")
			return r.Status == 503 && e2e.Member(s.T, r, "code") == "rolled_back"
		})
		// A result is used for a second, and nodes check themselves when they renew their rows.
		node.Eventually("the node is ready", func() bool { return node.Do("GET", "/readyz", nil).Status == 503 })
		node.Holds(s.kept, s.data)
		e2e.CheckProblem(s.T, node.Do("PUT", s.lost, s.data), 503, "rolled_back")
		e2e.CheckProblem(s.T, node.Do("DELETE", s.kept, nil), 503, "rolled_back")
		e2e.CheckProblem(s.T, node.Do("POST", e2e.Channels+"/"+s.closed+"/deposit", []byte(`{"amount":"1"}`)), 503, "rolled_back")
		node.Logged("everything but reads is refused")
	}
	s.idle.Must(404, "GET", s.lost, nil)
	s.recover("Objects that nothing refers to: 1, with", "at most 1 chunksets used and 0 payments")
	for _, node := range s.Nodes {
		node.Eventually("the node is not ready", func() bool { return node.Do("GET", "/readyz", nil).Status == 200 })
		node.Must(204, "PUT", s.lost, s.data)
		node.Logged("another generation has begun")
	}
	s.idle.Must(200, "POST", "/v1/sessions/"+s.session+"/use", []byte("{}"))
}

// recover runs sluice recover, which must print these texts.
func (s *setback) recover(wants ...string) {
	s.T.Helper()
	r := e2e.SluiceRuns(s.T, append([]string{"recover", "--yes"}, s.Options.Flags...)...)
	for _, want := range wants {
		if r.Code != 0 || !strings.Contains(r.Stdout, want) {
			s.T.Errorf("the recovery lacks %q: %+v", want, r)
		}
	}
}

// withS3Keys sets the environment variables from which commands read the store's keys.
func withS3Keys(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.S3AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.S3SecretKey)
}

// TestAsynchronousFailover promotes a standby that lacks the last changes, while two nodes run.
// Invariant 99.
func TestAsynchronousFailover(t *testing.T) {
	withS3Keys(t)
	primary := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, primary)
	// The nodes log the setback as an error.
	s := newSetback(e2e.ClusterOn(t, primary, testenv.HostsDSN(primary, standby), e2e.Options{Dirty: true}))
	testenv.OK(t, errors.Join(primary.AwaitStandby(), standby.Stop()))
	s.change()
	testenv.OK(t, errors.Join(primary.StopFast(), standby.Start(), standby.Promote()))
	s.check()
}

// TestPointInTimeRecovery restores the database to a moment before the last changes while two nodes
// run. One was started in the lost time.
// Invariant 99.
func TestPointInTimeRecovery(t *testing.T) {
	withS3Keys(t)
	c := e2e.NewCluster(t, e2e.Options{Dirty: true})
	archive, err := c.Database.Archive()
	testenv.OK(t, err)
	s := newSetback(c)
	testenv.OK(t, archive.Mark("here"))
	s.idle.Stop()
	s.idle.Restart()
	s.change()
	testenv.OK(t, archive.Restore("here"))
	s.check()
}

// TestRecoveryWithVersions restores the database to a moment before blobs were deleted and their
// objects freed, and brings the objects back from the versions in the bucket, with the commands of
// docs/backups.md. Without them the objects are missing. With them every blob of that moment can be
// read, blobs that were deleted before it stay deleted, and nothing is damaged.
// Invariant 99.
func TestRecoveryWithVersions(t *testing.T) {
	testenv.Require(t, testenv.PostgreSQL, testenv.VersityGW, testenv.S3Clients)
	t.Parallel()
	database := testenv.StartPostgres(t)
	c := e2e.ClusterOver(t, database, database.DSN(), testenv.S3(t, testenv.S3Options{Versions: true}),
		e2e.Options{Dirty: true}.Tuned(e2e.Tuning{"PurgeEvery": time.Second}))
	awsDoes(t, c, "put-bucket-versioning", [][2]string{{"BUCKET", c.Objects.Bucket}})
	archive, err := database.Archive()
	testenv.OK(t, err)
	c.Start(2)
	writer := c.Nodes[0]
	named := func(kind string, i int) string { return e2e.BlobTarget("0x1", fmt.Sprint(kind, i)) }
	const blobs = 8
	bodies := map[string][]byte{} // of the moment to which the database goes back
	for i := range blobs {
		writer.Must(204, "PUT", named("gone", i), e2e.Content(uint64(i), 100_000))
		writer.Must(204, "DELETE", named("gone", i), nil)
	}
	// A delete marker's time is when the object was stored at versitygw, and elsewhere when it was
	// deleted.
	since := time.Now().UTC().Format("2006-01-02T15:04:05")
	for i := range blobs {
		for _, kind := range []string{"kept", "deleted", "replaced"} {
			body := e2e.Content(uint64(len(bodies)), 50_000*(i%3)+1_000) // a third of them are in the database
			writer.Must(204, "PUT", named(kind, i), body)
			bodies[named(kind, i)] = body
		}
	}
	freed := func() {
		t.Helper()
		// The grace is over when the garbage is old enough.
		testenv.OK(t, database.Exec(`UPDATE garbage SET since = since - CAST(25 AS BIGINT) * 3600 * 1000000`))
		e2e.Await(t, "garbage is left", func() bool { return garbage(t, c) == 0 })
	}
	freed()
	testenv.OK(t, archive.Mark("here"))
	for i := range blobs {
		writer.Must(204, "DELETE", named("deleted", i), nil)
		writer.Must(204, "PUT", named("replaced", i), e2e.Content(uint64(1000+i), 100_000))
		writer.Must(204, "PUT", named("lost", i), e2e.Content(uint64(2000+i), 100_000))
	}
	writer.Must(204, "DELETE", named("lost", 0), nil)
	freed()
	for _, node := range c.Nodes {
		node.Stop()
	}
	testenv.OK(t, archive.Restore("here"))

	places := c.Places(database)
	if r := e2e.Wrapped(t, c.Options.Wrapper, append([]string{"check"}, places...)...); r.Code != 6 || !strings.Contains(r.Stdout, "0x1/deleted1") {
		t.Errorf("without the objects the check reports %+v", r)
	}
	awsDoes(t, c, "list-object-versions", [][2]string{{"bucket=BUCKET", "bucket=" + c.Objects.Bucket}, {"since=2026-01-31T12:34:56", "since=" + since}})
	r := e2e.Wrapped(t, c.Options.Wrapper, append([]string{"recover", "--yes"}, places...)...)
	if r.Code != 0 || !strings.Contains(r.Stdout, "Objects that nothing refers to:") || strings.Contains(r.Stdout, "missing") {
		t.Errorf("the recovery reports %+v", r)
	}
	e2e.CheckClean(t, c.Options.Wrapper, places...)
	for _, node := range c.Nodes {
		node.Restart()
		for target, body := range bodies {
			node.Holds(target, body)
		}
		for i := range blobs {
			node.Must(404, "GET", named("gone", i), nil)
			node.Must(404, "GET", named("lost", i), nil)
		}
	}
	// Objects that were brought back are deleted and freed as all objects.
	for target := range bodies {
		writer.Must(204, "DELETE", target, nil)
	}
	freed()
	writer.Must(204, "PUT", named("lost", 1), e2e.Content(1, 100_000))
	e2e.CheckClean(t, c.Options.Wrapper, places...)
}

// awsDoes runs the commands of docs/backups.md that contain a text against the cluster's bucket.
func awsDoes(t *testing.T, c *e2e.Cluster, containing string, replaced [][2]string) {
	t.Helper()
	script := e2e.BlockOf(t, "docs/backups.md", "sh", containing, replaced)
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", `aws() { /usr/bin/aws --endpoint-url "http://$OBJECTS" "$@"; }`+"\n"+script)
	command.Env = append(os.Environ(), "OBJECTS="+c.Objects.Addr, "AWS_ACCESS_KEY_ID="+testenv.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+testenv.S3SecretKey,
		"AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
}

// garbage returns how many contents wait until they are freed.
func garbage(t *testing.T, c *e2e.Cluster) (contents int) {
	t.Helper()
	conn := testenv.Must(pgx.Connect(t.Context(), c.Database.DSN()))(t)
	testenv.OK(t, errors.Join(conn.QueryRow(t.Context(), `SELECT count(*) FROM garbage`).Scan(&contents), conn.Close(t.Context())))
	return contents
}

// TestBucketThatWasSetBack restores the bucket's older copy while all nodes are stopped. A
// start must notice, the blobs that lost their bytes be named, and the service go on when it is
// recovered.
// Invariant 99.
func TestBucketThatWasSetBack(t *testing.T) {
	withS3Keys(t)
	s := newSetback(e2e.NewCluster(t, e2e.Options{Dirty: true}))
	stop := func() {
		for _, node := range s.Nodes {
			node.Stop()
		}
	}
	stop()
	copied := filepath.Join(t.TempDir(), "copy")
	testenv.OK(t, os.CopyFS(copied, os.DirFS(s.Objects.Folder())))
	s.active.Restart()
	s.active.Must(204, "PUT", s.lost, s.data)
	s.active.Stop()
	testenv.OK(t, errors.Join(os.RemoveAll(s.Objects.Folder()), os.CopyFS(s.Objects.Folder(), os.DirFS(copied))))
	s.active.Restart()
	s.active.Must(503, "GET", "/readyz", nil)
	s.active.Holds(s.kept, s.data)
	e2e.CheckProblem(t, s.active.Do("PUT", s.lost, s.data), 503, "rolled_back")
	s.active.Logged("everything but reads is refused")
	s.recover("the bytes lack record", "Blobs that cannot be read: 1.", "0x1/lost")
	s.active.Eventually("the node is not ready", func() bool { return s.active.Do("GET", "/readyz", nil).Status == 200 })
	s.active.Must(204, "PUT", s.lost, s.data)
	s.active.Logged("another generation has begun")
}
