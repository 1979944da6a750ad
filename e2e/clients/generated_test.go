package clients

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v4"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestGeneratedTypeScriptClient generates types from a server's document, by openapi-typescript,
// compiles a program with them, and runs it against the server.
func TestGeneratedTypeScriptClient(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	clientDir, err := testenv.ClientDir()
	testenv.OK(t, err)
	dir, modules := t.TempDir(), filepath.Join(clientDir, "node_modules")
	program, err := os.ReadFile(filepath.Join(clientDir, "generated.ts"))
	err = errors.Join(err, os.Symlink(modules, filepath.Join(dir, "node_modules")),
		os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600),
		os.WriteFile(filepath.Join(dir, "generated.ts"), program, 0o600),
		os.WriteFile(filepath.Join(dir, "openapi.yaml"), s.Must(200, "GET", "/openapi.yaml", nil).Body, 0o600))
	testenv.OK(t, err)
	e2e.RunIn(t, dir, "node", filepath.Join(modules, "openapi-typescript/bin/cli.js"), "openapi.yaml", "-o", "api.d.ts")
	e2e.RunIn(t, dir, "node", filepath.Join(modules, "typescript/bin/tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "generated.ts")
	cases := e2e.Script[struct{ Case, Error string }](t, filepath.Join(dir, "generated.js"), s.URL)
	if len(cases) != 5 {
		t.Errorf("the client ran %d cases, want 5", len(cases))
	}
	for _, one := range cases {
		if one.Error != "" {
			t.Errorf("%s: %s", one.Case, one.Error)
		}
	}
}

// TestGeneratedGoClient generates a client from a server's document, by oapi-codegen, builds a
// program with it, and runs it against the server. oapi-codegen reads OpenAPI 3.0.
func TestGeneratedGoClient(t *testing.T) {
	testenv.Require(t, testenv.OapiCodegen)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	generator, err := testenv.OapiCodegenPath()
	testenv.OK(t, err)
	dir := filepath.Join(t.TempDir(), "client")
	err = errors.Join(os.CopyFS(dir, os.DirFS("testdata/goclient")), os.Mkdir(filepath.Join(dir, "api"), 0o700),
		os.WriteFile(filepath.Join(dir, "openapi.yaml"), openAPI30(t, s.Must(200, "GET", "/openapi.yaml", nil).Body), 0o600))
	testenv.OK(t, err)
	e2e.RunIn(t, dir, generator, "-generate", "types,client", "-package", "api", "-o", "api/api.gen.go", "openapi.yaml")
	e2e.RunIn(t, dir, "go", "build", "-o", "client", ".")
	if out := e2e.RunIn(t, dir, filepath.Join(dir, "client"), s.URL); out != "ok\n" {
		t.Errorf("the client printed %q", out)
	}
}

// openAPI30 returns an OpenAPI 3.1 document in the form of OpenAPI 3.0. It converts the parts of
// 3.1 that ours uses: lists of types, and contentEncoding.
func openAPI30(t *testing.T, document []byte) []byte {
	t.Helper()
	var doc map[string]any
	testenv.OK(t, yaml.Unmarshal(document, &doc))
	if doc["openapi"] != "3.1.0" {
		t.Fatalf("the document is of version %v", doc["openapi"])
	}
	doc["openapi"] = "3.0.3"
	convertSchemas(doc)
	out, err := yaml.Marshal(doc)
	testenv.OK(t, err)
	return out
}

func convertSchemas(node any) {
	switch node := node.(type) {
	case []any:
		for _, one := range node {
			convertSchemas(one)
		}
	case map[string]any:
		if types, ok := node["type"].([]any); ok {
			var one []any
			for _, name := range types {
				one = append(one, map[string]any{"type": name})
			}
			delete(node, "type")
			node["oneOf"] = one
		}
		if node["contentEncoding"] == "base64" {
			delete(node, "contentEncoding")
			node["format"] = "byte"
		}
		for _, one := range node {
			convertSchemas(one)
		}
	}
}
