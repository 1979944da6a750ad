package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress tells how far a piece of work is: by a bar on a terminal, by a line
// every few seconds elsewhere. Its methods may be called at once.
type progress struct {
	out   io.Writer
	bars  bool
	quiet bool
	now   func() time.Time

	mu          sync.Mutex
	what, unit  string
	done, total int64
	told        time.Time
	bar         *progressbar.ProgressBar // nil without bars
}

func newProgress(out io.Writer, quiet bool) *progress {
	f, isFile := out.(*os.File)
	return &progress{out: out, quiet: quiet, bars: isFile && term.IsTerminal(int(f.Fd())), now: time.Now}
}

// progressEvery is the time between two lines.
const progressEvery = 5 * time.Second

// begin begins a piece of work of so many units. It may turn out to be more.
func (p *progress) begin(what string, total int64, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.unit, p.done, p.total = what, unit, 0, total
	if p.quiet {
		return
	}
	if p.bars {
		p.bar = progressbar.NewOptions64(max(total, 1), progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(what),
			progressbar.OptionShowBytes(unit == "bytes"), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond))
		return
	}
	p.tell()
}

// add tells that n more units are done.
func (p *progress) add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	switch {
	case p.quiet:
	case p.bars:
		_ = p.bar.Set64(min(p.done, p.total)) // there is nowhere else to tell it
	case p.now().Sub(p.told) >= progressEvery:
		p.tell()
	}
}

// end ends the piece of work.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.quiet:
	case p.bars:
		_ = p.bar.Finish()
		_, _ = fmt.Fprintln(p.out)
	default:
		p.tell()
	}
}

// line writes a line to a writer, which may be the one that the bar is on.
func (p *progress) line(w io.Writer, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars && !p.quiet {
		_ = p.bar.Clear()
	}
	_, _ = fmt.Fprintf(w, "sluice: %s\n", text)
}

func (p *progress) tell() {
	p.told = p.now()
	_, _ = fmt.Fprintf(p.out, "%s: %d of %d %s\n", p.what, min(p.done, p.total), p.total, p.unit)
}
