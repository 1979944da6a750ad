package testenv

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
)

func ip(args ...string) error {
	path, err := exec.LookPath("ip")
	if err != nil {
		path = "/usr/sbin/ip" // not in the PATH of every user
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("testenv: ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// checkNetworkNamespaces creates a network namespace and removes it again.
func checkNetworkNamespaces() error {
	name := fmt.Sprintf("sluice-check%d-%d", os.Getpid(), rand.IntN(1<<20))
	if err := ip("netns", "add", name); err != nil {
		return err
	}
	return ip("netns", "del", name)
}
