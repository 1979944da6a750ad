// Package arch tests rules that the compiler does not check: which packages a package may import,
// and that documents name only paths, make targets and tests that exist.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/test/testenv"
)

const module = "sluice"

// source is a Go file.
type source struct {
	file    string // slash-separated path, relative to the module's root
	dir     string
	test    bool
	imports []string
	text    string
	syntax  *ast.File // without comments
}

// positions has the positions in all sources.
var positions = token.NewFileSet()

// sources returns every Go file in the module.
func sources(t *testing.T) []source {
	t.Helper()
	return testenv.Must(readSources())(t)
}

// readSources reads the module once for all tests.
var readSources = sync.OnceValues(func() (all []source, err error) {
	root, err := testenv.Root()
	if err != nil {
		return nil, err
	}
	tree := os.DirFS(root)
	err = fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && file != "."
		switch {
		case entry.IsDir() && (hidden || entry.Name() == "node_modules" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		s := source{file: file, dir: path.Dir(file), test: strings.HasSuffix(file, "_test.go"), text: string(text)}
		if s.syntax, err = parser.ParseFile(positions, file, text, 0); err != nil {
			return err
		}
		for _, spec := range s.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, imported)
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

// textOf returns a file's text. The path is relative to the module's root.
func textOf(t *testing.T, elements ...string) string {
	t.Helper()
	root := testenv.Must(testenv.Root())(t)
	return string(testenv.Must(os.ReadFile(filepath.Join(root, filepath.Join(elements...))))(t))
}

// local returns an imported package's folder, and whether the package belongs to this module.
func local(imported string) (dir string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// standard reports whether a package belongs to the standard library.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	_, ours := local(imported)
	return !ours && !strings.Contains(first, ".")
}

// within reports whether dir is a folder in the list or inside one.
func within(dir string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return dir == folder || strings.HasPrefix(dir, folder+"/")
	})
}

// The layers. A package imports only packages of this module that are below it.
var (
	services  = []string{"blob", "history", "integrity", "session", "paychan", "access", "access/sealed"}
	bytes     = []string{"database", "metastore", "bytestore"} // contracts of stored things
	money     = []string{"database", "ledger"}                 // contracts of sold things
	whole     = []string{"database/whole", "database", "metastore", "ledger", "access/keys", "access/actions", "access/places"}
	contracts = []string{"database", "metastore", "ledger", "access/keys", "access/actions", "access/places", "bytestore"}
	stores    = []string{"database/sqlstore", "bytestore/cached", "bytestore/localfs", "bytestore/memory", "bytestore/s3"}
	suites    = []string{"database/dbtest", "metastore/metatest", "ledger/ledgertest", "access/keys/keystest", "access/places/placestest", "bytestore/bytetest"}
	pure      = []string{"wire", "micropay", "checksum", "commit", "claycode"}
	// rooms is the folder with the packages that the SQL store consists of; see
	// docs/decisions/0029-rooms-of-the-database.md.
	rooms = "database/sqlstore/internal"
	// composition opens stores and connects the layers.
	composition = []string{"backup", "instance", "node", "storage"}
	// commandParts know no command.
	commandParts = []string{"cmd/sluice/internal/accountkey", "cmd/sluice/internal/contexts", "cmd/sluice/internal/ephemeral", "cmd/sluice/internal/operand", "cmd/sluice/internal/terminal"}
	// generators send requests; the service does not import them.
	generators = []string{"load"}
	// testOnly are tests, benchmarks and tools. They may be imported by tests only.
	testOnly = append([]string{"deploy/dist", "examples", "s3api/internal/model/gen", "test/testenv", "test/testclock", "test/fault", "test/vfstest", "test/fullnode", "test/arch", "test/mutants", "test/peers", "e2e",
		rooms + "/enginetest", rooms + "/pgproxy"}, suites...)
)

// mayImport returns the folders of this module that the package in dir may import outside its
// tests. The result ok is false if there is no rule for dir.
func mayImport(dir string) (allowed []string, ok bool) {
	switch {
	case within(dir, "cmd/sluice/internal/contexts"):
		return []string{"cmd/sluice/internal/operand", "internal/secretfile", "internal/vfs"}, true
	case within(dir, "cmd/sluice/internal/accountkey"):
		return []string{"internal/secretfile", "micropay"}, true
	case within(dir, "cmd/sluice/internal/terminal"):
		return []string{"internal/units"}, true
	case within(dir, "cmd/sluice/internal/operand"):
		return nil, true
	case within(dir, "cmd/sluice/internal/ephemeral"):
		return []string{"internal"}, true
	case within(dir, "cmd/sluice/internal/cli"):
		return append([]string{"admin", "blob", "client", "database", "internal", "storage", "wire"}, commandParts...), true
	case within(dir, "cmd/sluice/internal/settings"):
		return slices.Concat([]string{"cmd/sluice/internal/cli", "exchange", "httpapi", "s3api", "internal", "database/whole"}, composition, services, contracts, pure), true
	case within(dir, "cmd/sluice/internal/serving"):
		return append([]string{"cmd/sluice/internal/cli", "cmd/sluice/internal/settings", "internal", "node"}, commandParts...), true
	case within(dir, "cmd/sluice/internal/payments"):
		return append([]string{"cmd/sluice/internal/cli", "client", "internal", "wire"}, commandParts...), true
	case within(dir, "cmd/sluice/internal/administration"):
		return slices.Concat([]string{"admin", "client", "cmd/sluice/internal/cli", "cmd/sluice/internal/settings", "exchange", "internal", "database/whole"}, commandParts, composition, services, contracts, pure), true
	case within(dir, "cmd/sluice/internal/blobs"):
		return append([]string{"cmd/sluice/internal/administration", "cmd/sluice/internal/cli", "cmd/sluice/internal/payments", "blob", "client", "commit", "internal", "node", "wire"}, commandParts...), true
	case within(dir, "cmd/sluice/internal/servers"):
		return append([]string{"cmd/sluice/internal/cli", "client", "conformance", "internal", "load", "wire"}, commandParts...), true
	case within(dir, "cmd/sluice/internal/keys"), within(dir, "cmd/sluice/internal/instances"):
		return slices.Concat([]string{"admin", "client", "cmd/sluice/internal/administration", "cmd/sluice/internal/cli", "cmd/sluice/internal/settings", "s3api", "internal", "database/whole"}, commandParts, composition, services, contracts, pure), true
	case within(dir, "deploy/dist"), within(dir, "examples"): // modules of their own
		return nil, true
	case within(dir, "cmd"):
		return slices.Concat([]string{"cmd/sluice/internal", "client", "collect", "conformance", "exchange", "httpapi", "s3api", "metering", "internal", "database/whole"}, generators, composition, services, contracts, pure), true
	case within(dir, "node"):
		return slices.Concat([]string{"admin", "chain", "client/folder/tree", "collect", "exchange", "feed", "httpapi", "s3api", "console", "metering", "webhook", "internal", "storage"}, services, contracts, pure), true
	case within(dir, "instance"):
		return slices.Concat([]string{"access/actions", "admin", "wire", "backup", "metering", "internal", "storage", "blob", "history", "integrity", "database/whole"}, bytes, money), true
	case within(dir, "backup"):
		return []string{"integrity", "internal/task", "metastore", "bytestore"}, true
	case within(dir, "storage"):
		return slices.Concat([]string{"backup", "internal", "blob", "history", "integrity", "database/whole"}, contracts, stores), true
	case within(dir, "internal/tracing"):
		return append([]string{"internal", "bytestore"}, whole...), true
	case dir == "database/sqlstore":
		return slices.Concat([]string{"internal", rooms + "/engine", rooms + "/acts", rooms + "/usage", rooms + "/requests", rooms + "/meta", rooms + "/money"}, whole), true
	case dir == rooms+"/engine":
		return []string{"internal", "database"}, true
	case dir == rooms+"/acts":
		return []string{rooms + "/engine", "access/actions"}, true
	case dir == rooms+"/usage":
		return []string{rooms + "/engine", "database", "metastore"}, true
	case dir == rooms+"/requests":
		return []string{rooms + "/engine", rooms + "/usage", "database"}, true
	case dir == rooms+"/meta":
		return []string{"internal", rooms + "/engine", rooms + "/acts", rooms + "/usage", rooms + "/requests", "access/actions", "database", "metastore"}, true
	case dir == rooms+"/money":
		return []string{"internal", rooms + "/engine", rooms + "/usage", rooms + "/requests", "database", "ledger"}, true
	case dir == rooms+"/enginetest":
		return []string{rooms + "/engine", "database"}, true
	case dir == rooms+"/pgproxy":
		return []string{"test/fault"}, true
	case within(dir, "database/whole"):
		return append([]string{"internal/lease"}, whole...), true
	case within(dir, "bytestore/localfs"):
		return []string{"bytestore", "internal"}, true
	case within(dir, stores...):
		return append([]string{path.Dir(dir), "internal"}, ownSubfolders(dir)...), true
	case within(dir, "bytestore/bytetest"):
		return []string{"internal", "test/fault", "test/testenv", "bytestore"}, true
	case within(dir, "database/dbtest"):
		return append([]string{"internal", "test/testclock", "test/testenv"}, whole...), true
	case within(dir, "metastore/metatest"):
		// The ledger in files that spanning names only.
		return []string{"internal", "test/testclock", "test/testenv", "access/actions", "database", "database/whole", "database/dbtest", "metastore", "ledger"}, true
	case within(dir, "ledger/ledgertest"):
		return []string{"internal", "test/testclock", "test/testenv", "database", "database/whole", "database/dbtest", "ledger"}, true
	case within(dir, "access/keys/keystest"):
		return []string{"internal", "test/testclock", "test/testenv", "database", "database/whole", "database/dbtest", "access/keys", "access/actions", "metastore"}, true
	case within(dir, "access/places/placestest"):
		return []string{"internal", "test/testclock", "test/testenv", "database", "database/whole", "database/dbtest", "access/places", "access/actions"}, true
	case within(dir, "access/places"):
		return []string{"access/actions"}, true
	case within(dir, "metastore", "ledger"):
		return []string{"access/actions", "database"}, true
	case within(dir, "access/actions"):
		return nil, true
	case within(dir, "access/keys"):
		return []string{"access/actions", "database", "metastore"}, true
	case within(dir, "admin"):
		return slices.Concat([]string{"internal/task", "internal/units"}, services, contracts, pure), true
	case within(dir, "database"):
		return []string{"access/actions"}, true
	case within(dir, "bytestore"):
		return nil, true
	case within(dir, "httpapi/internal/router"):
		return nil, true
	case within(dir, "internal/connlimit", "internal/httpconn"):
		return nil, true
	case within(dir, "exchange/headers"):
		return []string{"blob", "wire"}, true
	case within(dir, "httpapi/internal/faults"):
		return []string{"internal/task", "internal/units"}, true
	case within(dir, "exchange/transfer"):
		return []string{"access", "blob", "internal/httpconn"}, true
	case within(dir, "exchange"):
		return slices.Concat([]string{"internal", "exchange", "access", "blob", "history", "integrity", "access/keys"}, bytes, pure), true
	case within(dir, "feed"):
		return []string{"database", "internal/task", "metastore"}, true
	case within(dir, "webhook"):
		return slices.Concat([]string{"access", "access/sealed", "exchange", "feed", "internal/task"}, []string{"database", "metastore", "wire"}), true
	case within(dir, "httpapi"):
		return slices.Concat([]string{"admin", "internal", "exchange", "feed", "httpapi", "console", "metering"}, services, contracts, pure), true
	case within(dir, "s3api/internal/sigv4", "s3api/internal/document", "s3api/internal/postpolicy", "s3api/internal/model"):
		return nil, true
	case within(dir, "s3api/internal/checksums"):
		return []string{"checksum"}, true
	case within(dir, "s3api"):
		return slices.Concat([]string{"internal", "exchange", "s3api", "admin", "blob", "access", "access/keys", "access/places"}, bytes, pure), true
	case within(dir, "metering"):
		return slices.Concat([]string{"internal", "wire"}, services, money), true
	case within(dir, "blob"):
		return append([]string{"internal", "history", "integrity", "checksum", "micropay", "access/actions"}, bytes...), true
	case within(dir, "integrity"):
		return append([]string{"internal/task", "history"}, bytes...), true
	case within(dir, "history"):
		return []string{"database", "bytestore"}, true
	case within(dir, "session", "paychan"):
		return append([]string{"internal", "micropay"}, money...), true
	case within(dir, "access/sealed"):
		return nil, true
	case within(dir, "access"):
		return []string{"internal", "access/actions", "access/keys", "access/places", "access/sealed", "database", "metastore"}, true
	case within(dir, "console"):
		return nil, true
	case within(dir, "client/folder/tree"):
		return nil, true
	case within(dir, "client/mirror"):
		return append([]string{"client"}, pure...), true
	case within(dir, "client/folder"):
		return append([]string{"client", "client/folder/tree"}, pure...), true
	case within(dir, "client"):
		// Not internal: the package can be moved into a module of its own.
		return append([]string{"client/folder/tree"}, pure...), true
	case within(dir, "conformance"):
		return pure, true
	case within(dir, "collect"):
		return append([]string{"chain", "internal/task", "micropay"}, money...), true
	case within(dir, "chain"):
		return []string{"micropay"}, true
	case within(dir, "commit"):
		return []string{"claycode"}, true
	case within(dir, pure...):
		return nil, true
	case within(dir, "internal/auditlog", "internal/gcfloor", "internal/histogram", "internal/logbuffer", "internal/reconnect", "internal/task", "internal/units"):
		return nil, true
	case within(dir, "internal/metrics"):
		return []string{"internal/histogram"}, true
	case within(dir, "test/fault"):
		return nil, true
	case within(dir, "test/vfstest"):
		return []string{"internal/vfs", "test/fault"}, true
	case within(dir, "load"):
		return []string{"client", "wire", "internal/units"}, true
	case within(dir, "test/peers"):
		return append([]string{"internal", "test", "storage", "client", "metastore", "bytestore"}, generators...), true
	case within(dir, "e2e"):
		return []string{"internal", "test", "client", "conformance", "micropay"}, true
	case within(dir, "test"):
		return []string{"internal", "test"}, true
	case within(dir, "internal"):
		return []string{"internal", "database"}, true
	}
	return nil, false
}

// ownSubfolders returns the store's folder that contains dir: a store's packages may import each
// other.
func ownSubfolders(dir string) []string {
	return slices.DeleteFunc(slices.Clone(stores), func(store string) bool { return !within(dir, store) })
}

// TestImports checks that every package imports only packages below it.
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		allowed, ok := mayImport(s.dir)
		if !ok {
			t.Errorf("%s: there is no rule for %s; add one to mayImport", s.file, s.dir)
			continue
		}
		for _, imported := range s.imports {
			dir, ours := local(imported)
			if ours && !permitted(dir, allowed) {
				t.Errorf("%s imports %s; %s may import only %v", s.file, imported, s.dir, allowed)
			}
		}
	}
}

