//go:build release

package release

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"sluice/test/testenv"
)

// TestDebianPackage installs an older version of the .deb in a fresh Debian tree, runs the service
// as its unit does, upgrades the package, and removes and purges it. The blobs stay.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.DebianTree)
	tree := t.TempDir()
	run(t, "tar", "xf", testenv.Must(testenv.DebianTreePath())(t), "-C", tree)
	apt := func(args ...string) string {
		return run(t, "chroot", append([]string{tree, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--no-install-recommends"}, args...)...)
	}
	packageOf(t, "deb", "0.0.0~0", filepath.Join(tree, "tmp"))
	older := filepath.Base(testenv.Must(filepath.Glob(filepath.Join(tree, "tmp/sluice_*.deb")))(t)[0])
	apt("install", "/tmp/"+older)

	// The configuration that is installed serves on loopback, and requires keys.
	unit := string(testenv.Must(os.ReadFile(filepath.Join(tree, "usr/lib/systemd/system/sluice.service")))(t))
	line := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindStringSubmatch(unit)
	if line == nil || !strings.Contains(unit, "\nUser=sluice\n") {
		t.Fatalf("the unit is\n%s", unit)
	}
	var key string
	serve := func(do func(base string)) {
		t.Helper()
		address := freeAddress(t)
		args := append([]string{tree, "setpriv", "--reuid=sluice", "--regid=sluice", "--clear-groups", "--no-new-privs"}, strings.Fields(line[1])...)
		command, wait := start(t, "chroot", append(args, "--addr", address, "--s3-addr", "off", "--admin-addr", "off", "--drain-wait", "0s")...)
		base := "http://" + address + "/sluice"
		ready(t, base)
		if key == "" {
			key = strings.TrimSpace(run(t, "sh", "-c", `chroot "$0" sluice key create --data /var/lib/sluice --quiet --scopes read,write --all-accounts 2>/dev/null`, tree))
		}
		do(base)
		testenv.OK(t, command.Process.Signal(syscall.SIGTERM))
		if log := wait(); !strings.Contains(log, "drained") {
			t.Errorf("the service prints\n%s", log)
		}
	}
	serve(func(base string) {
		send(t, 401, "PUT", base+"/v1/blobs/a/b", "", "body")
		send(t, 204, "PUT", base+"/v1/blobs/a/b", key, "body")
	})

	newer := one(t, "sluice_*_amd64.deb")
	run(t, "cp", newer, filepath.Join(tree, "tmp/newer.deb"))
	config := filepath.Join(tree, "etc/sluice/sluice.yaml")
	testenv.OK(t, os.WriteFile(config, append(testenv.Must(os.ReadFile(config))(t), "\n# changed\n"...), 0o644))
	apt("install", "/tmp/newer.deb")
	if text := string(testenv.Must(os.ReadFile(config))(t)); !strings.Contains(text, "# changed") {
		t.Error("an upgrade replaces a changed configuration")
	}
	read := func(base string) {
		if got := send(t, 200, "GET", base+"/v1/blobs/a/b", key, ""); got != "body" {
			t.Errorf("the blob is %q", got)
		}
	}
	serve(read)

	apt("remove", "sluice")
	if _, err := os.Stat(config); err != nil {
		t.Errorf("removing the package removes the configuration: %v", err)
	}
	if out := apt("purge", "sluice"); !strings.Contains(out, "/var/lib/sluice") {
		t.Errorf("purging prints %s", out)
	}
	if _, err := os.Stat(config); !os.IsNotExist(err) {
		t.Errorf("purging leaves the configuration: %v", err)
	}
	apt("install", "/tmp/newer.deb")
	serve(read)
}

// TestUnits checks the units with systemd-analyze, as installed.
func TestUnits(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.ReleaseTools)
	tree := t.TempDir()
	run(t, "dpkg-deb", "-x", one(t, "sluice_*_amd64.deb"), tree)
	for _, unit := range []string{"sluice.service", "sluice-backup.service"} {
		path := filepath.Join(tree, "usr/lib/systemd/system", unit)
		// 1.4 of 10 is stated in docs/operations.md.
		run(t, "systemd-analyze", "security", "--offline=true", "--threshold=14", path)
	}
	// The tree has no program but ours.
	testenv.OK(t, os.Mkdir(filepath.Join(tree, "bin"), 0o755))
	testenv.OK(t, os.WriteFile(filepath.Join(tree, "bin/kill"), nil, 0o755))
	// The system's units, which they name, are not in the tree.
	out, _ := exec.Command("systemd-analyze", "verify", "--root="+tree, "--man=no", "sluice.service", "sluice.socket", "sluice-backup.timer").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "sluice") && !strings.Contains(line, "not found") {
			t.Errorf("systemd-analyze verify: %s", line)
		}
	}
}

// TestRPM checks the files and the scripts of the .rpm.
func TestRPM(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.ReleaseTools)
	file := one(t, "sluice-*.x86_64.rpm")
	list := run(t, "rpm", "-qlp", file)
	for _, want := range []string{"/usr/bin/sluice", "/usr/lib/systemd/system/sluice.service", "/usr/lib/sysusers.d/sluice.conf", "/usr/share/man/man1/sluice.1.gz", "/usr/share/zsh/site-functions/_sluice"} {
		if !strings.Contains(list, want+"\n") {
			t.Errorf("the package lacks %s", want)
		}
	}
	if configs := run(t, "rpm", "-qp", "--configfiles", file); configs != "/etc/sluice/sluice.yaml\n" {
		t.Errorf("the configuration files are %q", configs)
	}
	if scripts := run(t, "rpm", "-qp", "--scripts", file); !strings.Contains(scripts, "try-restart") || regexp.MustCompile(`systemctl[^\n]* (start|enable)\b`).MatchString(scripts) {
		t.Errorf("the scripts are %s", scripts)
	}
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { testenv.OK(t, l.Close()) }()
	return l.Addr().String()
}
