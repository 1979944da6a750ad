package main

import (
	"io"
	"os"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// console is what a command is given to run: its input and output, and how it was called.
type console struct {
	in       io.Reader
	out, err io.Writer
	parser   *parser
	parsed   *kong.Context

	// newParser returns another parser of the same commands.
	newParser func(options ...kong.Option) (*parser, error)
}

// isTerminal reports whether an input or output is a terminal.
func isTerminal(stream any) bool {
	f, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}
