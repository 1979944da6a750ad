package meta

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/metastore"
	"sluice/test/testenv"
)

// recordChanges records n changes in one transaction, of names in account a.
func recordChanges(t *testing.T, s *Metastore, n int, owner string) {
	t.Helper()
	testenv.OK(t, s.in.WriteLocked(t.Context(), func(t tx) error {
		for i := range n {
			t.changed(metastore.ChangeStored, &metastore.Blob{Account: "a", Name: fmt.Sprint(i), Owner: owner, Modified: t.Now})
		}
		_, err := t.Exec(`UPDATE changes_state SET evicted = evicted`)
		return err
	}))
}

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(t *testing.T, s *Metastore)) {
	t.Run("SQLite", func(t *testing.T) { test(t, openSQLite(t, engine.Options{})) })
	t.Run("PostgreSQL", func(t *testing.T) {
		s, _ := openPostgres(t)
		test(t, s)
	})
}

// changesPage returns a page behind a position, of names with a prefix.
func changesPage(t *testing.T, s *Metastore, after metastore.FeedPosition, prefix string) metastore.ChangePage {
	t.Helper()
	return testenv.Must(s.ListChanges(t.Context(), metastore.ChangeQuery{After: after, Account: "a", Prefix: prefix, Limit: 10}))(t)
}

// TestListChangesIsBounded reads many changes, and selects few. A call looks at a limited
// number, and its page then is empty, but ends further on.
// Invariant 224.
func TestListChangesIsBounded(t *testing.T) {
	const each, last = 2500, "last"
	onBoth(t, func(t *testing.T, s *Metastore) {
		at := testenv.Must(s.FeedEnd(t.Context()))(t)
		for range 12 {
			recordChanges(t, s, each, "")
		}
		testenv.OK(t, s.in.WriteLocked(t.Context(), func(t tx) error {
			t.changed(metastore.ChangeStored, &metastore.Blob{Account: "a", Name: last})
			_, err := t.Exec(`UPDATE changes_state SET evicted = evicted`)
			return err
		}))
		calls := 0
		for {
			p := changesPage(t, s, at, last)
			calls++
			if looked := p.Next.Number - at.Number; looked <= 0 || looked > metastore.MaxExamined {
				t.Fatalf("a call looked at %d changes", looked)
			}
			if at = p.Next; !p.More {
				testenv.Equal(t, len(p.Changes), 1, "changes on the last page")
				break
			}
			testenv.Equal(t, len(p.Changes), 0, "changes on a page before the last")
		}
		if calls < 3 {
			t.Errorf("%d calls looked at all changes", calls)
		}
		testenv.Equal(t, at, testenv.Must(s.FeedEnd(t.Context()))(t), "the end")
	})
}

// TestDamagedChanges damages a row of changes. Readers learn that the changes are gone, a check
// reports the row, and a purge removes it.
// Invariant 225.
func TestDamagedChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Metastore) {
		begin := testenv.Must(s.FeedEnd(t.Context()))(t)
		var ends []metastore.FeedPosition
		for range 3 {
			recordChanges(t, s, 2, "o")
			ends = append(ends, testenv.Must(s.FeedEnd(t.Context()))(t))
		}
		bounds := metastore.ChangeBounds{Keep: time.Hour, Changes: 1 << 40, Bytes: 1 << 40}
		purge := func(b metastore.ChangeBounds) (removed int64) {
			for more := true; more; {
				var n int64
				var err error
				n, more, err = s.PurgeChanges(t.Context(), b, 10)
				testenv.OK(t, err)
				removed += n
			}
			return removed
		}
		purge(bounds)
		testenv.OK(t, s.in.Write(t.Context(), func(tx tx) error { return tx.Change(`UPDATE changes SET at = at - 1 WHERE last = $1`, ends[1].Number) }))
		testenv.Equal(t, len(changesPage(t, s, begin, "").Changes), 2, "changes before the damage")
		var gone *metastore.ChangesGoneError
		if _, err := s.ListChanges(t.Context(), metastore.ChangeQuery{After: ends[0], Account: "a", Limit: 1}); !errors.As(err, &gone) || gone.Restart != ends[2] {
			t.Errorf("damaged changes: %v", err)
		}
		testenv.Equal(t, len(changesPage(t, s, ends[1], "").Changes), 2, "changes behind the damage")
		damaged := 0
		testenv.OK(t, s.CheckRows(t.Context(), func(_ metastore.ContentID, _ bool, damage string) error {
			if damage != "" {
				damaged++
			}
			return nil
		}))
		testenv.Equal(t, damaged, 1, "damaged rows that a check finds")
		bounds.Changes = 0
		testenv.Equal(t, purge(bounds), 2, "changes that are evicted from before the newest row")
		bounds.Changes, bounds.Keep = 1<<40, 0
		purge(bounds)
		testenv.Equal(t, enginetest.Value(t, s.db, `SELECT COUNT(*) FROM changes`), 1, "rows after a purge of all")
	})
}

