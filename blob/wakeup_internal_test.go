package blob

import (
	"errors"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/metastore"
)

// TestGarbageThatIsNotDueIsNotLookedFor checks that new garbage wakes Run only if it can be freed
// immediately.
func TestGarbageThatIsNotDueIsNotLookedFor(t *testing.T) {
	for grace, want := range map[time.Duration]int{0: 1, time.Hour: 0} {
		s := New(nil, nil, Options{GarbageGrace: grace})
		s.garbageArose()
		if got := len(s.wakeup); got != want {
			t.Errorf("with a grace period of %s: %d looks, want %d", grace, got, want)
		}
	}
}

// TestOnlyAFullStoreLooksForReaders checks that a write wakes Run because of garbage that has
// readers only if it does not fit, and one that does not fit only if there is such garbage.
func TestOnlyAFullStoreLooksForReaders(t *testing.T) {
	for _, c := range []struct {
		space   error
		waiting bool
		want    int
	}{
		{nil, false, 0}, {nil, true, 0}, {bytestore.ErrNoSpace, false, 0}, {bytestore.ErrNoSpace, true, 1},
	} {
		s := New(nil, nil, Options{Space: func(int64) error { return c.space }})
		if c.waiting {
			p := pin{content: metastore.NewContentID(time.Now())}
			s.pins.add(s.pins.begin(), &p)
			s.pins.claim([]metastore.ContentID{p.content}, time.Now())
		}
		if err := s.checkSpace(1); !errors.Is(err, c.space) {
			t.Errorf("error %v, want %v", err, c.space)
		}
		if got := len(s.wakeup); got != c.want {
			t.Errorf("%v, garbage with readers %t: %d looks, want %d", c.space, c.waiting, got, c.want)
		}
	}
}
