package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"sluice/admin"
	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/database"
	"sluice/internal/datadir"
	"sluice/storage"
)

// The exit codes. They are stable; docs/cli.md describes them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitRefused     = 4
	ExitPartly      = 5
	ExitDamaged     = 6
	ExitInterrupted = 130
)

// ExitCodes describe the exit codes for people.
var ExitCodes = []struct {
	Code    int
	Meaning string
}{
	{ExitOK, "success"},
	{ExitFailed, "failed, for a reason that has no code of its own"},
	{ExitUsage, "a flag, a variable or a configuration file is wrong; nothing was done"},
	{ExitNotFound, "the named thing does not exist, such as a blob, a key or a context"},
	{ExitRefused, "refused: not allowed, not paid, over a limit, or a condition is not met"},
	{ExitPartly, "partly done: some of several things were skipped or failed"},
	{ExitDamaged, "sluice check has found damage"},
	{ExitInterrupted, "interrupted by Ctrl-C, SIGTERM or the end of the terminal"},
}

// ExitError is an error with an exit code.
type ExitError struct {
	Code int
	err  error
}

func (e *ExitError) Error() string { return e.err.Error() }
func (e *ExitError) Unwrap() error { return e.err }

// ExitWith returns an error for which the process exits with a code.
func ExitWith(code int, err error) error { return &ExitError{code, err} }

// Usagef returns an error for a wrong command line.
func Usagef(format string, args ...any) error {
	return ExitWith(ExitUsage, fmt.Errorf(format, args...))
}

// ExitCode returns the exit code for a command's error.
func ExitCode(err error) int {
	var e *ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.Code
	case isRefusedHere(err):
		return ExitUsage
	case IsWrongAddress(err):
		return ExitUsage
	case AnyOf(err, database.ErrNotFound, contexts.ErrUnknown, storage.ErrNoInstance, datadir.ErrNoInstance, admin.ErrNotFound, client.ErrNotFound, client.ErrGone):
		return ExitNotFound
	case AnyOf(err, admin.ErrBeyond, admin.ErrEverything, admin.ErrOpening, admin.ErrGuarded, admin.ErrLast, admin.ErrChanged, admin.ErrConflict, client.ErrUnauthorized, client.ErrForbidden, client.ErrBlocked, client.ErrPaymentRequired, client.ErrConflict, client.ErrPreconditionFailed,
		client.ErrRateLimited, client.ErrStorageFull, client.ErrBudget, client.ErrTermsChanged, client.ErrNotDelivered, client.ErrNoChannel, client.ErrUnproven, client.ErrOtherChannel):
		return ExitRefused
	default:
		return ExitFailed
	}
}

// isRefusedHere reports whether the client has refused a request without sending it, because of a
// flag's or an operand's value.
func isRefusedHere(err error) bool {
	_, reported := errors.AsType[*client.Error](err)
	return !reported && errors.Is(err, client.ErrInvalid)
}

// AnyOf reports whether an error is one of several.
func AnyOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// Endings returns the signals that end a command. SIGHUP, which a terminal sends when it is closed,
// is one of them unless the process was started with it ignored, as nohup does.
func Endings() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
