package blob

import (
	"context"
	"errors"
	"time"

	"sluice/bytestore"
	"sluice/internal/task"
)

// While requests are in progress, a background task pauses after each step for pauseFactor times as
// long as the step took, and so has at most a quarter of the time. The pause is limited, so that
// the task always makes progress.
const (
	pauseFactor    = 3
	maxPause       = 250 * time.Millisecond
	maxUrgentPause = 10 * time.Millisecond
)

// A task's first steps have one part in smallSteps of the greatest size, so that requests wait only
// briefly for them. After each stepsPerLevel steps the size doubles, and an urgent task's pauses
// halve, so that what requests leave behind is removed as fast as it arises.
const (
	smallSteps    = 8
	stepsPerLevel = 32
)

// pacer divides a background task into steps, and lets requests run between them. It must be used
// by one goroutine.
type pacer struct {
	busy   func() bool // reports whether requests are in progress that the task must let pass
	urgent bool        // requests produce what the task removes
	steps  int         // that have ended
	began  time.Time   // when the step began; zero before the first one
}

// newPacer returns the pacer for one run of a task. It does not pause while the store is out of
// space, because then requests wait for the task.
func (s *Service) newPacer() *pacer {
	return &pacer{busy: func() bool { return s.opt.Busy() && !errors.Is(s.opt.Space(0), bytestore.ErrNoSpace) }}
}

// next ends the last step, pauses if requests are in progress, and returns the next step's size,
// which is at most most. It returns the error of ctx if that ends.
func (p *pacer) next(ctx context.Context, most int) (size int, err error) {
	if !p.busy() {
		p.began = time.Now()
		return most, ctx.Err()
	}
	if !p.began.IsZero() {
		p.steps++
		err = task.Wait(ctx, p.pause())
	}
	p.began = time.Now()
	return min(most, max(1, most/smallSteps)<<p.level()), err
}

// pause returns how long to pause after the step.
func (p *pacer) pause() time.Duration {
	d := pauseFactor * time.Since(p.began)
	if p.urgent {
		return min(d, maxUrgentPause) >> p.level()
	}
	return min(d, maxPause)
}

// level is the number of times that steps have doubled.
func (p *pacer) level() int {
	return min(p.steps/stepsPerLevel, 30)
}
