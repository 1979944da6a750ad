package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/checksum"
	goclient "sluice/client"
	"sluice/e2e"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// clientTransfer is a transfer by the Go client in a process of its own, which a test can kill. The
// process is the test binary, and finds the transfer in an environment variable.
type clientTransfer struct {
	URL   string
	Path  string // the file's path
	Put   bool   // otherwise a download
	Pipe  bool   // uploads from a pipe
	Size  int64  // of each part or range
	Peers int    // concurrent requests
}

const transferVariable = "SLUICE_E2E_TRANSFER"

// transferDone is the process's output.
type transferDone struct {
	Error string
	Peak  string // line of /proc/self/status
}

// runTransfer is the process's main function. It reports whether there is a transfer.
func runTransfer() bool {
	text := os.Getenv(transferVariable)
	if text == "" {
		return false
	}
	var tr clientTransfer
	err := json.Unmarshal([]byte(text), &tr)
	var c *goclient.Client
	if err == nil {
		c, err = goclient.New(tr.URL, goclient.Options{})
	}
	background := context.Background()
	if err == nil && tr.Pipe {
		err = putPipe(background, c, tr.Path)
	} else if err == nil && tr.Put {
		_, err = c.PutFile(background, "0x1", "big", tr.Path, goclient.PutOptions{PartSize: tr.Size, Concurrency: tr.Peers})
	} else if err == nil {
		_, err = c.DownloadFile(background, "0x1", "big", tr.Path, goclient.DownloadOptions{RangeSize: tr.Size, Concurrency: tr.Peers})
	}
	var done transferDone
	if err != nil {
		done.Error = err.Error()
	}
	status, err := os.ReadFile("/proc/self/status") // absent on other systems, where it is not used
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "VmHWM:") {
				done.Peak = line
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(done); err != nil {
		panic(err)
	}
	return true
}

// putPipe uploads a file through a pipe.
func putPipe(ctx context.Context, c *goclient.Client, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	copied := make(chan error)
	go func() {
		_, err := io.Copy(writer, file)
		copied <- errors.Join(err, writer.Close(), file.Close())
	}()
	_, err = c.Put(ctx, "0x1", "big", reader, goclient.PutOptions{})
	err = errors.Join(err, reader.Close()) // ends the copy, if the upload failed
	return errors.Join(err, <-copied)
}

// startTransfer starts the process.
func startTransfer(t testing.TB, tr clientTransfer) *exec.Cmd {
	t.Helper()
	return startSelf(t, transferVariable, tr)
}

// startSelf starts this test binary as a child process. Its environment variable has value as JSON,
// and its output is in Stdout and Stderr, of type *bytes.Buffer.
func startSelf(t testing.TB, variable string, value any) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(value)
	testenv.OK(t, err)
	self, err := os.Executable()
	testenv.OK(t, err)
	command := exec.CommandContext(t.Context(), self)
	command.Env = append(os.Environ(), variable+"="+string(text))
	command.Stdout, command.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
	testenv.OK(t, command.Start())
	return command
}

// finishTransfer waits for the process, and fails the test if the transfer failed. It returns the
// process's peak memory in bytes, or 0.
func finishTransfer(t testing.TB, command *exec.Cmd) int64 {
	t.Helper()
	if err := command.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, command.Stderr)
	}
	var done transferDone
	if err := json.Unmarshal(command.Stdout.(*bytes.Buffer).Bytes(), &done); err != nil {
		t.Fatalf("%v: %s%s", err, command.Stdout, command.Stderr)
	}
	if done.Error != "" {
		t.Fatal(done.Error)
	}
	if done.Peak == "" {
		return 0
	}
	kib, err := strconv.ParseInt(strings.Fields(done.Peak)[1], 10, 64)
	testenv.OK(t, err)
	return kib << 10
}

