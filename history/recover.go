package history

import (
	"context"
	"fmt"

	"sluice/bytestore"
	"sluice/database"
)

// Compare returns how a database or its bytes show that one of them was set back, or "", and
// whether the database holds the bytes, or no database does. It changes nothing.
func Compare(ctx context.Context, db database.History, bytes bytestore.Store) (now database.HistoryState, how string, holds bool, err error) {
	if now, err = db.History(ctx); err != nil {
		return now, "", false, err
	}
	latest, size, err := latestRecord(ctx, bytes)
	if err != nil {
		return now, "", false, err
	}
	if latest.Number > 0 {
		lacked, err := db.LackedRecords(ctx, []database.Record{latest.Record})
		switch {
		case err != nil:
			return now, "", false, err
		case latest.generation > now.Generation:
			how = fmt.Sprintf("the database has generation %d, and the bytes have %d", now.Generation, latest.generation)
		case len(lacked) > 0 && latest.Owner != now.Newest.Owner && latest.Owner != "":
			return now, now.SetBack, false, nil
		case len(lacked) > 0:
			how = lackedText(latest, now.Newest.Number)
		case size != recordLen:
			how = fmt.Sprintf("record %d, which is beside the bytes, has bytes behind its end", latest.Number)
		}
	}
	if how == "" && latest.Number < now.Outside.Number {
		how = fmt.Sprintf("the bytes lack record %d, which was beside them", now.Outside.Number)
	}
	if now.SetBack != "" {
		how = now.SetBack
	}
	return now, how, true, nil
}

// Recover makes a database the holder of its bytes, whichever database held them, and begins a
// generation that is later than all that both know. A database that holds them now is fenced within
// seconds. It is for an operator who has decided with which one to continue. Objects that were made
// before now, and that nothing refers to, are kept. If it is interrupted, the database's next start
// completes it.
func Recover(ctx context.Context, db database.History, bytes bytestore.Store, kept database.KeptObjects) (generation int64, err error) {
	for {
		now, err := db.History(ctx)
		if err != nil {
			return 0, err
		}
		latest, _, err := latestRecord(ctx, bytes)
		if err != nil {
			return 0, err
		}
		number := max(now.Newest.Number, latest.Number) + 1
		// A holder looks for the next record if there is a claim to it, and may answer it.
		if _, err := put(ctx, bytes, claimName(number), ""); err != nil {
			return 0, err
		}
		generation = max(now.Generation, latest.generation) + 1
		if err := db.BeginGeneration(ctx, now.Generation, generation, number, kept, "the instance was set back and recovered"); err != nil {
			return 0, err
		}
		if now, err = db.History(ctx); err != nil {
			return 0, err
		}
		r := record{generation, now.Newest}
		taken, err := put(ctx, bytes, recordName(number), r.String())
		if err != nil {
			return 0, err
		}
		if !taken { // by another database meanwhile
			return generation, db.RecordOutside(ctx, generation, r.Record)
		}
	}
}
