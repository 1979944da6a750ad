package console

import (
	"archive/zip"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestZipAboveLimits runs the console's writer of archives in Node. Go's reader, which compares the
// sums, reads sizes, positions and a count that the format's old form cannot have.
func TestZipAboveLimits(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.NPM)
	const size, count = 1<<32 + 1, 1 << 16
	root := testenv.Must(testenv.Root())(t)
	path := filepath.Join(t.TempDir(), "large.zip")
	e2e.RunIn(t, filepath.Join(root, "e2e/console/testdata"), "node", "largezip.mjs",
		filepath.Join(root, "console/static/zip.js"), path, fmt.Sprint(int64(size)), fmt.Sprint(count))

	archive := testenv.Must(zip.OpenReader(path))(t)
	defer func() { testenv.OK(t, archive.Close()) }()
	if n := len(archive.File); n != count+2 {
		t.Fatalf("the archive has %d files, want %d", n, count+2)
	}
	read := func(f *zip.File, w io.Writer) int64 {
		content := testenv.Must(f.Open())(t)
		n := testenv.Must(io.Copy(w, content))(t)
		testenv.OK(t, content.Close())
		return n
	}
	if f := archive.File[0]; f.Name != "large" || f.UncompressedSize64 != size || read(f, io.Discard) != size {
		t.Errorf("the first file is %q with %d bytes, want \"large\" with %d", f.Name, f.UncompressedSize64, int64(size))
	}
	for i, f := range archive.File[1:] {
		name, want := fmt.Sprintf("many/%d", i-1), fmt.Sprint(i-1)
		if i == 0 {
			name, want = "after", "after"
		}
		var content strings.Builder
		read(f, &content)
		if f.Name != name || content.String() != want {
			t.Fatalf("file %d is %q with %q, want %q with %q", i+1, f.Name, content.String(), name, want)
		}
	}
}
