package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"sluice/access"
	"sluice/database/whole"
	"sluice/exchange"
	"sluice/internal/logbuffer"
	"sluice/ledger"
	"sluice/test/testenv"
)

// TestLoggedRequests checks which requests are logged, and that no probe is without the level
// debug.
func TestLoggedRequests(t *testing.T) {
	for which, want := range map[exchange.LoggedRequests]string{
		"":                 "info=200 blobs=404 sessions=201",
		exchange.LogAll:    "info=200 blobs=404 sessions=201",
		exchange.LogErrors: "blobs=404",
		exchange.LogNone:   "",
	} {
		s := newService(t, func(c *Config) { c.LoggedRequests = which })
		for _, one := range [][3]string{
			{"GET", "/v1/info"}, {"GET", "/v1/blobs/0x1/none"}, {"POST", "/v1/sessions", "{}"},
			{"GET", "/livez"}, {"GET", "/readyz"}, {"OPTIONS", "/v1/info"},
		} {
			s.do(t, one[0], one[1], one[2])
			s.logged() // so that the lines have the requests' order
		}
		var got []string
		for line := range strings.Lines(s.logged()) {
			fields := strings.Fields(line)
			status := strings.TrimPrefix(fields[6], "status=")
			got = append(got, strings.Split(fields[5], "/")[2]+"="+status)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: logged are %q, want %q\n%s", which, got, want, s.log)
		}
	}
}

// TestMethodsAreLoggedInShort checks that a client cannot write a long line with a method of its
// own.
func TestMethodsAreLoggedInShort(t *testing.T) {
	s := newService(t, nil)
	for method, want := range map[string]string{"UPDATEREDIRECTREF": "UPDATEREDIRECTREF", strings.Repeat("M", 20_000): strings.Repeat("M", 32) + "..."} {
		s.do(t, method, "/v1/info", "")
		if line := s.logged(); !strings.Contains(line, " method="+want+" ") || len(line) > 1000 {
			t.Errorf("%s is logged in %d characters: %.300s", want, len(line), line)
		}
	}
}

// TestRequestLineHasUnits checks a line's fields and their values.
func TestRequestLineHasUnits(t *testing.T) {
	out := &lockedBuffer{}
	s := newService(t, func(c *Config) { c.RequestLog = slog.New(slog.NewJSONHandler(out, nil)) })
	s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 1234))
	s.logged()
	s.do(t, "GET", "/v1/blobs/0x1/n", "", "Range", "bytes=0-99")
	s.logged()
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var one map[string]any
		testenv.OK(t, json.Unmarshal([]byte(line), &one))
		lines = append(lines, one)
	}
	if len(lines) != 2 {
		t.Fatalf("the log:\n%s", out)
	}
	for i, want := range []map[string]any{{"bytes_in": 1234.0, "bytes_out": 0.0, "status": 204.0}, {"bytes_in": 0.0, "bytes_out": 100.0, "status": 206.0}} {
		for name, value := range want {
			testenv.Equal(t, lines[i][name], value, "line %d has %s", i, name)
		}
		if took, ok := lines[i]["took_seconds"].(float64); !ok || took <= 0 || took > 60 {
			t.Errorf("line %d has took_seconds %v", i, lines[i]["took_seconds"])
		}
	}
}

// TestPathsInTheLog checks that lines have paths and codes if a local instance's log is for a
// developer, and never otherwise.
// Invariant 50.
func TestPathsInTheLog(t *testing.T) {
	shown := func(c *Config) { c.LogPaths = true }
	s := newService(t, shown)
	s.do(t, "GET", "/v1/blobs/0x1/folder/a%20b%1B", "")
	if line := s.logged(); !strings.Contains(line, ` path="/v1/blobs/0x1/folder/a b\x1b" code=bad_name`) {
		t.Errorf("the line is %q", line)
	}
	s.do(t, "GET", "/v1/sessions/QNECKXVIABCDEFGHIJKLMN", "")
	if line := s.logged(); !strings.Contains(line, ` path=/v1/sessions/QNECKX... code=session_not_found`) || strings.Contains(line, "QNECKXV") {
		t.Errorf("the line is %q", line)
	}
	for name, other := range map[string]*service{"a local instance": newService(t, nil), "keys": newHosted(t, access.ReadsPublic, access.ScopeRead, shown).service} {
		other.do(t, "GET", "/v1/blobs/0x1/folder/none", "")
		if line := other.logged(); !strings.Contains(line, "status=404") || strings.Contains(line, "folder") || strings.Contains(line, " path=") {
			t.Errorf("%s: the line is %q", name, line)
		}
	}
}

