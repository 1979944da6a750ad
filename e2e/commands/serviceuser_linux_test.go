package commands

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestKeyCommandBesideAService creates a key as docs/operations.md documents it for the packages,
// while the service runs as another user and again after it has ended. That user must remain
// every file's owner, so that the next start can write.
func TestKeyCommandBesideAService(t *testing.T) {
	testenv.Require(t, testenv.RootMount) // mounting requires the right to become another user too
	t.Parallel()
	const user = 61_184
	dir, err := os.MkdirTemp("", "sluice-service-user-") // other users cannot enter t.TempDir
	testenv.OK(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	data, program := filepath.Join(dir, "data"), filepath.Join(dir, "sluice")
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(data, 0o700), os.Chown(data, user, user), os.Link(e2e.Sluice, program))
	testenv.OK(t, err)
	as := []string{"setpriv", "--reuid", strconv.Itoa(user), "--regid", strconv.Itoa(user), "--clear-groups"}
	serve := append(as, program, "serve", "--addr", "127.0.0.1:0", "--data", data)
	command := e2e.BlockOf(t, "docs/operations.md", "sh", "--data /var/lib/sluice", [][2]string{
		{"--data /var/lib/sluice ", "--data " + data + " "}, {"sudo sluice key create", program + " key create"},
	})
	makeKey := func() {
		t.Helper()
		out, err := exec.Command("sh", "-c", command).Output()
		if err != nil || !e2e.Credential.Match(out) {
			t.Fatalf("the documented command prints %q, %v", out, err)
		}
	}

	for range 2 {
		s := &e2e.Server{T: t, Data: data, Options: e2e.Options{Data: data}}
		s.Run(slices.Concat(serve, e2e.HostedChoices("key"), []string{"--admin-addr", "off"}))
		makeKey()
		s.Stop()
		makeKey()
	}
	err = filepath.WalkDir(data, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != user {
			t.Errorf("%s belongs to user %d", strings.TrimPrefix(name, data), info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	testenv.OK(t, err)
}
