package ephemeral

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"sluice/test/testenv"
)

// TestReadOnlyMemory checks that an instance has its database in its data folder if the file system
// in memory is read-only.
func TestReadOnlyMemory(t *testing.T) {
	testenv.Require(t, testenv.RootMount)
	memory := t.TempDir()
	testenv.OK(t, testenv.MountTmpfs(memory, "1m"))
	t.Cleanup(func() {
		testenv.Check(t, testenv.Unmount(memory))
	})
	testenv.OK(t, syscall.Mount("", memory, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	f, _ := mustCreate(t, t.TempDir(), memory, true)
	if f.Data == "" || f.Database != "" {
		t.Errorf("the folders are %q and %q", f.Data, f.Database)
	}
}

// TestParentThatCannotBeListed checks that an instance can be created in a temporary folder that
// its user may write to and not list.
func TestParentThatCannotBeListed(t *testing.T) {
	temporary := t.TempDir()
	for _, dir := range []string{filepath.Dir(temporary), temporary} {
		testenv.OK(t, os.Chmod(dir, 0o755))
	}
	testenv.OK(t, os.Chmod(temporary, 0o333))
	err := unprivileged(func() error {
		if _, err := os.ReadDir(temporary); !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("the folder can be listed: %w", err)
		}
		f, _, err := create([]string{temporary}, false)
		if err != nil {
			return err
		}
		return f.Remove()
	})
	testenv.Check(t, err)
}

// unprivileged calls fn, on a thread that has no privilege for files.
func unprivileged(fn func() error) error {
	if os.Getuid() != 0 {
		return fn()
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		const nobody = 65534
		err := syscall.Setfsuid(nobody)
		if err == nil {
			err = fn()
		}
		result <- err
	}()
	return <-result
}
