package operation

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestDefaultAddressOfS3IsTaken: a local instance serves no S3 if the port is in use, and logs
// nothing about that, unless the address was given.
func TestDefaultAddressOfS3IsTaken(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:9000", "[::1]:9000"} {
		l, err := net.Listen("tcp", addr)
		switch {
		case err == nil:
			defer func() { testenv.Check(t, l.Close()) }()
		case !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL):
			t.Fatal(err)
		}
	}
	s := &e2e.Server{T: t, Data: filepath.Join(testenv.MemoryDir(t), "data")}
	s.Run([]string{e2e.Sluice, "serve", "--addr", "127.0.0.1:0", "--data", s.Data})
	testenv.Equal(t, s.S3, "", "the URL of S3")
	s.Must(200, "GET", "/readyz", nil)
	if log := s.Log.String(); strings.Contains(log, "9000") {
		t.Errorf("the log is %s", log)
	}
	s.Stop()
	taken := e2e.ListenHere(t)
	defer func() { testenv.Check(t, taken.Close()) }()
	addr := taken.Addr().String()
	if said := e2e.RefusedStart(t, e2e.Options{Data: filepath.Join(t.TempDir(), "data"), Flags: []string{"--s3-addr", addr}}); !strings.Contains(said, "cannot listen on "+addr+": the port is in use") || !strings.Contains(said, "--s3-addr") {
		t.Errorf("with an address that is taken: %s", said)
	}
}

// TestS3OverTLS writes and reads by S3's interface with the server's certificate.
func TestS3OverTLS(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: []string{"--s3-addr", "localhost:0"}})
	if !strings.HasPrefix(s.S3, "https://localhost:") {
		t.Fatalf("the URL of S3 is %s", s.S3)
	}
	for _, r := range []struct{ method, body string }{{"PUT", "content"}, {"GET", ""}} {
		request := testenv.Must(http.NewRequestWithContext(t.Context(), r.method, s.S3+"/bucket/a", strings.NewReader(r.body)))(t)
		answer := testenv.Must(s.Client.Do(request))(t)
		testenv.Equal(t, answer.StatusCode, 200, "the status of a %s", r.method)
		testenv.Check(t, answer.Body.Close())
	}
	s.Holds(e2e.BlobTarget("bucket", "a"), []byte("content"))
}
