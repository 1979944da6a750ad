package money

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// Old sales are folded: their rows are replaced by a sum of count times price in their
// channel. A payment cannot sell again although its row is deleted, because the channel
// accepts only greater sequences. Sales to a session are kept for as long as the session,
// because the audit compares its total with them.

// FoldOldSales folds up to limit sales and returns that belong to no session and are older
// than ledger.SaleRetention.
func FoldOldSales(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	return t.foldSales(`session IS NULL AND at <= $1 ORDER BY at LIMIT ($2 + 0)`,
		t.Now.Add(-ledger.SaleRetention).UnixMicro(), int64(limit))
}

// endedSessions selects the first sessions after the end of their retention.
const endedSessions = `(SELECT f.id FROM sessions f WHERE f.expires <= $1 ORDER BY f.expires LIMIT ($2 + 0))`

// PurgeSessions folds the sales to sessions after the end of their retention, and then deletes
// these sessions. A session with more sales than the limit takes several calls.
func PurgeSessions(in *engine.Tx, limit int) (int, error) {
	t := tx{in}
	over, most := t.Now.Add(-ledger.SessionRetention).UnixMicro(), int64(limit)
	folded, err := t.foldSales(`session IN `+endedSessions+` LIMIT ($2 + 0)`, over, most)
	if err != nil {
		return 0, err
	}
	n, err := t.Exec(t.sessionStatements().purge, over, most)
	return folded + int(n), err
}

// errFold is the error for a fold that would lose or invent a sale.
var errFold = errors.New("sqlstore: sales cannot be folded")

// foldSales folds the sales that match a condition and returns their number. A lock excludes
// concurrent folds, and no other transaction changes a sale's fields that are summed. It locks
// channels before sales, as do all transactions that write sales.
func (t tx) foldSales(condition string, in ...any) (int, error) {
	if err := t.Lock("fold sales"); err != nil {
		return 0, err
	}
	var ids engine.Args
	var id []byte
	var channel string
	var count, price int64
	folded := map[string]*big.Int{}
	err := t.Each(`SELECT id, channel, count, price FROM sales WHERE `+condition, in,
		engine.Args{&id, &channel, (*engine.Integer)(&count), (*engine.Integer)(&price)},
		func() error {
			ids = append(ids, slices.Clone(id))
			if folded[channel] == nil {
				folded[channel] = new(big.Int)
			}
			folded[channel].Add(folded[channel], worth(count, price))
			return nil
		})
	if err != nil {
		return 0, err
	}
	for _, channel := range slices.Sorted(maps.Keys(folded)) {
		if err := t.addFolded(channel, folded[channel]); err != nil {
			return 0, err
		}
	}
	for some := range slices.Chunk(ids, engine.RowsPerStatement) {
		n, err := t.Exec(`DELETE FROM sales WHERE id IN (`+engine.Parameters(1, len(some))+`)`, some...)
		if err == nil && int(n) != len(some) {
			err = errFold
		}
		if err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// addFolded adds folded sales' value to the channel's folded value, modulo 2^64. Sales and returns
// are folded in any order, so the folded value can exceed the column's range for a time. Sales less
// returns, folded or not, are the accepted amount less the credit. This is within the range, so
// modulo 2^64 nothing is lost.
func (t tx) addFolded(channel string, sum *big.Int) error {
	var have int64
	found, err := t.Row(`SELECT folded FROM channels WHERE id = $1`+t.ForUpdate(), engine.Args{[]byte(channel)}, (*engine.Integer)(&have))
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: of channel %.6s: run sluice check --books", errFold, channel)
	}
	_, err = t.Exec(`UPDATE channels SET folded = $2 WHERE id = $1`, []byte(channel), wrapped(sum.Add(sum, big.NewInt(have))))
	return err
}