// TestPostgresEarlierTransaction lets a transaction draw its place in the queue, and later ones
// commit before it. A reader sees its change then, behind theirs.
// Invariant 224.
func TestPostgresEarlierTransaction(t *testing.T) {
	s, conn := openPostgres(t)
	begin := testenv.Must(s.FeedEnd(t.Context()))(t)
	packed := appendChange(nil, metastore.ChangeStored, time.Now(), metastore.BlobName{Account: "a", Name: "early"}, &metastore.Blob{})
	var run engine.ChangeRun
	run.Add(packed)
	early := testenv.Must(conn.Begin(t.Context()))(t)
	testenv.Must(early.Exec(t.Context(), `INSERT INTO changes_queue (packed) VALUES ($1)`, run.Packed))(t)
	recordChanges(t, s, 2, "")
	first := changesPage(t, s, begin, "")
	testenv.Equal(t, len(first.Changes), 2, "changes before the transaction has ended")
	testenv.OK(t, early.Commit(t.Context()))
	second := changesPage(t, s, first.Next, "")
	testenv.Equal(t, len(second.Changes), 1, "changes after it")
	testenv.Equal(t, second.Changes[0].Name, "early", "the name")
	testenv.Equal(t, len(changesPage(t, s, begin, "").Changes), 3, "all changes")
	testenv.Equal(t, enginetest.Value(t, s.db, `SELECT COUNT(*) FROM changes_queue`), 0, "rows that are left in the queue")
}

// TestNumberingIsBounded queues large transactions. A step numbers as many as have examinedBytes,
// so its memory is bounded, and a reader that comes next has all of them.
// Invariant 224.
func TestNumberingIsBounded(t *testing.T) {
	const transactions, each = 12, 6000
	s, _ := openPostgres(t)
	at := testenv.Must(s.FeedEnd(t.Context()))(t)
	for range transactions {
		recordChanges(t, s, each, "owner")
	}
	queued := func() (rows int64) {
		testenv.OK(t, s.in.Read(t.Context(), func(t tx) error {
			_, err := t.Row(`SELECT COUNT(*) FROM changes_queue`, nil, (*engine.Integer)(&rows))
			return err
		}))
		return rows
	}
	testenv.Equal(t, queued(), transactions, "queued transactions")
	more := testenv.Must(engine.ResultOf(t.Context(), s.in.WriteLocked, tx.numberStep))(t)
	if left := queued(); !more || left == 0 || left >= transactions {
		t.Errorf("a step leaves %d of %d transactions, and reports %v", left, transactions, more)
	}
	end := testenv.Must(s.FeedEnd(t.Context()))(t)
	testenv.Equal(t, end.Number-at.Number, transactions*each, "changes with a number")
	testenv.Equal(t, queued(), 0, "queued transactions after a reader")
}
