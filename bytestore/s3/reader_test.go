package s3_test

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

// TestReader opens a bucket for reading: it sends no request that could change anything, and makes
// no folder.
func TestReader(t *testing.T) {
	c := freshPrefix(t, testenv.S3(t, testenv.S3Options{}))
	name := mustPut(t, mustOpen(t, c, s3.Options{}), []byte("text"))
	staging := t.TempDir()
	testenv.OK(t, os.Remove(staging))
	r := testenv.Must(s3.OpenReader(t.Context(), c, s3.Options{Staging: staging, Transport: func(below http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				return respondsWith(403, "AccessDenied")(r, below)
			}
			return below.RoundTrip(r)
		})
	}}))(t)
	var listed []bytestore.Name
	testenv.OK(t, r.List(t.Context(), "", func(o bytestore.Object) error {
		listed = append(listed, o.Name)
		return nil
	}))
	if !slices.Equal(listed, []bytestore.Name{name}) {
		t.Errorf("the objects %v, want %s", listed, name)
	}
	body := testenv.Must(r.Open(t.Context(), name, 1, 3))(t)
	read := testenv.Must(io.ReadAll(io.LimitReader(body, 3)))(t)
	testenv.OK(t, body.Close())
	testenv.Equal(t, string(read), "ext", "the bytes that are read")
	testenv.OK(t, r.Close())
	testenv.Is(t, testenv.Error(os.Stat(staging)), fs.ErrNotExist, "the folder for staging")
}
