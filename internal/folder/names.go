package folder

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Names assigns files of one folder to names. No two names get the same file, also on a file system
// that ignores the case of letters or the composition of characters. The zero value is ready to use.
type Names struct {
	taken map[string]taken // by folded path
}

type taken struct {
	name   string
	folder bool
}

// errNotLocal is returned for names such as "../x", "a/../b", "a//b" and "/x".
var errNotLocal = errors.New("the name is not a path within a folder")

// Add returns the path of the file for a name. It returns an error if there can be none, or if it
// collides with that of an earlier name: they differ only in the case of letters, or one would be a
// file and the other a folder.
func (n *Names) Add(name string) (path string, err error) {
	path, err = filepath.Localize(name)
	if err != nil || name == "." {
		return "", errNotLocal
	}
	if n.taken == nil {
		n.taken = map[string]taken{}
	}
	var wants []taken
	for i := range len(name) {
		if name[i] == '/' {
			wants = append(wants, taken{name[:i], true})
		}
	}
	wants = append(wants, taken{name, false})
	for _, want := range wants {
		if has, exists := n.taken[fold(want.name)]; exists && (has != want || !has.folder) {
			return "", fmt.Errorf("it collides with %q", has.name)
		}
	}
	for _, want := range wants {
		n.taken[fold(want.name)] = want
	}
	return path, nil
}

// Has reports whether a name, or one that some file systems do not distinguish from it, is a file or a
// folder of the names that were added.
func (n *Names) Has(name string) bool {
	_, exists := n.taken[fold(name)]
	return exists
}

// fold returns what is equal for paths that some file systems do not distinguish.
func fold(name string) string {
	folded := norm.NFC.String(cases.Fold().String(norm.NFD.String(name)))
	var parts []string
	for part := range strings.SplitSeq(folded, "/") {
		parts = append(parts, strings.TrimRight(part, ". ")) // as Windows does
	}
	return strings.Join(parts, "/")
}
