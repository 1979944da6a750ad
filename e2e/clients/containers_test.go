package clients

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// engine has as much of Docker's interface as Testcontainers needs to run a container. The
// container is a process of the built binary, on ports of its own, with the variables of the image
// that make dist makes.
type engine struct {
	t    *testing.T
	lock sync.Mutex

	// The container.
	Env, Cmd   []string
	HostConfig object
	process    *exec.Cmd
	ports      object // of the host, by the container's
}

type object = map[string]any

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.lock.Lock()
	defer e.lock.Unlock()
	id := strings.Repeat("1d", 32)
	path := regexp.MustCompile(`^/v[0-9.]+`).ReplaceAllString(strings.Replace(r.URL.Path, id, "ID", 1), "")
	w.Header().Set("API-Version", "1.44")
	w.Header().Set("Content-Type", "application/json")
	reply := func(status int, body any) {
		w.WriteHeader(status)
		if body != nil {
			testenv.Check(e.t, json.NewEncoder(w).Encode(body))
		}
	}
	switch r.Method + " " + path {
	case "GET /_ping", "HEAD /_ping":
		reply(200, nil)
	case "GET /info", "GET /version":
		reply(200, object{"ID": "engine", "OSType": "linux", "Architecture": "x86_64", "ApiVersion": "1.44"})
	case "GET /networks":
		reply(200, []object{{"Name": "bridge", "Id": "bridge", "Driver": "bridge"}})
	case "GET /containers/json":
		reply(200, []object{})
	case "GET /images/sluice:latest/json":
		reply(200, object{"Id": "sha256:image", "RepoTags": []string{"sluice:latest"}})
	case "POST /containers/create":
		testenv.Check(e.t, json.NewDecoder(r.Body).Decode(e))
		reply(201, object{"Id": id})
	case "POST /containers/ID/start":
		e.start()
		reply(204, nil)
	case "GET /containers/ID/json":
		reply(200, object{
			"Id": id, "Name": "/sluice", "Image": "sha256:image", "Created": "2030-01-01T00:00:00Z", "HostConfig": e.HostConfig,
			"State":           object{"Status": "running", "Running": true, "StartedAt": "2030-01-01T00:00:00Z"},
			"Config":          object{"Env": e.Env, "Cmd": e.Cmd, "Labels": object{}},
			"NetworkSettings": object{"Ports": e.ports, "Networks": object{"bridge": object{}}},
		})
	case "GET /containers/ID/logs":
		reply(200, nil)
	case "POST /containers/ID/stop", "DELETE /containers/ID":
		e.stop()
		reply(204, nil)
	default:
		e.t.Errorf("the engine does not know %s %s", r.Method, r.URL)
		reply(404, object{"message": "unknown"})
	}
}

var readyPorts = regexp.MustCompile(`listening on http://\S+:(\d+) .*S3 on http://\S+:(\d+)\)`)

// start starts the process, and waits until it is ready.
func (e *engine) start() {
	e.process = exec.Command(e2e.Sluice, e.Cmd...)
	e.process.Env = append(append(os.Environ(), "SLUICE_DATA="+filepath.Join(testenv.MemoryDir(e.t), "data"), "SLUICE_ADDR=127.0.0.1:0", "SLUICE_S3_ADDR=127.0.0.1:0"), e.Env...)
	out, err := e.process.StdoutPipe()
	if err == nil {
		err = e.process.Start()
	}
	if err != nil {
		e.t.Error(err)
		return
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	found := readyPorts.FindStringSubmatch(line)
	if found == nil {
		e.t.Errorf("serve printed %q, %v", line, err)
		return
	}
	e.ports = object{"9090/tcp": []object{{"HostIp": "127.0.0.1", "HostPort": found[1]}}, "9000/tcp": []object{{"HostIp": "127.0.0.1", "HostPort": found[2]}}}
}

// stop stops the process, which must drain and exit with 0, if it runs.
func (e *engine) stop() {
	if e.process != nil && e.process.Process != nil && e.process.ProcessState == nil {
		testenv.Check(e.t, e.process.Process.Signal(syscall.SIGTERM))
		testenv.Check(e.t, e.process.Wait())
	}
}

// TestTestcontainers runs the tests of the modules for Testcontainers.
func TestTestcontainers(t *testing.T) {
	testenv.Require(t, testenv.Testcontainers)
	root := testenv.Must(testenv.Root())(t)
	for module, command := range map[string][]string{
		"testcontainers-go":   {"go", "test", "-count=1", "."},
		"testcontainers-node": {"node", "--test"},
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			e := &engine{t: t}
			docker := httptest.NewServer(e)
			t.Cleanup(func() { docker.Close(); e.stop() })
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			run.Dir = filepath.Join(root, "examples", module)
			run.Env = append(os.Environ(), "DOCKER_HOST="+strings.Replace(docker.URL, "http", "tcp", 1), "TESTCONTAINERS_RYUK_DISABLED=true", "IMAGE=sluice:latest", "GOPROXY=off", "DOCKER_CONFIG="+t.TempDir())
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
