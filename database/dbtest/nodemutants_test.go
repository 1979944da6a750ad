package dbtest_test

import (
	"context"
	"time"

	"sluice/database/dbtest"
)

// joinsForever forgets no node.
type joinsForever struct{ dbtest.Handle }

func (s joinsForever) Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func([]string) error) error {
	return s.Handle.Join(ctx, node, settings, 1000*ttl, agrees)
}

// asksLater records a node before it calls agrees.
type asksLater struct{ dbtest.Handle }

func (s asksLater) Join(ctx context.Context, node, settings string, ttl time.Duration, agrees func([]string) error) error {
	var seen []string
	err := s.Handle.Join(ctx, node, settings, ttl, func(others []string) error { seen = others; return nil })
	if err != nil {
		return err
	}
	return agrees(seen)
}

type neverLeaves struct{ dbtest.Handle }

func (neverLeaves) Leave(context.Context, string) error { return nil }
