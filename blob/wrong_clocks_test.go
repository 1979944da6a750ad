package blob_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/metastore"
	"sluice/test/testenv"
)

// midway calls a function after a body's first half was read.
type midway struct {
	io.Reader
	left int
	then func()
}

func (m *midway) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p[:min(len(p), max(m.left, 1))])
	if m.left -= n; m.left <= 0 && m.then != nil {
		then := m.then
		m.then = nil
		then()
	}
	return n, err
}

// TestNodesWithWrongClocks sets the nodes' clocks wrong by three days. The sweep of one node must
// spare what another is about to commit. What is too old to be committed by the database's clock
// must be rejected, whatever the node's clock shows, and must not be deleted by a sweep that is
// uncertain about the time.
// Invariant 102.
func TestNodesWithWrongClocks(t *testing.T) {
	testenv.Postgres(t) // prevents the server from being stopped
	for _, ahead := range []time.Duration{72 * time.Hour, -72 * time.Hour} {
		dsn, set := testenv.MovedPostgres(t, ahead)
		objects := memory.New()
		node := func() *blob.Service {
			meta := testenv.Must(sqlstore.OpenPostgres(t.Context(), dsn, sqlstore.Options{}))(t)
			testenv.AtEnd(t, meta.Close)
			return blob.New(meta, objects, blob.Options{InlineSize: -1, ExtentSize: 1 << 20, GarbageGrace: time.Hour})
		}
		writer, sweeper := node(), node()
		put := func(name string, meanwhile func()) (metastore.Blob, error) {
			body := &midway{bytes.NewReader(randomBytes(1, 2<<20)), 3 << 19, meanwhile}
			return writer.Put(t.Context(), to(name), body, 2<<20)
		}
		b, err := put("swept", func() {
			if found, err := sweeper.SweepOrphans(t.Context()); err != nil || found.Listed == 0 || found.Orphans != 0 {
				t.Errorf("ahead by %v: the sweep found %+v, %v", ahead, found, err)
			}
		})
		if err != nil || b.Modified.Sub(time.Now().Add(ahead)).Abs() > time.Minute {
			t.Errorf("ahead by %v: committed at %v, %v", ahead, b.Modified, err)
		}
		_, err = put("stale", func() {
			set(ahead + metastore.MaxExtentAge + time.Hour)
			if _, err := sweeper.SweepOrphans(t.Context()); err != nil && !errors.Is(err, database.ErrClock) {
				t.Error(err)
			}
		})
		testenv.Is(t, err, metastore.ErrStaleExtent, "ahead by %v: stale extents", ahead)
		c := testenv.Must(sweeper.Open(t.Context(), "a", "swept"))(t)
		var got bytes.Buffer
		if _, err := c.WriteRange(t.Context(), &got, 0, c.Size); err != nil || !bytes.Equal(got.Bytes(), randomBytes(1, 2<<20)) {
			t.Errorf("ahead by %v: %d bytes, %v", ahead, got.Len(), err)
		}
		c.Close()
	}
}
