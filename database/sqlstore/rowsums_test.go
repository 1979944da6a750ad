package sqlstore

import (
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// rowSums returns how many rows have a checksum, how many have none, and the damage.
func rowSums(t *testing.T, s *Store) (known, unknown int, damage []string) {
	t.Helper()
	testenv.OK(t, s.CheckRows(t.Context(), func(_ metastore.ContentID, has bool, wrong string) error {
		if has {
			known++
		} else {
			unknown++
		}
		if wrong != "" {
			damage = append(damage, wrong)
		}
		return nil
	}))
	return known, unknown, damage
}

// withRows stores a blob with an inline extent, one with an object, and two sessions.
func withRows(t *testing.T, s *Store) {
	t.Helper()
	putFor(t, s, "", "inline", "abc")
	b := metastore.Blob{Account: "a", Name: "object", Content: metastore.NewContentID(s.Now()), Size: 3}
	testenv.Must(s.CommitBlob(t.Context(), b, []metastore.Extent{{Size: 3, Object: "object", Blocks: []uint32{7}, Created: s.Now()}}, nil))(t)
	for _, id := range []string{"one", "two"} {
		testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: id, Total: 9, Left: 9, UserIdentity: "u", Expires: s.Now().Add(time.Hour)}, nil))(t)
	}
}

const rowsWithSums = 2 + 2 + 2

// TestDamagedRowsAreNotUsed changes a column at a time: no call reads the row, and none changes it
// or other rows.
// Invariant 16.
func TestDamagedRowsAreNotUsed(t *testing.T) {
	blob := func(s *Store) error { return testenv.Error(s.Blob(t.Context(), "a", "object")) }
	open := func(s *Store) error {
		_, _, err := s.OpenBlob(t.Context(), "a", "object")
		return err
	}
	copied := func(s *Store) error {
		return testenv.Error(s.CopyBlob(t.Context(), metastore.Copy{From: metastore.BlobName{Account: "a", Name: "object"}, To: metastore.Blob{Account: "a", Name: "copy"}}))
	}
	remove := func(s *Store) error {
		_, _, err := dbtest.Remove(t.Context(), s, "a", "object", nil)
		return err
	}
	use := func(s *Store) error { return testenv.Error(s.UseSession(t.Context(), "one", 1, nil)) }
	useOnce := func(s *Store) error {
		return testenv.Error(s.UseSession(t.Context(), "one", 1, &database.Idempotency{Scope: "s", Key: "k"}))
	}
	get := func(s *Store) error { return testenv.Error(s.Session(t.Context(), "one")) }
	ofBlob, ofSession := []func(*Store) error{blob, open, copied, remove}, []func(*Store) error{use, useOnce, get}
	for _, c := range []struct {
		table, set string
		calls      []func(*Store) error
	}{
		{"blobs", `size = 4 WHERE name_head = CAST('object' AS BLOB)`, ofBlob},
		{"blobs", `crc64 = crc64 + 1 WHERE name_head = CAST('object' AS BLOB)`, ofBlob},
		{"blobs", `part_size = 4 WHERE name_head = CAST('object' AS BLOB)`, ofBlob},
		{"extents", `object = CAST('objecT' AS BLOB) WHERE object IS NOT NULL`, []func(*Store) error{open}},
		{"extents", `blocks = CAST('four' AS BLOB) WHERE object IS NOT NULL`, []func(*Store) error{open}},
		{"sessions", `total = total + 1, remaining = remaining + 1 WHERE id = CAST('one' AS BLOB)`, ofSession},
		{"sessions", `user_identity = CAST('w' AS BLOB) WHERE id = CAST('one' AS BLOB)`, ofSession},
		{"sessions", `channel = CAST('c' AS BLOB) WHERE id = CAST('one' AS BLOB)`, ofSession},
	} {
		onBoth(t, func(t *testing.T, s *Store) {
			withRows(t, s)
			executeBoth(t, s, `UPDATE `+c.table+` SET `+c.set)
			for i, call := range c.calls {
				testenv.Is(t, call(s), database.ErrDamagedRow, "call %d after %s", i, c.set)
			}
			holds(t, s, 0, `SELECT CAST(COALESCE(SUM(used), 0) AS BIGINT) FROM sessions`)
			holds(t, s, 0, `SELECT COUNT(*) FROM garbage`)
			want := rowsWithSums + int(value(t, s, `SELECT COUNT(*) FROM changes`))
			if known, unknown, damage := rowSums(t, s); known != want || unknown > 0 || len(damage) != 1 {
				t.Errorf("%s: %d rows with a checksum, %d without, damaged: %q", c.set, known, unknown, damage)
			}
			_, _, err := s.OpenBlob(t.Context(), "a", "inline")
			testenv.OK(t, err)
			testenv.OK(t, testenv.Error(s.UseSession(t.Context(), "two", 1, nil)))
		})
	}
}

// TestDamagedSessionAmongOthers uses a damaged session and a whole one at the same time, so that
// they share transactions: each use of the whole one counts, and none of the other.
func TestDamagedSessionAmongOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		const rounds = 100
		withRows(t, s)
		testenv.Must(s.CreateSession(t.Context(), ledger.Session{ID: "whole", Total: rounds, Left: rounds, Expires: s.Now().Add(time.Hour)}, nil))(t)
		executeBoth(t, s, `UPDATE sessions SET user_identity = CAST('w' AS BLOB) WHERE id = CAST('one' AS BLOB)`)
		var uses sync.WaitGroup
		for range rounds {
			uses.Go(func() {
				testenv.Is(t, testenv.Error(s.UseSession(t.Context(), "one", 1, nil)), database.ErrDamagedRow, "a damaged session")
			})
			uses.Go(func() {
				testenv.Is(t, testenv.Error(s.UseSession(t.Context(), "whole", 1, nil)), nil, "a whole session")
			})
		}
		uses.Wait()
		testenv.Equal(t, testenv.Must(s.Session(t.Context(), "whole"))(t).Used, rounds, "uses of the whole session")
		holds(t, s, rounds, `SELECT CAST(SUM(used) AS BIGINT) FROM sessions`)
	})
}
