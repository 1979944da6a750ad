package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// check tells why a thing is missing, or nil when it is there.
func check(thing Thing) error {
	switch thing {
	case NPM:
		return checkNPM()
	case Strace:
		return checkStrace()
	case Chromium:
		if err := checkNPM(); err != nil {
			return err
		}
		_, err := ChromiumPath()
		return err
	case Nginx:
		_, err := NginxPath()
		return err
	case HAProxy:
		_, err := HAProxyPath()
		return err
	case PostgreSQL:
		return checkPostgreSQL()
	case RootMount:
		return checkRootMount()
	case Port9090:
		return checkPort9090()
	case VersityGW:
		_, err := VersityGWPath()
		return err
	default:
		return fmt.Errorf("testenv knows no %q", thing)
	}
}

// ClientDir is the folder of the npm packages and of the scripts that use them.
func ClientDir() (string, error) {
	root, err := Root()
	return filepath.Join(root, "e2e", "client"), err
}

// checkNPM wants node, and the installed packages to be those of the lock file.
func checkNPM() error {
	if _, err := exec.LookPath("node"); err != nil {
		return err
	}
	dir, err := ClientDir()
	if err != nil {
		return err
	}
	want, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	// setup.sh leaves this copy behind a complete installation.
	have, err := os.ReadFile(filepath.Join(dir, "node_modules", ".installed-lock.json"))
	if err != nil {
		return fmt.Errorf("npm packages are not installed (internal/testenv/setup.sh does it): %w", err)
	}
	if !bytes.Equal(want, have) {
		return errors.New("npm packages are not those of package-lock.json (internal/testenv/setup.sh mends it)")
	}
	return nil
}

// checkStrace traces a process that does nothing.
func checkStrace() error {
	out, err := exec.Command("strace", "-f", "-e", "trace=none", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("strace cannot trace a child: %w: %s", err, out)
	}
	return nil
}

// ChromiumPath finds a Chromium.
func ChromiumPath() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium, chromium-browser or google-chrome in PATH")
}

// NginxPath finds an nginx, also where only root looks for programs.
func NginxPath() (string, error) { return systemProgram("nginx") }

// HAProxyPath finds an HAProxy, also where only root looks for programs.
func HAProxyPath() (string, error) { return systemProgram("haproxy") }

func systemProgram(name string) (string, error) {
	for _, name := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in PATH or /usr/sbin", name)
}

// checkPostgreSQL wants the server's programs, and somebody to run them as.
func checkPostgreSQL() error {
	_, err := PostgresBin()
	_, cerr := postgresCredential()
	return errors.Join(err, cerr)
}

// checkPort9090 wants the port of the local development instance to be free.
func checkPort9090() error {
	for _, address := range []string{"127.0.0.1:9090", "[::1]:9090"} {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		return errors.Join(fmt.Errorf("another process listens on %s", address), connection.Close())
	}
	return nil
}
