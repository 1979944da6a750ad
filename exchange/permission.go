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

// AwaitPermission returns nil if the exchange may write. While the fence does not know whether this
// database owns the bytes, it waits, unless too many requests do.
func (x *Exchange) AwaitPermission() error {
	if err := x.awaitFence(); err != nil {
		return err
	}
	if x.service.past == nil {
		return nil
	}
	return x.service.past.Err()
}

func (x *Exchange) awaitFence() error {
	s := x.service
	if s.fence == nil {
		return nil
	}
	err := s.fence.MayCommit()
	if !errors.Is(err, history.ErrFenceWaits) || !s.slots.beginHold() {
		return err
	}
	defer s.slots.endHold()
	for range heldFor / heldStep {
		step, cancel := context.WithTimeout(x.Request.Context(), heldStep)
		err = s.fence.Await(step)
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
