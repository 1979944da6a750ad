package meta

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
)

const (
	// maxLookups is the maximum number of lookups that share a query.
	maxLookups = 64
	// maxLookupQueries is the maximum number of lookups' queries that run at a time. While so many
	// run, further lookups wait for one of them to end.
	maxLookupQueries = 4
)

// lookups combines lookups of blobs that arrive while earlier ones run: they share a query, and so
// a round trip. One that arrives while fewer than maxLookupQueries run waits for no query, but lets
// other goroutines run first. Each sees all commits before it began, because its query begins
// later.
//
// A query costs PostgreSQL mostly the message, its parsing and two process switches, which
// pipelining would not save. With two queries at a time, a database that must read from its disk
// would look up two rows at a time instead of four. A cache of rows on nodes would miss writes that
// another node has acknowledged.
type lookups struct {
	read  func(context.Context, func(tx) error) error // the store's
	timer *engine.SharedTimer                         // the callers' deadlines

	mu struct {
		sync.Mutex
		waiting []*lookup
		running int // goroutines that run queries
	}
}

func newLookups(read func(context.Context, func(tx) error) error) *lookups {
	return &lookups{read: read, timer: engine.NewSharedTimer()}
}

// lookup is one caller's lookup.
type lookup struct {
	account, name string
	until         time.Time   // until when its caller waits
	left          atomic.Bool // the caller waits no more
	row           *blobRow    // with found unset if there is no blob
	now           time.Time   // its query's
	err           error
	panicked      any
	done          chan struct{}
}

// get returns a name's row, with found unset if there is none, and the time of its query. ctx and
// its patience bound how long it waits.
func (l *lookups) get(ctx context.Context, account, name string) (*blobRow, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	wait := database.Await(ctx, database.Patience)
	defer wait.End()
	one := &lookup{account: account, name: name, until: wait.Until, done: make(chan struct{})}
	l.add(one)
	if err := l.timer.Wait(ctx, one.done, wait.Until); err != nil {
		one.left.Store(true)
		return nil, time.Time{}, err
	}
	if one.panicked != nil {
		panic(one.panicked)
	}
	return one.row, one.now, one.err
}

// add adds a lookup, and begins a query for it unless enough are running.
func (l *lookups) add(one *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiting = append(l.mu.waiting, one)
	if l.mu.running < maxLookupQueries {
		l.mu.running++
		go l.run()
	}
}

// run runs queries until no lookup waits.
func (l *lookups) run() {
	for list := l.take(); list != nil; list = l.take() {
		l.query(list)
	}
}

// take removes the lookups for the next query. If there are none, it returns nil, and its caller
// counts as ended.
func (l *lookups) take() []*lookup {
	runtime.Gosched() // requests that are about to look something up share the query
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.mu.waiting), maxLookups)
	if n == 0 {
		l.mu.waiting = nil
		l.mu.running--
		return nil
	}
	list := l.mu.waiting[:n:n]
	l.mu.waiting = l.mu.waiting[n:]
	return list
}

// query runs a query for lookups, without those that were left, and ends them. It is repeated, as
// any other, for as long as one of them is patient.
func (l *lookups) query(list []*lookup) {
	waiting := make([]*lookup, 0, len(list))
	var until time.Time
	for _, one := range list {
		if one.left.Load() {
			continue
		}
		waiting = append(waiting, one)
		if one.until.After(until) {
			until = one.until
		}
	}
	if len(waiting) == 0 {
		return
	}
	var err error
	defer func() {
		panicked := recover()
		for _, one := range waiting {
			one.panicked = panicked
			if err != nil {
				one.err = err
			}
			close(one.done)
		}
	}()
	ctx := database.WithPatience(context.Background(), time.Until(until))
	err = l.read(ctx, func(t tx) error { return t.blobRows(waiting) })
}

// blobRows sets the rows of lookups. A row that is damaged fails its lookup alone.
func (t tx) blobRows(list []*lookup) error {
	if len(list) == 1 {
		one := list[0]
		one.now = t.Now
		var err error
		one.row, err = t.blobRow(one.account, one.name)
		return err
	}
	accounts, heads, hashes := make([][]byte, len(list)), make([][]byte, len(list)), make([][]byte, len(list))
	for i, one := range list {
		n := splitName(one.name)
		accounts[i], heads[i], hashes[i] = []byte(one.account), n.head, n.hash
		one.row, one.now, one.err = &blobRow{}, t.Now, nil
	}
	var place engine.Integer // from 1
	var r scannedRow
	// Without LIMIT, PostgreSQL could choose to read whole tables.
	return t.Each(`SELECT k.place, f.*, `+firstExtent+`
		FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS k (account, head, hash, place)
		CROSS JOIN LATERAL (SELECT `+blobColumns+`, row_sum FROM blobs WHERE account = k.account AND name_head = k.head AND name_hash = k.hash LIMIT 1) f`+joinFirstExtentOfEach,
		engine.Args{accounts, heads, hashes}, append(engine.Args{&place}, r.places()...), func() error {
			one := list[place-1]
			one.row, one.err = r.blobRow(one.account, one.name)
			return nil
		})
}
