//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// These arguments make the program a server that shows how fast net/http can be.
const (
	bareArgument  = "bare-handler"
	filesArgument = "file-server"
)

// reply is a response that is sent again and again.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// serveBare runs an HTTP server that sends fixed responses from memory: for the path /NAME/..., it
// sends the reply that the JSON on in has for NAME. It prints its URL to out.
func serveBare(in io.Reader, out io.Writer) error {
	var replies map[string]reply
	if err := json.NewDecoder(in).Decode(&replies); err != nil {
		return err
	}
	return serve(out, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.URL.Path[1:], "/")
		fixed, ok := replies[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		header := w.Header()
		for name, values := range fixed.Header {
			header[name] = values
		}
		w.WriteHeader(fixed.Status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(fixed.Body) // the client may have closed the connection
		}
	}))
}

// serve runs an HTTP server, and prints its URL to out.
func serve(out io.Writer, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "listening on http://%s\n", l.Addr()); err != nil {
		return err
	}
	return http.Serve(l, h)
}

// record sends a request, and returns the response for the bare handler. The Date is left out:
// every server sends its own.
func record(ctx context.Context, method, url string, header http.Header) (reply, error) {
	q, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return reply{}, err
	}
	for name, values := range header {
		q.Header[name] = values
	}
	p, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return reply{}, err
	}
	body, err := io.ReadAll(p.Body)
	if err := errors.Join(err, p.Body.Close()); err != nil {
		return reply{}, err
	}
	if p.StatusCode >= 400 {
		return reply{}, fmt.Errorf("%s %s: %s", method, url, p.Status)
	}
	p.Header.Del("Date")
	return reply{p.StatusCode, p.Header, body}, nil
}

// startBare starts a bare handler with these responses, and returns its URL.
func (e *environment) startBare(ctx context.Context, replies map[string]reply) (*process, string, error) {
	input, err := json.Marshal(replies)
	if err != nil {
		return nil, "", err
	}
	return e.startSelf(ctx, bytes.NewReader(input), bareArgument)
}

// startFileServer starts an http.FileServer over a folder, and returns its URL.
func (e *environment) startFileServer(ctx context.Context, dir string) (*process, string, error) {
	return e.startSelf(ctx, nil, filesArgument, dir)
}

// startSelf starts this program as a server, and returns its URL.
func (e *environment) startSelf(ctx context.Context, input io.Reader, arguments ...string) (*process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	command := exec.Command(self, arguments...)
	command.Stdin = input
	r, w, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	command.Stdout = w
	p, err := e.start(command)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, "", err
	}
	url, err := readReady(ctx, r)
	return p, url, err
}
