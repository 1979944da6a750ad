package bytetest_test

import (
	"context"
	"fmt"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/memory"
)

// An implementation's test consists of a harness and a call of Run. A store that can simulate a
// power failure also sets Harness.Crash.
func ExampleRun() {
	newHarness := func(testing.TB) bytetest.Harness {
		store := memory.New()
		return bytetest.Harness{Open: func() (bytestore.Store, error) { return store, nil }}
	}
	testConformance := func(t *testing.T) { bytetest.Run(t, newHarness) } // TestConformance in a test file
	benchmark := func(b *testing.B) { bytetest.Bench(b, newHarness) }
	_, _ = testConformance, benchmark
}

// A check can be run on its own, here on a store that ignores deletes.
func ExampleChecks() {
	for _, check := range bytetest.Checks() {
		if check.Name != "delete" {
			continue
		}
		store := ignoresDeletes{memory.New()}
		err := check.Run(context.Background(), bytetest.Harness{
			Open: func() (bytestore.Store, error) { return store, nil },
		})
		fmt.Println("violation found:", err != nil)
	}
	// Output: violation found: true
}

type ignoresDeletes struct{ bytestore.Store }

func (ignoresDeletes) Delete(context.Context, ...bytestore.Name) error { return nil }
