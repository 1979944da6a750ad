package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Thing is a test's external dependency.
type Thing string

// The dependencies that tests can require.
const (
	NPM               Thing = "npm"                // node, and the packages of e2e/client
	Strace            Thing = "strace"             // strace, and the right to trace a child
	Chromium          Thing = "chromium"           // a Chromium, and the packages of e2e/client
	Firefox           Thing = "firefox"            // a Firefox, and the packages of e2e/client
	Nginx             Thing = "nginx"              // an nginx with proxy_cache
	HAProxy           Thing = "haproxy"            // the load balancer
	Varnish           Thing = "varnish"            // the cache
	Mandoc            Thing = "mandoc"             // checks manual pages
	Promtool          Thing = "promtool"           // Prometheus, and the program that checks metrics and alerts
	Shells            Thing = "shells"             // bash, zsh and fish
	PostgreSQL        Thing = "postgresql"         // a PostgreSQL server's programs
	VersityGW         Thing = "versitygw"          // an S3 server over a folder
	S3Clients         Thing = "s3-clients"         // Debian's awscli, rclone, s3cmd, restic and python3-boto3
	S3FS              Thing = "s3fs"               // s3fs, and the right to mount by FUSE
	OapiCodegen       Thing = "oapi-codegen"       // the generator of Go clients, and the modules that its output needs
	Drivers           Thing = "drivers"            // the modules of e2e/s3/testdata/drivers
	Testcontainers    Thing = "testcontainers"     // node, and what the modules below examples need
	ReleaseTools      Thing = "release-tools"      // rpm, gpg, dpkg-deb and systemd-analyze
	DebianTree        Thing = "debian-tree"        // a new Debian system in a .tar, and root
	RootMount         Thing = "root-mount"         // the right to mount a tmpfs
	NetworkNamespaces Thing = "network-namespaces" // ip(8), and the right to make networks with it
	Port9090          Thing = "port-9090"          // port 9090 free on the loopback addresses
	Unix              Thing = "unix"               // signals, permission bits of files, and symbolic links
)

// servers are the dependencies that tests run as processes of their own, beside sluice or on the
// built binary.
var servers = []Thing{NPM, Shells, Chromium, Firefox, Nginx, HAProxy, Varnish, Promtool, PostgreSQL, VersityGW, S3Clients, S3FS, Drivers}

// check returns nil if the thing is available, or an error that names the missing part.
func check(thing Thing) error {
	switch thing {
	case NPM:
		return checkNPM("e2e/client")
	case Strace:
		return checkStrace()
	case Chromium:
		if err := checkNPM("e2e/client"); err != nil {
			return err
		}
		_, err := ChromiumPath()
		return err
	case Firefox:
		_, err := FirefoxPath()
		return errors.Join(checkNPM("e2e/client"), err)
	case Nginx:
		_, err := NginxPath()
		return err
	case HAProxy:
		_, err := HAProxyPath()
		return err
	case Varnish:
		_, err := VarnishPath()
		return err
	case Mandoc:
		return lookPaths("mandoc")
	case Promtool:
		return lookPaths("promtool", "prometheus")
	case Shells:
		return lookPaths("bash", "zsh", "fish")
	case ReleaseTools:
		return lookPaths("rpm", "gpg", "dpkg-deb", "systemd-analyze")
	case DebianTree:
		if os.Getuid() != 0 {
			return errors.New("only root may change into another root")
		}
		_, err := DebianTreePath()
		return err
	case PostgreSQL:
		return checkPostgreSQL()
	case RootMount:
		return checkRootMount()
	case NetworkNamespaces:
		return checkNetworkNamespaces()
	case Port9090:
		return checkPort9090()
	case Unix:
		if runtime.GOOS == "windows" {
			return errors.New("this is Windows")
		}
		return nil
	case VersityGW:
		_, err := VersityGWPath()
		return err
	case S3Clients:
		return checkS3Clients()
	case OapiCodegen:
		_, err := OapiCodegenPath()
		return err
	case S3FS:
		_, err := exec.LookPath("s3fs")
		_, serr := os.Stat("/dev/fuse")
		return errors.Join(err, serr)
	case Drivers:
		return checkModules("e2e/s3/testdata/drivers", ".", "github.com/distribution/distribution/v3/registry/storage/driver/s3-aws")
	case Testcontainers:
		return errors.Join(checkModules("examples/testcontainers-go", "."), checkNPM("examples/testcontainers-node"))
	default:
		return fmt.Errorf("testenv: unknown dependency %q", thing)
	}
}

// lookPaths returns an error unless all programs are in PATH.
func lookPaths(names ...string) error {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	return nil
}

// ClientDir returns the folder with the npm packages and the scripts that use them.
func ClientDir() (string, error) {
	root, err := Root()
	return filepath.Join(root, "e2e", "client"), err
}

// checkNPM returns an error unless node is in PATH and the packages of a folder's lock file are
// installed.
func checkNPM(dir string) error {
	if _, err := exec.LookPath("node"); err != nil {
		return err
	}
	root, err := Root()
	if err != nil {
		return err
	}
	dir = filepath.Join(root, dir)
	want, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	// setup.sh makes this copy after a complete installation.
	have, err := os.ReadFile(filepath.Join(dir, "node_modules", ".installed-lock.json"))
	if err != nil {
		return fmt.Errorf("npm packages are not installed (run test/testenv/setup.sh): %w", err)
	}
	if !bytes.Equal(want, have) {
		return errors.New("npm packages differ from package-lock.json (run test/testenv/setup.sh)")
	}
	return nil
}

// checkStrace returns an error unless strace can trace a child.
func checkStrace() error {
	out, err := exec.Command("strace", "-f", "-e", "trace=none", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("strace cannot trace a child: %w: %s", err, out)
	}
	return nil
}

// checkPostgreSQL returns an error unless the server's programs and a user to run them as exist.
func checkPostgreSQL() error {
	_, err := PostgresBin()
	_, cerr := serverUser()
	return errors.Join(err, cerr)
}

// checkS3Clients returns an error unless the clients of S3 are installed. The interpreter is the
// system's, because its packages are.
func checkS3Clients() error {
	if err := lookPaths("/usr/bin/aws", "rclone", "s3cmd", "restic", "curl"); err != nil {
		return err
	}
	if out, err := exec.Command("/usr/bin/python3", "-c", "import boto3").CombinedOutput(); err != nil {
		return fmt.Errorf("python3-boto3: %w: %s", err, out)
	}
	return nil
}

// checkModules returns an error unless the modules were downloaded that packages and their tests
// need, in a folder.
func checkModules(dir string, packages ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-test"}, packages...)...)
	list.Dir, list.Env = filepath.Join(root, dir), append(os.Environ(), "GOPROXY=off")
	if out, err := list.CombinedOutput(); err != nil {
		return fmt.Errorf("modules are missing (run test/testenv/setup.sh): %w: %s", err, out)
	}
	return nil
}

// checkPort9090 returns an error if the local development instance's port is in use.
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
