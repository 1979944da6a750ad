package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/database"
	"sluice/internal/datadir"
	"sluice/internal/logbuffer"
	"sluice/storage"
)

// The exit codes. They are stable; docs/cli.md describes them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitPartly      = 5
	exitDamaged     = 6
	exitInterrupted = 130
)

// exitCodes describe the exit codes for people.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "success"},
	{exitFailed, "failed, for a reason that has no code of its own"},
	{exitUsage, "a flag, a variable or a configuration file is wrong; nothing was done"},
	{exitNotFound, "the named thing does not exist, such as a blob, a key or a context"},
	{exitRefused, "refused: not allowed, not paid, over a limit, or a condition is not met"},
	{exitPartly, "partly done: some of several things were skipped or failed"},
	{exitDamaged, "sluice check has found damage"},
	{exitInterrupted, "interrupted by Ctrl-C, SIGTERM or the end of the terminal"},
}

// exitError is an error with an exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// exitWith returns an error for which the process exits with a code.
func exitWith(code int, err error) error { return &exitError{code, err} }

// usagef returns an error for a wrong command line.
func usagef(format string, args ...any) error {
	return exitWith(exitUsage, fmt.Errorf(format, args...))
}

// exitCode returns the exit code for a command's error.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	case isRefusedHere(err):
		return exitUsage
	case isWrongAddress(err):
		return exitUsage
	case anyOf(err, database.ErrNotFound, contexts.ErrUnknown, storage.ErrNoInstance, datadir.ErrNoInstance, client.ErrNotFound, client.ErrGone):
		return exitNotFound
	case anyOf(err, client.ErrUnauthorized, client.ErrForbidden, client.ErrPaymentRequired, client.ErrConflict, client.ErrPreconditionFailed,
		client.ErrRateLimited, client.ErrStorageFull, client.ErrBudget, client.ErrTermsChanged, client.ErrNotDelivered, client.ErrNoChannel, client.ErrUnproven, client.ErrOtherChannel):
		return exitRefused
	default:
		return exitFailed
	}
}

// isRefusedHere reports whether the client has refused a request without sending it, because of a
// flag's or an operand's value.
func isRefusedHere(err error) bool {
	_, reported := errors.AsType[*client.Error](err)
	return !reported && errors.Is(err, client.ErrInvalid)
}

func anyOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// messages prints lines that are not the log's, to stderr. If that fails, there is nowhere to
// report it.
type messages struct {
	stderr io.Writer
	format logbuffer.Format // JSON: lines are like the log's
}

// warn prints a warning.
func (m messages) warn(text string) { m.print(slog.LevelWarn, "warning: ", text) }

// fail prints an error as one line, and returns code.
func (m messages) fail(err error, code int) int {
	m.print(slog.LevelError, "", lineOf(err))
	return code
}

func (m messages) print(level slog.Level, prefix, text string) {
	if m.format == logbuffer.JSON {
		log, _ := logbuffer.New(m.stderr, logbuffer.Soon).Loggers(m.format, nil)
		log.Log(context.Background(), level, text)
		return
	}
	_, _ = fmt.Fprintf(m.stderr, "sluice: %s%s\n", prefix, terminal.Text(text)) // which cannot control the terminal
}

// endings returns the signals that end a command. SIGHUP, which a terminal sends when it is closed,
// is one of them unless the process was started with it ignored, as nohup does.
func endings() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// interruption is a command's context, which the signals of endings cancel. It takes no notice of
// them until a command uses the context: serve handles them otherwise.
type interruption struct{ ctx context.Context }

// context returns the context. It is cancelled by the first signal; the second one ends the
// process.
func (i *interruption) context() context.Context {
	if i.ctx == nil {
		ctx, stop := signal.NotifyContext(context.Background(), endings()...)
		context.AfterFunc(ctx, stop)
		i.ctx = ctx
	}
	return i.ctx
}

// explain returns a command's error, with an interruption's exit code if that was its cause.
func (i *interruption) explain(err error) error {
	switch {
	case err == nil || i.ctx == nil || i.ctx.Err() == nil:
		return err
	case errors.Is(err, context.Canceled):
		return exitWith(exitInterrupted, errors.New("interrupted"))
	default:
		return exitWith(exitInterrupted, err)
	}
}
