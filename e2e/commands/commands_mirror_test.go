package commands

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// mirrors is a folder with the contexts prod and second of two hosted services, made by the
// commands of docs/operations.md.
type mirrors struct {
	t          *testing.T
	prod, site *e2e.Server
	source     *e2e.Server // prod as the holder of all rights sees it
	target     *e2e.Server
	dir        string
}

func newMirrors(t *testing.T) *mirrors {
	t.Helper()
	m := &mirrors{t: t, prod: e2e.StartHosted(t, "key"), site: e2e.StartHosted(t, "key"), dir: t.TempDir()}
	m.source, m.target = m.prod.AsAdmin(), m.site.AsAdmin()
	bin := filepath.Join(m.dir, "bin")
	testenv.OK(t, errors.Join(os.Mkdir(bin, 0o700), os.Symlink(e2e.Sluice, filepath.Join(bin, "sluice"))))
	m.shell(e2e.BlockOf(t, "docs/operations.md", "sh", "source.key", [][2]string{
		{"./sluice key create --data ./hosted-data", "sluice key create --data " + m.prod.Data}, {"./sluice key create --data ./second-data", "sluice key create --data " + m.site.Data}, {"https://blobs.example.org/sluice", m.prod.URL}, {"https://second.example.org/sluice", m.site.URL},
	}))
	return m
}

// command returns a command of a shell in the folder.
func (m *mirrors) command(text string) *exec.Cmd {
	c := exec.CommandContext(m.t.Context(), "bash", "-euc", text)
	c.Dir = m.dir
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		c.Env = append(c.Env, name+"="+m.dir)
	}
	c.Env = append(c.Env, "PATH="+filepath.Join(m.dir, "bin")+":"+os.Getenv("PATH"))
	return c
}

