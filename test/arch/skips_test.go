package arch

import (
	"go/ast"
	"slices"
	"testing"
)

// TestOnlyRequireSkipsTests finds the tests that a variable such as SLUICE_TEST_REQUIRE cannot make
// compulsory.
func TestOnlyRequireSkipsTests(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(s.imports, "testing") || s.dir == "test/testenv" {
			continue
		}
		for node := range ast.Preorder(s.syntax) {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				continue
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if !slices.Contains([]string{"t", "tb", "b", "f"}, lastName(method.X)) || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, method.Sel.Name) {
				continue
			}
			t.Errorf("%s: call testenv.Require instead of %s", positions.Position(call.Pos()), method.Sel.Name)
		}
	}
}

// lastName returns a variable's name, or the name of a selector's field.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}
