package history_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/history"
	"sluice/test/testenv"
)

// change is a call of Watch's function.
type change struct {
	after time.Duration // since the node was started
	err   error
}

// watched starts a node and returns a function that stops it and returns the calls of Watch's
// function.
func watched(t *testing.T, meta history.Database, bytes bytestore.Store) (stop func() []change) {
	t.Helper()
	began := time.Now()
	f := testenv.Must(history.Open(t.Context(), meta, bytes, shared))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var changes []change
	var running sync.WaitGroup
	running.Go(func() {
		f.Watch(ctx, func(_, err error) { changes = append(changes, change{time.Since(began), err}) })
	})
	return func() []change { cancel(); running.Wait(); return changes }
}

// TestWatchReportsChanges checks that Watch reports each change once: a node that starts again may
// delete about 20 seconds later, a copy that is started then is fenced at its next check, and a
// node that cannot read its database reports that and its recovery.
func TestWatchReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, original := memory.New(), openMeta(t)
		props := &unreadableMeta{metaFile: original}
		first := watched(t, original, bytes)
		time.Sleep(time.Minute)
		if got := first(); len(got) != 0 {
			t.Errorf("the first node, which may delete from its start, reports %v", got)
		}
		second := watched(t, props, bytes)
		time.Sleep(time.Minute)
		duplicate := watched(t, copyOf(t, original), bytes)
		time.Sleep(time.Minute)
		if got := duplicate(); len(got) != 1 || got[0].after > 18*time.Second || !errors.Is(got[0].err, history.ErrFenced) {
			t.Errorf("the copy reports %v", got)
		}
		props.on.Store(true)
		time.Sleep(time.Minute)
		props.on.Store(false)
		time.Sleep(time.Minute)
		got := second()
		if len(got) != 3 || got[0].err != nil || got[0].after.Truncate(2*time.Second) != 20*time.Second || !errors.Is(got[1].err, errResponse) || got[2].err != nil {
			t.Errorf("a node that was started again reports %v", got)
		}
	})
}
