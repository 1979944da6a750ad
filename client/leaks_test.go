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
	"testing/iotest"
	"time"

	"sluice/access"
	"sluice/client"
	"sluice/test/testenv"
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
	run   func(c *calling) error     // its file exists
	stuck func(r *http.Request) bool // nil: none
	want  error                      // nil: no error
}

// TestTransfersLeaveNothingRunning checks that transfers that end early leave no goroutine:
// synctest.Test fails if one of its bubble cannot end.
// Invariant 148.
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
	putFile := func(partSize int64) func(*calling) error {
		return func(c *calling) error {
			o := client.PutOptions{PartSize: partSize, Progress: progress}
			return testenv.Error(c.PutFile(c.ctx, "team", "b", c.file, o))
		}
	}
	downloadFile := func(c *calling) error {
		o := client.DownloadOptions{RangeSize: 20_000, Progress: progress}
		return testenv.Error(c.DownloadFile(c.ctx, "team", "a", c.file, o))
	}
	for name, test := range map[string]interrupted{
		"upload of a file":          {putFile(20_000), part("/parts/5"), context.Canceled},
		"upload of a small file":    {putFile(0), part("/b"), context.Canceled},
		"completion of an upload":   {putFile(20_000), part("/complete"), client.ErrOutcomeUnknown},
		"download of a file":        {downloadFile, ranged("bytes=100000-"), context.Canceled},
		"first range of a download": {downloadFile, ranged("bytes=0-"), context.Canceled},
		"upload of a stream": {func(c *calling) error {
			return testenv.Error(c.Put(c.ctx, "team", "b", onlyReader{bytes.NewReader(content)}, client.PutOptions{PartSize: 20_000, Progress: progress}))
		}, part("/parts/5"), context.Canceled},
		"source of a stream": {func(c *calling) error {
			source := io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errSource))
			return testenv.Error(c.Put(c.ctx, "team", "b", source, client.PutOptions{PartSize: 20_000, Progress: progress}))
		}, nil, errSource},
		"target of a download": {func(c *calling) error {
			target := writerAtFunc(func(p []byte, offset int64) (int, error) {
				if offset == 60_000 {
					return 0, errTarget
				}
				return len(p), nil
			})
			return testenv.Error(c.Download(c.ctx, "team", "a", target, client.DownloadOptions{RangeSize: 20_000, Progress: progress}))
		}, nil, errTarget},
		"reader": {func(c *calling) error {
			r, err := c.Get(c.ctx, "team", "a", client.GetOptions{})
			if err != nil {
				return err
			}
			_, err = io.ReadFull(r, make([]byte, 10))
			return errors.Join(err, r.Close())
		}, nil, nil},
		"object": {func(c *calling) error {
			o, err := c.Open(c.ctx, "team", "a", client.GetOptions{})
			if err != nil {
				return err
			}
			_, err = io.ReadFull(o, make([]byte, 10))
			_, atErr := o.ReadAt(make([]byte, 10), 100_000)
			return errors.Join(err, atErr, o.Close())
		}, nil, nil},
		"listing": {func(c *calling) error {
			for _, err := range c.List(c.ctx, "team", client.ListOptions{PageSize: 1}) {
				return err
			}
			return nil
		}, nil, nil},
	} {
		runInBubble(t, name, func(t *testing.T) { test.check(t, content) })
	}
}

func (i *interrupted) check(t *testing.T, content []byte) {
	s := newService(t, serviceOptions{reads: access.ReadsPublic})
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
	c := testenv.Must(client.New("http://localhost", client.Options{Transport: transport}))(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{})))
	path := target(t)
	testenv.OK(t, os.WriteFile(path, content, 0o600))
	testenv.Is(t, i.run(&calling{c, ctx, t, path}), i.want, "the transfer")
	transport.CloseIdleConnections()
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	testenv.Check(t, server.Shutdown(soon)) // it waits for connections that are in use
	testenv.Is(t, <-served, http.ErrServerClosed, "Serve")
}

// writerAtFunc is a function that implements io.WriterAt.
type writerAtFunc func(p []byte, offset int64) (int, error)

func (f writerAtFunc) WriteAt(p []byte, offset int64) (int, error) { return f(p, offset) }
