package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"sluice/instance"
	"sluice/internal/terminal"
)

// progress prints the progress of a clone or a check: a bar on a terminal, a line every few seconds
// elsewhere. The caller must Close it.
type progress struct {
	out   io.Writer
	quiet bool
	shown *terminal.Progress
	lines bool // reports whether lines are printed in place of bars

	phase    instance.Phase
	printed  time.Time
	transfer *terminal.Transfer // for this phase; nil before the first one
}

func newProgress(out io.Writer, quiet bool) *progress {
	f, isFile := out.(*os.File)
	bars := isFile && term.IsTerminal(int(f.Fd()))
	return &progress{out: out, quiet: quiet, shown: terminal.NewProgress(out, quiet), lines: !bars && !quiet}
}

// progressInterval is the time between two lines.
const progressInterval = 5 * time.Second

// phaseUnits are the units in which phases are counted.
var phaseUnits = map[instance.Phase]string{
	instance.PhaseBytes: "bytes", instance.PhaseMetadata: "rows",
	instance.PhasePages: "tables and indexes", instance.PhaseRows: "rows", instance.PhaseRepair: "kinds of repairs", instance.PhaseBooks: "steps", instance.PhaseBodies: "bodies", instance.PhaseObjects: "objects",
}

// update shows p.
func (p *progress) update(now instance.Progress) {
	began := p.phase != now.Phase
	p.phase = now.Phase
	if began {
		p.begin(now)
	}
	p.transfer.Set(min(now.Done, now.Total))
	if now.Ended {
		p.transfer.End()
	}
	if p.lines && (began || now.Ended || time.Since(p.printed) >= progressInterval) {
		p.printed = time.Now()
		// An error has nowhere to go.
		_, _ = fmt.Fprintf(p.out, "%s: %s %s\n", now.Phase, howFar(now), phaseUnits[now.Phase])
	}
}

// howFar returns what is done, of a total if that is known.
func howFar(now instance.Progress) string {
	if now.Total == 0 {
		return fmt.Sprint(now.Done)
	}
	return fmt.Sprintf("%d of %d", min(now.Done, now.Total), now.Total)
}

// begin ends the last phase's line, and shows one for the new phase.
func (p *progress) begin(now instance.Progress) {
	if p.transfer != nil {
		p.transfer.End()
	}
	if phaseUnits[now.Phase] == "bytes" {
		p.transfer = p.shown.Start(string(now.Phase), now.Total)
	} else {
		p.transfer = p.shown.StartCount(string(now.Phase), now.Total)
	}
}

// message prints a line, above the bar.
func (p *progress) message(text string) {
	_ = p.shown.Print("sluice: " + text) // an error has nowhere to go
}

// Close removes the bar.
func (p *progress) Close() {
	if p.transfer != nil {
		p.transfer.End()
	}
	p.shown.Close()
}
