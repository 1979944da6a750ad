package operation

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"go.yaml.in/yaml/v4"

	"sluice/e2e"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// TestDocuments runs every snippet in the documents for newcomers against the built binary, as a
// reader would, in each document's order. A fenced block is, by the words after its fence:
//
//   - sh: shell commands in the reader's folder;
//   - sh setup: the same, in the repository's folder;
//   - sh server: the command that runs the server until the next such block;
//   - yaml: a file with a service sluice, which is run as the image would be;
//   - go, js and html: a file, which its first line names in a comment. An HTML file is opened in a
//     browser;
//   - text: the preceding block's output, or the text on the page.
//
// Invariant 141.
func TestDocuments(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	testenv.Require(t, testenv.Chromium)
	testenv.Require(t, testenv.S3Clients)
	for _, name := range []string{"README.md", "docs/quickstart.md", "docs/payments.md", "docs/ci.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := testenv.Root()
			testenv.OK(t, err)
			r := newReader(t, root)
			blocks := blocksOf(t, filepath.Join(root, name))
			for _, b := range blocks {
				r.follow(b)
			}
			if len(blocks) < 2 {
				t.Errorf("the document has %d snippets", len(blocks))
			}
		})
	}
}

// block is a document's fenced block.
type block struct {
	kind string // the words after the fence
	text string
}

var fencedBlock = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func blocksOf(t *testing.T, file string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.OK(t, err)
	for _, found := range fencedBlock.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block{found[1], found[2]})
	}
	return blocks
}

// reader follows a document.
type reader struct {
	t       *testing.T
	root    string // the repository's folder
	dir     string // the reader's folder
	environ []string
	server  *e2e.Server   // nil: none runs
	chain   *localNetwork // nil: none runs
	shown   string        // by the last block

	receiver string // the address that the documents name as localhost:8099
}

// localNetwork is a local chain: a fullnode and a faucet. The documents address them by the ports
// 8080 and 8081.
type localNetwork struct{ fullnode, faucet string }

// startNetwork starts a fullnode and a faucet. An account exists when the faucet has sent it coins.
func startNetwork(t *testing.T) *localNetwork {
	t.Helper()
	node := fullnode.Start(t, fullnode.Options{})
	faucet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		units, err := strconv.ParseUint(r.FormValue("amount"), 10, 64)
		if r.Method != http.MethodPost || r.URL.Path != "/mint" || err != nil {
			http.Error(w, "want POST /mint?address=&amount=", http.StatusBadRequest)
			return
		}
		node.SetGas(r.FormValue("address"), units)
	}))
	t.Cleanup(faucet.Close)
	host := func(address string) string {
		parsed, err := url.Parse(address)
		testenv.OK(t, err)
		return parsed.Host
	}
	return &localNetwork{host(node.URL()), host(faucet.URL)}
}

func newReader(t *testing.T, root string) *reader {
	t.Helper()
	r := &reader{t: t, root: root, dir: t.TempDir(), receiver: testenv.ReserveAddress(t)}
	bin := filepath.Join(r.dir, "bin")
	modules, err := testenv.ClientDir()
	testenv.OK(t, err)
	modules = filepath.Join(modules, "node_modules")
	scope := filepath.Join(r.dir, "node_modules", "@shelby-protocol")
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	testenv.OK(t, err)
	goSum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	testenv.OK(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	testenv.OK(t, err)
	// The reader's programs can import the repository's packages.
	module := strings.Replace(string(goMod), "module sluice\n", "module reader\n", 1) + "\nrequire sluice v0.0.0\nreplace sluice => " + root + "\n"
	err = errors.Join(
		os.MkdirAll(bin, 0o700), os.MkdirAll(scope, 0o700),
		os.Symlink(e2e.Sluice, filepath.Join(bin, "sluice")),
		os.Symlink("/usr/bin/aws", filepath.Join(bin, "aws")),
		os.Symlink(filepath.Join(modules, "sdk-0.1.0"), filepath.Join(scope, "sdk")),
		os.Symlink(filepath.Join(modules, "@aptos-labs"), filepath.Join(r.dir, "node_modules", "@aptos-labs")),
		os.WriteFile(filepath.Join(r.dir, "go.mod"), []byte(module), 0o600),
		os.WriteFile(filepath.Join(r.dir, "go.sum"), goSum, 0o600),
		os.WriteFile(filepath.Join(r.dir, "README.md"), readme, 0o600),
	)
	testenv.OK(t, err)
	// The reader has no account at Amazon.
	inherited := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "AWS_") })
	r.environ = append(inherited, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GOBIN="+bin, "XDG_CONFIG_HOME="+filepath.Join(r.dir, "config"), "XDG_CACHE_HOME="+filepath.Join(r.dir, "cache"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		testenv.OK(t, err)
		r.environ = append(r.environ, name+"="+strings.TrimSpace(string(value)))
	}
	return r
}

