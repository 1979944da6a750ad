package arch

import (
	"go/ast"
	"testing"
)

// maxMethods is the greatest number of methods that an interface declares itself. A larger one
// embeds interfaces, each with one subject.
const maxMethods = 10

// TestInterfacesAreSmall checks how many methods each interface declares itself.
func TestInterfacesAreSmall(t *testing.T) {
	read := 0
	for _, s := range sources(t) {
		for name, methods := range interfacesOf(s.syntax) {
			read++
			if methods > maxMethods {
				t.Errorf("%s: %s declares %d methods, at most %d are allowed", s.file, name, methods, maxMethods)
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
	for n := range ast.Preorder(file) {
		spec, isType := n.(*ast.TypeSpec)
		if !isType {
			continue
		}
		if i, isInterface := spec.Type.(*ast.InterfaceType); isInterface {
			for _, field := range i.Methods.List {
				found[spec.Name.Name] += len(field.Names)
			}
		}
	}
	return found
}
