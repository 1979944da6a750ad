package blob_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestRunKeepsChanges lets Run purge changes after Options.ChangesKeep, and not before.
// Invariant 225.
func TestRunKeepsChanges(t *testing.T) {
	for keep, days := range map[time.Duration]int{0: 7, 48 * time.Hour: 2} {
		synctest.Test(t, func(t *testing.T) {
			meta := openMeta(t)
			s := blob.New(meta, memory.New(), blob.Options{ChangesKeep: keep, PurgeEvery: time.Hour})
			begin := testenv.Must(meta.FeedEnd(t.Context()))(t)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.Run(ctx, task.NewControl(reportTo(t)))
			}()
			defer func() {
				stop()
				<-ended
			}()
			for _, name := range []string{"old", "newest"} {
				testenv.OK(t, testenv.Error(s.Put(t.Context(), to(name), strings.NewReader("x"), 1)))
			}
			list := func() error {
				return testenv.Error(meta.ListChanges(t.Context(), metastore.ChangeQuery{After: begin, Account: "a", Limit: 9}))
			}
			time.Sleep(time.Duration(days)*24*time.Hour - time.Minute)
			synctest.Wait()
			testenv.OK(t, list())
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			var gone *metastore.ChangesGoneError
			if err := list(); !errors.As(err, &gone) {
				t.Errorf("after %d days: %v", days, err)
			}
		})
	}
}
