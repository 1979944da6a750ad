//go:build release

// Package release tests the files of a release, which .ci/dist has made, as their users would use
// them. .ci/dist --check runs it.
package release

import (
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// dist is the folder with the release. Its folder work has the tools that made it.
var dist = flag.String("dist", "", "folder with a release")

// one returns the only file of the release that matches.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found := testenv.Must(filepath.Glob(filepath.Join(*dist, pattern)))(t)
	if len(found) != 1 {
		t.Fatalf("%s matches %q, want one file", pattern, found)
	}
	return found[0]
}

// run runs a command, which must succeed, and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// start starts a command, which is killed at the test's end. The returned function waits until it
// has ended, and returns its output.
func start(t *testing.T, name string, args ...string) (command *exec.Cmd, wait func() string) {
	t.Helper()
	command = exec.Command(name, args...)
	out := testenv.Must(os.CreateTemp(t.TempDir(), "output"))(t)
	command.Stdout, command.Stderr = out, out
	testenv.OK(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() { _ = command.Process.Kill() })
	return command, func() string {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s %q: %v", name, args, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s %q does not end", name, args)
		}
		return string(testenv.Must(os.ReadFile(out.Name()))(t))
	}
}

// ready waits until a server is ready.
func ready(t *testing.T, base string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.Get(base + "/readyz")
		if err == nil {
			testenv.OK(t, r.Body.Close())
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not ready: %v", base, err)
		}
	}
}

// send sends a request, whose response must have this status, and returns its body.
func send(t *testing.T, status int, method, url, key, body string) string {
	t.Helper()
	request := testenv.Must(http.NewRequest(method, url, strings.NewReader(body)))(t)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	r := testenv.Must(http.DefaultClient.Do(request))(t)
	got := testenv.Must(io.ReadAll(r.Body))(t)
	testenv.OK(t, r.Body.Close())
	if r.StatusCode != status {
		t.Fatalf("%s %s: %d %s, want %d", method, url, r.StatusCode, got, status)
	}
	return string(got)
}

// TestArchives checks the binary's archive, the bill of materials, the checksums and the sizes.
func TestArchives(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Mandoc)
	run(t, "sh", "-c", `cd "$0" && sha256sum --quiet -c SHA256SUMS`, *dist)
	sums := string(testenv.Must(os.ReadFile(filepath.Join(*dist, "SHA256SUMS")))(t))
	for _, entry := range testenv.Must(os.ReadDir(*dist))(t) {
		if !entry.IsDir() && entry.Name() != "SHA256SUMS" && !strings.Contains(sums, "  "+entry.Name()+"\n") {
			t.Errorf("SHA256SUMS lacks %s", entry.Name())
		}
	}
	folder := t.TempDir()
	run(t, "tar", "xzf", one(t, "sluice-*-linux-amd64.tar.gz"), "-C", folder)
	binary := filepath.Join(folder, "sluice")
	if help := run(t, binary, "help"); !strings.Contains(help, "serve") {
		t.Errorf("the binary prints %s", help)
	}
	run(t, "mandoc", "-T", "lint", "-W", "error", filepath.Join(folder, "sluice.1"))
	bill := string(testenv.Must(os.ReadFile(one(t, "sluice-*-linux-amd64.cdx.json")))(t))
	for _, want := range []string{`"bomFormat": "CycloneDX"`, "pkg:golang/modernc.org/sqlite@", "pkg:golang/github.com/jackc/pgx/v5@"} {
		if !strings.Contains(bill, want) {
			t.Errorf("the bill of materials lacks %s", want)
		}
	}
	// docs/release.md states the sizes.
	for file, most := range map[string]int64{binary: 46 << 20, one(t, "sluice_*_amd64.deb"): 16 << 20, one(t, "sluice-*.x86_64.rpm"): 18 << 20, one(t, "sluice-*-image.tar"): 20 << 20} {
		if size := testenv.Must(os.Stat(file))(t).Size(); size > most {
			t.Errorf("%s has %d bytes, more than %d", filepath.Base(file), size, most)
		}
	}
}

// TestSignatures signs the packages and the checksums with a key that gpg makes, and checks them
// with gpg and rpm.
func TestSignatures(t *testing.T) {
	testenv.Require(t, testenv.ReleaseTools)
	home := t.TempDir()
	t.Setenv("GNUPGHOME", home)
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--kill", "all").Run() })
	run(t, "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "test@localhost", "rsa3072", "sign")
	key := filepath.Join(home, "key.asc")
	run(t, "gpg", "--batch", "--quiet", "--armor", "--output", key, "--export-secret-keys")
	public := filepath.Join(home, "public.asc")
	run(t, "gpg", "--batch", "--quiet", "--armor", "--output", public, "--export")

	sums := filepath.Join(home, "SHA256SUMS")
	testenv.OK(t, os.WriteFile(sums, testenv.Must(os.ReadFile(filepath.Join(*dist, "SHA256SUMS")))(t), 0o600))
	run(t, filepath.Join(filepath.Dir(*dist), ".ci/sign"), key, sums)
	run(t, "gpg", "--batch", "--verify", sums+".asc", sums)

	packageOf(t, "rpm", "1.0.0", home, "SIGNING_KEY="+key)
	file := testenv.Must(filepath.Glob(filepath.Join(home, "*.rpm")))(t)[0]
	db := filepath.Join(home, "rpmdb")
	run(t, "rpm", "--dbpath", db, "--import", public)
	if out := run(t, "rpm", "--dbpath", db, "-K", file); !strings.Contains(out, "signatures OK") {
		t.Errorf("rpm -K: %s", out)
	}
}

// packageOf makes a package of the release's binary with another version.
func packageOf(t *testing.T, format, version, target string, env ...string) {
	t.Helper()
	command := exec.Command(filepath.Join(*dist, "parts/nfpm"), "package", "--config", "deploy/package/nfpm.yaml", "--packager", format, "--target", target)
	command.Dir = filepath.Dir(*dist) // the release's tree
	command.Env = append(os.Environ(), append([]string{"ARCH=amd64", "VERSION=" + version, "SOURCE_DATE_EPOCH=1700000000"}, env...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("nfpm: %v\n%s", err, out)
	}
}
