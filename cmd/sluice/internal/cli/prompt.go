package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Confirm asks a question on the terminal. It returns an error if the response is not yes, or if
// there is no terminal to ask on.
func Confirm(ctx context.Context, console *Console, question string) error {
	if !IsTerminal(console.In) {
		return Usagef("standard input is not a terminal to confirm on: use --yes to do it without a question; nothing was changed")
	}
	return askOn(Interruptible(ctx, console.In), console.Err, question)
}

func askOn(in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return err
	}
	response, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(response)) {
	case "y", "yes":
		return nil
	default:
		return errors.New("nothing was changed")
	}
}

// Interruptible returns a reader for r that ends with the context: a read from a terminal or a pipe
// does not.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = pw.CloseWithError(context.Cause(ctx)) }) // it returns nil
	go func() {
		buffer := make([]byte, 256<<10)
		_, err := io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, buffer)
		stop()
		_ = pw.CloseWithError(err) // it returns nil
	}()
	return pr
}

// IsTerminal reports whether an input or output is a terminal.
func IsTerminal(stream any) bool {
	f, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}