// follow executes a block.
func (r *reader) follow(b block) {
	r.t.Helper()
	text := strings.ReplaceAll(b.text, "/path/to/sluice", r.root)
	if r.chain == nil && strings.Contains(text, "localhost:8080") {
		r.chain = startNetwork(r.t)
	}
	if r.chain != nil {
		text = strings.NewReplacer("localhost:8080", r.chain.fullnode, "localhost:8081", r.chain.faucet).Replace(text)
	}
	if r.server != nil && b.kind != "sh server" {
		text = strings.ReplaceAll(text, "localhost:9090", r.server.Host)
		text = strings.ReplaceAll(text, "localhost:9000", strings.TrimPrefix(r.server.S3, "http://"))
	}
	text = strings.ReplaceAll(text, "localhost:8099", r.receiver)
	switch b.kind {
	case "sh setup":
		r.Run(r.root, text)
	case "sh server":
		r.serve(text)
	case "sh":
		r.Run(r.dir, text)
	case "go", "js":
		r.Write(text, regexp.MustCompile(`^// (\S+?\.(?:go|mjs))\b`))
	case "html":
		r.Open(r.Write(text, regexp.MustCompile(`^<!-- (\S+\.html) -->`)))
	case "yaml":
		r.runService(text)
	case "text":
		if r.shown != text {
			r.t.Errorf("shown is %q, and the document has %q", r.shown, text)
		}
	default:
		r.t.Fatalf("a block %q is neither run nor compared:\n%s", b.kind, text)
	}
}

// Run runs commands in a folder.
func (r *reader) Run(dir, commands string) {
	r.t.Helper()
	shell := exec.CommandContext(r.t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	shell.Dir, shell.Env = dir, r.environ
	var stderr strings.Builder
	shell.Stderr = &stderr
	out, err := shell.Output()
	if err != nil {
		r.t.Fatalf("%v\n%s\n%s%s", err, commands, out, stderr.String())
	}
	r.shown = string(out)
}

// serve starts a server on a free port, in place of the one that runs.
func (r *reader) serve(command string) {
	r.t.Helper()
	if r.server != nil {
		r.server.Stop()
	}
	flags, isServe := strings.CutPrefix(strings.ReplaceAll(command, "go run ./cmd/sluice", "sluice"), "sluice serve")
	if !isServe {
		r.t.Fatalf("%q does not run a server", command)
	}
	s := &e2e.Server{T: r.t}
	s.Run([]string{"sh", "-c", `cd "$0" && SLUICE_ADDR=localhost:0 SLUICE_S3_ADDR=localhost:0 exec "$1" serve ` + flags, r.dir, e2e.Sluice})
	r.server = s
	r.environ = append(r.environ, "SLUICE_URL="+s.URL)
	r.t.Cleanup(func() {
		if s.Running() {
			s.Stop()
		}
	})
}

// runService runs a service sluice of a workflow or a compose file with the variables and the
// command of the image that make dist makes, and checks that it answers for the service's name if
// it must.
func (r *reader) runService(text string) {
	r.t.Helper()
	type services map[string]struct {
		Command     []string
		Environment map[string]string
	}
	var file struct {
		Services services
		Jobs     map[string]struct{ Services services }
	}
	testenv.OK(r.t, yaml.Unmarshal([]byte(text), &file))
	for _, job := range file.Jobs {
		file.Services = job.Services
	}
	service, exists := file.Services["sluice"]
	if !exists {
		r.t.Fatalf("there is no service sluice:\n%s", text)
	}
	line := []string{"env", "SLUICE_DATA=" + filepath.Join(r.t.TempDir(), "data"), "SLUICE_ADDR=127.0.0.1:0", "SLUICE_S3_ADDR=127.0.0.1:0"}
	for name, value := range service.Environment {
		line = append(line, name+"="+value)
	}
	if line = append(line, e2e.Sluice); len(service.Command) == 0 {
		service.Command = []string{"serve", "--open-to-network"}
	}
	s := &e2e.Server{T: r.t}
	s.Run(append(line, service.Command...))
	for _, url := range []string{s.URL + "/v1/info", s.S3} {
		request := testenv.Must(http.NewRequestWithContext(r.t.Context(), http.MethodGet, url, nil))(r.t)
		request.Host = "sluice:9090"
		if service.Environment["SLUICE_ALLOWED_HOSTS"] == "" {
			request.Host = "localhost:9090"
		}
		response := testenv.Must(http.DefaultClient.Do(request))(r.t)
		testenv.OK(r.t, response.Body.Close())
		testenv.Equal(r.t, response.StatusCode, http.StatusOK, "the status of %s for %s", url, request.Host)
	}
	s.Stop()
}

// Write writes a file and returns its name, which the pattern finds.
func (r *reader) Write(text string, pattern *regexp.Regexp) string {
	r.t.Helper()
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		r.t.Fatalf("the first line does not name a file:\n%s", text)
	}
	testenv.OK(r.t, os.WriteFile(filepath.Join(r.dir, found[1]), []byte(text), 0o600))
	return found[1]
}

// Open opens a file from the reader's folder in a browser, and waits until the page shows
// something.
func (r *reader) Open(file string) {
	r.t.Helper()
	files := httptest.NewServer(http.FileServer(http.Dir(r.dir)))
	r.t.Cleanup(files.Close)
	browser := e2e.OpenBrowser(r.t, strings.Replace(files.URL, "127.0.0.1", "localhost", 1)+"/"+file)
	const shown = `new Promise(resolve => { const look = () => document.body?.innerText ? resolve(document.body.innerText) : requestAnimationFrame(look); look() })`
	text, err := chromedp.Run(browser, chromedp.Evaluate[string](shown, chromedp.EvalAwaitPromise))
	if err != nil {
		r.t.Fatalf("%v\n%s", err, e2e.Tail(r.server.Log.String()))
	}
	r.shown = text + "\n"
}
