package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/client"
	"sluice/httpapi"
	"sluice/internal/testenv"
)

// pipeListener accepts connections in memory, which a bubble of synctest can wait for.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

// dial connects to the listener.
func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	local, remote := net.Pipe()
	select {
	case l.connections <- remote:
		return local, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// interrupted is a transfer that ends early. Requests that its stuck reports end the context, and
// have no response.
type interrupted struct {
	run   func(ctx context.Context, t *testing.T, c *client.Client, path string) error
	stuck func(r *http.Request) bool // nil: none
	want  error                      // nil: no error
}

// TestTransfersLeaveNothingRunning checks that transfers that end early leave no goroutine:
// synctest.Test fails if one of its bubble cannot end.
func TestTransfersLeaveNothingRunning(t *testing.T) {
	errSource := errors.New("the source fails")
	errTarget := errors.New("the target fails")
	progress := func(int64, int64) {}
	content := randomBytes(200_000)
	ranged := func(prefix string) func(r *http.Request) bool {
		return func(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Range"), prefix) }
	}
	part := func(suffix string) func(r *http.Request) bool {
		return func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, suffix) }
	}
	for name, test := range map[string]interrupted{
		"upload of a file": {func(ctx context.Context, _ *testing.T, c *client.Client, path string) error {
			_, err := c.PutFile(ctx, "team", "b", path, client.PutOptions{PartSize: 20_000, Progress: progress})
			return err
		}, part("/parts/5"), context.Canceled},
		"upload of a small file": {func(ctx context.Context, _ *testing.T, c *client.Client, path string) error {
			_, err := c.PutFile(ctx, "team", "b", path, client.PutOptions{Progress: progress})
			return err
		}, part("/b"), context.Canceled},
		"upload of a stream": {func(ctx context.Context, _ *testing.T, c *client.Client, _ string) error {
			_, err := c.Put(ctx, "team", "b", onlyReader{bytes.NewReader(content)}, client.PutOptions{PartSize: 20_000, Progress: progress})
			return err
		}, part("/parts/5"), context.Canceled},
		"completion of an upload": {func(ctx context.Context, _ *testing.T, c *client.Client, path string) error {
			_, err := c.PutFile(ctx, "team", "b", path, client.PutOptions{PartSize: 20_000, Progress: progress})
			return err
		}, part("/complete"), client.ErrOutcomeUnknown},
		"source of a stream": {func(ctx context.Context, _ *testing.T, c *client.Client, _ string) error {
			source := io.MultiReader(bytes.NewReader(content), readerFunc(func([]byte) (int, error) { return 0, errSource }))
			_, err := c.Put(ctx, "team", "b", source, client.PutOptions{PartSize: 20_000, Progress: progress})
			return err
		}, nil, errSource},
		"download of a file": {func(ctx context.Context, _ *testing.T, c *client.Client, path string) error {
			_, err := c.DownloadFile(ctx, "team", "a", path, client.DownloadOptions{RangeSize: 20_000, Progress: progress})
			return err
		}, ranged("bytes=100000-"), context.Canceled},
		"first range of a download": {func(ctx context.Context, _ *testing.T, c *client.Client, path string) error {
			_, err := c.DownloadFile(ctx, "team", "a", path, client.DownloadOptions{RangeSize: 20_000, Progress: progress})
			return err
		}, ranged("bytes=0-"), context.Canceled},
		"target of a download": {func(ctx context.Context, _ *testing.T, c *client.Client, _ string) error {
			target := writerAtFunc(func(p []byte, offset int64) (int, error) {
				if offset == 60_000 {
					return 0, errTarget
				}
				return len(p), nil
			})
			_, err := c.Download(ctx, "team", "a", target, client.DownloadOptions{RangeSize: 20_000, Progress: progress})
			return err
		}, nil, errTarget},
		"reader": {func(ctx context.Context, _ *testing.T, c *client.Client, _ string) error {
			r, err := c.Get(ctx, "team", "a", client.GetOptions{})
			if err != nil {
				return err
			}
			_, err = io.ReadFull(r, make([]byte, 10))
			return errors.Join(err, r.Close())
		}, nil, nil},
		"object": {func(ctx context.Context, _ *testing.T, c *client.Client, _ string) error {
			o, err := c.Open(ctx, "team", "a", client.GetOptions{})
			if err != nil {
				return err
			}
			_, err = io.ReadFull(o, make([]byte, 10))
			_, atErr := o.ReadAt(make([]byte, 10), 100_000)
			return errors.Join(err, atErr, o.Close())
		}, nil, nil},
		"listing": {func(ctx context.Context, _ *testing.T, c *client.Client, _ string) error {
			for _, err := range c.List(ctx, "team", client.ListOptions{PageSize: 1}) {
				return err
			}
			return nil
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.check(t, content) })
		})
	}
}

func (i *interrupted) check(t *testing.T, content []byte) {
	s, err := openService(serviceOptions{reads: httpapi.ReadsPublic})
	testenv.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.stuck != nil && i.stuck(r) {
			cancel()
			_, _ = io.Copy(io.Discard, r.Body) // the server notices a connection's end when it reads
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		s.handler.ServeHTTP(w, r)
	})}
	listener := newPipeListener()
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: listener.dial}
	c, err := client.New("http://localhost", client.Options{Transport: transport})
	testenv.OK(t, err)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{})))
	path := target(t)
	testenv.OK(t, os.WriteFile(path, content, 0o600))
	if err := i.run(ctx, t, c, path); !errors.Is(err, i.want) {
		t.Errorf("error %v, want %v", err, i.want)
	}
	transport.CloseIdleConnections()
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := errors.Join(server.Shutdown(soon), s.close()); err != nil { // it waits for connections that are in use
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// readerFunc is a function that implements io.Reader.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// writerAtFunc is a function that implements io.WriterAt.
type writerAtFunc func(p []byte, offset int64) (int, error)

func (f writerAtFunc) WriteAt(p []byte, offset int64) (int, error) { return f(p, offset) }
