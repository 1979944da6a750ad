package ledgertest_test

import (
	"context"
	"testing"

	"sluice/database/dbtest"
	"sluice/ledger"
)

// Invariant 54.
func TestBrokenInspectionsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "repeats the session after which a page begins", Break: dbtest.Broken[repeatsSession], Caught: []string{"inspection/sessions"}},
		{Name: "lists the channels of other pages", Break: dbtest.Broken[listsAllChannels], Caught: []string{"inspection/channels"}},
		{Name: "shows the oldest sales first", Break: dbtest.Broken[salesInReverse], Caught: []string{"inspection/ledger"}},
		{Name: "shows a collected payment as pending", Break: dbtest.Broken[pendingForever], Caught: []string{"inspection/ledger"}},
	})
}

type repeatsSession struct{ dbtest.Correct }

func (s repeatsSession) ListSessions(ctx context.Context, after string, limit int, bytes int64) ([]ledger.Session, bool, error) {
	list, more, err := s.Correct.ListSessions(ctx, after, limit, bytes)
	if after != "" && err == nil {
		repeated, rerr := s.Session(ctx, after)
		return append([]ledger.Session{repeated}, list...)[:min(limit, len(list)+1)], more, rerr
	}
	return list, more, err
}

type listsAllChannels struct{ dbtest.Correct }

func (s listsAllChannels) ListChannels(ctx context.Context, after string, _ int) ([]ledger.Channel, error) {
	return s.Correct.ListChannels(ctx, after, 1000)
}

type salesInReverse struct{ dbtest.Correct }

func (s salesInReverse) Sales(ctx context.Context, channel, before string, limit int) ([]ledger.Sale, error) {
	list, err := s.Correct.Sales(ctx, channel, before, limit)
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list, err
}

type pendingForever struct{ dbtest.Correct }

func (s pendingForever) Statement(ctx context.Context, channel string) (ledger.Statement, error) {
	l, err := s.Correct.Statement(ctx, channel)
	if l.Pending == nil {
		l.Pending = l.Booked
	}
	return l, err
}
