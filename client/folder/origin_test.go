package folder

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
)

// TestOriginsOf checks from which entries of a target names get their content. Names are written
// NAME=CONTENT, and results NAME<-ENTRY if the entry is moved and NAME<=ENTRY if it is copied.
func TestOriginsOf(t *testing.T) {
	for _, test := range []struct {
		name                string
		source, target      string
		moved, withoutMoves string
	}{
		{"nothing", "a=1", "", "", ""},
		{"the same", "a=1", "a=1", "", ""},
		{"a rename", "b=1", "a=1", "b<-a", "b<=a"},
		{"another content", "b=2", "a=1", "", ""},
		{"empty contents", "b=", "a=", "", ""},
		{"a copy", "a=1 b=1", "a=1", "b<=a", "b<=a"},
		{"a folder", "new/a=1 new/b=2", "old/a=1 old/b=2", "new/a<-old/a new/b<-old/b", "new/a<=old/a new/b<=old/b"},
		{"a swap", "a=2 b=1", "a=1 b=2", "", ""},
		{"a swap and a copy", "a=2 b=1 c=1", "a=1 b=2", "c<=a", "c<=a"},
		{"a chain", "b=1 c=2", "a=1 b=2", "c<=b", "c<=b"},
		{"a chain of one content", "b=1 c=1", "a=1 b=1", "c<-a", "c<=a"},
		{"an entry that is wanted twice", "b=1 c=1", "a=1", "b<-a c<=a", "b<=a c<=a"},
		{"three of two entries", "c=1 d=1 e=1", "a=1 b=1", "c<-a d<-b e<=a", "c<=a d<=a e<=a"},
		{"one of two entries", "c=1", "a=1 b=1", "c<-a", "c<=a"},
		{"duplicates that keep their names", "x/b=1 x/a=1", "y/a=1 y/b=1", "x/a<-y/a x/b<-y/b", "x/a<=y/a x/b<=y/a"},
		{"the duplicate that keeps its name", "a0=1 x/b=1", "y/a=1 y/b=1", "a0<-y/a x/b<-y/b", "a0<=y/a x/b<=y/a"},
	} {
		source, target := contentsIn(test.source), contentsIn(test.target)
		missing, extra := maps.Clone(source), maps.Clone(target)
		maps.DeleteFunc(missing, func(name string, _ content) bool { _, exists := target[name]; return exists })
		maps.DeleteFunc(extra, func(name string, _ content) bool { _, exists := source[name]; return exists })
		moved := shownOrigins(originsOf(missing, target, slices.Collect(maps.Keys(extra))))
		testenv.Equal(t, moved, test.moved, "%s", test.name)
		testenv.Equal(t, shownOrigins(originsOf(missing, target, nil)), test.withoutMoves, "%s, without moves", test.name)
	}
}

func contentsIn(text string) map[string]content {
	contents := map[string]content{}
	for _, field := range strings.Fields(text) {
		name, text, _ := strings.Cut(field, "=")
		contents[name] = content{int64(len(text)), text}
	}
	return contents
}

func shownOrigins(origins map[string]origin) string {
	var shown []string
	for name, o := range origins {
		arrow := map[bool]string{true: "<-", false: "<="}[o.moves]
		shown = append(shown, fmt.Sprint(name, arrow, o.name))
	}
	slices.Sort(shown)
	return strings.Join(shown, " ")
}

// TestFilesAreReadForACandidate checks that only files are read that a blob's size allows.
func TestFilesAreReadForACandidate(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"stored": "text", "renamed": "text", "larger": "larger", "empty": ""} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	files, _, err := listDir(Dir(dir), nil)
	testenv.OK(t, err)
	b := NewBatch(Options{})
	read, err := b.readCandidates(t.Context(), Dir(dir), files, map[string]client.Blob{"stored": {Size: 4, ETag: "x"}, "paid": {Size: 6}, "nothing": {ETag: "y"}})
	testenv.OK(t, err)
	testenv.Equal(t, fmt.Sprint(slices.Sorted(maps.Keys(read))), "[renamed]", "the files")
	if f := read["renamed"]; f.etag == "" || string(f.first) != "text" || !f.unchanged() {
		t.Errorf("%+v", f)
	}
}
