package tree

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Names assigns the files of one folder to names. No two names get the same file, even on a file
// system that ignores case or the composition of characters. The zero value is ready to use.
type Names struct {
	taken map[string]taken // by folded path
}

type taken struct {
	name   string
	folder bool
}

// ErrNotLocal is returned for names such as "../x", "a/../b", "a//b" and "/x", and on Windows for
// names that it reserves or cannot have, such as "NUL" and "a:b".
var ErrNotLocal = errors.New("the name is not a path within a folder")

// CollisionError means that a name cannot have a file beside an earlier name: for example they
// differ in case only, or one would be a file and the other its folder.
type CollisionError struct {
	Earlier string // the earlier name, or a folder of it
}

// Error names the earlier name.
func (e *CollisionError) Error() string { return fmt.Sprintf("it collides with %q", e.Earlier) }

// Add returns the file's path for a name. It returns ErrNotLocal or a *CollisionError if there can
// be none; then the name is not one of n.
func (n *Names) Add(name string) (path string, err error) {
	path, err = filepath.Localize(name)
	if err != nil || name == "." {
		return "", ErrNotLocal
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
			return "", &CollisionError{has.name}
		}
	}
	for _, want := range wants {
		n.taken[fold(want.name)] = want
	}
	return path, nil
}

// Has reports whether a name was added, or is a folder above an added name. Names that some file
// systems take for the same count as one.
func (n *Names) Has(name string) bool {
	_, exists := n.taken[fold(name)]
	return exists
}

// fold returns the same text for all paths that some file system takes for the same.
func fold(name string) string {
	folded := norm.NFC.String(cases.Fold().String(norm.NFD.String(name)))
	var parts []string
	for part := range strings.SplitSeq(folded, "/") {
		parts = append(parts, strings.TrimRight(part, ". ")) // as Windows does
	}
	return strings.Join(parts, "/")
}
