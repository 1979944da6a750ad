package testenv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Root returns the module's root folder: the nearest one that contains a go.mod, from the working
// folder up.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("testenv: no go.mod in the working folder or above it")
		}
		dir = parent
	}
}

// WithoutGit returns the environment without git's variables, which a hook and git rebase --exec
// set: they name the repository that the tests are in.
func WithoutGit() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// BuildSluice builds the sluice binary into dir, with these build tags, and returns its path. The
// binary has the race detector if the calling test has it.
//
// It keeps a copy in the user's cache for the next call. The go command links a binary only if its
// build ID shows that it has changed, so packages of tests that follow each other need not all link
// it.
func BuildSluice(dir string, tags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sluice")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	args := []string{"build", "-o", path, "-tags", strings.Join(tags, ",")}
	if Race {
		args = append(args, "-race")
	}
	kept, err := keptBinary(root, tags)
	if err != nil {
		return "", err
	}
	if err := copyProgram(path, kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	build := exec.Command("go", append(args, "./cmd/sluice")...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/sluice: %w\n%s", err, out)
	}
	return path, copyProgram(kept, path)
}

// keptBinary returns the path to the binary with these build tags that is kept for the module in
// root.
func keptBinary(root string, tags []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := strings.Join(append([]string{fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16]}, tags...), "-")
	if Race {
		name += "-race"
	}
	return filepath.Join(cache, "sluice-tests", name), nil
}

// copyProgram replaces an executable file with a copy of another, atomically.
func copyProgram(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(to), ".copy-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Chmod(0o700), temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), to)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temporary.Name()))
	}
	return err
}