// TestGoClientKilled kills the client within an upload and within a download. The next client must
// send no acknowledged part and request no range that the first one had, and the file must come
// back identical.
// Invariants 145, 146.
func TestGoClientKilled(t *testing.T) {
	t.Parallel()
	const part, parts = 256 << 10, 40
	s := e2e.Start(t, e2e.Options{})
	p := e2e.NewCountingProxy(t, s)
	dir := t.TempDir()
	data := e2e.Content(1, part*parts-100)
	put := clientTransfer{URL: p.URL, Path: filepath.Join(dir, "source"), Put: true, Size: part, Peers: 3}
	testenv.OK(t, os.WriteFile(put.Path, data, 0o600))
	kill := func(command *exec.Cmd, reached <-chan struct{}) {
		t.Helper()
		<-reached
		testenv.OK(t, command.Process.Kill())
		if err := command.Wait(); err == nil {
			t.Fatal("the client ended before it was killed")
		}
		p.Release() // everything that the client sent before has arrived
	}
	reached := p.After(parts / 3)
	kill(startTransfer(t, put), reached)
	before := len(p.Acknowledged())
	finishTransfer(t, startTransfer(t, put))
	// The server has not acknowledged a part that it had stored when the test killed the client,
	// and the next client does not send it again.
	if n := len(p.Acknowledged()); n > parts || n < parts-put.Peers {
		t.Errorf("%d parts were acknowledged, want %d to %d", n, parts-put.Peers, parts)
	}
	for path, n := range p.Acknowledged() {
		if n != 1 {
			t.Errorf("%s was acknowledged %d times", path, n)
		}
	}
	t.Logf("%d of %d parts were sent before the client was killed", before, parts)
	if got := s.Must(200, "HEAD", e2e.BlobTarget("0x1", "big"), nil).Header.Get("ETag"); got != checksum.ETag(int64(len(data)), checksum.Update(0, data)) {
		t.Errorf("ETag %s", got)
	}

	get := clientTransfer{URL: p.URL, Path: filepath.Join(dir, "target"), Size: part, Peers: 3}
	reached = p.After(parts / 3)
	kill(startTransfer(t, get), reached)
	if _, err := os.Stat(get.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file exists before it is complete: %v", err)
	}
	had := len(p.Requested())
	finishTransfer(t, startTransfer(t, get))
	twice := 0
	for _, n := range p.Requested() {
		twice += n - 1
	}
	// Ranges that the client was receiving when the test killed it are not on disk.
	if len(p.Requested()) != parts || twice > get.Peers {
		t.Errorf("%d ranges were requested, %d of them twice", len(p.Requested()), twice)
	}
	t.Logf("%d of %d ranges were sent before the client was killed", had, parts)
	if got, err := os.ReadFile(get.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file has %d bytes, %v", len(got), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("files: %v, %v", entries, err)
	}
}

// TestGoClientCutNetwork transfers a file through a network that cuts each connection after a
// while, and all at once.
// Invariant 147.
func TestGoClientCutNetwork(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	network := fault.Before(t, s.Host)
	c, err := goclient.New("http://"+network.Address(), goclient.Options{MaxAttempts: 10})
	testenv.OK(t, err)
	defer c.CloseIdleConnections()
	data := e2e.Content(3, 3<<20)
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	testenv.OK(t, os.WriteFile(source, data, 0o600))
	network.Disturb(fault.EndAfter(700_000, false, false))
	if _, err := c.PutFile(t.Context(), "0x1", "cut", source, goclient.PutOptions{PartSize: 500_000}); err != nil {
		t.Fatal(err)
	}
	network.Disturb(fault.EndAfter(700_000, true, false))
	if _, err := c.DownloadFile(t.Context(), "0x1", "cut", target, goclient.DownloadOptions{RangeSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	var once sync.Once
	down := func(done, _ int64) {
		if done > 1<<20 {
			once.Do(network.Cut)
		}
	}
	if _, err := c.DownloadFile(t.Context(), "0x1", "cut", target, goclient.DownloadOptions{RangeSize: 100_000, Progress: down}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