// permitted reports whether dir is an allowed folder or in one. A contract's folder does not
// include its implementations, and internal does not include composition and the generators.
func permitted(dir string, allowed []string) bool {
	if slices.Contains(allowed, dir) {
		return true
	}
	return !within(dir, contracts...) && !within(dir, composition...) && !within(dir, generators...) && within(dir, allowed...)
}

// TestSuitesStandApart checks that the suite of blobs knows the ledger only where a rule spans
// both, which the documentation of database/dbtest lists.
func TestSuitesStandApart(t *testing.T) {
	spanning := map[string]bool{
		"metastore/metatest/usagemoney.go": true,
		"metastore/metatest/model.go":      true,
		"metastore/metatest/modelusage.go": true,
	}
	for _, s := range sources(t) {
		if s.test || s.dir != "metastore/metatest" {
			continue
		}
		if knows := slices.Contains(s.imports, module+"/ledger"); knows != spanning[s.file] {
			t.Errorf("%s imports the ledger: %v, want %v", s.file, knows, spanning[s.file])
		}
		delete(spanning, s.file)
	}
	for file := range spanning {
		t.Errorf("there is no %s", file)
	}
}

// TestRulesOfImports checks rules that do not follow from the layers.
func TestRulesOfImports(t *testing.T) {
	machinery := []string{"net", "net/http", "database/sql", "os", "os/exec", "path/filepath"}
	for _, s := range sources(t) {
		product := !s.test && !within(s.dir, testOnly...)
		contract := s.dir == "wire" || slices.Contains(contracts, s.dir)
		for _, imported := range s.imports {
			dir, ours := local(imported)
			rule := ""
			switch {
			case strings.HasPrefix(imported, "github.com/prometheus/") && s.dir != "internal/metrics":
				rule = "only internal/metrics imports the client of Prometheus"
			case !product:
			case imported == "testing" || ours && within(dir, testOnly...):
				rule = "only tests import packages for tests"
			case within(s.dir, services...) && slices.Contains(machinery, imported):
				rule = "services use neither the network, SQL nor files"
			case contract && !standard(imported) && !slices.Contains(contracts, dir):
				rule = "contracts and wire import only the standard library and each other"
			case ours && within(dir, stores...) && !within(s.dir, append(stores, "storage")...):
				rule = "only storage imports implementations of stores"
			}
			if rule != "" {
				t.Errorf("%s imports %s: %s", s.file, imported, rule)
			}
		}
	}
}

