package ledgertest_test

import (
	"context"
	"testing"

	"sluice/database"
	"sluice/database/dbtest"
)

func TestBrokenAmountsAreCaught(t *testing.T) {
	breaks := func(change func(*database.Census)) func(dbtest.Handle, string) dbtest.Handle {
		return func(h dbtest.Handle, _ string) dbtest.Handle { return miscounts{h, change} }
	}
	catch(t, []dbtest.Mutant{
		{Name: "takes what was settled for accepted", Break: breaks(func(c *database.Census) {
			c.Channels.Accepted = c.Channels.Settled
		}), Caught: []string{"census/amounts"}},
		{Name: "overflows", Break: breaks(func(c *database.Census) {
			if c.Channels.Deposited == database.Sum(1<<64-1) {
				c.Channels.Deposited = 99
			}
		}), Caught: []string{"census/amounts"}},
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
