package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

// TestCAFile checks that --ca-file names the authority of a server's certificate, and that without
// it the request is refused and not in doubt.
func TestCAFile(t *testing.T) {
	ownContexts(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"blobs":[{"name":"a","size":1}]}`) // the client need not read all
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	testenv.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	testenv.Equal(t, must(t, "ls", "team", "--url", server.URL, "--ca-file", file).stdout, "a\n", "the blobs")
	r := sluice("rm", "team/a", "--url", server.URL)
	if r.code != cli.ExitFailed || !strings.Contains(r.stderr, "certificate") || strings.Contains(r.stderr, "unknown whether") {
		t.Errorf("without the flag: %+v", r)
	}
}
