//go:build unix

package client_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/client"
	"sluice/internal/testenv"
)

// anotherUser is a user's id that runs nothing.
const anotherUser = 65534

// giveAway makes a file one that others made: it becomes another user's, which only root can do, or
// else one that others may access.
func giveAway(file string) error {
	if os.Getuid() != 0 {
		return os.Chmod(file, 0o666)
	}
	return os.Chown(file, anotherUser, anotherUser)
}

// TestPlantedFilesAreNotUsed plants temporary files of transfers as another user could, who can
// write to the folder: a download continues none of them, writes to nothing through links, and is
// complete.
func TestPlantedFilesAreNotUsed(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	content := randomBytes(10_500)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{})))
	secret := []byte("a file that has nothing to do with the transfer")
	for name, plant := range map[string]func(t *testing.T, file, victim string) error{
		"another user's": func(_ *testing.T, file, _ string) error {
			return giveAway(file)
		},
		"open to others": func(_ *testing.T, file, _ string) error { return os.Chmod(file, 0o606) },
		"hard link": func(_ *testing.T, file, victim string) error {
			return errors.Join(os.Remove(file), os.Link(victim, file))
		},
		"symbolic link": func(_ *testing.T, file, victim string) error {
			return errors.Join(os.Remove(file), os.Symlink(filepath.Base(victim), file))
		},
	} {
		for _, suffix := range []string{".sluice-part", ".sluice-download"} {
			t.Run(name+suffix, func(t *testing.T) {
				path := target(t)
				o := client.DownloadOptions{RangeSize: 1000, Concurrency: 1}
				interruptedDownload(t, s, c, path, o)
				victim := filepath.Join(filepath.Dir(path), "victim")
				testenv.OK(t, os.WriteFile(victim, secret, 0o600))
				planted := false
				for _, e := range others(t, path) {
					if strings.HasSuffix(e.Name(), suffix) {
						planted = true
						testenv.OK(t, plant(t, filepath.Join(filepath.Dir(path), e.Name()), victim))
					}
				}
				if !planted {
					t.Fatal("there is nothing to replace")
				}
				testenv.OK(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", path, o)))
				if n := len(s.requests(func(r request) bool { return r.rawRange != "" })); n != 11 {
					t.Errorf("%d ranges were requested, want all 11", n)
				}
				got, err := os.ReadFile(path)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("the file has %d bytes, %v", len(got), err)
				}
				if got, err := os.ReadFile(victim); err != nil || !bytes.Equal(got, secret) {
					t.Errorf("the other file has %q, %v", got, err)
				}
			})
		}
	}
}

// TestPlantedLocks checks that a lock that another user has made, or that is a link, is not used.
func TestPlantedLocks(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(randomBytes(10_500)), client.PutOptions{})))
	path := target(t)
	o := client.DownloadOptions{RangeSize: 1000, Concurrency: 1}
	interruptedDownload(t, s, c, path, o)
	lock := ""
	for _, e := range others(t, path) {
		if strings.HasSuffix(e.Name(), ".sluice-download") {
			lock = filepath.Join(filepath.Dir(path), e.Name()+".lock")
		}
	}
	elsewhere := filepath.Join(filepath.Dir(path), "elsewhere")
	testenv.OK(t, os.Symlink("elsewhere", lock))
	if _, err := c.DownloadFile(t.Context(), "team", "a", path, o); err == nil || !strings.Contains(err.Error(), "was not made by this user") {
		t.Errorf("error %v", err)
	}
	if err := c.ForgetDownload("team", "a", path, o); err != nil {
		t.Errorf("error %v of what is left to others", err)
	}
	testenv.Is(t, testenv.Error(os.Lstat(elsewhere)), os.ErrNotExist, "the file behind a link")
	if _, err := os.Lstat(lock); err != nil {
		t.Errorf("the link was removed: %v", err)
	}
}

// TestIncompleteDownloadsArePrivate checks a file's mode before and after its download is complete.
func TestIncompleteDownloadsArePrivate(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(randomBytes(10_500)), client.PutOptions{})))
	path := target(t)
	o := client.DownloadOptions{RangeSize: 1000, Concurrency: 1}
	interruptedDownload(t, s, c, path, o)
	for _, e := range others(t, path) {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	usual := filepath.Join(filepath.Dir(path), "usual")
	f, err := os.Create(usual)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		_, err = c.DownloadFile(t.Context(), "team", "a", path, o)
	}
	testenv.OK(t, err)
	want, err1 := os.Stat(usual)
	got, err2 := os.Stat(path)
	if err := errors.Join(err1, err2); err != nil || got.Mode() != want.Mode() {
		t.Errorf("mode %v, want %v, %v", got.Mode(), want.Mode(), err)
	}
	if left := others(t, path); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
}

// TestPlantedPayerState checks that a payer uses no state file that is a link or another user's.
func TestPlantedPayerState(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	for name, plant := range map[string]func(t *testing.T, file string) error{
		"symbolic link": func(_ *testing.T, file string) error {
			return errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file))
		},
		"another user's": func(_ *testing.T, file string) error {
			return giveAway(file)
		},
	} {
		for _, suffix := range []string{"", ".lock"} {
			t.Run(name+suffix, func(t *testing.T) {
				dir := testenv.MemoryDir(t)
				file := filepath.Join(dir, "payer.json"+suffix)
				newPayer(t, c, dir)
				if suffix == "" {
					testenv.OK(t, os.WriteFile(file, []byte("{}"), 0o600))
				}
				testenv.OK(t, plant(t, file))
				if _, err := c.NewPayer(t.Context(), payerOptions(t, dir)); err == nil || !strings.Contains(err.Error(), "was not made by this user") && !strings.Contains(err.Error(), "other users may access it") {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}
