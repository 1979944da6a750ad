package commands

import (
	"os/exec"
	"syscall"
	"testing"

	"sluice/e2e"
)

// endAfter runs a command through the proxy, and sends it a signal after n responses. The command
// must end without any further response.
func endAfter(p *e2e.CountingProxy, t testing.TB, n int, sig syscall.Signal, line ...string) e2e.Result {
	t.Helper()
	defer p.Release()
	return p.DuringCommand(t, n, func(command *exec.Cmd) {
		if err := command.Process.Signal(sig); err != nil {
			t.Error(err)
		}
	}, line...)
}
