package http

import (
	"maps"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestMetadataBehindNginx reads the largest metadata through the documented nginx.
func TestMetadataBehindNginx(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := e2e.StartHosted(t, "public").AsAdmin().BehindNginx()
	h, want := e2e.LargestMetadata()
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), []byte("content"), h...)
	for _, method := range []string{"GET", "HEAD"} {
		r := s.Must(200, method, e2e.BlobTarget("0x1", "name"), nil, "Origin", "https://app.example.org")
		if got := e2e.MetadataIn(r); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}
