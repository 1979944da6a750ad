package blob_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/database"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/test/testenv"
)

// setRules sets an account's rules, as another node would.
func (f *fixture) setRules(t *testing.T, account string, rules ...metastore.Rule) {
	t.Helper()
	testenv.Must(f.meta.SetRules(t.Context(), account, func(was *[]metastore.Rule) (*actions.Act, error) {
		*was = rules
		return nil, nil
	}))(t)
}

// TestRunAppliesRules lets the task remove blobs by rules, soon after they were set and each day,
// and frees their bytes. It waits while deletions by age must.
// Invariant 212.
func TestRunAppliesRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, blob.Options{InlineSize: -1})
		put := func(name string) {
			testenv.Must(f.Put(t.Context(), blob.PutOptions{Account: "a", Name: name}, strings.NewReader("x"), 1))(t)
		}
		for i := range 30 {
			put(fmt.Sprint("old", i))
		}
		f.clock.Advance(48 * time.Hour)
		put("new")
		f.setRules(t, "a", metastore.Rule{ID: "days", ExpireDays: 1})
		f.setRules(t, "b", metastore.Rule{ID: "days", ExpireDays: 1})
		runs := make(chan task.Run, 1000)
		stop := run(t, f.Service, func(run task.Run) { runs <- run })
		time.Sleep(90 * time.Second)
		if page := testenv.Must(f.List(t.Context(), metastore.ListQuery{Account: "a", Limit: 100}))(t); len(page.Blobs) != 1 || page.Blobs[0].Name != "new" {
			t.Errorf("after a run there are %+v", page)
		}
		testenv.Equal(t, f.Stats().FreedObjects, 30, "freed objects")
		f.clock.Advance(48 * time.Hour)
		time.Sleep(90 * time.Second)
		_, err := f.meta.Blob(t.Context(), "a", "new")
		testenv.Is(t, err, database.ErrNotFound, "a blob of two days")
		stop()
		close(runs)
		var removed int64
		for run := range runs {
			testenv.OK(t, run.Err)
			if run.Task == task.Rules {
				removed += run.Count
			}
		}
		testenv.Equal(t, removed, 31, "removed by runs")
	})
}

// TestRulesOfAreFresh: rules are remembered for some seconds, and changes of this node are seen at
// once.
func TestRulesOfAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, blob.Options{})
		wants := func(n int, why string) {
			t.Helper()
			testenv.Equal(t, len(testenv.Must(f.RulesOf(t.Context(), "a"))(t)), n, "rules %s", why)
		}
		wants(0, "at first")
		f.setRules(t, "b", metastore.Rule{ID: "b", ExpireDays: 1})
		f.setRules(t, "a", metastore.Rule{ID: "a", ExpireDays: 1})
		wants(0, "after a change by another node")
		time.Sleep(11 * time.Second)
		wants(1, "later")
		f.setRules(t, "a", metastore.Rule{ID: "a", ExpireDays: 1}, metastore.Rule{ID: "b", ExpireDays: 1})
		wants(1, "after another change")
		f.ForgetSettings()
		wants(2, "that were forgotten")
	})
}

// TestDeleteBucketRemovesRules: who creates the bucket again does not get the rules.
func TestDeleteBucketRemovesRules(t *testing.T) {
	f := newFixture(t, blob.Options{})
	f.setRules(t, "a", metastore.Rule{ID: "a", ExpireDays: 1})
	if err := f.DeleteBucket(t.Context(), "a"); !errors.Is(err, blob.ErrNoBucket) {
		t.Errorf("without a bucket: %v", err)
	}
	testenv.Equal(t, len(testenv.Must(f.RulesOf(t.Context(), "a"))(t)), 1, "rules without a bucket")
	testenv.OK(t, f.CreateBucket(t.Context(), "a", ""))
	testenv.OK(t, f.DeleteBucket(t.Context(), "a"))
	testenv.Equal(t, len(testenv.Must(f.RulesOf(t.Context(), "a"))(t)), 0, "rules of a deleted bucket")
}
