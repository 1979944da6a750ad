package blob

import (
	"testing"
	"time"
)

// TestGarbageThatIsNotDueIsNotLookedFor checks that new garbage wakes Run only if it can
// be freed immediately.
func TestGarbageThatIsNotDueIsNotLookedFor(t *testing.T) {
	for grace, want := range map[time.Duration]int{0: 1, time.Hour: 0} {
		s := New(nil, nil, Options{GarbageGrace: grace})
		s.garbageArose()
		if got := len(s.wakeup); got != want {
			t.Errorf("with a grace period of %s: %d looks, want %d", grace, got, want)
		}
	}
}
