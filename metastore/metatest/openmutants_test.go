package metatest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/metastore"
)

// TestStoresThatOpenWrongly checks that the suite detects stores with a wrong OpenBlob.
func TestStoresThatOpenWrongly(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "keepsRows", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return &keepsRows{Handle: h} }, Caught: []string{"blobs/open", "blobs/open-races"}},
		{Name: "invalidatesLate", Break: func(h dbtest.Handle, _ string) dbtest.Handle {
			return &invalidatesLate{keepsRows: keepsRows{Handle: h}, removed: make(chan struct{})}
		}, Caught: []string{"blobs/open-races"}},
		{Name: "keepsExpired", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return &keepsExpired{keepsRows{Handle: h}} }, Caught: []string{"blobs/open"}},
		{Name: "opensWithoutExtent", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return opensWithoutExtent{h} }, Caught: []string{"blobs/open"}},
		{Name: "opensSecondExtent", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return opensSecondExtent{h} }, Caught: []string{"blobs/open"}},
	})
}

// keepsRows returns the row that it read first.
type keepsRows struct {
	dbtest.Handle
	rows sync.Map
}

type keptRow struct {
	blob  metastore.Blob
	first []metastore.Extent
}

func (s *keepsRows) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	key := account + "/" + name
	if kept, ok := s.rows.Load(key); ok {
		row := kept.(keptRow)
		return row.blob, row.first, nil
	}
	b, first, err := s.Handle.OpenBlob(ctx, account, name)
	if err == nil {
		s.rows.Store(key, keptRow{b, first})
	}
	return b, first, err
}

// invalidatesLate removes rows after a commit. A query that began before it inserts the old row
// afterwards.
type invalidatesLate struct {
	keepsRows

	mu      sync.Mutex
	removed chan struct{} // closed when the rows are removed the next time
}

func (s *invalidatesLate) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	key := account + "/" + name
	if _, ok := s.rows.Load(key); ok {
		return s.keepsRows.OpenBlob(ctx, account, name)
	}
	b, first, err := s.Handle.OpenBlob(ctx, account, name)
	if err != nil {
		return b, first, err
	}
	s.mu.Lock()
	removed := s.removed
	s.mu.Unlock()
	select {
	case <-removed:
	case <-time.After(time.Second): // there is no other commit
	}
	s.rows.Store(key, keptRow{b, first})
	return b, first, nil
}

func (s *invalidatesLate) removeRows() {
	s.rows.Clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.removed)
	s.removed = make(chan struct{})
}

func (s *invalidatesLate) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	defer s.removeRows()
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

func (s *invalidatesLate) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	defer s.removeRows()
	return s.Handle.DeleteBlob(ctx, account, name, precondition)
}

// keepsExpired returns rows that it has after they have expired.
type keepsExpired struct{ keepsRows }

func (s *keepsExpired) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	s.rows.Clear()
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

func (s *keepsExpired) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	s.rows.Clear()
	return s.Handle.DeleteBlob(ctx, account, name, precondition)
}

// opensWithoutExtent returns no extent.
type opensWithoutExtent struct{ dbtest.Handle }

func (s opensWithoutExtent) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	b, _, err := s.Handle.OpenBlob(ctx, account, name)
	return b, nil, err
}

// opensSecondExtent returns the second extent, if there are two.
type opensSecondExtent struct{ dbtest.Handle }

func (s opensSecondExtent) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	b, first, err := s.Handle.OpenBlob(ctx, account, name)
	if err != nil {
		return b, first, err
	}
	list, err := s.Extents(ctx, b.Content, metastore.Position{}, 2)
	return b, list[max(0, len(list)-1):], errors.Join(err)
}