// TestDrainIsNoErrorOfItsRequests checks how requests are logged that a shutdown ends: as such, and
// not as errors in the service or as clients that did not wait.
// Invariant 136.
func TestDrainIsNoErrorOfItsRequests(t *testing.T) {
	called := make(chan struct{})
	s := start(t, setup{around: func(m whole.Database) whole.Database { return hangingStore{m, called} }})
	ctx, abort := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() { s.direct(ctx, "192.0.2.1:1", "GET", "/v1/sessions/x", "") })
	<-called
	s.Drain()
	s.Cut()
	abort() // as the HTTP server's Close does
	served.Wait()
	s.refused(t, 503, "draining", "PUT", "/v1/blobs/0x1/n", "late")
	s.do(t, "GET", "/readyz", "")
	log := s.logged()
	if strings.Contains(log, "level=ERROR") || strings.Contains(log, "readyz") || strings.Count(log, exchange.ErrDraining.Error()) != 2 || strings.Count(log, "\n") != 2 {
		t.Errorf("want two lines that name the shutdown, and no error:\n%s", log)
	}
}

// hangingStore blocks each session lookup until its context ends.
type hangingStore struct {
	whole.Database
	called chan struct{}
}

// Session waits for the end of ctx.
func (s hangingStore) Session(ctx context.Context, _ string) (ledger.Session, error) {
	close(s.called)
	<-ctx.Done()
	return ledger.Session{}, ctx.Err()
}

// FuzzRequestLine checks that a line is valid in each format, and contains no name, whatever a
// client sends.
// Invariant 136.
func FuzzRequestLine(f *testing.F) {
	f.Add("GET", "/v1/blobs/0x1/canary-name", "canary", "id-1")
	f.Add("PUT", "/v1/blobs/\"\n/\x00\xff", "a=\"b\" c\n\u2028", "{\"x\":1}\n")
	f.Add("\x1b[31m", "/\u202e", "\xff\xfe", "\x7f")
	text, objects := &lockedBuffer{}, &lockedBuffer{}
	services := map[logbuffer.Format]*lockedBuffer{logbuffer.Text: text, logbuffer.JSON: objects}
	handlers := map[logbuffer.Format]*service{}
	buffers := map[logbuffer.Format]*logbuffer.Buffer{}
	for format, out := range services {
		buffers[format] = logbuffer.New(out, logbuffer.Soon)
		log, requests := buffers[format].Loggers(format, nil)
		handlers[format] = newService(f, func(c *Config) { c.Log, c.RequestLog = log, requests })
	}
	f.Fuzz(func(t *testing.T, method, path, host, id string) {
		for format, s := range handlers {
			out := services[format]
			s.FlushLog() // so that every line is written
			out.mu.Lock()
			out.b.Reset()
			out.mu.Unlock()
			r := &http.Request{Method: method, URL: &url.URL{Path: path}, Host: host, RemoteAddr: host, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody}
			r.Header.Set("X-Request-Id", id)
			s.ServeHTTP(&discarded{header: http.Header{}}, r.WithContext(t.Context()))
			testenv.OK(t, buffers[format].Flush())
			line := []byte(out.String())
			if len(line) == 0 {
				continue // a probe
			}
			if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' || bytes.ContainsFunc(line[:len(line)-1], func(c rune) bool { return c < ' ' }) {
				t.Errorf("%s: %q is not one line", format, line)
			}
			if format == logbuffer.JSON && !json.Valid(line) {
				t.Errorf("%q is not valid JSON", line)
			}
		}
	})
}