// shell runs a command, and returns its output and exit code.
func (m *mirrors) shell(text string) (string, int) {
	m.t.Helper()
	c := m.command(text)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// exits runs a command, which must end with an exit code and print a text.
func (m *mirrors) exits(code int, text, command string) {
	m.t.Helper()
	if out, got := m.shell(command); got != code || !strings.Contains(out, text) {
		m.t.Errorf("%s: exit code %d, want %d, and %q in\n%s", command, got, code, text, out)
	}
}

// follow runs a mirror until the function that it returns is called, which returns its output.
func (m *mirrors) follow(command string) (end func(sig os.Signal) (string, int)) {
	m.t.Helper()
	c, out := m.command("exec "+command), &e2e.LogBuffer{}
	c.Stdout, c.Stderr = out, out
	testenv.OK(m.t, c.Start())
	return func(sig os.Signal) (string, int) {
		m.t.Helper()
		testenv.OK(m.t, c.Process.Signal(sig))
		_ = c.Wait() // the exit code is returned
		return out.String(), c.ProcessState.ExitCode()
	}
}

// has waits until a server has a text as the blob team-a/name, or with "" no such blob.
func (m *mirrors) has(s *e2e.Server, name, text string) {
	m.t.Helper()
	s.Eventually("the blob "+name+" is not mirrored", func() bool {
		r := s.Do("GET", "/v1/blobs/team-a/"+name, nil)
		return text == "" && r.Status == 404 || r.Status == 200 && string(r.Body) == text
	})
}

// TestSecondSite follows docs/operations.md: a warm second site by keys with the least rights, the
// failover, and the way back.
func TestSecondSite(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	m := newMirrors(t)
	address := testenv.ReserveAddress(t)
	m.source.Must(204, "PUT", "/v1/blobs/team-a/first", []byte("one"))
	forth := strings.TrimSpace(e2e.BlockOf(t, "docs/operations.md", "sh", "--metrics", [][2]string{{"localhost:9095", address}}))
	end := m.follow(forth)
	m.has(m.target, "first", "one")
	m.source.Must(204, "PUT", "/v1/blobs/team-a/second", []byte("two"))
	m.has(m.target, "second", "two")
	m.source.Must(204, "DELETE", "/v1/blobs/team-a/first", nil)
	m.has(m.target, "first", "")
	m.metrics("http://" + address + "/metrics")
	m.exits(4, "another mirror uses the state file", forth)
	if out, code := end(os.Interrupt); code != 0 || !strings.Contains(out, "copied  3 B  team-a/second") || !strings.Contains(out, "lag 0.0 s; copied 2 (6 B), updated 0, deleted 1; failed 0") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	m.exits(2, "it is of the mirror from "+m.prod.URL, "sluice mirror prod:team-a second:team-a/x/ --state ./team-a.json")

	// The failover, and back by the rights the other way round.
	m.source.Must(204, "PUT", "/v1/blobs/team-a/lost", []byte("not mirrored"))
	m.target.Must(204, "PUT", "/v1/blobs/team-a/third", []byte("three"))
	back := strings.TrimSpace(e2e.BlockOf(t, "docs/operations.md", "sh", "back.json", nil))
	m.exits(4, "scope_missing", back)
	m.exits(0, "", "umask 077; sluice key create --data "+m.prod.Data+" --scopes read,write --accounts team-a >source.key; sluice context add prod "+m.prod.URL+" --key-file source.key --replace")
	m.exits(0, "team-a/lost", "sluice find prod:team-a --newer-than 2h")
	end = m.follow(back)
	m.has(m.source, "third", "three")
	m.has(m.source, "lost", "")
	m.target.Must(204, "PUT", "/v1/blobs/team-a/fourth", []byte("four"))
	m.has(m.source, "fourth", "four")
	if out, code := end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	m.exits(0, "compared", strings.Replace(forth, " --metrics "+address, " --once", 1))
	m.source.Must(204, "PUT", "/v1/blobs/team-a/fifth", []byte("five"))
	end = m.follow(forth + " --json")
	m.has(m.target, "fifth", "five")
	if out, code := end(syscall.SIGTERM); code != 0 || strings.Contains(out, "comparing") || !strings.Contains(out, `"event":"copied","account":"team-a","name":"fifth","size":4}`) || !strings.Contains(out, `{"event":"figures","lag":0,"failed":0,"actions":{"copied":1},"bytes":4}`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// metrics checks a mirror's metrics.
func (m *mirrors) metrics(url string) {
	m.t.Helper()
	m.target.Eventually("the lag does not end", func() bool {
		r, err := http.Get(url) //nolint:noctx // the test's own process
		testenv.OK(m.t, err)
		text, err := io.ReadAll(r.Body)
		testenv.OK(m.t, errors.Join(err, r.Body.Close()))
		return strings.Contains(string(text), "\nsluice_mirror_lag_seconds 0\n") && strings.Contains(string(text), "\nsluice_mirror_failed_names 0\n") &&
			strings.Contains(string(text), "\nsluice_mirror_copied_bytes_total 6\n") && strings.Contains(string(text), "\nsluice_mirror_actions_total{kind=\"deleted\"} 1\n")
	})
}

// TestMirrorExits ends with an exit code and a reason: for wrong operands and flags, a brake, and
// names that fail.
// Invariant 232.
func TestMirrorExits(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	m := newMirrors(t)
	for _, name := range strings.Fields("a b c d e f g h i j k l") {
		m.source.Must(204, "PUT", "/v1/blobs/team-a/"+name, []byte(name))
	}
	m.exits(2, "one side contains the other", "sluice mirror prod:team-a prod:team-a/copy")
	m.exits(2, "either both sides have an account, or none has", "sluice mirror prod: second:team-a")
	m.exits(2, "--max-deletions must be from 0 to 100", "sluice mirror prod:team-a second:team-a --max-deletions 101")
	m.exits(2, "--metrics: ", "sluice mirror prod:team-a second:team-a --metrics nowhere")
	m.exits(4, "scope_missing", "sluice mirror prod: second:")
	m.exits(0, "copied 12 (12 B)", "sluice mirror prod:team-a second:team-a --once")
	for _, name := range strings.Fields("a b c d e f g h i j k") {
		m.source.Must(204, "DELETE", "/v1/blobs/team-a/"+name, nil)
	}
	m.exits(4, "11 of its 12 blobs would be deleted, more than 10 percent; if FROM is right, run the command once with --once --max-deletions 100", "sluice mirror prod:team-a second:team-a --once")
	m.exits(4, "more than 10 percent", "sluice mirror prod:team-a second:team-a")
	m.exits(0, "", "test $(sluice ls second:team-a | wc -l) -ge 2")
	m.exits(0, "deleted  1 B  team-a/", "sluice mirror prod:team-a second:team-a --once --max-deletions 100")
	m.has(m.target, "a", "")

	m.source.Must(204, "PUT", "/v1/blobs/team-a/refused", []byte("x"))
	m.source.Must(204, "PUT", "/v1/blobs/team-a/permitted/x", []byte("x"))
	m.exits(0, "", "umask 077; sluice key create --data "+m.site.Data+" --grant read@team-a --grant write@team-a/permitted/ >target.key; sluice context add second "+m.site.URL+" --key-file target.key --replace")
	m.exits(5, "failed  0 B  team-a/refused: ", "sluice mirror prod:team-a second:team-a --once")
	m.has(m.target, "permitted/x", "x")
}
