package sqlstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/internal/testenv"
	"sluice/metastore"
)

// listsLeaveConnections begins more lists of every kind than there are connections, and checks that most of them
// run at a time, and that other reads find a connection while they run. A list that waits for too long
// returns ErrBusy.
func listsLeaveConnections(t *testing.T, s *Store, connections, most int) {
	t.Helper()
	ctx := t.Context()
	if err := s.db.write(ctx, func(*tx) error { return nil }); err != nil { // prepares the statements of a connection
		t.Fatal(err)
	}
	running, release := make(chan struct{}, 100), make(chan struct{})
	other := s.db.eng
	s.db.eng = hookedEngine{engine: other, onRead: func(read transactor) transactor {
		return func(ctx context.Context, fn func(*tx) error) error {
			return read(ctx, func(t *tx) error {
				select {
				case running <- struct{}{}:
				case <-release:
				}
				<-release
				return fn(t)
			})
		}
	}}
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
			if err := lists[i%len(lists)](ctx); err != nil {
				t.Errorf("list %d: %v", i%len(lists), err)
			}
		})
	}
	for range most {
		<-running
	}
	// The lists that run hold their connections, and all others wait for them.
	for i, list := range lists {
		if err := list(database.WithPatience(ctx, short)); !errors.Is(err, database.ErrBusy) {
			t.Errorf("list %d while %d run: %v", i, most, err)
		}
	}
	if n := len(running); n > 0 {
		t.Errorf("%d lists run at a time, want at most %d", most+n, most)
	}
	for range connections - most {
		err := other.read(database.WithPatience(ctx, 10*time.Second), func(t *tx) error {
			_, err := t.row(`SELECT size FROM blobs WHERE account = $1 AND name_head = $1 AND name_hash = $1`, args{[]byte("a")}, new(integer))
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

func TestListsLeaveConnections(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		listsLeaveConnections(t, openAt(t, databasePath(t), Options{Readers: 4}), 4, 2)
	})
	t.Run("postgres", func(t *testing.T) {
		s, _ := openNode(t, testenv.Postgres(t)+"&pool_max_conns=8")
		listsLeaveConnections(t, s, 8, 2)
	})
	t.Run("postgres with few connections", func(t *testing.T) {
		s, _ := openNode(t, testenv.Postgres(t)+"&pool_max_conns=3")
		listsLeaveConnections(t, s, 3, 1)
	})
}
