package metatest_test

import (
	"context"
	"testing"
	"time"

	"sluice/database"
	"sluice/metastore"
	"sluice/metastore/metatest"
)

func TestBrokenCensusesAreCaught(t *testing.T) {
	breaks := func(change func(*database.Census)) func(metatest.Handle, string) metatest.Handle {
		return func(h metatest.Handle, _ string) metatest.Handle { return miscounts{h, change} }
	}
	catch(t, []mutant{
		{"counts exhausted sessions as active", breaks(func(c *database.Census) {
			c.Sessions.Active, c.Sessions.Exhausted = c.Sessions.Active+c.Sessions.Exhausted, 0
		}), []string{"census/states"}},
		{"counts closed channels as expired", breaks(func(c *database.Census) {
			c.Channels.Expired, c.Channels.Closed = c.Channels.Expired+c.Channels.Closed, 0
		}), []string{"census/states"}},
		{"counts inline extents as objects", breaks(func(c *database.Census) {
			c.Objects.Extents, c.Inline.Extents = c.Objects.Extents+c.Inline.Extents, 0
		}), []string{"census/states", "census/pages"}},
		{"counts the first page", breaks(func(c *database.Census) {
			c.Objects.Extents, c.Objects.Bytes = min(c.Objects.Extents, 1_000), min(c.Objects.Bytes, 1_000)
		}), []string{"census/pages"}},
		{"takes what was settled for accepted", breaks(func(c *database.Census) {
			c.Channels.Accepted = c.Channels.Settled
		}), []string{"census/amounts"}},
		{"overflows", breaks(func(c *database.Census) {
			if c.Channels.Deposited == database.Sum(1<<64-1) {
				c.Channels.Deposited = 99
			}
		}), []string{"census/amounts"}},
		{"does not count the bytes of garbage", func(h metatest.Handle, _ string) metatest.Handle {
			return weightless{h}
		}, []string{"garbage/paging"}},
		{"forgets an account in the total", func(h metatest.Handle, _ string) metatest.Handle {
			return totalsLess{h}
		}, []string{"accounts/changes", "accounts/pages", "accounts/folded"}},
	})
}

// miscounts changes the census.
type miscounts struct {
	metatest.Handle
	change func(*database.Census)
}

func (s miscounts) Census(ctx context.Context) (database.Census, error) {
	c, err := s.Handle.Census(ctx)
	s.change(&c)
	return c, err
}

// weightless returns backlogs without bytes.
type weightless struct{ metatest.Handle }

func (s weightless) GarbageBacklog(ctx context.Context, grace time.Duration) (metastore.Backlog, error) {
	b, err := s.Handle.GarbageBacklog(ctx, grace)
	b.Bytes = 0
	return b, err
}

// totalsLess omits an account from the total.
type totalsLess struct{ metatest.Handle }

func (s totalsLess) TotalStored(ctx context.Context) (blobs, bytes int64, err error) {
	blobs, bytes, err = s.Handle.TotalStored(ctx)
	list, lerr := s.ListAccounts(ctx, "", 1)
	if err == nil && lerr == nil && len(list) > 0 {
		blobs, bytes = blobs-list[0].Blobs, bytes-list[0].Bytes
	}
	return blobs, bytes, err
}
