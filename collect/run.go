package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/internal/task"
	"sluice/ledger"
)

const (
	passInterval = time.Second      // between looks for settlements that are due
	lookInterval = 30 * time.Second // between looks at the submissions in flight, and at the chain's clock
	page         = 200              // rows that are read together
)

// Run collects due settlements until ctx ends, and returns when every call has. Each second it
// calls report with how many were collected since the last call, and all failures, joined. It must
// not run twice concurrently.
func (c *Collector) Run(ctx context.Context, report task.Report) {
	var work sync.WaitGroup
	defer work.Wait()
	defer c.halted.Store(false)
	work.Go(func() { c.reportUntil(ctx, report) })
	c.lookInFlight.Store(true)
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		if err := c.pass(ctx, &work); err != nil && ctx.Err() == nil {
			c.fail(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			c.lookInFlight.Store(true)
		case <-time.After(passInterval):
		}
	}
}

func (c *Collector) reportUntil(ctx context.Context, report task.Report) {
	began, before := time.Now(), c.counts.collected.Load()
	task.Repeat(ctx, passInterval, passInterval, func() {
		collected := c.counts.collected.Load()
		report(task.Run{Task: task.Settle, Began: began, Count: collected - before, Err: c.failures()})
		began, before = time.Now(), collected
	})
}

// pass follows the submissions in flight, if they are to be looked at, and begins those that are
// due.
func (c *Collector) pass(ctx context.Context, work *sync.WaitGroup) error {
	if c.lookInFlight.CompareAndSwap(true, false) {
		if err := c.resume(ctx, work); err != nil {
			c.lookInFlight.Store(true)
			return fmt.Errorf("following the submissions in flight: %w", err)
		}
		work.Go(func() { c.observeHead(ctx) })
	}
	halt, err := c.store.Halted(ctx)
	if err != nil {
		return err
	}
	if c.halted.Store(halt != ""); halt != "" {
		return fmt.Errorf("%w: %s", ErrHalted, halt)
	}
	return c.beginDue(ctx, work)
}

// resume follows the submissions in flight that are not followed yet.
func (c *Collector) resume(ctx context.Context, work *sync.WaitGroup) error {
	for after := ""; ; {
		list, err := c.store.SubmissionsInFlight(ctx, after, page)
		if err != nil {
			return err
		}
		for _, s := range list {
			if c.begin(s.Channel) {
				work.Go(func() {
					defer c.finish(s.Channel)
					c.follow(ctx, &attempt{Submission: s}, 0)
				})
			}
			after = s.Channel
		}
		if len(list) < page {
			return nil
		}
	}
}

// beginDue begins the submissions that are due. It waits for slots, but not for submissions.
func (c *Collector) beginDue(ctx context.Context, work *sync.WaitGroup) error {
	var version uint64
	for after := (ledger.Settlement{}); ; {
		list, err := c.store.DueSettlements(ctx, c.advanceOfDue(), after, page)
		if err != nil {
			return err
		}
		if len(list) > 0 && version == 0 {
			version = c.observeHead(ctx)
		}
		for _, s := range list {
			after = s
			if !c.begin(s.Channel) {
				continue
			}
			release, err := take(ctx, c.submits)
			if err != nil {
				c.finish(s.Channel)
				return err
			}
			work.Go(func() {
				defer c.finish(s.Channel)
				c.collect(ctx, s, version, release)
			})
		}
		if len(list) < page {
			return nil
		}
	}
}

// observeHead returns the chain's version, or 0 if no fullnode states it. After that it is known by
// how much the chain is ahead of the clock.
func (c *Collector) observeHead(ctx context.Context) (version uint64) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	head, err := c.opt.Chain.Head(ctx)
	if err != nil && ctx.Err() == nil {
		c.fail(err)
	}
	return head.Version
}

// begin marks a channel as busy. It reports false if it is busy already.
func (c *Collector) begin(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.busy[channel] {
		return false
	}
	c.mu.busy[channel] = true
	return true
}

func (c *Collector) finish(channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.busy, channel)
}
