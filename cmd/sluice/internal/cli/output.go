package cli

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/cmd/sluice/internal/terminal"
)

// OutputFlags choose a command's output. Commands that print results or progress embed them.
type OutputFlags struct {
	Quiet bool `short:"q" env:"-" help:"Print results and errors only: no progress and no remarks."`
	JSON  bool `name:"json" env:"-" help:"Print JSON for programs, one object per line."`
}

// Result prints a result to stdout: with --json as JSON, otherwise as lines.
func (f OutputFlags) Result(console *Console, asJSON any, lines ...string) error {
	if f.JSON {
		return terminal.WriteJSON(console.Out, asJSON)
	}
	return PrintLine(console.Out, strings.Join(lines, "\n"))
}

// ResultWithRemarks prints a result, and remarks about it unless it is JSON.
func (f OutputFlags) ResultWithRemarks(console *Console, asJSON any, line string, remarks ...string) error {
	err := f.Result(console, asJSON, line)
	for _, remark := range remarks {
		if err == nil && !f.JSON {
			err = f.Remark(console, remark)
		}
	}
	return err
}

// Facts prints names and values: with --json as JSON, otherwise as a table without those that have
// no value.
func (f OutputFlags) Facts(console *Console, asJSON any, facts [][2]string) error {
	if f.JSON {
		return terminal.WriteJSON(console.Out, asJSON)
	}
	return PrintFacts(console.Out, facts)
}

// Remark prints a line to stderr, unless only results are wanted.
func (f OutputFlags) Remark(console *Console, line string) error {
	if f.Quiet {
		return nil
	}
	return PrintLine(console.Err, line)
}

// PrintLine writes a line.
func PrintLine(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, line)
	return err
}

// PrintFacts writes names and values as a table, without those that have no value.
func PrintFacts(out io.Writer, facts [][2]string) error {
	t := NewTable(out, "")
	for _, fact := range facts {
		if fact[1] == "" {
			continue
		}
		if err := t.Row(nil, fact[0], fact[1]); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Table prints rows, which may contain foreign texts, in columns, or as lines of JSON. It holds at
// most flushedRows of them. The caller must Flush it.
type Table struct {
	*tabwriter.Writer
	out     io.Writer
	json    bool
	heading string // before the first row; "": none
	rows    int
}

// flushedRows is the number of rows that are aligned with each other.
const flushedRows = 1000

// NewTable returns a table of text. Tabs separate the columns of its heading; "" is none.
func NewTable(out io.Writer, heading string) *Table {
	return &Table{Writer: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), out: out, heading: heading}
}

// Table returns a table on stdout. Tabs separate its heading's columns.
func (f OutputFlags) Table(console *Console, heading string) *Table {
	t := NewTable(console.Out, heading)
	t.json = f.JSON
	return t
}

// Row adds a row.
func (t *Table) Row(asJSON any, cells ...string) error {
	if t.json {
		return terminal.WriteJSON(t.out, asJSON)
	}
	var line strings.Builder
	if t.rows == 0 && t.heading != "" {
		line.WriteString(t.heading + "\n")
	}
	for i, cell := range cells {
		if i > 0 {
			line.WriteByte('\t')
		}
		line.WriteString(terminal.Text(cell))
	}
	if t.rows++; t.rows%flushedRows == 0 {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return PrintLine(t, line.String())
}

// PrintAll adds a row for each entry of a list, up to its first error, and flushes the table.
func PrintAll[E any](t *Table, list iter.Seq2[E, error], cells func(E) []string) error {
	for e, err := range list {
		if err != nil {
			return errors.Join(t.Flush(), err)
		}
		if err := t.Row(e, cells(e)...); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Each returns a list without an error.
func Each[E any](list iter.Seq[E]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TimeText returns a time in UTC, or "" for none.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
