package exchange

import (
	"context"
	"errors"
	"time"

	"sluice/history"
)

const (
	// heldFor is how long a write waits for the fence's first answer, which takes less.
	heldFor = 25 * time.Second
	// heldStep is how often a write that waits looks whether the service shuts down.
	heldStep = time.Second
)

// AwaitPermission returns nil if the exchange may write. While it is not known whether this
// database owns the bytes, it waits, unless too many others do.
func (x *Exchange) AwaitPermission() error {
	s := x.service
	if s.history == nil {
		return nil
	}
	err := s.history.MayCommit()
	if !errors.Is(err, history.ErrFenceWaits) || !s.slots.beginHold() {
		return err
	}
	defer s.slots.endHold()
	for range heldFor / heldStep {
		step, cancel := context.WithTimeout(x.Request.Context(), heldStep)
		err = s.history.Await(step)
		cancel()
		switch {
		case !errors.Is(err, history.ErrFenceWaits) || x.Request.Context().Err() != nil:
			return err
		case s.draining.Load():
			return ErrDraining
		}
	}
	return err
}
