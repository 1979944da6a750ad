package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// BuildSluice builds the sluice binary into dir and returns its path. The binary has the race
// detector if the calling test has it.
func BuildSluice(dir string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sluice")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	args := []string{"build", "-o", path}
	if Race {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./cmd/sluice")...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/sluice: %w\n%s", err, out)
	}
	return path, nil
}