// TestRulesSeeTheTree checks the rules themselves: that they read existing files, and that they
// allow and refuse the right imports.
func TestRulesSeeTheTree(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		seen[s.dir] = true
	}
	for _, dir := range []string{"bytestore", "metastore", "test/testenv"} {
		if !seen[dir] {
			t.Errorf("no file of %s was read", dir)
		}
	}
	for dir, want := range map[string]string{"blob": "metastore", "httpapi": "exchange", "exchange": "blob", "bytestore/localfs": "bytestore"} {
		allowed, _ := mayImport(dir)
		if !permitted(want, allowed) {
			t.Errorf("%s may not import %s", dir, want)
		}
	}
	for dir, not := range map[string]string{"bytestore": "wire", "httpapi": "bytestore/localfs", "exchange": "ledger", "session": "metastore", "paychan": "metastore", "collect": "metastore",
		"blob": "ledger", "ledger": "metastore", "ledger/ledgertest": "metastore", "access/keys/keystest": "ledger", "metastore": "ledger", "database/sqlstore": "bytestore", "bytestore/localfs": "bytestore/s3", rooms + "/meta": rooms + "/money", rooms + "/money": "metastore", rooms + "/engine": rooms + "/usage", "wire": "httpapi", "instance": "bytestore/s3", "internal/lease": "node", "node": "load"} {
		if allowed, _ := mayImport(dir); permitted(not, allowed) {
			t.Errorf("%s may import %s", dir, not)
		}
	}
}
