package meta

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// TestExtentsGoInBulk counts the statements that insert a list of extents. On PostgreSQL each
// is a round trip.
func TestExtentsGoInBulk(t *testing.T) {
	s := openSQLite(t, engine.Options{})
	for n, most := range map[int]int{0: 0, 1: 1, 5: 2, 31: 10, 64: 2, 255: 17, 2048: 8} {
		extents := make([]metastore.Extent, n)
		for i := range extents {
			extents[i] = metastore.Extent{Offset: int64(i), Size: 1, Blocks: []uint32{uint32(i)}, Object: fmt.Sprint(n, "-", i)}
		}
		content := metastore.NewContentID(time.Now())
		execs := 0
		testenv.OK(t, s.db.Write(t.Context(), func(t *engine.Tx) error {
			defer t.Observe(func(string, engine.Args) { execs++ })()
			return tx{t}.addExtents(content, extents)
		}))
		if execs > most {
			t.Errorf("%d extents took %d statements, want at most %d", n, execs, most)
		}
		got, err := s.Extents(t.Context(), content, metastore.Position{}, n+1)
		if err != nil || !slices.EqualFunc(got, extents, func(a, b metastore.Extent) bool {
			return a.Offset == b.Offset && a.Size == b.Size && a.Object == b.Object && slices.Equal(a.Blocks, b.Blocks)
		}) {
			t.Errorf("%d extents: %d were read, %v", n, len(got), err)
		}
	}
}

// TestStagedExtentsOfACrash stages extents for a commit that never happens. Their objects
// count as referenced and are not deleted until the extents become garbage, which is long
// after a commit would have been refused for their age.
// Invariant 131.
func TestStagedExtentsOfACrash(t *testing.T) {
	for kind, open := range map[string]func(*testing.T, engine.Options) *Metastore{
		"sqlite": func(t *testing.T, opt engine.Options) *Metastore { return openSQLite(t, opt) },
		"postgres": func(t *testing.T, opt engine.Options) *Metastore {
			return New(enginetest.OpenPostgres(t, testenv.Postgres(t), opt), nil)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			clock := testclock.New()
			s := open(t, engine.Options{Now: clock.Now})
			content := metastore.NewContentID(clock.Now())
			extents := make([]metastore.Extent, stageExtents+1)
			for i := range extents {
				extents[i] = metastore.Extent{Offset: int64(i), Size: 1, Object: fmt.Sprint("object", i), Created: clock.Now()}
			}
			testenv.OK(t, s.stage(t.Context(), content, usage.Delta{}, extents))
			check := func(when string, due bool) {
				t.Helper()
				err := s.db.WriteForDeletion(t.Context(), func(t *engine.Tx) error { _, err := PurgeStaged(t, 100); return err })
				if err != nil {
					t.Error(err)
				}
				got, err := s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, 10)
				if err != nil || (len(got) == 1) != due {
					t.Errorf("%s: garbage %v, %v", when, got, err)
				}
				keys := []string{extents[0].Object, extents[stageExtents].Object}
				if free, err := s.Unreferenced(t.Context(), keys); err != nil || len(free) != 0 {
					t.Errorf("%s: not referenced: %q, %v", when, free, err)
				}
			}
			check("immediately", false)
			clock.Advance(metastore.MaxExtentAge + time.Second)
			check("when the extents are too old", false)
			b := metastore.Blob{Account: "a", Name: "b", Content: content, Size: int64(len(extents))}
			_, err := s.commitBlob(t.Context(), b, extents, nil, func(t tx) error { return t.claim(content) })
			testenv.Is(t, err, metastore.ErrStaleExtent, "a commit of extents that are too old")
			clock.Advance(stageTime - metastore.MaxExtentAge - 2*time.Second)
			check("just before the limit", false)
			clock.Advance(2 * time.Second)
			check("at the limit", true)
		})
	}
}

// TestContextEndsWhileStaging ends a commit's context between two of its transactions: the commit
// returns the context's error, and the staged extents are due garbage.
func TestContextEndsWhileStaging(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var left atomic.Int64
	left.Store(1 << 30)
	s := openSQLite(t, engine.Options{Now: func() time.Time {
		if left.Add(-1) == 0 {
			cancel()
		}
		return time.Now()
	}})
	extents := make([]metastore.Extent, 3*stageExtents)
	for i := range extents {
		extents[i] = metastore.Extent{Offset: int64(i), Size: 1, Object: fmt.Sprint("object", i), Created: time.Now()}
	}
	b := metastore.Blob{Account: "a", Name: "b", Content: metastore.NewContentID(time.Now()), Size: int64(len(extents))}
	left.Store(2)
	testenv.Is(t, testenv.Error(s.CommitBlob(ctx, b, extents, nil)), context.Canceled, "the commit")
	testenv.Is(t, testenv.Error(s.Blob(t.Context(), "a", "b")), database.ErrNotFound, "the blob")
	got, err := s.GarbageContents(t.Context(), 0, metastore.GarbageContent{}, 10)
	if err != nil || len(got) != 1 || got[0].Content != b.Content {
		t.Errorf("garbage: %v, %v", got, err)
	}
	written, err := s.Extents(t.Context(), b.Content, metastore.Position{}, len(extents))
	if err != nil || len(written) != 2*stageExtents {
		t.Errorf("%d extents were written, %v; want those of two transactions", len(written), err)
	}
}

// TestStagedExtentsThatBecameGarbage: a commit claims no content that became garbage in the
// meantime, because its objects may be deleted, and none that was never staged.
func TestStagedExtentsThatBecameGarbage(t *testing.T) {
	s := openSQLite(t, engine.Options{})
	content := metastore.NewContentID(time.Now())
	claims := func() error {
		return s.db.Write(t.Context(), func(t *engine.Tx) error { return tx{t}.claim(content) })
	}
	testenv.Is(t, claims(), metastore.ErrStaleExtent, "never staged")
	testenv.OK(t, s.db.Write(t.Context(), func(t *engine.Tx) error { return tx{t}.addGarbage(content, usage.Delta{}) }))
	testenv.Is(t, claims(), metastore.ErrStaleExtent, "garbage")
}

// TestStagedExtentsOfACommitInDoubt: extents remain staged if their commit's outcome is unknown,
// because it may still claim them. A refused commit's extents become garbage immediately.
// Invariant 15.
func TestStagedExtentsOfACommitInDoubt(t *testing.T) {
	s := openSQLite(t, engine.Options{})
	for cause, want := range map[error]error{database.ErrUnknownOutcome: nil, database.ErrExpired: metastore.ErrStaleExtent} {
		content := metastore.NewContentID(time.Now())
		testenv.OK(t, s.stage(t.Context(), content, usage.Delta{}, []metastore.Extent{{Size: 1, Object: content.String(), Created: time.Now()}}))
		testenv.Is(t, s.unstage(t.Context(), content, cause), cause, "%v", cause)
		testenv.Is(t, s.db.Write(t.Context(), func(t *engine.Tx) error { return tx{t}.claim(content) }), want, "claimed after %v", cause)
	}
}
