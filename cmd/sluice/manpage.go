package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/cli"
)

// manWriter writes a manual page in the man macros of roff. Its first error is in err.
type manWriter struct {
	out io.Writer
	err error
}

// line writes a line. Texts in it must be escaped by roff.
func (w *manWriter) line(format string, values ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format+"\n", values...)
	}
}

// roff escapes a text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(strings.Join(strings.Fields(text), " "))
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// writeMan writes the manual page of all commands.
func writeMan(out io.Writer, app *kong.Application) error {
	w := &manWriter{out: out}
	w.line(`.TH SLUICE 1 "" "sluice %s"`, roff(cli.Version()))
	w.line(".SH NAME\nsluice \\- store blobs, serve ranges of them, and meter the reads")
	w.line(".SH SYNOPSIS\n.B sluice\n.I command\n[\\fIarguments\\fR] [\\fIflags\\fR]")
	w.line(".SH DESCRIPTION\n%s", roff(app.Help))
	w.line(".SH COMMANDS")
	for _, command := range app.Leaves(true) {
		w.command(command)
	}
	w.line(".SH EXIT STATUS")
	for _, c := range cli.ExitCodes {
		w.line(".TP\n.B %d\n%s", c.Code, roff(c.Meaning))
	}
	w.line(".SH ENVIRONMENT")
	w.line("Each flag of\n.B sluice serve\nhas the variable that is named with it.\nCommands that use a server take it from\n.BR SLUICE_URL ,\n.BR SLUICE_CONTEXT ,\n.B SLUICE_KEY\nand\n.BR SLUICE_KEY_FILE .")
	return w.err
}

func (w *manWriter) command(command *kong.Node) {
	usage := "sluice " + pathOf(command)
	for _, argument := range command.Positional {
		usage += " " + argument.Summary()
	}
	w.line(".SS %s\n%s", roff(usage), roff(command.Help))
	for _, argument := range command.Positional {
		w.line(".TP\n.I %s\n%s", roff(argument.Name), roff(describeFlag(argument)))
	}
	for _, flag := range command.Flags {
		if flag.Hidden || flag.Name == "help" {
			continue
		}
		name := "--" + flag.Name
		if flag.Short != 0 {
			name = "-" + string(flag.Short) + ", " + name
		}
		if !flag.IsBool() {
			name += " " + strings.Trim(flag.FormatPlaceHolder(), `"`)
		}
		w.line(".TP\n.B %s\n%s", roff(name), roff(describeFlag(flag.Value)))
	}
	if _, calls, found := strings.Cut(command.Detail, "Examples:"); found {
		w.line(".PP\n.EX")
		for call := range strings.Lines(strings.TrimSpace(calls)) {
			w.line("%s", roff(call))
		}
		w.line(".EE")
	}
}
