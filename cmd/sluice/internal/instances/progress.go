package instances

import (
	"io"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/instance"
)

// progress shows on a terminal how far a backup, a restore or a check is. The caller must Close it.
type progress struct {
	shown    *terminal.Progress
	phase    instance.Phase
	transfer *terminal.Transfer // for this phase; nil before the first one
}

func newProgress(out io.Writer, quiet bool) *progress {
	return &progress{shown: terminal.NewProgress(out, quiet)}
}

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
