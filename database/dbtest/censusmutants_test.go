package dbtest_test

import (
	"context"
	"testing"

	"sluice/database"
	"sluice/database/dbtest"
)

func TestBrokenCensusesAreCaught(t *testing.T) {
	breaks := func(change func(*database.Census)) func(dbtest.Handle, string) dbtest.Handle {
		return func(h dbtest.Handle, _ string) dbtest.Handle { return miscounts{h, change} }
	}
	catch(t, []dbtest.Mutant{
		{Name: "counts exhausted sessions as active", Break: breaks(func(c *database.Census) {
			c.Sessions.Active, c.Sessions.Exhausted = c.Sessions.Active+c.Sessions.Exhausted, 0
		}), Caught: []string{"census/states"}},
		{Name: "counts closed channels as expired", Break: breaks(func(c *database.Census) {
			c.Channels.Expired, c.Channels.Closed = c.Channels.Expired+c.Channels.Closed, 0
		}), Caught: []string{"census/states"}},
		{Name: "counts inline extents as objects", Break: breaks(func(c *database.Census) {
			c.Objects.Extents, c.Inline.Extents = c.Objects.Extents+c.Inline.Extents, 0
		}), Caught: []string{"census/states", "census/pages"}},
		{Name: "counts the first page", Break: breaks(func(c *database.Census) {
			c.Objects.Extents, c.Objects.Bytes = min(c.Objects.Extents, 1_000), min(c.Objects.Bytes, 1_000)
		}), Caught: []string{"census/pages"}},
	})
}

// miscounts changes the census.
type miscounts struct {
	dbtest.Handle
	change func(*database.Census)
}

func (s miscounts) Census(ctx context.Context) (database.Census, error) {
	c, err := s.Handle.Census(ctx)
	s.change(&c)
	return c, err
}
