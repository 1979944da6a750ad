package groups_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"sluice/bytestore/localfs/internal/groups"
)

// TestCallersShare holds the first call while more callers arrive. None joins it or gets its error,
// and each item is in one later call.
func TestCallersShare(t *testing.T) {
	const callers = 20
	var g groups.Group[int]
	begun, release := make(chan struct{}), make(chan struct{})
	errFirst := errors.New("the first call")
	var calls [][]int // run is never called concurrently
	run := func(items []int) error {
		calls = append(calls, slices.Clone(items))
		if len(calls) > 1 {
			return nil
		}
		close(begun)
		<-release
		return errFirst
	}
	var work sync.WaitGroup
	work.Go(func() {
		if err := g.Do(-1, run); !errors.Is(err, errFirst) {
			t.Errorf("the first caller got %v", err)
		}
	})
	<-begun
	for i := range callers {
		work.Go(func() {
			if err := g.Do(i, run); err != nil {
				t.Errorf("caller %d got %v", i, err)
			}
		})
	}
	close(release)
	work.Wait()
	if !slices.Equal(calls[0], []int{-1}) {
		t.Errorf("the first call had %v", calls[0])
	}
	var all []int
	for _, items := range calls[1:] {
		all = append(all, items...)
	}
	slices.Sort(all)
	if len(all) != callers || all[0] != 0 || all[callers-1] != callers-1 || len(slices.Compact(all)) != callers {
		t.Errorf("the later calls had %v, want each item once", all)
	}
}
