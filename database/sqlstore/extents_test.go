package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

// counting counts the statements of a connection.
type counting struct {
	*sqliteConn
	execs int
}

func (c *counting) exec(query string, in args) (int64, error) {
	c.execs++
	return c.sqliteConn.exec(query, in)
}

// TestExtentsGoInBulk counts the statements that insert a list of extents. On PostgreSQL each
// is a round trip.
func TestExtentsGoInBulk(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	for n, most := range map[int]int{0: 0, 1: 1, 5: 2, 31: 10, 64: 2, 255: 17, 2048: 8} {
		extents := make([]metastore.Extent, n)
		for i := range extents {
			extents[i] = metastore.Extent{Offset: int64(i), Size: 1, Blocks: []uint32{uint32(i)}, Key: fmt.Sprint(n, "-", i)}
		}
		content := metastore.NewContentID(time.Now())
		var c *counting
		err := s.db.write(t.Context(), func(tx *tx) error {
			c = &counting{sqliteConn: tx.conn.(*sqliteConn)}
			tx.conn = c
			defer func() { tx.conn = c.sqliteConn }()
			return metaTx{tx}.addExtents(content, extents)
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.execs > most {
			t.Errorf("%d extents took %d statements, want at most %d", n, c.execs, most)
		}
		got, err := s.Extents(t.Context(), content, metastore.Position{}, n+1)
		if err != nil || !slices.EqualFunc(got, extents, func(a, b metastore.Extent) bool {
			return a.Offset == b.Offset && a.Size == b.Size && a.Key == b.Key && slices.Equal(a.Blocks, b.Blocks)
		}) {
			t.Errorf("%d extents: %d were read, %v", n, len(got), err)
		}
	}
}

// TestStagedExtentsOfACrash stages extents for a commit that never happens. Their objects
// count as referenced and are not deleted until the extents become garbage, which is long
// after a commit would have been refused for their age.
func TestStagedExtentsOfACrash(t *testing.T) {
	for kind, newHarness := range map[string]func(testing.TB) *dbtest.Harness{"sqlite": newHarness, "postgres": newPostgresHarness} {
		t.Run(kind, func(t *testing.T) {
			h := newHarness(t)
			defer func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}()
			opened, err := h.Open()
			if err != nil {
				t.Fatal(err)
			}
			s := opened.(dbtest.Handle).(*Store)
			content := metastore.NewContentID(h.Clock.Now())
			extents := make([]metastore.Extent, stageExtents+1)
			for i := range extents {
				extents[i] = metastore.Extent{Offset: int64(i), Size: 1, Key: fmt.Sprint("object", i), Created: h.Clock.Now()}
			}
			if err := s.stage(t.Context(), content, delta{}, extents); err != nil {
				t.Fatal(err)
			}
			check := func(when string, due bool) {
				t.Helper()
				if _, err := s.Purge(t.Context(), 100); err != nil {
					t.Error(err)
				}
				got, err := s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, 10)
				if err != nil || (len(got) == 1) != due {
					t.Errorf("%s: garbage %v, %v", when, got, err)
				}
				keys := []string{extents[0].Key, extents[stageExtents].Key}
				if free, err := s.Unreferenced(t.Context(), keys); err != nil || len(free) != 0 {
					t.Errorf("%s: not referenced: %q, %v", when, free, err)
				}
			}
			forward := func(d time.Duration) {
				t.Helper()
				h.Clock.Advance(d)
				if h.AdvanceEngine == nil {
					return
				}
				if err := h.AdvanceEngine(d); err != nil {
					t.Fatal(err)
				}
			}
			check("immediately", false)
			forward(metastore.MaxExtentAge + time.Second)
			check("when the extents are too old", false)
			b := metastore.Blob{Account: "a", Name: "b", Content: content, Size: int64(len(extents))}
			_, err = s.commitBlob(t.Context(), b, extents, nil, func(t metaTx) error { return t.claim(content) })
			if !errors.Is(err, metastore.ErrStaleExtent) {
				t.Errorf("a commit of extents that are too old: %v", err)
			}
			forward(stageTime - metastore.MaxExtentAge - 2*time.Second)
			check("just before the limit", false)
			forward(2 * time.Second)
			check("at the limit", true)
		})
	}
}

