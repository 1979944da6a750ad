package main

import (
	"fmt"
	"io"

	"sluice/cmd/sluice/internal/operand"
)

// outputFlags choose a command's output. Commands that print results or progress embed them.
type outputFlags struct {
	Quiet bool `short:"q" env:"-" help:"Print results and errors only: no progress and no remarks."`
	JSON  bool `name:"json" env:"-" help:"Print JSON for programs, one object per line."`
}

// remark prints a line to stderr, unless only results are wanted.
func (f outputFlags) remark(console *console, line string) error {
	if f.Quiet {
		return nil
	}
	return printLine(console.err, line)
}

// nothingAt is the function nothingAt, which prints its remark.
func (f outputFlags) nothingAt(console *console, prefix operand.Remote) error {
	remark, err := nothingAt(prefix)
	if err != nil {
		return err
	}
	return f.remark(console, remark)
}

func printLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if err := printLine(w, line); err != nil {
			return err
		}
	}
	return nil
}

func printLine(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, line)
	return err
}
