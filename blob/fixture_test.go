package blob_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database/dbtest"
	"sluice/database/sqlstore"
	"sluice/internal/task"
	"sluice/internal/testclock"
	"sluice/internal/testenv"
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
	t.Cleanup(func() {
		if err := meta.Close(); err != nil {
			t.Error(err)
		}
	})
	f.meta = meta
	if opt.ExtentSize == 0 {
		opt.ExtentSize = 2 << 20
	}
	f.Service = blob.New(meta, f.bytes, opt)
	return f
}

// reportTo returns a report of runs that fails the test if a run failed.
func reportTo(t testing.TB) task.Report {
	return func(run task.Run) {
		if run.Err != nil {
			t.Errorf("%s: %v", run.Task, run.Err)
		}
	}
}

func (f *fixture) put(t testing.TB, name string, body []byte) {
	t.Helper()
	if _, err := f.Put(context.Background(), blob.PutOptions{Account: "a", Name: name}, bytes.NewReader(body), int64(len(body))); err != nil {
		t.Fatal(err)
	}
}

// read returns n bytes from a blob's offset off.
func (f *fixture) read(t testing.TB, name string, off, n int64) []byte {
	t.Helper()
	c, err := f.Open(context.Background(), "a", name)
	testenv.OK(t, err)
	defer c.Close()
	var out bytes.Buffer
	if m, err := c.WriteRange(context.Background(), &out, off, n); err != nil || m != n {
		t.Fatalf("WriteRange(%d, %d) = %d, %v", off, n, m, err)
	}
	return out.Bytes()
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
