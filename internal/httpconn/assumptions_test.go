package httpconn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// assumptions is all that this package assumes of net/http and that net/http does not promise. Each
// has a check, which lets net/http serve requests and looks at the calls that it makes.
var assumptions = []assumption{
	{
		text: "a response begins with a Write that has its whole status line",
		hold: statusLineIsWhole,
	},
	{
		text: `"100 Continue" is a Write of its own, made before the handler has read the body`,
		hold: continueIsApart,
	},
	{
		text: "net/http adds only fields for the framing, the date and the type of a response",
		hold: fieldsAreKnown,
	},
	{
		text: "after the whole body, Flush leaves nothing to write",
		hold: flushIsComplete,
	},
	{
		text: "only the background read, which begins at the end of the request, asks for one byte",
		hold: oneByteIsBackground,
	},
	{
		text: "a deadline long before the start of the process ends the background read, and its timeout is no error",
		hold: backgroundReadIsEnded,
	},
	{
		text: "bytes that a handler inserts and holds reach the client in one response, and the next request is served",
		hold: responsesAreWhole,
	},
}

// assumption is one way in which net/http must behave.
type assumption struct {
	text string
	hold func(p *probe) error // returns an error with its other behaviour, or nil
}

// TestAssumptions checks each assumption of net/http.
func TestAssumptions(t *testing.T) {
	for _, a := range assumptions {
		t.Run(a.text, func(t *testing.T) {
			testenv.Check(t, a.hold(&probe{ctx: t.Context()}))
		})
	}
}

// statusLineIsWhole serves a response of each kind that our handlers send.
func statusLineIsWhole(p *probe) error {
	_, all, err := p.watch(func(w http.ResponseWriter, r *http.Request) {
		p.mark(done)
		switch r.URL.Path {
		case "/unmodified":
			w.WriteHeader(http.StatusNotModified)
		case "/written":
			w.Header().Set("Content-Length", "7")
			_, _ = io.WriteString(w, "written") // the calls show an error
		case "/copied":
			w.Header().Set("Content-Length", "9999")
			_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 9999)))
		case "/fields":
			w.Header().Set("X-Long", strings.Repeat("x", 9999))
		}
	}, get("/unmodified"), get("/written"), get("/copied"), get("/fields"), "HEAD"+get("/written")[len("GET"):])
	for rest := all.from(done); len(rest) > 0; rest = rest[1:].from(done) {
		first := rest[1:].first(writes, sends)
		if first.kind != writes || !bytes.HasPrefix(first.bytes, []byte("HTTP/1.1 ")) || !bytes.Contains(first.bytes, []byte("\r\n")) {
			return fmt.Errorf("one begins with %v", first)
		}
	}
	return err
}

func continueIsApart(p *probe) error {
	_, all, err := p.watch(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		p.mark(done)
	}, "PUT / HTTP/1.1\r\nHost: probe\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody")
	if early := all.until(done).output(); len(early) > 0 && string(early) != "HTTP/1.1 100 Continue\r\n\r\n" {
		return fmt.Errorf("before the response comes %q", early)
	}
	if first := all.from(done).first(writes); !bytes.HasPrefix(first.bytes, []byte("HTTP/1.1 200 ")) {
		return errors.Join(err, fmt.Errorf("the response begins with %v", first))
	}
	return err
}

func fieldsAreKnown(p *probe) error {
	responses, _, err := p.watch(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unmodified" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "body")
	}, get("/"), get("/unmodified"), "GET / HTTP/1.0\r\n\r\n")
	known := []string{"Date", "Content-Type", "Content-Length", "Connection", "Transfer-Encoding"}
	for _, response := range responses {
		for name := range response.Header {
			if !slices.Contains(known, name) {
				return fmt.Errorf("it adds %s", name)
			}
		}
	}
	return err
}

func flushIsComplete(p *probe) error {
	var flushed error
	_, all, err := p.watch(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		_, _ = io.WriteString(w, "body")
		flushed = http.NewResponseController(w).Flush()
		p.mark(done)
	}, get("/"))
	if before := all.until(done).output(); !bytes.HasSuffix(before, []byte("\r\n\r\nbody")) {
		return errors.Join(err, fmt.Errorf("after it only %q is written", before))
	}
	if after := all.from(done).output(); len(after) > 0 {
		return fmt.Errorf("%q is written later", after)
	}
	return errors.Join(err, flushed)
}

func oneByteIsBackground(p *probe) error {
	_, all, err := p.watch(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 3))
		p.mark(endsBody)
		_, _ = io.ReadAll(r.Body)
		p.awaitReads(r, 1)
	}, "POST / HTTP/1.1\r\nHost: probe\r\nContent-Length: 4\r\n\r\nbody")
	if all.until(endsBody).asksForOneByte() > 0 || all.asksForOneByte() > 1 {
		return errors.New("other reads do so as well")
	}
	return err
}

func backgroundReadIsEnded(p *probe) error {
	requests := 0
	var lost error
	_, all, err := p.watch(func(_ http.ResponseWriter, r *http.Request) {
		requests++
		lost = r.Context().Err()
		p.awaitReads(r, requests)
		p.mark(done)
	}, get("/"), get("/"))
	for rest := all.from(done); len(rest) > 0; rest = rest[1:].from(done) {
		if set := rest.first(setsDeadline); set.at.IsZero() || !set.at.Before(epoch) {
			return fmt.Errorf("after the handler, the deadline of reads becomes %v", set)
		}
	}
	if err := errors.Join(err, lost); err != nil {
		return fmt.Errorf("request %d: %w", requests, err)
	}
	return nil
}

func responsesAreWhole(p *probe) error {
	_, received, err := p.converse(func(w http.ResponseWriter, r *http.Request) {
		conn := FromContext(r.Context())
		if conn == nil {
			return
		}
		w.Header().Set("Content-Length", "4")
		conn.InsertFields([]byte("X-Probe: inserted\r\n"))
		conn.Hold()
		_, _ = io.WriteString(w, "body")
		_ = errors.Join(http.NewResponseController(w).Flush(), conn.Release())
	}, func(t Transport) net.Conn { return newConn(t) }, []string{get("/"), get("/")})
	if err != nil {
		return err
	}
	begin, end := []byte("HTTP/1.1 200 OK\r\nX-Probe: inserted\r\n"), []byte("\r\n\r\nbody")
	if bytes.Count(received, begin) != 2 || bytes.Count(received, end) != 2 || !bytes.HasPrefix(received, begin) || !bytes.HasSuffix(received, end) {
		return fmt.Errorf("the client receives %q", received)
	}
	return nil
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: probe\r\n\r\n" }
