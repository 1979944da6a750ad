package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// The versions that setup.sh installs.
const (
	oapiCodegenVersion = "v2.8.2"
	versityGWVersion   = "v1.8.0-codes" // with e2e/s3/testdata/statusandcode.go
)

// VersityGWPath returns the path at which setup.sh installs versitygw.
func VersityGWPath() (string, error) { return toolPath("versitygw", versityGWVersion) }

// OapiCodegenPath returns the path at which setup.sh installs oapi-codegen.
func OapiCodegenPath() (string, error) { return toolPath("oapi-codegen", oapiCodegenVersion) }

// DebianTreePath returns the path at which setup.sh makes a .tar with a new Debian system.
func DebianTreePath() (string, error) {
	tools, err := toolsDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(tools, "debian-bookworm-apt.tar")
	_, err = os.Stat(path)
	return path, err
}

// toolsDir returns the folder in which setup.sh installs what is no package.
func toolsDir() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "sluice-tools"), nil
}

// toolPath returns the path at which setup.sh installs a Go program.
func toolPath(name, version string) (string, error) {
	tools, err := toolsDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(tools, name+"-"+version, name)
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("%s is not installed (run test/testenv/setup.sh): %w", name, err)
	}
	return path, nil
}

// headlessShell is Debian's Chromium without a window. Its script in PATH would outlive a test that
// is killed.
const headlessShell = "/usr/lib/chromium/chromium-headless-shell"

// ChromiumPath returns the path to a Chromium: the headless shell, which needs half the processor
// time since it draws no window around a page, or else a Chromium in PATH.
func ChromiumPath() (string, error) {
	for _, name := range []string{headlessShell, "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s, and no chrome-headless-shell, chromium, chromium-browser or google-chrome in PATH", headlessShell)
}

// FirefoxPath returns the path to a Firefox in PATH.
func FirefoxPath() (string, error) {
	if path, err := exec.LookPath("firefox-esr"); err == nil {
		return path, nil
	}
	return exec.LookPath("firefox")
}

// NginxPath returns the path to an nginx in PATH or /usr/sbin.
func NginxPath() (string, error) { return systemProgram("nginx") }

// HAProxyPath returns the path to an HAProxy in PATH or /usr/sbin.
func HAProxyPath() (string, error) { return systemProgram("haproxy") }

// VarnishPath returns the path to a Varnish in PATH or /usr/sbin.
func VarnishPath() (string, error) { return systemProgram("varnishd") }

func systemProgram(name string) (string, error) {
	for _, name := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in PATH or /usr/sbin", name)
}

// PostgresBin returns the folder of PostgreSQL's programs: the folder of postgres in PATH, or the
// newest version below /usr/lib/postgresql.
func PostgresBin() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // Debian's layout
	if err != nil {
		return "", err
	}
	newest := ""
	for _, path := range found {
		if version(path) >= version(newest) {
			newest = path
		}
	}
	if newest == "" {
		return "", errors.New("no postgres in PATH or /usr/lib/postgresql")
	}
	return filepath.Dir(newest), nil
}

// version returns the number in a path like /usr/lib/postgresql/15/bin/postgres, or 0.
func version(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
}
