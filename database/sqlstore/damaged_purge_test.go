package sqlstore

import (
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestDamagedRowsStopNoPurge damages an expired blob and a version with a lock that has ended. Both
// stay for a check, and everything else that is due goes.
// Invariant 16.
func TestDamagedRowsStopNoPurge(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		testenv.Must(s.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
			k.State, k.Locks = metastore.KeepOn, true
			return nil, nil
		}))(t)
		for _, name := range []string{"damaged", "whole"} {
			for _, lock := range []metastore.Lock{{}, {Mode: metastore.LockCompliance, Until: s.Now().Add(year)}, {}} {
				testenv.Must(s.CommitBlob(t.Context(), metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(s.Now()), Lock: lock}, nil, nil))(t)
			}
		}
		const locked = `4611686018427387904` // begins the column expires of versions with a lock
		executeBoth(t, s, `UPDATE blobs SET expires = CASE WHEN expires IS NULL THEN 1 ELSE `+locked+` + 1 END`)
		executeBoth(t, s, `UPDATE blobs SET row_sum = row_sum + 1 WHERE substr(name_head, 1, 7) = CAST('damaged' AS BLOB)`)
		testenv.Must(s.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
			k.For = time.Hour
			return nil, nil
		}))(t)
		execute(t, s, `UPDATE keeping SET changed = 1`)
		for more := 1; more > 0; {
			more = testenv.Must(s.ApplyKeeping(t.Context(), 1))(t)
		}
		for range 3 {
			testenv.Must(s.Purge(t.Context(), 100))(t)
			testenv.Must(s.PurgeVersions(t.Context(), 100))(t)
		}
		holds(t, s, 2, `SELECT COUNT(*) FROM blobs WHERE length(name_head) IN (7, 30)`) // of "damaged"
		holds(t, s, 0, `SELECT COUNT(*) FROM blobs WHERE expires = 1 AND length(name_head) IN (5, 28)`)
		testenv.Is(t, testenv.Error(s.Blob(t.Context(), "a", "damaged")), database.ErrDamagedRow, "the damaged blob")
	})
}

// TestDamagedVersionStopsNoRule lets a rule remove two blobs. The one with a damaged version stays
// for a check.
// Invariant 16.
func TestDamagedVersionStopsNoRule(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		testenv.Must(s.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
			k.State, k.Most = metastore.KeepOn, 1
			return nil, nil
		}))(t)
		for _, name := range []string{"damaged", "damaged", "whole", "whole"} {
			testenv.Must(s.CommitBlob(t.Context(), metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(s.Now())}, nil, nil))(t)
		}
		executeBoth(t, s, `UPDATE blobs SET row_sum = row_sum + 1 WHERE length(name_head) = 30`)
		testenv.Must(s.SetRules(t.Context(), "a", func(rules *[]metastore.Rule) (*actions.Act, error) {
			*rules = []metastore.Rule{{ID: "all", ExpireOn: time.Unix(0, 0).UTC()}}
			return nil, nil
		}))(t)
		for more := true; more; {
			var err error
			_, more, err = s.ApplyRules(t.Context(), 1)
			testenv.OK(t, err)
		}
		testenv.OK(t, testenv.Error(s.Blob(t.Context(), "a", "damaged")))
		testenv.Is(t, testenv.Error(s.Blob(t.Context(), "a", "whole")), database.ErrNotFound, "the blob that a rule removes")
		damaged := testenv.Must(s.ListVersions(t.Context(), metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: "a", Prefix: "damaged", Limit: 9}}))(t)
		testenv.Equal(t, len(damaged.Versions), 2, "versions of the damaged blob")
		audited(t, s)
	})
}
