package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sluice/history"
)

// ErrNotPermitted is returned by OpenRepairer, wrapped, if the instance must not be changed now.
var ErrNotPermitted = errors.New("nothing may be changed")

// OpenRepairer opens an existing instance's stores to change them as a node does: its commits and
// deletions are permitted by its history. It locks the data folder if the instance has a
// part in it, and returns datadir.ErrInUse if a server runs there; nodes without a part in it may
// run. It creates and migrates nothing.
//
// OpenRepairer returns ErrDamaged if pages are damaged, and ErrNotPermitted if the database is not
// the one that is recorded as whole in its folder, the instance was set back, or another database
// holds its bytes. It waits for up to 20 seconds until this is known. The caller must Close the
// endpoint.
func OpenRepairer(ctx context.Context, l Location) (_ *Endpoint, err error) {
	e, err := OpenEndpoint(ctx, l, true, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.Look.Why != "" {
		return nil, fmt.Errorf("%w: %s; start a server on it first, which looks for missing data", ErrNotPermitted, e.Look.Why)
	}
	if _, err := history.Bind(ctx, e.Meta, e.Bytes); err != nil {
		return nil, err
	}
	if err := e.openHistory(ctx, l, Options{Node: "sluice check"}); err != nil {
		return nil, permitted(err)
	}
	e.watch()
	return e, permitted(e.History.Await(ctx))
}

// permitted marks an error that the history has returned.
func permitted(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotPermitted, err)
}

// watch watches the history until Close.
func (s *Stores) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { s.History.Watch(ctx, func(error, error) {}) })
	s.AtClose(func() error {
		cancel()
		watching.Wait()
		return nil
	})
}

// Recounts are the corrections of counts, in an order in which none makes another wrong. Each calls
// repaired with a sentence for each count that it has corrected durably.
func (e *Endpoint) Recounts() []Recount {
	return []Recount{
		{"the counts of open uploads", false, e.SQL.RecountUploads},
		{"the references of contents", true, e.SQL.RecountShares},
		{"the counts of accounts", false, e.SQL.RecountAccounts},
		{"the usage of owners", false, e.SQL.RecountUsage},
	}
}

// Recount is a correction of counts.
type Recount struct {
	What   string
	ByRows bool // a row that is damaged may hide things that it should count
	Run    func(ctx context.Context, repaired func(format string, args ...any)) error
}
