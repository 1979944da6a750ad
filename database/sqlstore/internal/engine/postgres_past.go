package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"sluice/database"
)

// acknowledgedKept is how many acknowledged transactions are looked for: the last ones. A server
// that was set back lacks the newest commits, so it lacks a node's last transaction if it lacks any
// of them. More than one is kept, because concurrent commits are acknowledged in another order than
// they were written.
const acknowledgedKept = 256

// acknowledged has the last transactions that were acknowledged to this process, by their ids. Each
// new connection is asked for them, because it may lead to a server that was set back: to one that
// was restored, or that became the primary without having received everything. That is exact, other
// than positions in the log: a synchronous standby has every id and another log.
type acknowledged struct {
	mu      sync.Mutex
	ids     [acknowledgedKept][]byte
	next    int
	forgets int                   // calls of forget
	lost    atomic.Pointer[error] // nil: the servers had everything
}

// add adds the id of a transaction that was acknowledged.
func (a *acknowledged) add(id []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids[a.next%acknowledgedKept] = id
	a.next++
}

// list returns the ids, in any order, and how often earlier ones were forgotten.
func (a *acknowledged) list() (ids [][]byte, forgets int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append(ids, a.ids[:min(a.next, acknowledgedKept)]...), a.forgets
}

// forget forgets the ids, and the loss that was found by them.
func (a *acknowledged) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = 0
	a.forgets++
	a.lost.Store(nil)
}

// verify records whether a new connection's server lacks an id. Ids are deleted in their order, and
// the greatest of those that are old enough is retained: so a server lacks an id only if it has a
// smaller one.
func (a *acknowledged) verify(ctx context.Context, c *pgx.Conn) error {
	ids, forgets := a.list()
	if len(ids) == 0 {
		return nil
	}
	var lost int
	err := c.QueryRow(ctx, `SELECT count(*) FROM unnest($1::bytea[]) AS acknowledged(id)
		WHERE id > (SELECT t.id FROM transactions t ORDER BY t.id LIMIT 1) AND NOT EXISTS (SELECT 1 FROM transactions t WHERE t.id = acknowledged.id)`, ids).Scan(&lost)
	if err != nil {
		return fmt.Errorf("looking for acknowledged transactions: %w", err)
	}
	if lost > 0 {
		err := fmt.Errorf("%w: the database server lacks %d of the last %d transactions that were acknowledged to this node", database.ErrSetBack, lost, len(ids))
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.forgets == forgets {
			a.lost.Store(&err)
		}
	}
	return nil
}

// err returns the loss that verify has found.
func (a *acknowledged) err() error {
	if lost := a.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}
