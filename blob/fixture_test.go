package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database/dbtest"
	"sluice/database/sqlstore"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// fixture is a Service over a real metadata store and a byte store in memory, with a clock that the
// test sets.
type fixture struct {
	*blob.Service
	meta  *sqlstore.Store
	bytes *memory.Store
	clock *testclock.Clock
}

// template is an empty database.
var template dbtest.Template

func openSQLite(path string, now func() time.Time) (dbtest.Handle, error) {
	return sqlstore.OpenSQLite(path, sqlstore.Options{Now: now})
}

// newFixture returns a Service with the given options. Extents are small, so that small contents
// have several.
func newFixture(t testing.TB, opt blob.Options) *fixture {
	t.Helper()
	f := &fixture{bytes: memory.New(), clock: testclock.New()}
	meta, err := sqlstore.OpenSQLite(template.Copy(t, openSQLite), sqlstore.Options{Now: f.clock.Now})
	testenv.OK(t, err)
	testenv.AtEnd(t, meta.Close)
	f.meta = meta
	if opt.ExtentSize == 0 {
		opt.ExtentSize = 2 << 20
	}
	f.Service = blob.New(meta, f.bytes, opt)
	return f
}

// openMeta opens an empty database in a synctest bubble.
func openMeta(t *testing.T) *sqlstore.Store {
	t.Helper()
	s := testenv.Must(sqlstore.OpenSQLite(template.Copy(t, openSQLite), sqlstore.Options{}))(t)
	testenv.AtEnd(t, s.Close)
	return s
}

// reportTo returns a report of runs that fails the test if a run failed.
func reportTo(t testing.TB) task.Report {
	return func(run task.Run) {
		testenv.Is(t, run.Err, nil, "%s", run.Task)
	}
}

// to returns the options of a Put to a name.
func to(name string) blob.PutOptions { return blob.PutOptions{Account: "a", Name: name} }

func (f *fixture) put(t testing.TB, name string, body []byte) {
	t.Helper()
	testenv.Must(f.Put(context.Background(), to(name), bytes.NewReader(body), int64(len(body))))(t)
}

// keep lets account a keep versions, which can have locks.
func (f *fixture) keep(t testing.TB) {
	t.Helper()
	testenv.Must(f.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State, k.Locks = metastore.KeepOn, true
		return nil, nil
	}))(t)
}

// read returns n bytes from a blob's offset off.
func (f *fixture) read(t testing.TB, name string, off, n int64) []byte {
	t.Helper()
	c := testenv.Must(f.Open(context.Background(), "a", name))(t)
	defer c.Close()
	var out bytes.Buffer
	if m, err := c.WriteRange(context.Background(), &out, off, n); err != nil || m != n {
		t.Fatalf("WriteRange(%d, %d) = %d, %v", off, n, m, err)
	}
	return out.Bytes()
}

// run runs a Service's tasks until the test calls stop, which waits for their end.
func run(tb testing.TB, s *blob.Service, report task.Report) (stop func()) {
	ctx, cancel := context.WithCancel(tb.Context())
	var tasks sync.WaitGroup
	tasks.Go(func() { s.Run(ctx, task.NewControl(report)) })
	return func() { cancel(); tasks.Wait() }
}

// inRun calls a function in a synctest bubble, while a Service's Run works on a database with the
// bubble's clock. service returns the Service for the fixture's stores.
func inRun(t *testing.T, service func(f *fixture) *blob.Service, call func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(testenv.MemoryDir(t), "meta.db")
		meta := testenv.Must(sqlstore.OpenSQLite(path, sqlstore.Options{Now: time.Now}))(t)
		f := &fixture{meta: meta, bytes: memory.New()}
		testenv.AtEnd(t, f.meta.Close)
		f.Service = service(f)
		stop := run(t, f.Service, reportTo(t))
		defer stop()
		call(t, f)
	})
}

// notInline returns a Service over the fixture's stores that keeps no content inline.
func notInline(f *fixture) *blob.Service {
	return blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1})
}

// open returns a content that is closed when the test ends.
func (f *fixture) open(t testing.TB, name string) *blob.Content {
	t.Helper()
	c := testenv.Must(f.Open(context.Background(), "a", name))(t)
	t.Cleanup(c.Close)
	return c
}

// wantObjects fails the test, which goes on, unless the byte store has n objects. The format says
// which they are.
func (f *fixture) wantObjects(t testing.TB, n int, format string, a ...any) {
	t.Helper()
	testenv.Equal(t, f.objects(t), n, "objects "+format, a...)
}

// wantNoGarbage fails the test, which goes on, if contents are garbage.
func (f *fixture) wantNoGarbage(t testing.TB, when string) {
	t.Helper()
	backlog := testenv.Must(f.GarbageBacklog(context.Background()))(t)
	testenv.Equal(t, backlog.Contents, 0, "contents that are garbage %s", when)
}

// wantRead fails the test, which goes on, unless a blob has these bytes at offset off. The format
// says what is read.
func (f *fixture) wantRead(t testing.TB, name string, off int64, want []byte, format string, a ...any) {
	t.Helper()
	if got := f.read(t, name, off, int64(len(want))); !bytes.Equal(got, want) {
		t.Errorf("%s: read %.40q, want %.40q", fmt.Sprintf(format, a...), got, want)
	}
}

// objects returns the number of objects in the byte store.
func (f *fixture) objects(t testing.TB) int {
	t.Helper()
	n := 0
	err := f.bytes.List(context.Background(), "", func(bytestore.Object) error { n++; return nil })
	testenv.OK(t, err)
	return n
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	if _, err := io.ReadFull(rng, b); err != nil {
		panic(err)
	}
	return b
}
