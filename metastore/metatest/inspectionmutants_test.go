package metatest_test

import (
	"context"
	"testing"

	"sluice/ledger"
	"sluice/metastore/metatest"
)

func TestBrokenInspectionsAreCaught(t *testing.T) {
	catch(t, []mutant{
		{"repeats the session after which a page begins", func(h metatest.Handle, _ string) metatest.Handle { return repeatsSession{h} }, []string{"inspection/sessions"}},
		{"lists the channels of other pages", func(h metatest.Handle, _ string) metatest.Handle { return listsAllChannels{h} }, []string{"inspection/channels"}},
		{"shows the oldest sales first", func(h metatest.Handle, _ string) metatest.Handle { return salesInReverse{h} }, []string{"inspection/ledger"}},
		{"shows a collected payment as pending", func(h metatest.Handle, _ string) metatest.Handle { return pendingForever{h} }, []string{"inspection/ledger"}},
	})
}

type repeatsSession struct{ metatest.Handle }

func (s repeatsSession) ListSessions(ctx context.Context, after string, limit int, bytes int64) ([]ledger.Session, bool, error) {
	list, more, err := s.Handle.ListSessions(ctx, after, limit, bytes)
	if after != "" && err == nil {
		repeated, rerr := s.Session(ctx, after)
		return append([]ledger.Session{repeated}, list...)[:min(limit, len(list)+1)], more, rerr
	}
	return list, more, err
}

type listsAllChannels struct{ metatest.Handle }

func (s listsAllChannels) ListChannels(ctx context.Context, after string, _ int) ([]ledger.Channel, error) {
	return s.Handle.ListChannels(ctx, after, 1000)
}

type salesInReverse struct{ metatest.Handle }

func (s salesInReverse) Sales(ctx context.Context, channel, before string, limit int) ([]ledger.Sale, error) {
	list, err := s.Handle.Sales(ctx, channel, before, limit)
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list, err
}

type pendingForever struct{ metatest.Handle }

func (s pendingForever) Statement(ctx context.Context, channel string) (ledger.Statement, error) {
	l, err := s.Handle.Statement(ctx, channel)
	if l.Pending == nil {
		l.Pending = l.Booked
	}
	return l, err
}
