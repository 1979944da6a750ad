package s3_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

// TestOpenWithoutTheRightToDelete checks that Open reports the missing permission to delete.
func TestOpenWithoutTheRightToDelete(t *testing.T) {
	deletes := 0
	_, err := s3.Open(t.Context(), freshPrefix(t, testenv.S3(t, testenv.S3Options{})), s3.Options{Staging: t.TempDir(), Transport: func(below http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete {
				deletes++
				return respondsWith(403, "AccessDenied")(r, below)
			}
			return below.RoundTrip(r)
		})
	}})
	if err == nil || !strings.Contains(err.Error(), "s3:DeleteObject") || !strings.Contains(err.Error(), "AccessDenied") || deletes == 0 {
		t.Errorf("%d deletes, error %v", deletes, err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOpenOfASilentServer checks that Open does not wait for a server that accepts connections and
// does not respond.
func TestOpenOfASilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections
	testenv.OK(t, err)
	defer func() { _ = l.Close() }() // it was not used
	c := freshPrefix(t, testenv.S3(t, testenv.S3Options{}))
	c.Endpoint = "http://" + l.Addr().String()
	if _, err := s3.Open(t.Context(), c, s3.Options{Staging: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "did not respond within 15s") {
		t.Errorf("error %v", err)
	}
}