// TestContextEndsWhileStaging ends the context of a commit between two of its transactions:
// the commit returns the error of the context, and the staged extents are due garbage.
func TestContextEndsWhileStaging(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var left atomic.Int64
	left.Store(1 << 30)
	s := openAt(t, databasePath(t), Options{Now: func() time.Time {
		if left.Add(-1) == 0 {
			cancel()
		}
		return time.Now()
	}})
	extents := make([]metastore.Extent, 3*stageExtents)
	for i := range extents {
		extents[i] = metastore.Extent{Offset: int64(i), Size: 1, Key: fmt.Sprint("object", i), Created: time.Now()}
	}
	b := metastore.Blob{Account: "a", Name: "b", Content: metastore.NewContentID(time.Now()), Size: int64(len(extents))}
	left.Store(2)
	if _, err := s.CommitBlob(ctx, b, extents, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the commit: %v", err)
	}
	if _, err := s.Blob(t.Context(), "a", "b"); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("the blob: %v", err)
	}
	got, err := s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, 10)
	if err != nil || len(got) != 1 || got[0].Content != b.Content {
		t.Errorf("garbage: %v, %v", got, err)
	}
	written, err := s.Extents(t.Context(), b.Content, metastore.Position{}, len(extents))
	if err != nil || len(written) != 2*stageExtents {
		t.Errorf("%d extents were written, %v; want those of two transactions", len(written), err)
	}
}

// TestStagedExtentsThatBecameGarbage: a commit claims neither a content that became garbage in the
// meantime, whose objects may be deleted, nor one that was never staged.
func TestStagedExtentsThatBecameGarbage(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	content := metastore.NewContentID(time.Now())
	claims := func() error {
		return s.db.write(t.Context(), func(t *tx) error { return metaTx{t}.claim(content) })
	}
	if err := claims(); !errors.Is(err, metastore.ErrStaleExtent) {
		t.Errorf("never staged: %v", err)
	}
	if err := s.db.write(t.Context(), func(t *tx) error { return metaTx{t}.addGarbage(content, delta{}) }); err != nil {
		t.Fatal(err)
	}
	if err := claims(); !errors.Is(err, metastore.ErrStaleExtent) {
		t.Errorf("garbage: %v", err)
	}
}

// TestStagedExtentsOfACommitInDoubt: extents remain staged if the outcome of their commit is
// unknown, because it may still claim them. Those of a refused commit become garbage
// immediately.
func TestStagedExtentsOfACommitInDoubt(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	for cause, want := range map[error]error{database.ErrUnknownOutcome: nil, database.ErrExpired: metastore.ErrStaleExtent} {
		content := metastore.NewContentID(time.Now())
		if err := s.stage(t.Context(), content, delta{}, []metastore.Extent{{Size: 1, Key: content.String(), Created: time.Now()}}); err != nil {
			t.Fatal(err)
		}
		if err := s.unstage(t.Context(), content, cause); !errors.Is(err, cause) {
			t.Errorf("%v: %v", cause, err)
		}
		if err := s.db.write(t.Context(), func(t *tx) error { return metaTx{t}.claim(content) }); !errors.Is(err, want) {
			t.Errorf("claimed after %v: %v, want %v", cause, err, want)
		}
	}
}

// TestMigratesBodies opens databases of the version before bodies had rowids: all bodies are kept.
func TestMigratesBodies(t *testing.T) {
	b := func(text string) string { return `CAST('` + text + `' AS BLOB)` }
	content := metastore.ContentID([]byte("0123456789abcdef"))
	rows := ""
	var want []metastore.Extent
	for part := range 3 {
		body := strings.Repeat(fmt.Sprint(part), 4096+part)
		want = append(want, metastore.Extent{Part: part, Size: int64(len(body)), Blocks: []uint32{0x61626364}, Body: []byte(body)})
		key := fmt.Sprintf("%s, %d, 0", b(string(content[:])), part)
		rows = fmt.Sprintf(`INSERT INTO extents (content, part, off, size, blocks) VALUES (%s, %d, %s);
			INSERT INTO bodies (content, part, off, body) VALUES (%s, %s);`, key, len(body), b("abcd"), key, b(body)) + rows
	}
	onOlder(t, 14, rows, func(t *testing.T, s *Store) {
		got, err := s.Extents(t.Context(), content, metastore.Position{}, len(want)+1)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the extents are %.200v, want %.200v", got, want)
		}
	})
}
