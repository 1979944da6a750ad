package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"sluice/exchange"
	"sluice/wire"
)

func TestPutMustDeclareItsLength(t *testing.T) {
	s := newService(t, nil)
	for _, version := range []string{"1.0", "1.1"} {
		res, body := s.raw(t, "PUT /v1/blobs/0x1/n HTTP/"+version+"\r\nHost: localhost\r\n\r\n")
		wantProblem(t, res, body, http.StatusLengthRequired, wire.CodeLengthRequired)
	}
	if res, _ := s.raw(t, "PUT /v1/blobs/0x1/n HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"); res.StatusCode != http.StatusNoContent {
		t.Errorf("a length of 0: %d", res.StatusCode)
	}
}

func TestDigestInATrailerIsRefused(t *testing.T) {
	s := newService(t, nil)
	for _, name := range []string{"Content-Digest", "repr-digest"} {
		res, body := s.raw(t, "PUT /v1/blobs/0x1/n HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: "+name+"\r\n\r\n1\r\nx\r\n0\r\n"+
			name+": sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n\r\n")
		wantProblem(t, res, body, http.StatusBadRequest, wire.CodeBadDigest)
	}
	s.want(t, 404, "GET", "/v1/blobs/0x1/n", "")
}

func TestBodiesWithoutMeaningAreDiscarded(t *testing.T) {
	s := newService(t, nil)
	for _, method := range []string{"GET", "DELETE", "OPTIONS"} {
		if res, body := s.do(t, method, "/v1/blobs/0x1/n", "a body"); res.StatusCode >= http.StatusInternalServerError {
			t.Errorf("%s: %d %s", method, res.StatusCode, body)
		}
	}
	s.refused(t, 413, wire.CodeTooLarge, "GET", "/v1/info", string(make([]byte, maxJSONBody+1)))
}

// TestNewRequestID checks that new ids are different, of one form, and accepted when they are sent
// back.
func TestNewRequestID(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		id := exchange.RequestID("")
		if len(id) != 26 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || seen[id] || exchange.RequestID(id) != id {
			t.Fatalf("the new id is %q", id)
		}
		seen[id] = true
	}
}
