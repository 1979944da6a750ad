package testenv

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Sentinels returns a folder's package-level errors and their texts.
func Sentinels(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	found := map[string]string{}
	files := Must(os.ReadDir(dir))(tb)
	for _, entry := range files {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file := Must(parser.ParseFile(token.NewFileSet(), dir+"/"+entry.Name(), nil, 0))(tb)
		for _, decl := range file.Decls {
			if vars, ok := decl.(*ast.GenDecl); ok && vars.Tok == token.VAR {
				addSentinels(tb, vars, found)
			}
		}
	}
	return found
}

// addSentinels adds a declaration's variables that are initialized with errors.New.
func addSentinels(tb testing.TB, vars *ast.GenDecl, found map[string]string) {
	for _, spec := range vars.Specs {
		v := spec.(*ast.ValueSpec)
		if len(v.Values) != 1 {
			continue
		}
		call, ok := v.Values[0].(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			continue
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || fun.Sel.Name != "New" {
			continue
		}
		if text, ok := call.Args[0].(*ast.BasicLit); ok {
			unquoted := Must(strconv.Unquote(text.Value))(tb)
			found[v.Names[0].Name] = unquoted
		}
	}
}
