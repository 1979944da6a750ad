package main

import (
	"fmt"
	"io"
)

// outputFlags choose what a command prints. Commands that print results or progress embed them.
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

func printLine(w io.Writer, line string) error {
	_, err := fmt.Fprintln(w, line)
	return err
}
