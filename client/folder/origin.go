package folder

import (
	"maps"
	"path"
	"slices"
)

// content identifies the bytes of files and blobs.
type content struct {
	size int64  // in bytes
	etag string // "": not known
}

// tracked reports whether a content is looked for under other names. Nothing is saved for an empty
// one.
func (c content) tracked() bool { return c.size > 0 && c.etag != "" }

// sizesOf returns the sizes for which contents are tracked.
func sizesOf(contents map[string]content) map[int64]bool {
	sizes := map[int64]bool{}
	for _, c := range contents {
		if c.tracked() {
			sizes[c.size] = true
		}
	}
	return sizes
}

// origin is an entry in a target with the content for a name that the target lacks.
type origin struct {
	name  string
	moves bool // the entry gets the other name; otherwise it is copied
}

// originsOf returns the origins of names that the target lacks, as far as there are any. has are
// the target's contents, and extra are the names in it that may be moved. Each is moved at most
// once, if possible to a name with the same last element. Further names with that content are
// copies.
func originsOf(missing, has map[string]content, extra []string) map[string]origin {
	origins := map[string]origin{}
	moved := map[string]bool{}
	assign := func(key func(name string, c content) [2]any) {
		free := map[[2]any][]string{}
		for _, name := range slices.Sorted(slices.Values(extra)) {
			if k := key(name, has[name]); !moved[name] {
				free[k] = append(free[k], name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			k := key(name, missing[name])
			if _, assigned := origins[name]; assigned || !missing[name].tracked() || len(free[k]) == 0 {
				continue
			}
			origins[name], moved[free[k][0]] = origin{free[k][0], true}, true
			free[k] = free[k][1:]
		}
	}
	assign(func(name string, c content) [2]any { return [2]any{c, path.Base(name)} })
	assign(func(_ string, c content) [2]any { return [2]any{c} })
	addCopies(origins, missing, has)
	return origins
}

// addCopies adds origins for names that have none yet: among entries with that content, the first
// in byte order.
func addCopies(origins map[string]origin, missing, has map[string]content) {
	first := map[content]string{}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if _, exists := first[has[name]]; !exists {
			first[has[name]] = name
		}
	}
	for name, c := range missing {
		if _, assigned := origins[name]; assigned || !c.tracked() {
			continue
		}
		if from, exists := first[c]; exists {
			origins[name] = origin{from, false}
		}
	}
}
