package sluice_test

import (
	"cmp"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"

	sluice "sluice/examples/testcontainers-go"
)

// TestBlobs stores a blob by HTTP, and reads it by S3, in a container of the image IMAGE. The first
// read fails, so that the program under test must repeat it.
func TestBlobs(t *testing.T) {
	c, err := sluice.Run(t.Context(), cmp.Or(os.Getenv("IMAGE"), "sluice"), testcontainers.WithCmdArgs("--fault", "GET blob first 1: status 503"))
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.URL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s3, err := c.S3URL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		method, url string
		status      int
	}{
		{http.MethodPut, url + "/v1/blobs/team/hello.txt", http.StatusNoContent},
		{http.MethodGet, url + "/v1/blobs/team/hello.txt", http.StatusServiceUnavailable},
		{http.MethodGet, url + "/v1/blobs/team/hello.txt", http.StatusOK},
		{http.MethodGet, s3 + "/team/hello.txt", http.StatusOK},
	} {
		request, err := http.NewRequestWithContext(t.Context(), step.method, step.url, strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != step.status || step.status == http.StatusOK && string(body) != "hello" {
			t.Errorf("%s %s: status %d, %q, %v", step.method, step.url, response.StatusCode, body, err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
