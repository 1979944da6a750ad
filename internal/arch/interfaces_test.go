package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"sluice/internal/testenv"
)

// maxMethods is the greatest number of methods that an interface declares itself. One that has more
// to offer embeds others, each with one subject.
const maxMethods = 10

// TestInterfacesAreSmall checks how many methods each interface declares itself.
func TestInterfacesAreSmall(t *testing.T) {
	read := 0
	for file, text := range goFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		testenv.OK(t, err)
		for name, methods := range interfacesOf(parsed) {
			read++
			if methods > maxMethods {
				t.Errorf("%s: %s declares %d methods, at most %d are allowed", file, name, methods, maxMethods)
			}
		}
	}
	if read < 40 {
		t.Errorf("only %d interfaces were found", read)
	}
}

// interfacesOf returns how many methods each interface of a file declares itself.
func interfacesOf(file *ast.File) map[string]int {
	found := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if i, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, field := range i.Methods.List {
				found[spec.Name.Name] += len(field.Names)
			}
		}
		return true
	})
	return found
}
