package http

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestMetadata stores the largest metadata by PUT and in parts, and reads it in every way, over
// each protocol, and after a restart.
func TestMetadata(t *testing.T) {
	overEachProtocol(t, func(t *testing.T, s *e2e.Server) {
		h, want := e2e.LargestMetadata()
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
		s.Must(204, "PUT", e2e.BlobTarget("0x1", "at once"), []byte("content"), h...)
		id := e2e.Text(t, s.Must(200, "POST", "/v1/multipart-uploads", e2e.AsJSON(t, members)).Object(t), "uploadId")
		s.Must(200, "PUT", e2e.PartTarget(id, 0), []byte("content"))
		s.Must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
		s.Must(204, "PUT", e2e.BlobTarget("0x1", "plain"), []byte("content"))

		s.Stop()
		s.Restart()
		for name, want := range map[string]map[string]string{"at once": want, "by parts": want, "plain": {"Cache-Control": "no-cache"}} {
			target := e2e.BlobTarget("0x1", name)
			whole := s.Must(200, "GET", target, nil)
			for what, r := range map[string]e2e.Response{
				"GET": whole, "HEAD": s.Must(200, "HEAD", target, nil), "a range": s.Must(206, "GET", target, nil, "Range", "bytes=1-2"),
				"304": s.Must(304, "GET", target, nil, "If-None-Match", whole.Header.Get("ETag")),
			} {
				if got := e2e.MetadataIn(r); !maps.Equal(got, want) {
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
			if err := json.Unmarshal(s.Must(200, "GET", "/v1/blobs/0x1"+query, nil).Body, &page); err != nil || len(page.Blobs) != 3 {
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
		e2e.CheckProblem(t, s.Do("PUT", e2e.BlobTarget("0x1", "more"), nil, append(h, "Blob-Meta-More", "x")...), 400, "bad_header")
	})
}

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
