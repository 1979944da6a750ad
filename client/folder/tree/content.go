package tree

import (
	"cmp"
	_ "embed"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
)

// SniffedBytes is how many bytes ContentType considers at most.
const SniffedBytes = 512

// contentTypes has a line for each type: the type, and the endings of names without their dots. The
// types are from IANA's media type registry, or else the ones that browsers use.
//
//go:embed contenttypes.txt
var contentTypes string

// byEnding returns the types by endings. Text has the charset that the package mime adds.
var byEnding = sync.OnceValue(func() map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(contentTypes) {
		fields := strings.Fields(line)
		for _, ending := range fields[1:] {
			types["."+ending] = fields[0]
			if strings.HasPrefix(fields[0], "text/") {
				types["."+ending] += "; charset=utf-8"
			}
		}
	}
	return types
})

// ContentType guesses a content's type by the ending of its name, or else by its first bytes. It
// returns the same on every machine: the system's own tables have no effect.
func ContentType(name string, first []byte) string {
	return cmp.Or(byEnding()[strings.ToLower(path.Ext(name))], http.DetectContentType(first))
}

// ContentTypeOf is ContentType for a content. It reads the first bytes.
func ContentTypeOf(name string, content io.ReaderAt) (string, error) {
	first := make([]byte, SniffedBytes)
	n, err := content.ReadAt(first, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return ContentType(name, first[:n]), nil
}

// SizeOf returns the size of a regular file in bytes. It returns -1 for anything else, and for a
// file that has more or fewer bytes than stat reports, as in /proc and on some FUSE file systems,
// or while it is written: only reading it to its end shows its size.
func SizeOf(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1, err
	}
	begin := max(0, info.Size()-1)
	n, err := f.ReadAt(make([]byte, 2), begin)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return -1, err
	case begin+int64(n) == info.Size():
		return info.Size(), nil
	default:
		return -1, nil
	}
}
