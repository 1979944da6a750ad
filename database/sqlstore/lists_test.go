package sqlstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/metastore"
	"sluice/test/testenv"
)

// listsLeaveConnections begins more lists of every kind than there are connections, and checks that
// at most this many run at a time, and that other reads find a connection meanwhile. A list that
// waits for too long returns ErrBusy.
func listsLeaveConnections(t *testing.T, s *Store, connections, most int) {
	t.Helper()
	ctx := t.Context()
	// Prepares a connection's statements.
	testenv.OK(t, s.db.Write(ctx, func(*engine.Tx) error { return nil }))
	running, release := make(chan struct{}, 100), make(chan struct{})
	other := enginetest.Hook(s.db, enginetest.Hooks{Read: func(read enginetest.Transactor) enginetest.Transactor {
		return func(ctx context.Context, fn func(*engine.Tx) error) error {
			return read(ctx, func(t *engine.Tx) error {
				select {
				case running <- struct{}{}:
				case <-release:
				}
				<-release
				return fn(t)
			})
		}
	}})
	lists := []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := s.ListBlobs(ctx, metastore.ListQuery{Account: "a", Limit: 10})
			return err
		},
		func(ctx context.Context) error {
			_, err := s.ListBlobs(ctx, metastore.ListQuery{Account: "a", Delimiter: "/", Limit: 10})
			return err
		},
		func(ctx context.Context) error { _, err := s.ListAccounts(ctx, "", 10); return err },
		func(ctx context.Context) error { _, _, err := s.ListUploads(ctx, "a", "", 10, 0); return err },
		func(ctx context.Context) error { _, _, err := s.ListSessions(ctx, "", 10, 0); return err },
		func(ctx context.Context) error { _, err := s.ListChannels(ctx, "", 10); return err },
		func(ctx context.Context) error { _, err := s.Sales(ctx, "c", "", 10); return err },
	}
	var done sync.WaitGroup
	for i := range 3 * connections * len(lists) {
		done.Go(func() {
			testenv.Is(t, lists[i%len(lists)](ctx), nil, "list %d", i%len(lists))
		})
	}
	for range most {
		<-running
	}
	// The lists that run hold their connections, and all further lists wait for them.
	for i, list := range lists {
		testenv.Is(t, list(database.WithPatience(ctx, 100*time.Millisecond)), database.ErrBusy, "list %d while %d run", i, most)
	}
	if n := len(running); n > 0 {
		t.Errorf("%d lists run at a time, want at most %d", most+n, most)
	}
	for range connections - most {
		err := other.Read(database.WithPatience(ctx, 10*time.Second), func(t *engine.Tx) error {
			_, err := t.Row(`SELECT size FROM blobs WHERE account = $1 AND name_head = $1 AND name_hash = $1`, engine.Args{[]byte("a")}, new(engine.Integer))
			return err
		})
		if err != nil {
			t.Errorf("a read beside the lists: %v", err)
			break // the next one would wait as long
		}
	}
	close(release)
	done.Wait()
}

// Invariant 73.
func TestListsLeaveConnections(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		listsLeaveConnections(t, openAt(t, databasePath(t), Options{Readers: 4}), 4, 2)
	})
	t.Run("postgres", func(t *testing.T) {
		s := openNode(t, testenv.Postgres(t)+"&pool_max_conns=8")
		listsLeaveConnections(t, s, 8, 2)
	})
	t.Run("postgres with few connections", func(t *testing.T) {
		s := openNode(t, testenv.Postgres(t)+"&pool_max_conns=3")
		listsLeaveConnections(t, s, 3, 1)
	})
}
