package exchange

import (
	"fmt"
	"sync/atomic"
)

// slots bounds the requests in progress; probes and preflights are not counted. Callers with a
// known key may have all of them. All other callers may have three quarters together, and an eighth
// more while their keys are looked up, so that many addresses cannot lock out callers with keys.
type slots struct {
	max       int64
	active    atomic.Int64 // requests in progress
	anonymous atomic.Int64 // of them, without a key, or with one that is not known
	lookups   atomic.Int64 // requests with keys that were not known and are being looked up
	held      atomic.Int64 // among the requests in progress, writes that wait for the fence
	refused   atomic.Int64 // requests refused since the start
}

func newSlots(limit int64) *slots { return &slots{max: limit} }

// busy reports whether requests are in progress.
func (s *slots) busy() bool { return s.active.Load() > 0 }

// slot is the slot of one request, or none.
type slot struct {
	of        *slots // nil: none
	anonymous bool
}

// take takes a slot for a caller with a key that is known or being looked up, or returns
// ErrTooBusy.
func (s *slot) take(of *slots) error {
	if of.active.Add(1) > of.max {
		of.active.Add(-1)
		return fmt.Errorf("%w: the limit is %d", ErrTooBusy, of.max)
	}
	s.of = of
	return nil
}

// takeAnonymous takes a slot for any other caller, or returns ErrTooBusy.
func (s *slot) takeAnonymous(of *slots) error {
	if err := of.addAnonymous(); err != nil {
		return err // before active is counted: a refused request takes no slot for a moment either
	}
	if err := s.take(of); err != nil {
		of.anonymous.Add(-1)
		return err
	}
	s.anonymous = true
	return nil
}

func (s *slots) addAnonymous() error {
	limit := s.max - s.max/4
	if s.anonymous.Add(1) > limit {
		s.anonymous.Add(-1)
		return fmt.Errorf("%w: the limit without a key is %d", ErrTooBusy, limit)
	}
	return nil
}

// identify makes a taken slot count for a caller with a known key.
func (s *slot) identify() {
	if s.anonymous {
		s.of.anonymous.Add(-1)
		s.anonymous = false
	}
}

// makeAnonymous makes a taken slot count for a caller without a key. If there are too many, it
// releases the slot and returns ErrTooBusy.
func (s *slot) makeAnonymous() error {
	if s.anonymous {
		return nil
	}
	if err := s.of.addAnonymous(); err != nil {
		s.release()
		return err
	}
	s.anonymous = true
	return nil
}

func (s *slot) release() {
	if s.of == nil {
		return
	}
	s.identify()
	s.of.active.Add(-1)
	s.of = nil
}

// beginHold counts a write that waits for the fence. It returns false, and counts nothing, if an
// eighth of all slots is taken by such writes: the rest are for reads.
func (s *slots) beginHold() bool {
	if s.held.Add(1) > max(1, s.max/8) {
		s.held.Add(-1)
		return false
	}
	return true
}

func (s *slots) endHold() { s.held.Add(-1) }

// beginLookup counts an unknown key's lookup, or returns ErrTooBusy.
func (s *slots) beginLookup() (done func(), err error) {
	done = func() { s.lookups.Add(-1) }
	if limit := max(1, s.max/8); s.lookups.Add(1) > limit {
		done()
		return nil, fmt.Errorf("%w: the limit of lookups of keys is %d", ErrTooBusy, limit)
	}
	return done, nil
}
