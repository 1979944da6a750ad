package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// oapiCodegenVersion is the version that setup.sh installs.
const oapiCodegenVersion = "v2.8.2"

// OapiCodegenPath returns the path at which setup.sh installs oapi-codegen.
func OapiCodegenPath() (string, error) { return toolPath("oapi-codegen", oapiCodegenVersion) }

// toolPath returns the path at which setup.sh installs a Go program.
func toolPath(name, version string) (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	path := filepath.Join(cache, "sluice-tools", name+"-"+version, name)
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("%s is not installed (run internal/testenv/setup.sh): %w", name, err)
	}
	return path, nil
}
