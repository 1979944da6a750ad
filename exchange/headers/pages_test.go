package headers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
	"sluice/wire"
)

// TestRequested checks which names a preflight's response allows: every name, each once, in bounds
// that a page with as much metadata as a blob may have does not reach.
func TestRequested(t *testing.T) {
	got := Requested([]string{"range, blob-meta-color ,BLOB-META-Color,traceparent,x y", "amz-sdk-request, a:b, ö,,sentry_trace.x"})
	if want := []string{"range", "blob-meta-color", "traceparent", "amz-sdk-request", "sentry_trace.x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var many []string
	for i := range wire.MaxBlobMetaHeaders {
		many = append(many, fmt.Sprintf("blob-meta-%d-%s", i, strings.Repeat("a", wire.MaxBlobMeta/wire.MaxBlobMetaHeaders-14)))
	}
	testenv.Equal(t, len(Requested([]string{strings.Join(many, ",")})), len(many), "names of metadata")
	testenv.Equal(t, len(Requested([]string{strings.Repeat("a", maxRequested), "b"})), 0, "names beyond the bound")
}

// FuzzRequested checks that no response has more than was asked, nor anything but names.
func FuzzRequested(f *testing.F) {
	f.Add("x-requested-with,traceparent", "a, b\r\nc")
	f.Fuzz(func(t *testing.T, a, b string) {
		names := Requested([]string{a, b})
		if text := strings.Join(names, ","); len(text) > len(a)+len(b)+1 || slices.ContainsFunc(names, func(n string) bool { return !isToken(n) }) {
			t.Errorf("%q, %q: %q", a, b, names)
		}
	})
}

// TestContentPolicy checks that only a PDF has no sandbox, and that it has no script either.
// Invariant 48.
func TestContentPolicy(t *testing.T) {
	for contentType, pdf := range map[string]bool{
		"application/pdf": true, "Application/PDF ; version=1.7": true, "": false, "text/html": false, "image/svg+xml": false,
		"application/pdfx": false, "text/html; application/pdf": false, "application/xhtml+xml": false,
	} {
		got := ContentPolicy(contentType)
		if sandboxed := got == "sandbox"; sandboxed == pdf || !sandboxed && !strings.HasPrefix(got, "default-src 'none'; ") {
			t.Errorf("%q has the policy %q", contentType, got)
		}
	}
}
