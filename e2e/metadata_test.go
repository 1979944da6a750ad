package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// largestMetadata returns as many and as large headers as a blob may have: as a request sends them,
// and as a response has them.
func largestMetadata() (h headers, want map[string]string) {
	want = map[string]string{
		"Content-Disposition": "attachment; filename=" + strings.Repeat("f", 1024-len("attachment; filename=")),
		"Content-Language":    strings.Repeat("de,", 85),
		// The server sends no directive that it does not know, so a known one has the padding.
		"Cache-Control": "public, max-age=600, no-transform=" + strings.Repeat("x", 255-len("public, max-age=600, no-transform=")),
	}
	for i := range 32 {
		name := fmt.Sprintf("Blob-Meta-Name-%02d", i)
		want[name] = strings.Repeat("v", 2048/32-len(name))
	}
	for name, value := range want {
		h = append(h, strings.ToLower(name), value)
	}
	return h, want
}

// metadataIn returns a response's headers that can describe a blob.
func metadataIn(r response) map[string]string {
	m := map[string]string{}
	for name, values := range r.header {
		switch name {
		case "Content-Disposition", "Content-Language", "Cache-Control":
			m[name] = strings.Join(values, "|")
		default:
			if strings.HasPrefix(name, "Blob-Meta-") {
				m[name] = strings.Join(values, "|")
			}
		}
	}
	return m
}

// TestMetadata stores the largest metadata by PUT and in parts, and reads it in every way, over
// each protocol, and after a restart.
func TestMetadata(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, s *server) {
		h, want := largestMetadata()
		members := map[string]any{"rawAccount": "0x1", "rawBlobName": "by parts", "metadata": map[string]string{}}
		for name, value := range want {
			switch custom, ok := strings.CutPrefix(name, "Blob-Meta-"); {
			case ok:
				members["metadata"].(map[string]string)[custom] = value
			case name == "Cache-Control":
				members["cacheControl"] = value
			case name == "Content-Disposition":
				members["contentDisposition"] = value
			default:
				members["contentLanguage"] = value
			}
		}
		s.must(204, "PUT", blobTarget("0x1", "at once"), []byte("content"), h...)
		id := text(t, s.must(200, "POST", "/v1/multipart-uploads", asJSON(t, members)).object(t), "uploadId")
		s.must(200, "PUT", partTarget(id, 0), []byte("content"))
		s.must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
		s.must(204, "PUT", blobTarget("0x1", "plain"), []byte("content"))

		s.stop()
		s.restart()
		for name, want := range map[string]map[string]string{"at once": want, "by parts": want, "plain": {"Cache-Control": "no-cache"}} {
			target := blobTarget("0x1", name)
			whole := s.must(200, "GET", target, nil)
			for what, r := range map[string]response{
				"GET": whole, "HEAD": s.must(200, "HEAD", target, nil), "a range": s.must(206, "GET", target, nil, "Range", "bytes=1-2"),
				"304": s.must(304, "GET", target, nil, "If-None-Match", whole.header.Get("ETag")),
			} {
				if got := metadataIn(r); !maps.Equal(got, want) {
					t.Errorf("%s of %s has %v, want %v", what, name, got, want)
				}
			}
		}
		for _, query := range []string{"", "?include=metadata"} {
			var page struct {
				Blobs []struct {
					Name, CacheControl, ContentDisposition, ContentLanguage string
					Metadata                                                map[string]string
				}
			}
			if err := json.Unmarshal(s.must(200, "GET", "/v1/blobs/0x1"+query, nil).body, &page); err != nil || len(page.Blobs) != 3 {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, b := range page.Blobs {
				got := map[string]string{"Cache-Control": b.CacheControl, "Content-Disposition": b.ContentDisposition, "Content-Language": b.ContentLanguage}
				for name, value := range b.Metadata {
					got["Blob-Meta-"+strings.ToUpper(name[:1])+name[1:]] = value
				}
				expected := want
				if query == "" || b.Name == "plain" {
					expected = map[string]string{"Cache-Control": "", "Content-Disposition": "", "Content-Language": ""}
				}
				if !maps.Equal(got, expected) {
					t.Errorf("%q lists %s with %v, want %v", query, b.Name, got, expected)
				}
			}
		}
		checkProblem(t, s.do("PUT", blobTarget("0x1", "more"), nil, append(h, "Blob-Meta-More", "x")...), 400, "bad_header")
	})
}

// TestMetadataBehindNginx reads the largest metadata through the documented nginx.
func TestMetadataBehindNginx(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := startHosted(t, "public").asAdmin().behindNginx()
	h, want := largestMetadata()
	s.must(204, "PUT", blobTarget("0x1", "name"), []byte("content"), h...)
	for _, method := range []string{"GET", "HEAD"} {
		r := s.must(200, method, blobTarget("0x1", "name"), nil, "Origin", "https://app.example.org")
		if got := metadataIn(r); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}
