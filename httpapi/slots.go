package httpapi

import (
	"fmt"
	"sync/atomic"
)

// slots bounds the requests in progress; probes and preflights are not counted.
type slots struct {
	max       int64
	active    atomic.Int64 // requests in progress
	anonymous atomic.Int64 // of them, without a valid key
	lookups   atomic.Int64 // of them, whose key is being looked up
	refused   atomic.Int64 // requests refused since the start
}

func newSlots(limit int64) *slots { return &slots{max: limit} }

// slot is the slot of one request, or none.
type slot struct {
	of        *slots // nil: none
	anonymous bool
}

// acquire returns a slot, or errTooBusy. The caller must call release.
func (s *slots) acquire() (slot, error) {
	if s.active.Add(1) > s.max {
		s.active.Add(-1)
		s.refused.Add(1)
		return slot{}, fmt.Errorf("%w: the limit is %d", errTooBusy, s.max)
	}
	return slot{of: s}, nil
}

// busy reports whether requests are in progress.
func (s *slots) busy() bool { return s.active.Load() > 0 }

// markAnonymous counts the slot as one without a key, or returns errTooBusy. A quarter of all slots
// is reserved for callers with keys, so that many addresses together cannot lock them out.
func (s *slot) markAnonymous() error {
	limit := s.of.max - s.of.max/4
	if s.of.anonymous.Add(1) > limit {
		s.of.anonymous.Add(-1)
		s.of.refused.Add(1)
		return fmt.Errorf("%w: the limit without a key is %d", errTooBusy, limit)
	}
	s.anonymous = true
	return nil
}

// release releases the slot, if there is one.
func (s *slot) release() {
	if s.of == nil {
		return
	}
	if s.anonymous {
		s.of.anonymous.Add(-1)
	}
	s.of.active.Add(-1)
}

// beginLookup counts a lookup of a key, or returns errTooBusy. The key may be invalid, so lookups
// must not take the slots of callers with valid keys.
func (s *slots) beginLookup() (done func(), err error) {
	done = func() { s.lookups.Add(-1) }
	if limit := max(1, s.max/8); s.lookups.Add(1) > limit {
		done()
		s.refused.Add(1)
		return nil, fmt.Errorf("%w: the limit of lookups of keys is %d", errTooBusy, limit)
	}
	return done, nil
}
