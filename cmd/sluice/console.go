package main

import (
	"io"

	"github.com/alecthomas/kong"
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
