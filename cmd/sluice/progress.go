package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"sluice/instance"
)

// progress prints the progress of a clone: a bar on a terminal, a line every few
// seconds elsewhere.
type progress struct {
	out   io.Writer
	bars  bool
	quiet bool
	now   func() time.Time

	phase   instance.Phase
	printed time.Time
	bar     *progressbar.ProgressBar // nil without bars
}

func newProgress(out io.Writer, quiet bool) *progress {
	f, isFile := out.(*os.File)
	return &progress{out: out, quiet: quiet, bars: isFile && term.IsTerminal(int(f.Fd())), now: time.Now}
}

// progressInterval is the time between two lines.
const progressInterval = 5 * time.Second

// units are the units in which phases are counted.
var phaseUnits = map[instance.Phase]string{instance.PhaseBytes: "bytes", instance.PhaseMetadata: "rows"}

// update prints p.
func (p *progress) update(now instance.Progress) {
	began := p.phase != now.Phase
	p.phase = now.Phase
	switch {
	case p.quiet:
	case p.bars:
		p.updateBar(now, began)
	case began, now.Ended, p.now().Sub(p.printed) >= progressInterval:
		p.printed = p.now()
		_, _ = fmt.Fprintf(p.out, "%s: %d of %d %s\n", now.Phase, min(now.Done, now.Total), now.Total, phaseUnits[now.Phase])
	}
}

func (p *progress) updateBar(now instance.Progress, began bool) {
	if began {
		p.bar = progressbar.NewOptions64(max(now.Total, 1), progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(string(now.Phase)),
			progressbar.OptionShowBytes(phaseUnits[now.Phase] == "bytes"), progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond))
	}
	_ = p.bar.Set64(min(now.Done, now.Total)) // an error has nowhere to go
	if now.Ended {
		_ = p.bar.Finish()
		_, _ = fmt.Fprintln(p.out)
	}
}

// message prints a line, after it has removed the bar.
func (p *progress) message(text string) {
	if p.bars && !p.quiet && p.bar != nil {
		_ = p.bar.Clear()
	}
	_, _ = fmt.Fprintf(p.out, "sluice: %s\n", text)
}
