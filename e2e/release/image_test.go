//go:build release

package release

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/test/testenv"
)

// descriptor is a reference in an OCI layout.
type descriptor struct {
	Digest   string
	Platform struct{ OS, Architecture string }
}

// imageConfig is the configuration of an image.
type imageConfig struct {
	OS, Architecture string
	Config           containerConfig
}

type containerConfig struct {
	User                  string
	Env, Entrypoint, Cmd  []string
	Volumes, ExposedPorts map[string]struct{}
	StopSignal            string
	Labels                map[string]string
	Healthcheck           struct{ Test []string }
}

// unpack unpacks the image for an architecture into a folder.
func unpack(t *testing.T, architecture, root string) imageConfig {
	t.Helper()
	layout := t.TempDir()
	run(t, "tar", "xf", one(t, "sluice-*-image.tar"), "-C", layout)
	blob := func(digest string) string {
		return filepath.Join(layout, "blobs", strings.Replace(digest, ":", "/", 1))
	}
	load := func(name string, into any) {
		t.Helper()
		testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile(name))(t), into))
	}
	var index, platforms struct{ Manifests []descriptor }
	load(filepath.Join(layout, "index.json"), &index)
	load(blob(index.Manifests[0].Digest), &platforms)
	i := slices.IndexFunc(platforms.Manifests, func(d descriptor) bool { return d.Platform.Architecture == architecture })
	if i < 0 {
		t.Fatalf("the image has the platforms %v", platforms.Manifests)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	load(blob(platforms.Manifests[i].Digest), &manifest)
	for _, layer := range manifest.Layers {
		run(t, "tar", "xzpf", blob(layer.Digest), "-C", root)
	}
	var config imageConfig
	load(blob(manifest.Config.Digest), &config)
	return config
}

// TestImage runs the image in containers that can be made here, by runc and by unshare: as its
// user, with a root that cannot be written, and a volume for the data. Blobs survive a new
// container, and SIGTERM drains.
func TestImage(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.RootMount)
	bundle := t.TempDir()
	root, data := filepath.Join(bundle, "rootfs"), filepath.Join(bundle, "data")
	testenv.OK(t, os.Mkdir(root, 0o755))
	testenv.OK(t, os.Mkdir(data, 0o700))
	testenv.OK(t, os.Chown(data, 65532, 65532))
	c := unpack(t, "amd64", root).Config
	if _, volume := c.Volumes["/data"]; c.User != "65532:65532" || !volume || c.StopSignal != "SIGTERM" || c.Labels["org.opencontainers.image.version"] == "" || len(c.ExposedPorts) != 2 {
		t.Errorf("the configuration is %+v", c)
	}
	for _, file := range []string{"etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo/Europe/Berlin", "usr/share/doc/sluice/NOTICES"} {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	var refused []string
	for name, engine := range engines {
		trivial := engine(t, bundle, []string{"/sluice", "version"}, nil)
		if out, err := exec.Command(trivial[0], trivial[1:]...).CombinedOutput(); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v: %s", name, err, out))
			continue
		}
		t.Run(name, func(t *testing.T) {
			inContainer(t, engine, bundle, c, func(base string) { send(t, 204, "PUT", base+"/v1/blobs/a/b", "", "body") })
			inContainer(t, engine, bundle, c, func(base string) {
				if got := send(t, 200, "GET", base+"/v1/blobs/a/b", "", ""); got != "body" {
					t.Errorf("the blob is %q", got)
				}
			})
		})
	}
	if t.Log(refused); len(refused) == len(engines) {
		t.Error("no container can be made here")
	}
}

// inContainer calls do with the address of the image's entry point in a container.
func inContainer(t *testing.T, engine engine, bundle string, c containerConfig, do func(base string)) {
	t.Helper()
	address := freeAddress(t)
	env := append(slices.Clone(c.Env), "SLUICE_ADDR="+address, "SLUICE_S3_ADDR=127.0.0.1:0", "SLUICE_URL=http://"+address)
	command := engine(t, bundle, append(slices.Clone(c.Entrypoint), c.Cmd...), env)
	container, wait := start(t, command[0], command[1:]...)
	ready(t, "http://"+address)
	do("http://" + address)

	process := "/proc/" + strings.TrimSpace(string(testenv.Must(os.ReadFile(filepath.Join(bundle, "pid")))(t)))
	if status := string(testenv.Must(os.ReadFile(process + "/status"))(t)); !strings.Contains(status, "\nUid:\t65532\t65532\t65532\t65532\n") || !strings.Contains(status, "\nCapEff:\t0000000000000000\n") {
		t.Errorf("the process is\n%s", status)
	}
	testenv.Is(t, os.WriteFile(process+"/root/new", nil, 0o600), syscall.EROFS, "writing to the root")
	testenv.Is(t, os.WriteFile(process+"/root/data/new", nil, 0o600), nil, "writing to the volume")
	health := exec.Command(filepath.Join(bundle, "rootfs", c.Healthcheck.Test[1]), c.Healthcheck.Test[2:]...)
	health.Env = env
	if out, err := health.CombinedOutput(); err != nil {
		t.Errorf("the health check: %v: %s", err, out)
	}
	testenv.OK(t, container.Process.Signal(syscall.SIGTERM)) // which runc passes on
	if log := wait(); !strings.Contains(log, "drained") {
		t.Errorf("the container prints\n%s", log)
	}
}

// engine returns a command that runs a process as 65532 with the folders rootfs, which cannot be
// written, and data of a bundle. It writes the process's id to the bundle's file pid. The process
// has the network of the machine.
type engine func(t *testing.T, bundle string, args, env []string) []string

var engines = map[string]engine{"runc": runc, "unshare": unshare}

func runc(t *testing.T, bundle string, args, env []string) []string {
	t.Helper()
	type object = map[string]any
	mount := func(to, kind, source string, options ...string) object {
		return object{"destination": to, "type": kind, "source": source, "options": options}
	}
	spec := object{
		"ociVersion": "1.0.2",
		"process":    object{"user": object{"uid": 65532, "gid": 65532}, "args": args, "env": env, "cwd": "/", "noNewPrivileges": true},
		"root":       object{"path": "rootfs", "readonly": true},
		"mounts": []object{
			mount("/proc", "proc", "proc"), mount("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755"),
			mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev"), mount("/data", "bind", filepath.Join(bundle, "data"), "rbind", "rw"),
		},
		"linux": object{"namespaces": []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}}},
	}
	testenv.OK(t, os.WriteFile(filepath.Join(bundle, "config.json"), testenv.Must(json.Marshal(spec))(t), 0o600))
	return []string{"runc", "--root", filepath.Join(bundle, "state"), "run", "--bundle", bundle, "--pid-file", filepath.Join(bundle, "pid"), fmt.Sprintf("sluice-test-%d", os.Getpid())}
}

func unshare(_ *testing.T, bundle string, args, env []string) []string {
	const script = `cd "$0" && mkdir -p rootfs/proc && mount --bind rootfs rootfs && mount --bind data rootfs/data &&
		mount -t proc proc rootfs/proc && mount -t tmpfs tmpfs rootfs/tmp && mount -o remount,bind,ro rootfs &&
		echo $$ >pid && exec env -i "$@"`
	run := []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, bundle}
	return slices.Concat(run, env, []string{"/usr/bin/setpriv", "--no-new-privs", "/usr/sbin/chroot", "--userspec=65532:65532", "--groups=", "rootfs"}, args)
}
