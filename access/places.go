package access

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"sluice/access/places"
	"sluice/database"
)

// Places knows the settings of all places, in memory, so that a request costs no query. Its methods
// may be called concurrently.
//
// While Run runs, a change through another handle takes effect after the poll, usually. If
// the store cannot be reached, the last settings are used for 10 s more; then Account returns the
// store's errors. Unless Run runs, every call of Account queries the store.
type Places struct {
	store places.Store // nil: there are no places
	reads Reads        // the instance's
	poll  time.Duration
	view  atomic.Pointer[placesView]

	sem      chan struct{} // held while querying the store
	begun    atomic.Int64  // counts the queries
	answered int64         // the last query that has ended; guarded by sem
	err      error         // its error; guarded by sem
}

// placesView are the settings at one time. It is immutable.
type placesView struct {
	version  places.Version
	polled   time.Time // when the last successful poll began; zero: there was none
	accounts map[string]*accountPlaces
}

// NewPlaces returns the settings in a store, on an instance with these reads. Run polls every poll;
// 0: every second. If store is nil, there are none.
func NewPlaces(store places.Store, reads Reads, poll time.Duration) *Places {
	if poll == 0 {
		poll = time.Second
	}
	p := &Places{store: store, reads: reads, poll: poll, sem: make(chan struct{}, 1)}
	p.view.Store(&placesView{})
	return p
}

// Instance returns the instance's reads.
func (p *Places) Instance() Reads { return p.reads }

// Account returns the rules for an account's blobs. Neither it nor they allocate.
func (p *Places) Account(ctx context.Context, account string) (AccountRules, error) {
	view := p.view.Load()
	if p.store != nil && (view.polled.IsZero() || time.Since(view.polled) > maxTrust) {
		if err := p.Renew(ctx); err != nil {
			return AccountRules{}, err
		}
		view = p.view.Load()
	}
	return AccountRules{Rule{Reads: p.reads, Lists: p.reads.Lists()}, view.accounts[account]}, nil
}

// Run queries the store every poll whether places have changed, until ctx ends. It reports
// failures to report. It must not be called concurrently.
func (p *Places) Run(ctx context.Context, report func(error)) {
	pollEvery(ctx, p.poll, func(ctx context.Context) error {
		select {
		case p.sem <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-p.sem }()
		return p.query(ctx, true)
	}, report)
}

// Renew waits for a query that begins after the call, so that every change that was acknowledged
// before has an effect. One query serves all concurrent calls that wait.
func (p *Places) Renew(ctx context.Context) error {
	begun := p.begun.Load()
	select {
	case p.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.sem }()
	if p.answered > begun {
		return p.err
	}
	// Others wait for it too, so it must not depend on this context.
	ctx, cancel := context.WithTimeout(database.WithPatience(context.WithoutCancel(ctx), usageTimeout), usageTimeout)
	defer cancel()
	return p.query(ctx, false)
}

// query queries the store. Only a poll makes the view last, because only Run polls again. The
// caller must hold sem.
func (p *Places) query(ctx context.Context, poll bool) error {
	number, began, last := p.begun.Add(1), time.Now(), p.view.Load()
	next, err := last.renewed(ctx, p.store, p.reads)
	if p.answered, p.err = number, err; err != nil {
		p.err = fmt.Errorf("looking up the settings of places: %w", err)
		return p.err
	}
	if poll || !next.polled.IsZero() {
		next.polled = began
	}
	p.view.Store(next)
	return nil
}

// renewed returns the view as the store has it now.
func (v *placesView) renewed(ctx context.Context, store places.Store, reads Reads) (*placesView, error) {
	changes, err := store.PlaceChanges(ctx, v.version)
	if err != nil {
		return nil, err
	}
	if next, ok := v.with(changes, reads); ok {
		return next, nil
	}
	// The database was set back, and has changed in another way.
	if changes, err = store.PlaceChanges(ctx, places.Version{Number: -1}); err != nil {
		return nil, err
	}
	next, _ := v.with(changes, reads)
	return next, nil
}

// with returns the view after changes. It reports false if the changes do not lead to their
// version, so that the view has another history.
func (v *placesView) with(c places.Changes, reads Reads) (_ *placesView, ok bool) {
	next := &placesView{version: c.Version, polled: v.polled, accounts: v.accounts}
	if c.Whole {
		next.accounts = map[string]*accountPlaces{}
	} else if len(c.Rows) > 0 {
		next.accounts = maps.Clone(v.accounts)
	}
	sum := v.version.Sum
	changed := map[string]map[placeKey]places.Row{}
	for _, row := range c.Rows {
		rows := changed[row.Account]
		if rows == nil {
			rows = map[placeKey]places.Row{}
			if of := next.accounts[row.Account]; of != nil {
				rows = maps.Clone(of.rows)
			}
			changed[row.Account] = rows
		}
		key := placeKey{row.Name, row.Exact}
		sum ^= rows[key].Mark ^ row.Mark
		if rows[key] = row; !row.Set() {
			delete(rows, key)
		}
	}
	for account, rows := range changed {
		if len(rows) == 0 {
			delete(next.accounts, account)
			continue
		}
		next.accounts[account] = newAccountPlaces(rows, reads)
	}
	return next, c.Whole || sum == c.Version.Sum
}
