// Package cli has the parts that commands share: their console, output, errors with exit codes,
// operands, and the flags that name a server.
package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"sluice/cmd/sluice/internal/terminal"
)

// Console is a command's input and output.
type Console struct {
	In       io.Reader
	Out, Err io.Writer

	mu       sync.Mutex
	progress *terminal.Progress // that is shown on err; nil: none
	waiting  time.Time          // until when a wait was announced
	away     time.Time          // when an outage, or a missing response, was announced
}

// AnnouncedWait is the shortest wait that is announced.
const AnnouncedWait = 3 * time.Second

// outageInterval is the least time between two announcements of an outage.
const outageInterval = 10 * time.Second

// Shows notes that progress is shown on err, or with nil that none is shown any more.
func (c *Console) Shows(progress *terminal.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress = progress
}

// waits announces that a request will be repeated after d, because the server asked for it with an
// error. Of requests that wait at the same time it names the first. It may be called concurrently.
func (c *Console) waits(d time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Now().Add(d)
	if d < AnnouncedWait || until.Before(c.waiting.Add(AnnouncedWait)) {
		return
	}
	c.waiting = until
	c.announce(fmt.Sprintf("waiting %v because the server asked: %s", d.Round(time.Second), LineOf(err)))
}

// outage announces that requests are repeated while the server is away. Of requests that wait at
// the same time it names the first. It may be called concurrently.
func (c *Console) outage(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.away.Add(outageInterval)) {
		c.announce("the server is away, trying again: " + LineOf(err))
		c.away = now
	}
}

// slow announces that the server has not responded for a while. Of requests that wait at the same
// time it names the first. It may be called concurrently.
func (c *Console) slow(operation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.away.Add(outageInterval)) {
		c.announce("waiting for the server's response: " + operation)
		c.away = now
	}
}

// Awaits announces that a purchase waits until the server has collected so many units of earlier
// payments. It may be called concurrently.
func (c *Console) Awaits(units uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announce(fmt.Sprintf("waiting until the server has collected earlier payments of %d units", units))
}

// announce prints a line to err, above the progress. The caller holds mu.
func (c *Console) announce(line string) {
	if c.progress != nil {
		_ = c.progress.Print(line) // if that fails, there is no other place for it
		return
	}
	_, _ = fmt.Fprintf(c.Err, "sluice: %s\n", line) // likewise
}
