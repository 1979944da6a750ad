package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"sluice/cmd/sluice/internal/terminal"
)

// console is a command's input and output, and how it was called.
type console struct {
	in       io.Reader
	out, err io.Writer
	parser   *parser
	parsed   *kong.Context

	// newParser returns another parser for the same commands.
	newParser func(options ...kong.Option) (*parser, error)

	mu       sync.Mutex
	progress *terminal.Progress // that is shown on err; nil: none
	waiting  time.Time          // until when a wait was announced
	away     time.Time          // when an outage, or a missing response, was announced
}

// announcedWait is the shortest wait that is announced.
const announcedWait = 3 * time.Second

// outageInterval is the least time between two announcements of an outage.
const outageInterval = 10 * time.Second

// shows notes that progress is shown on err, or with nil that none is shown any more.
func (c *console) shows(progress *terminal.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress = progress
}

// waits announces that a request will be repeated after d, because the server asked for it with an
// error. Of requests that wait at the same time it names the first. It may be called concurrently.
func (c *console) waits(d time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Now().Add(d)
	if d < announcedWait || until.Before(c.waiting.Add(announcedWait)) {
		return
	}
	c.waiting = until
	c.announce(fmt.Sprintf("waiting %v because the server asked: %s", d.Round(time.Second), lineOf(err)))
}

// outage announces that requests are repeated while the server is away. Of requests that wait at
// the same time it names the first. It may be called concurrently.
func (c *console) outage(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.away.Add(outageInterval)) {
		c.announce("the server is away, trying again: " + lineOf(err))
		c.away = now
	}
}

// slow announces that the server has not responded for a while. Of requests that wait at the same
// time it names the first. It may be called concurrently.
func (c *console) slow(operation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.away.Add(outageInterval)) {
		c.announce("waiting for the server's response: " + operation)
		c.away = now
	}
}

// awaits announces that a purchase waits until the server has collected so many units of earlier
// payments. It may be called concurrently.
func (c *console) awaits(units uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announce(fmt.Sprintf("waiting until the server has collected earlier payments of %d units", units))
}

// announce prints a line to err, above the progress. The caller holds mu.
func (c *console) announce(line string) {
	if c.progress != nil {
		_ = c.progress.Print(line) // if that fails, there is no other place for it
		return
	}
	_, _ = fmt.Fprintf(c.err, "sluice: %s\n", line) // likewise
}

// isTerminal reports whether an input or output is a terminal.
func isTerminal(stream any) bool {
	f, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}
