package money

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sluice/internal/boottime"
	"sluice/test/testenv"
)

// TestDoubtsKeepNoRequests checks that a charge in doubt, remembered for days, does not keep its
// request in memory.
// Invariant 71.
func TestDoubtsKeepNoRequests(t *testing.T) {
	var d chargesInDoubt
	before := testenv.Heap()
	const charges = 200
	for i := range charges {
		id := fmt.Sprint(i)
		// As a server gets it: a part of a much longer text.
		target := strings.Join([]string{"GET /v1/blobs/", id, "?", strings.Repeat("q", 28_000)}, "")
		id = target[len("GET /v1/blobs/"):][:len(id)]
		d.add(id, chargeID(id), boottime.Now())
	}
	if took := testenv.Heap() - before; took > charges*2000 || len(d.since) != charges {
		t.Errorf("%d charges in doubt take %d bytes", len(d.since), took)
	}
	runtime.KeepAlive(&d)
}
