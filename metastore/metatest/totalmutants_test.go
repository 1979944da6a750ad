package metatest_test

import (
	"context"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/metastore"
)

func TestBrokenTotalsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "does not count the bytes of garbage", Break: func(h dbtest.Handle, _ string) dbtest.Handle {
			return weightless{h}
		}, Caught: []string{"garbage/paging"}},
		{Name: "forgets an account in the total", Break: func(h dbtest.Handle, _ string) dbtest.Handle {
			return totalsLess{h}
		}, Caught: []string{"accounts/changes", "accounts/pages", "accounts/folded"}},
	})
}

// weightless returns backlogs without bytes.
type weightless struct{ dbtest.Handle }

func (s weightless) GarbageBacklog(ctx context.Context, grace time.Duration) (metastore.Backlog, error) {
	b, err := s.Handle.GarbageBacklog(ctx, grace)
	b.Bytes = 0
	return b, err
}

// totalsLess omits an account from the total.
type totalsLess struct{ dbtest.Handle }

func (s totalsLess) TotalStored(ctx context.Context) (blobs, bytes int64, err error) {
	blobs, bytes, err = s.Handle.TotalStored(ctx)
	list, lerr := s.ListAccounts(ctx, "", 1)
	if err == nil && lerr == nil && len(list) > 0 {
		blobs, bytes = blobs-list[0].Blobs, bytes-list[0].Bytes
	}
	return blobs, bytes, err
}
