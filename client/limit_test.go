package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/test/testenv"
)

// counting returns a limit that counts bytes, and permits all of them.
func counting(t *testing.T, bytes *atomic.Int64) func(context.Context, int64) error {
	return func(_ context.Context, n int64) error {
		if n < 1 || n > 8<<10 {
			t.Errorf("%d bytes at once", n)
		}
		bytes.Add(n)
		return nil
	}
}

// TestLimitsCountBytes checks that each byte of content is counted in its direction, also where the
// system could send a file without copies, and that a listing is not.
func TestLimitsCountBytes(t *testing.T) {
	s, _ := startServer(t)
	var sent, received atomic.Int64
	c := testenv.Must(client.New(s.URL, client.Options{LimitSend: counting(t, &sent), LimitReceive: counting(t, &received)}))(t)
	t.Cleanup(c.CloseIdleConnections)
	dir := testenv.MemoryDir(t)
	const size = 1<<20 + 1
	counted := func(label string, wantSent, wantReceived int64) {
		t.Helper()
		testenv.Equal(t, sent.Swap(0), wantSent, "the bytes sent by %s", label)
		testenv.Equal(t, received.Swap(0), wantReceived, "the bytes received by %s", label)
	}
	path := filepath.Join(dir, "file")
	testenv.OK(t, os.WriteFile(path, bytes.Repeat([]byte{7}, size), 0o600))
	testenv.OK(t, testenv.Error(c.PutFile(t.Context(), "team", "a", path, client.PutOptions{})))
	counted("PutFile", size, 0)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "b", bytes.NewReader(make([]byte, 20_000)), client.PutOptions{})))
	counted("Put", 20_000, 0)
	for _, err := range c.List(t.Context(), "team", client.ListOptions{}) {
		testenv.OK(t, err)
	}
	counted("List", 0, 0)
	testenv.OK(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", filepath.Join(dir, "got"), client.DownloadOptions{})))
	counted("DownloadFile", 0, size)
}

// TestWaitForLimitIsNoStall checks that transfers whose limit waits longer than the stall timeout
// succeed, and take as long as the limit requires.
func TestWaitForLimitIsNoStall(t *testing.T) {
	content := bytes.Repeat([]byte{1}, 20_000) // three reads
	etag := checksum.ETag(int64(len(content)), checksum.Update(0, content))
	synctest.Test(t, func(t *testing.T) {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{"Etag": {etag}}, Body: http.NoBody, Request: r}
			if r.Method == http.MethodGet {
				resp.StatusCode, resp.ContentLength, resp.Body = http.StatusOK, int64(len(content)), io.NopCloser(bytes.NewReader(content))
				return resp, nil
			}
			sent, err := io.ReadAll(bufio.NewReaderSize(r.Body, len(content)))
			if !bytes.Equal(sent, content) {
				t.Errorf("%d bytes were sent, %v", len(sent), err)
			}
			return resp, errors.Join(err, r.Body.Close())
		})
		wait := func(context.Context, int64) error {
			time.Sleep(2 * client.DefaultStallTimeout)
			return nil
		}
		c := testenv.Must(client.New("http://host", client.Options{Transport: transport, LimitSend: wait, LimitReceive: wait}))(t)
		began := time.Now()
		testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{})))
		testenv.Equal(t, time.Since(began), 6*client.DefaultStallTimeout, "the time that Put took")
		r := testenv.Must(c.Get(t.Context(), "team", "a", client.GetOptions{}))(t)
		got := testenv.Must(io.ReadAll(bufio.NewReaderSize(r, len(content))))(t)
		testenv.OK(t, r.Close())
		testenv.Equal(t, bytes.Equal(got, content), true, "the content is the one that was sent")
		testenv.Equal(t, time.Since(began), 12*client.DefaultStallTimeout, "the time that both took")
	})
}

// TestLimitsErrorEndsTheRequest checks that a request is not repeated if its limit fails.
func TestLimitsErrorEndsTheRequest(t *testing.T) {
	var requests atomic.Int64
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		requests.Add(1)
		_, err := io.ReadAll(r.Body)
		return nil, errors.Join(err, r.Body.Close())
	})
	errNo := errors.New("no bytes")
	c := testenv.Must(client.New("http://host", client.Options{Transport: transport, LimitSend: func(context.Context, int64) error { return errNo }}))(t)
	_, err := c.Put(t.Context(), "team", "a", bytes.NewReader([]byte("x")), client.PutOptions{})
	checkError(t, err, errNo, client.ErrOutcomeUnknown)
	testenv.Equal(t, requests.Load(), 1, "the requests")
}
