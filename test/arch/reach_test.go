package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"

	"sluice/test/testenv"
)

// reaching lists the functions and types that open connections or run programs, by package.
var reaching = map[string][]string{
	"net/http": {"Client", "Get", "Head", "Post", "PostForm", "NewRequest", "NewRequestWithContext", "Transport", "DefaultClient", "DefaultTransport"},
	"net":      {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialUnix", "Dialer"},
	"os/exec":  {"Command", "CommandContext"},
}

// TestClientsCannotCauseConnections checks that the service neither opens connections nor runs
// programs, so a client cannot make it do so. Excepted are the stores and chain, which connect to
// servers that the operator configured; webhook, which connects to an administrator's URLs at
// permitted addresses; the client, conformance and the generators, which the service does not
// import; and packages for tests.
// Invariant 48.
func TestClientsCannotCauseConnections(t *testing.T) {
	looked := 0
	for _, s := range sources(t) {
		if s.test || within(s.dir, stores...) || within(s.dir, "client", "chain", "conformance", "webhook") || within(s.dir, generators...) || within(s.dir, testOnly...) {
			continue
		}
		looked++
		for _, found := range reaches(s.syntax) {
			t.Errorf("%s uses %s", s.file, found)
		}
	}
	if looked < 50 {
		t.Errorf("only %d files were read", looked)
	}
}

// reaches returns the functions and types of reaching that a file uses.
func reaches(file *ast.File) (found []string) {
	packages := map[string]string{}
	for _, spec := range file.Imports {
		path := spec.Path.Value[1 : len(spec.Path.Value)-1]
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if reaching[path] != nil {
			packages[name] = path
		}
	}
	for n := range ast.Preorder(file) {
		selector, isSelector := n.(*ast.SelectorExpr)
		if !isSelector {
			continue
		}
		of, isName := selector.X.(*ast.Ident)
		if isName && slices.Contains(reaching[packages[of.Name]], selector.Sel.Name) {
			found = append(found, packages[of.Name]+"."+selector.Sel.Name)
		}
	}
	return found
}

// TestReachIsDetected checks that reaches finds uses under any package name.
func TestReachIsDetected(t *testing.T) {
	text := `package p
import ("net"; web "net/http"; "os/exec")
var a, b, c = net.Dial, web.Get, exec.Command
var d = web.StatusText`
	file := testenv.Must(parser.ParseFile(token.NewFileSet(), "p.go", text, 0))(t)
	if found := reaches(file); len(found) != 3 {
		t.Errorf("found %v, want three uses", found)
	}
}
