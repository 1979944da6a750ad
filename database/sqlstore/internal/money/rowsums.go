package money

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// CheckRows compares the rows of sessions with their checksums, a page at a time, and calls each
// for every row: known reports whether it has a checksum, and damage describes its damage, or is
// "". An error of each ends it.
func (s *Ledger) CheckRows(ctx context.Context, each func(known bool, damage string) error) error {
	type row struct {
		ledger.Session
		sum engine.StoredSum
	}
	const rows = 1000
	for after, condition := "", `id >= $1`; ; condition = `id > $1` {
		var page []row
		err := s.in.Read(ctx, func(t tx) (err error) {
			var r row
			page, err = engine.Collect(t.Tx, `SELECT `+sessionColumns+`, row_sum FROM sessions WHERE `+condition+` ORDER BY id LIMIT ($2 + 0)`,
				engine.Args{[]byte(after), int64(rows)}, append(sessionFields(&r.Session), &r.sum), &r)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page {
			damage := ""
			if err := checkSum(&page[i].Session, page[i].sum); err != nil {
				damage = err.Error()
			}
			if err := each(page[i].sum.Known(), damage); err != nil {
				return err
			}
		}
		if len(page) < rows {
			return nil
		}
		after = page[rows-1].ID
	}
}
