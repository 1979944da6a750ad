//go:build unix

package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// anotherUser is a user's id that runs nothing.
const anotherUser = 65534

// giveAway makes a file one that openOwn refuses: it becomes another user's, which only root can
// do, or else one that other users may access.
func giveAway(file string) error {
	if os.Getuid() != 0 {
		return os.Chmod(file, 0o666)
	}
	return os.Chown(file, anotherUser, anotherUser)
}

// TestPlantedFilesAreNotUsed plants temporary files of transfers as another user could, who can
// write to the folder: a download continues none of them, writes to nothing through links, and is
// complete.
// Invariant 154.
func TestPlantedFilesAreNotUsed(t *testing.T) {
	t.Parallel()
	secret := []byte("a file that has nothing to do with the transfer")
	for name, plant := range map[string]func(file, victim string) error{
		"another user's":      func(file, _ string) error { return giveAway(file) },
		"open to other users": func(file, _ string) error { return os.Chmod(file, 0o606) },
		"hard link": func(file, victim string) error {
			return errors.Join(os.Remove(file), os.Link(victim, file))
		},
		"symbolic link": func(file, victim string) error {
			return errors.Join(os.Remove(file), os.Symlink(filepath.Base(victim), file))
		},
	} {
		for _, suffix := range []string{".sluice-part", ".sluice-download"} {
			t.Run(name+suffix, func(t *testing.T) {
				d := newDownload(t)
				d.interrupt()
				victim := filepath.Join(filepath.Dir(d.path), "victim")
				testenv.OK(t, os.WriteFile(victim, secret, 0o600))
				testenv.OK(t, plant(beside(t, d.path, suffix), victim))
				testenv.OK(t, d.receive(t.Context()))
				testenv.Equal(t, d.s.requests(func(r request) bool { return r.rawRange != "" }), 11, "the requested ranges, which are all")
				checkContent(t, d.path, d.content)
				checkContent(t, victim, secret)
			})
		}
	}
}

// TestPlantedLocks checks that a lock that another user has made, or that is a link, is not used.
// Invariant 154.
func TestPlantedLocks(t *testing.T) {
	t.Parallel()
	d := newDownload(t)
	d.interrupt()
	lock := beside(t, d.path, ".sluice-download") + ".lock"
	elsewhere := filepath.Join(filepath.Dir(d.path), "elsewhere")
	testenv.OK(t, os.Symlink("elsewhere", lock))
	checkMessage(t, d.receive(t.Context()), errAny, "was not made by this user")
	testenv.Check(t, d.c.ForgetDownload("team", "a", d.path, d.o)) // leaves other users' files
	testenv.Is(t, testenv.Error(os.Lstat(elsewhere)), os.ErrNotExist, "the file behind a link")
	testenv.Check(t, testenv.Error(os.Lstat(lock)))
}

// TestIncompleteDownloadsArePrivate checks a file's mode before and after its download is complete.
// Invariant 154.
func TestIncompleteDownloadsArePrivate(t *testing.T) {
	t.Parallel()
	d := newDownload(t)
	d.interrupt()
	for _, e := range others(t, d.path) {
		testenv.Equal(t, testenv.Must(e.Info())(t).Mode().Perm(), 0o600, "the mode of %s", e.Name())
	}
	usual := filepath.Join(filepath.Dir(d.path), "usual")
	testenv.OK(t, testenv.Must(os.Create(usual))(t).Close())
	testenv.OK(t, d.receive(t.Context()))
	want, got := testenv.Must(os.Stat(usual))(t).Mode(), testenv.Must(os.Stat(d.path))(t).Mode()
	testenv.Equal(t, got, want, "the mode of the complete file")
	testenv.Equal(t, len(others(t, d.path)), 1, "the other files, one of which is the usual one,")
}

// TestPlantedPayerState checks that a payer uses no state file that is a link or another user's.
// Invariant 154.
func TestPlantedPayerState(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	for name, plant := range map[string]func(file string) error{
		"symbolic link": func(file string) error {
			return errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file))
		},
		"another user's": giveAway,
	} {
		for _, suffix := range []string{"", ".lock"} {
			t.Run(name+suffix, func(t *testing.T) {
				dir := testenv.MemoryDir(t)
				file := filepath.Join(dir, "payer.json"+suffix)
				newPayer(t, c, dir)
				if suffix == "" {
					testenv.OK(t, os.WriteFile(file, []byte("{}"), 0o600))
				}
				testenv.OK(t, plant(file))
				if _, err := c.NewPayer(t.Context(), payerOptions(t, dir)); err == nil || !strings.Contains(err.Error(), "was not made by this user") && !strings.Contains(err.Error(), "other users may access it") {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}
