//go:build unix

package client_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/client"
	"sluice/test/testenv"
)

// TestPutFileOfAPipe: a named pipe without a writer, or without bytes, holds nobody after the
// context has ended.
func TestPutFileOfAPipe(t *testing.T) {
	path := filepath.Join(testenv.MemoryDir(t), "pipe")
	testenv.OK(t, unix.Mkfifo(path, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, c := startServer(t)
	_, err := c.PutFile(ctx, "team", "a", path, client.PutOptions{})
	testenv.Is(t, err, context.Canceled, "putting a pipe")
	writer := testenv.Must(os.OpenFile(path, os.O_WRONLY, 0))(t) // the opening that was left ends
	testenv.OK(t, writer.Close())

	ctx, cancel = context.WithCancel(t.Context())
	stored := make(chan error)
	go func() {
		_, err := c.PutFile(ctx, "team", "a", path, client.PutOptions{})
		stored <- err
	}()
	writer = testenv.Must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	cancel()
	if err := <-stored; err == nil {
		t.Error("a pipe without bytes is stored after its context's end")
	}
	testenv.OK(t, writer.Close())
}
