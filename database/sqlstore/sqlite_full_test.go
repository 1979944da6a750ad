package sqlstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestFullDatabase fills the database to a limit of pages: calls that do not fit return ErrNoSpace,
// further calls in their batch succeed, deletes work, and the space that they free can be used
// again.
func TestFullDatabase(t *testing.T) {
	ctx := t.Context()
	s := openAt(t, databasePath(t), Options{})
	testenv.Must(s.CreateSession(ctx, ledger.Session{ID: "session", Total: 1000, Left: 1000, Expires: time.Now().Add(time.Hour)}, nil))(t)
	testenv.OK(t, s.db.Write(ctx, func(t *engine.Tx) error {
		var pages engine.Integer
		_, err := t.Row("PRAGMA max_page_count = 1000", nil, &pages)
		return err
	}))
	body := make([]byte, 200_000)
	commit := func(name string) (metastore.Blob, error) {
		return s.CommitBlob(ctx,
			metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), Size: int64(len(body))},
			[]metastore.Extent{{Size: int64(len(body)), Body: body}}, nil)
	}
	var blobs []metastore.Blob
	for {
		b, err := commit(fmt.Sprint("name", len(blobs)))
		if err != nil {
			if !errors.Is(err, database.ErrNoSpace) {
				t.Fatalf("commit to a full database: %v", err)
			}
			break
		}
		if blobs = append(blobs, b); len(blobs) > 100 {
			t.Fatal("the database does not become full")
		}
	}
	if len(blobs) == 0 {
		t.Fatal("no commit fits")
	}

	g := enginetest.Hold(t, s.db)
	const n = 10
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			testenv.Is(t, testenv.Error(commit(fmt.Sprint("too much", i))), database.ErrNoSpace, "commit to a full database")
		})
		wg.Go(func() {
			idem := &database.Idempotency{Scope: "s", Key: fmt.Sprint(i)}
			testenv.Is(t, testenv.Error(s.UseSession(ctx, "session", 1, idem)), nil, "use of a session in a batch with a commit that does not fit")
		})
	}
	g.Queued(2 * n)
	g.Release()
	wg.Wait()
	testenv.Check(t, g.Result())
	testenv.Equal(t, testenv.Must(s.Session(ctx, "session"))(t).Left, 1000-n, "session after %d uses", n)
	for i := range n {
		testenv.Is(t, testenv.Error(s.Blob(ctx, "a", fmt.Sprint("too much", i))), database.ErrNotFound, "refused blob")
	}
	testenv.Is(t, s.Err(), nil, "a full database stopped the store")

	id, had, err := dbtest.Remove(ctx, s, "a", "name0", nil)
	if err != nil || !had {
		t.Fatalf("delete in a full database: %v, %v", had, err)
	}
	if err := errors.Join(s.DropExtents(ctx, id, []metastore.Position{{}}), s.DropContent(ctx, id)); err != nil {
		t.Fatalf("drop in a full database: %v", err)
	}
	testenv.Is(t, testenv.Error(commit("again")), nil, "commit after a delete")
	for _, b := range blobs[1:] {
		testenv.Equal(t, testenv.Must(s.Blob(ctx, "a", b.Name))(t).Content, b.Content, "blob %s at the end", b.Name)
	}
}
