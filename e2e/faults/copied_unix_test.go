//go:build unix

package faults

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestCheckIsKilled kills a server on a copied folder after it has checked the copy and before
// it has recorded that. Until then it lives and is not ready; the record is as before, and the next
// start checks again.
// Invariant 110.
func TestCheckIsKilled(t *testing.T) {
	t.Parallel()
	s, targets, data := copied(t)
	record := filepath.Join(s.Data, "meta.db-record")
	before := testenv.Must(os.ReadFile(record))(t)
	testenv.OK(t, syscall.Mkfifo(record+".new", 0o600)) // nobody reads it, so who opens it to write waits
	free := testenv.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	host := free.Addr().String()
	testenv.OK(t, free.Close())
	var log e2e.LogBuffer
	held := exec.Command(e2e.Sluice, "serve", "--addr", host, "--s3-addr", "off", "--data", s.Data)
	held.Stderr = &log
	testenv.OK(t, held.Start())
	e2e.Await(t, "the check does not begin", func() bool { return strings.Contains(log.String(), isChecked) })
	checking := &e2e.Server{T: t, Client: e2e.Client, Scheme: "http", Host: host, URL: "http://" + host}
	e2e.Await(t, "clients are not told of the check of objects", func() bool {
		r, err := checking.Try("GET", "/readyz", nil)
		return err == nil && r.Status == 503 && strings.Contains(string(r.Body), "the objects are checked, 0 of 3")
	})
	checking.Must(200, "GET", "/livez", nil)
	testenv.OK(t, held.Process.Kill())
	_ = held.Wait() // it was killed
	testenv.Equal(t, string(testenv.Must(os.ReadFile(record))(t)), string(before), "the record after the kill")
	testenv.OK(t, os.Remove(record+".new"))
	s.Restart()
	s.Must(200, "GET", "/readyz", nil)
	s.Holds(targets[0], data)
	logs(t, s, true, isChecked)
	logs(t, s, true, isWhole)
}
