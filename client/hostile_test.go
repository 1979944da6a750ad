package client_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

// hostile is a server that answers each request with the next of its replies, byte for byte, and
// closes the connection. After the last one it repeats that.
type hostile struct {
	replies  []string
	drip     time.Duration // pause before each of a body's bytes
	requests atomic.Int64
	serving  sync.WaitGroup
}

// maxHostileRequests is how many requests a call may send to a server that answers nothing useful.
const maxHostileRequests = 40

// client returns a client for the server, over connections in memory. After maxHostileRequests the
// call's context ends.
func (h *hostile) client(t testing.TB, cancel func(), o client.Options) *client.Client {
	listener := newPipeListener()
	transport := &http.Transport{DialContext: listener.dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 256 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.serve(conn, cancel)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close() // it returns nil
		<-done
		h.serving.Wait()
	})
	o.Transport = transport
	c := testenv.Must(client.New("http://localhost:9090", o))(t)
	return c
}

func (h *hostile) serve(conn net.Conn, cancel func()) {
	h.serving.Go(func() {
		defer func() { _ = conn.Close() }() // the client has seen all or has gone
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		n := h.requests.Add(1)
		if n > maxHostileRequests {
			cancel()
			return
		}
		go func() { _, _ = io.Copy(io.Discard, r.Body) }() // ends with the connection
		reply := h.replies[min(int(n), len(h.replies))-1]
		head, body, _ := strings.Cut(reply, "\r\n\r\n")
		if h.drip == 0 {
			_, _ = io.WriteString(conn, reply) // the client need not read all
			return
		}
		_, _ = io.WriteString(conn, head+"\r\n\r\n")
		for i := range len(body) {
			time.Sleep(h.drip) // in the bubble's time
			if _, err := io.WriteString(conn, body[i:i+1]); err != nil {
				return
			}
		}
	})
}

// calling has a call's context and file.
type calling struct {
	*client.Client
	ctx  context.Context
	t    testing.TB
	file string // may not exist
}

// hostileCalls are the calls that read a response.
var hostileCalls = []struct {
	name string
	call func(c *calling) error
}{
	{"head", func(c *calling) error { return testenv.Error(c.Head(c.ctx, "team", "a")) }},
	{"get", func(c *calling) error {
		r, err := c.Get(c.ctx, "team", "a", client.GetOptions{})
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		return errors.Join(err, r.Close())
	}},
	{"download a file", func(c *calling) error {
		return testenv.Error(c.DownloadFile(c.ctx, "team", "a", c.file, client.DownloadOptions{}))
	}},
	{"open", func(c *calling) error {
		o, err := c.Open(c.ctx, "team", "a", client.GetOptions{})
		if err != nil {
			return err
		}
		_, err = o.ReadAt(make([]byte, 10), 5)
		return errors.Join(err, o.Close())
	}},
	{"list", func(c *calling) error {
		return last(c.List(c.ctx, "team", client.ListOptions{Prefix: "p/", Delimiter: "/"}))
	}},
	{"list versions", func(c *calling) error {
		return last(c.Versions(c.ctx, "team", client.ListOptions{Prefix: "p/", Delimiter: "/"}))
	}},
	{"list uploads", func(c *calling) error { return last(c.Uploads(c.ctx, "team")) }},
	{"list accounts", func(c *calling) error { return last(c.Accounts(c.ctx)) }},
	{"administer", func(c *calling) error {
		a := c.Admin()
		return errors.Join(last(a.Keys(c.ctx)), last(a.Groups(c.ctx)), last(a.Damaged(c.ctx)), last(a.Uploads(c.ctx)), last(a.Actions(c.ctx)), last(a.Versions(c.ctx)), testenv.Error(a.Tasks(c.ctx)), testenv.Error(a.Nodes(c.ctx)))
	}},
	{"create a key", func(c *calling) error {
		return testenv.Error(c.Admin().CreateKey(c.ctx, wire.CreateKey{}, client.CreateKeyOptions{}))
	}},
	{"put", func(c *calling) error {
		return testenv.Error(c.Put(c.ctx, "team", "a", strings.NewReader("hello"), client.PutOptions{}))
	}},
	{"put in parts", func(c *calling) error {
		o := client.PutOptions{PartSize: 2, Concurrency: 1}
		testenv.OK(c.t, os.WriteFile(c.file, []byte("hello"), 0o600))
		_, err := c.PutFile(c.ctx, "team", "a", c.file, o)
		if err == nil {
			return nil
		}
		return errors.Join(err, testenv.Error(c.PutFile(c.ctx, "team", "a", c.file, o))) // resumes
	}},
	{"delete", func(c *calling) error { return c.Delete(c.ctx, "team", "a", client.DeleteOptions{}) }},
	{"copy", func(c *calling) error {
		return testenv.Error(c.Copy(c.ctx, named("a"), named("b"), client.CopyOptions{}))
	}},
	{"move", func(c *calling) error {
		return testenv.Error(c.Move(c.ctx, named("a"), named("b"), client.MoveOptions{}))
	}},
	{"create a session", func(c *calling) error {
		return testenv.Error(c.CreateSession(c.ctx, client.CreateSessionOptions{}))
	}},
	{"use", func(c *calling) error { return testenv.Error(c.Use(c.ctx, "S", client.UseOptions{})) }},
	{"channel", func(c *calling) error { return testenv.Error(c.Channel(c.ctx, "C")) }},
	{"info", func(c *calling) error { return testenv.Error(c.Info(c.ctx)) }},
	{"pay", func(c *calling) error {
		p, err := c.NewPayer(c.ctx, payerOptions(c.t, filepath.Dir(c.file)))
		if err != nil {
			return err
		}
		return testenv.Error(p.Ensure(c.ctx, 1))
	}},
	{"paid read", func(c *calling) error {
		payment := &client.Payment{SessionID: "S", MaxChunksets: 3}
		r, err := c.GetRange(c.ctx, "team", "a", 0, 5, client.GetOptions{Payment: payment})
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		if n := payment.Charged(); n < 0 || n > payment.MaxChunksets {
			err = fmt.Errorf("%d chunksets were charged", n)
		}
		return err
	}},
}

// FuzzHostileServer sends arbitrary bytes as the responses to each call: the call must return,
// within a few requests and an hour, without a panic. Replies are separated by a line "----".
// Invariant 151.
func FuzzHostileServer(f *testing.F) {
	head := "HTTP/1.1 200 OK\r\nETag: " + checksum.ETag(5, 1) + "\r\nContent-Length: "
	page := `{"blobs":[{"name":"p/a","size":1}],"prefixes":["p/b/"],"next":"p/b/"}`
	for _, replies := range []string{
		"",
		"HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nContent-Range: bytes 0-4/9223372036854775807\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=a\r\nContent-Length: 5\r\n\r\nhello",
		head + "5\r\n\r\nhello", head + "-5\r\n\r\nhello", head + "9223372036854775807\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n" + page,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n5\r\nhello\r\n0\r\nETag: x\r\n\r\n",
		"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2147483647\r\n\r\n", "HTTP/1.1 503 Unavailable\r\nRetry-After: 60\r\n\r\n",
		"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere/\r\n\r\n", "HTTP/1.1 301 Moved\r\nLocation: :%\r\n\r\n",
		strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 100),
		"HTTP/1.1 200 OK\r\n\r\n{\"uploadId\":\"U\"}\n----\nHTTP/1.1 500 x\r\n\r\n\n----\nHTTP/1.1 200 OK\r\n\r\n{\"state\":\"open\",\"parts\":[{\"index\":0,\"size\":2}],\"next\":0}",
		"HTTP/1.1 200 OK\r\nChunksets-Left: -1\r\nChunksets-Charged: 9223372036854775807\r\n\r\n{\"payment\":{\"chunksetPrice\":\"-1\"}}",
	} {
		for i := range hostileCalls {
			f.Add(uint8(i), []byte(replies))
		}
	}
	f.Fuzz(func(t *testing.T, call uint8, replies []byte) {
		if len(replies) > 1<<16 {
			return
		}
		dir := testenv.MemoryDir(t)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			h := &hostile{replies: strings.Split(string(replies), "\n----\n")}
			c := h.client(t, cancel, client.Options{MaxAttempts: 3})
			call := hostileCalls[int(call)%len(hostileCalls)]
			err := call.call(&calling{c, ctx, t, filepath.Join(dir, "a")})
			if ctx.Err() != nil {
				t.Errorf("%s: not ended by itself after %d requests: %v", call.name, h.requests.Load(), err)
			}
			if n := len(fmt.Sprint(err)); n > 20_000 {
				t.Errorf("%s: an error of %d bytes", call.name, n)
			}
		})
	})
}

// TestBadResponses checks which member of a response is refused, that the request is not repeated,
// and that the outcome is unknown if it may have had an effect.
// Invariant 151.
func TestBadResponses(t *testing.T) {
	etag := checksum.ETag(5, checksum.Update(0, []byte("hello")))
	part := func(contentRange string) map[string]string {
		return map[string]string{"ETag": etag, "Content-Range": contentRange}
	}
	with := func(name, value string) map[string]string { return map[string]string{"ETag": etag, name: value} }
	versions := func(page string) step { return respond(200, nil, `{"versions":[`+page+`}`) }
	older, newer := strings.Repeat("0", 31)+"1", strings.Repeat("0", 31)+"2"
	version := func(name, id string) string { return fmt.Sprintf(`{"name":%q,"version":%q}`, name, id) }
	blobs := func(list string) step { return respond(200, nil, `{"blobs":[`+list+`]}`) }
	channel := func(more string) step {
		return respond(200, nil, `{"channelId":"C","paymentChannelId":"1","deposit":"1","accepted":"0","credit":"0","settled":"0","sequenceNumber":"0","state":"open"`+more+`}`)
	}
	get := func(c *client.Client, length int64, o client.GetOptions) error {
		return testenv.Error(c.GetRange(t.Context(), "team", "a", 0, length, o))
	}
	calls := map[string]func(*client.Client) error{
		"get":       func(c *client.Client) error { return get(c, -1, client.GetOptions{}) },
		"get range": func(c *client.Client) error { return get(c, 5, client.GetOptions{}) },
		"paid": func(c *client.Client) error {
			return get(c, 5, client.GetOptions{Payment: &client.Payment{SessionID: "S", MaxChunksets: 1}})
		},
		"head": func(c *client.Client) error { return testenv.Error(c.Head(t.Context(), "team", "a")) },
		"put": func(c *client.Client) error {
			return testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("hello"), client.PutOptions{}))
		},
		"list": func(c *client.Client) error {
			return last(c.List(t.Context(), "team", client.ListOptions{Prefix: "p/", Delimiter: "/", PageSize: 2}))
		},
		"versions": func(c *client.Client) error {
			return last(c.Versions(t.Context(), "team", client.ListOptions{Prefix: "p/", Delimiter: "/", PageSize: 2}))
		},
		"kept":     func(c *client.Client) error { return testenv.Error(c.Admin().AccountVersions(t.Context(), "team")) },
		"rules":    func(c *client.Client) error { return testenv.Error(c.Admin().AccountRules(t.Context(), "team")) },
		"preview":  func(c *client.Client) error { return last(c.Admin().PreviewRules(t.Context(), "team", nil)) },
		"uploads":  func(c *client.Client) error { return last(c.Uploads(t.Context(), "team")) },
		"accounts": func(c *client.Client) error { return last(c.Accounts(t.Context())) },
		"keys":     func(c *client.Client) error { return last(c.Admin().Keys(t.Context())) },
		"key":      func(c *client.Client) error { return testenv.Error(c.Admin().Key(t.Context(), "K")) },
		"create": func(c *client.Client) error {
			return testenv.Error(c.Admin().CreateKey(t.Context(), wire.CreateKey{}, client.CreateKeyOptions{}))
		},
		"update": func(c *client.Client) error {
			return testenv.Error(c.Admin().UpdateKey(t.Context(), "K", wire.UpdateKey{NewSecret: true}, client.UpdateOptions{}))
		},
		"group":   func(c *client.Client) error { return testenv.Error(c.Admin().Group(t.Context(), "G")) },
		"damaged": func(c *client.Client) error { return last(c.Admin().Damaged(t.Context())) },
		"actions": func(c *client.Client) error { return last(c.Admin().Actions(t.Context())) },
		"tasks":   func(c *client.Client) error { return testenv.Error(c.Admin().Tasks(t.Context())) },
		"places":  func(c *client.Client) error { return last(c.Admin().Places(t.Context(), "")) },
		"now":     func(c *client.Client) error { return testenv.Error(c.Admin().Now(t.Context())) },
		"info":    func(c *client.Client) error { return testenv.Error(c.Info(t.Context())) },
		"session": func(c *client.Client) error { return testenv.Error(c.Session(t.Context(), "S")) },
		"use":     func(c *client.Client) error { return testenv.Error(c.Use(t.Context(), "S", client.UseOptions{})) },
		"channel": func(c *client.Client) error { return testenv.Error(c.Channel(t.Context(), "C")) },
	}
	for name, test := range map[string]struct {
		call   string
		steps  []step
		member string
	}{
		"size of a range":             {"get range", []step{respond(206, part("bytes 0-4/9223372036854775807"), "hello")}, "Content-Range"},
		"size above 5 TiB":            {"get range", []step{respond(206, part("bytes 0-4/5497558138881"), "hello")}, "Content-Range"},
		"unknown size of a range":     {"get range", []step{respond(206, part("bytes 0-4/*"), "hello")}, "Content-Range"},
		"range of several parts":      {"get range", []step{respond(206, map[string]string{"ETag": etag, "Content-Type": "multipart/byteranges; boundary=a"}, "hello")}, "Content-Range"},
		"range that is shorter":       {"get range", []step{respond(206, part("bytes 0-3/5"), "hell")}, "Content-Range"},
		"length of another range":     {"get range", []step{respond(206, part("bytes 0-4/5"), "hell")}, "Content-Length"},
		"ETag of another size":        {"get range", []step{respond(206, part("bytes 0-4/6"), "hello")}, "ETag"},
		"no ETag":                     {"get", []step{respond(200, nil, "hello")}, "ETag"},
		"control characters in ETag":  {"get", []step{respond(200, map[string]string{"ETag": "\"\x1b[2J\""}, "hello")}, "ETag"},
		"long ETag":                   {"get", []step{respond(200, map[string]string{"ETag": `"` + strings.Repeat("a", 300) + `"`}, "hello")}, "ETag"},
		"unknown status":              {"get", []step{respond(203, with("a", "b"), "hello")}, "status"},
		"no size":                     {"head", []step{withLength(-1, with("a", "b"))}, "size"},
		"huge size":                   {"head", []step{withLength(1<<62, map[string]string{"ETag": `"a"`})}, "size"},
		"time of modification":        {"head", []step{withLength(5, with("Last-Modified", "now"))}, "Last-Modified"},
		"expiry":                      {"head", []step{withLength(5, with("Blob-Expires", "2030"))}, "Blob-Expires"},
		"digest":                      {"head", []step{withLength(5, with("Repr-Digest", "sha-256=:AAAA:"))}, "Repr-Digest"},
		"metadata":                    {"head", []step{withLength(5, with("Blob-Meta-A", strings.Repeat("a", 3000)))}, "metadata"},
		"ETag of the stored blob":     {"put", []step{respond(204, map[string]string{"ETag": "\x01"}, "")}, "ETag"},
		"negative size in a list":     {"list", []step{blobs(`{"name":"p/a","size":-1}`)}, "size"},
		"huge size in a list":         {"list", []step{blobs(`{"name":"p/a","size":5497558138881}`)}, "size"},
		"name without the prefix":     {"list", []step{blobs(`{"name":"q/a"}`)}, "name"},
		"name with an escape":         {"list", []step{blobs(`{"name":"p/\u001b[2J"}`)}, "name"},
		"long name":                   {"list", []step{blobs(`{"name":"p/` + strings.Repeat("a", 1024) + `"}`)}, "name"},
		"name twice":                  {"list", []step{blobs(`{"name":"p/a"},{"name":"p/a"}`)}, "name"},
		"names in another order":      {"list", []step{blobs(`{"name":"p/b"},{"name":"p/a"}`)}, "name"},
		"name that is not grouped":    {"list", []step{blobs(`{"name":"p/a/b"}`)}, "name"},
		"group without the delimiter": {"list", []step{respond(200, nil, `{"prefixes":["p/a"]}`)}, "prefixes"},
		"more entries than requested": {"list", []step{blobs(`{"name":"p/a"},{"name":"p/b"},{"name":"p/c"}`)}, "blobs"},
		"next without entries":        {"list", []step{respond(200, nil, `{"next":"p/a"}`)}, "next"},
		"next before the entries":     {"list", []step{respond(200, nil, `{"blobs":[{"name":"p/b"}],"next":"p/a"}`)}, "next"},
		"next that does not advance":  {"list", []step{respond(200, nil, `{"blobs":[{"name":"p/a"}],"next":"p/a"}`), respond(200, nil, `{"blobs":[{"name":"p/a"}],"next":"p/a"}`)}, "name"},
		"version of a blob":           {"head", []step{withLength(5, with("Blob-Version", "x"))}, "Blob-Version"},
		"rules with a long id":        {"rules", []step{respond(200, nil, `{"account":"team","etag":"e","rules":[{"id":"`+strings.Repeat("x", 5000)+`"}]}`)}, "id"},
		"last run of negative bytes":  {"rules", []step{respond(200, nil, `{"account":"team","etag":"e","rules":[],"last":{"taken":{"r":{"bytes":-1}}}}`)}, "taken"},
		"preview of too many bytes":   {"preview", []step{respond(200, nil, `{"looked":1,"taken":{"r":{"bytes":9223372036854775807}}}`)}, "taken"},
		"version without an id":       {"versions", []step{versions(`{"name":"p/a"}]`)}, "version"},
		"version that is no id":       {"versions", []step{versions(version("p/a", "X") + "]")}, "Blob-Version"},
		"older version first":         {"versions", []step{versions(version("p/a", older) + "," + version("p/a", newer) + "]")}, "name"},
		"version twice":               {"versions", []step{versions(version("p/a", older) + "," + version("p/a", older) + "]")}, "name"},
		"versions of earlier names":   {"versions", []step{versions(version("p/b", older) + "," + version("p/a", older) + "]")}, "name"},
		"next version is newer":       {"versions", []step{versions(version("p/a", older) + `],"next":"p/a","nextVersion":"` + newer + `"`)}, "next"},
		"next version is repeated": {"versions", []step{versions(version("p/a", newer) + `],"next":"p/a","nextVersion":"` + newer + `"`),
			versions(version("p/a", newer) + "]")}, "name"},
		"version behind its name":     {"versions", []step{versions(version("p/a", newer) + `],"next":"p/a"`), versions(version("p/a", older) + "]")}, "name"},
		"number of versions":          {"kept", []step{respond(200, nil, `{"account":"a","etag":"e","most":-1}`)}, "most"},
		"deep JSON":                   {"list", []step{respond(200, nil, `{"x":`+strings.Repeat("[", 5000))}, "body"},
		"JSON of many values":         {"list", []step{respond(200, nil, `{"blobs":[`+strings.Repeat("{},", 100_000)+`{}]}`)}, "body"},
		"large page":                  {"list", []step{respond(200, nil, strings.Repeat(" ", 33<<20))}, "body"},
		"large JSON":                  {"info", []step{respond(200, nil, strings.Repeat(" ", 2<<20))}, "body"},
		"no JSON":                     {"info", []step{respond(200, nil, "<html>")}, "body"},
		"negative limit":              {"info", []step{respond(200, nil, `{"limits":{"maxPartSize":-1}}`)}, "maxPartSize"},
		"negative rate":               {"info", []step{respond(200, nil, `{"rates":{"key":{"requestsPerSecond":-1}}}`)}, "requestsPerSecond"},
		"upload twice":                {"uploads", []step{respond(200, nil, `{"uploads":[{"uploadId":"A","name":"a"}],"next":"A"}`), respond(200, nil, `{"uploads":[{"uploadId":"A","name":"a"}],"next":"A"}`)}, "uploads"},
		"account twice":               {"accounts", []step{respond(200, nil, `{"accounts":[{"account":"a"}],"next":"a"}`), respond(200, nil, `{"accounts":[{"account":"a"}]}`)}, "accounts"},
		"keys in another order":       {"keys", []step{respond(200, nil, `{"keys":[{"id":"b","group":"b","etag":"e"},{"id":"a","group":"a","etag":"e"}]}`)}, "keys"},
		"key twice":                   {"keys", []step{respond(200, nil, `{"keys":[{"id":"b","group":"b","etag":"e"}],"next":"b"}`), respond(200, nil, `{"keys":[{"id":"b","group":"b","etag":"e"}]}`)}, "keys"},
		"more keys than requested":    {"keys", []step{respond(200, nil, `{"keys":[`+strings.Repeat("{},", 100)+`{}]}`)}, "keys"},
		"next that is no key":         {"keys", []step{respond(200, nil, `{"next":"b"}`)}, "next"},
		"another key":                 {"key", []step{respond(200, nil, `{"id":"L","group":"b","etag":"e"}`)}, "id"},
		"key without an ETag":         {"key", []step{respond(200, nil, `{"id":"K","group":"b"}`)}, "etag"},
		"scope of a key":              {"key", []step{respond(200, nil, `{"id":"K","group":"b","etag":"e","grants":[{"scopes":["\u001b"]}]}`)}, "grants"},
		"created without a secret":    {"create", []step{respond(201, nil, `{"id":"K","group":"b","etag":"e"}`)}, "secret"},
		"updated without a secret":    {"update", []step{respond(200, nil, `{"id":"K","group":"b","etag":"e"}`)}, "secret"},
		"negative use":                {"group", []step{respond(200, nil, `{"group":"G","etag":"e","used":{"a":-1}}`)}, "used"},
		"limit below unlimited":       {"group", []step{respond(200, nil, `{"group":"G","etag":"e","limits":{"a":-2}}`)}, "limits"},
		"damage twice":                {"damaged", []step{respond(200, nil, `{"damaged":[{"content":"a","part":10},{"content":"a","part":9}]}`)}, "damaged"},
		"damaged blob's name":         {"damaged", []step{respond(200, nil, `{"damaged":[{"content":"a","blobs":[{"account":"a","name":"\u0001"}]}]}`)}, "name"},
		"older action first":          {"actions", []step{respond(200, nil, `{"actions":[{"id":"1"},{"id":"2"}]}`)}, "actions"},
		"next of no actions":          {"actions", []step{respond(200, nil, `{"next":"5"}`), respond(200, nil, `{"next":"5"}`)}, "next"},
		"action after next":           {"actions", []step{respond(200, nil, `{"next":"5"}`), respond(200, nil, `{"actions":[{"id":"6"}]}`)}, "actions"},
		"task without a name":         {"tasks", []step{respond(200, nil, `{"tasks":[{"task":""}]}`)}, "task"},
		"negative count of a run":     {"tasks", []step{respond(200, nil, `{"tasks":[{"task":"t","last":{"handled":-1}}]}`)}, "handled"},
		"places in another order":     {"places", []step{respond(200, nil, `{"places":[{"account":"a","prefix":"b"},{"account":"a"}]}`)}, "places"},
		"place of two kinds":          {"places", []step{respond(200, nil, `{"places":[{"account":"a","prefix":"b","blob":"c"}]}`)}, "blob"},
		"places without an end":       {"places", slices.Repeat([]step{respond(200, nil, `{"next":"x"}`)}, 11), "places"},
		"no date":                     {"now", []step{respond(200, nil, `{"keys":[]}`)}, "Date"},
		"next that is no account":     {"accounts", []step{respond(200, nil, `{"accounts":[{"account":"a"}],"next":"b"}`)}, "next"},
		"negative account":            {"accounts", []step{respond(200, nil, `{"accounts":[{"account":"a","bytes":-1}]}`)}, "bytes"},
		"next that is no upload":      {"uploads", []step{respond(200, nil, `{"uploads":[{"uploadId":"A","name":"a"}],"next":"B"}`)}, "next"},
		"id with a slash":             {"session", []step{respond(200, nil, `{"sessionId":".."}`)}, "sessionId"},
		"negative chunksets":          {"session", []step{respond(200, nil, `{"sessionId":"S","chunksetsLeft":-1}`)}, "chunksetsLeft"},
		"chunksets left":              {"use", []step{respond(204, map[string]string{"Chunksets-Left": "-1"}, "")}, "Chunksets-Left"},
		"no chunksets left":           {"use", []step{respond(200, map[string]string{"Chunksets-Left": ""}, "")}, "Chunksets-Left"},
		"chunksets that are no count": {"use", []step{respond(200, map[string]string{"Chunksets-Left": "x"}, "")}, "Chunksets-Left"},
		"negative amount":             {"channel", []step{channel(`,"refund":"-1"`)}, "refund"},
		"state of a channel":          {"channel", []step{channel(`,"state":"\u001b[2J"`)}, "state"},
		"charge above the limit":      {"paid", []step{respond(200, with("Chunksets-Charged", "9223372036854775807"), "hello")}, "Chunksets-Charged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := newScript(t, 0, test.steps...)
			err := calls[test.call](c)
			effect := slices.Contains([]string{"put", "use", "create", "update"}, test.call)
			var e *client.ResponseError
			if !errors.As(err, &e) || e.Member != test.member || !errors.Is(err, client.ErrBadResponse) {
				t.Errorf("error %v, want one of %s", err, test.member)
			}
			testenv.Equal(t, errors.Is(err, client.ErrOutcomeUnknown), effect, "the outcome of %v is unknown,", err)
		})
	}
}

// last returns the error that ends a sequence.
func last[E any](sequence func(func(E, error) bool)) (err error) {
	for _, e := range sequence {
		err = e
	}
	return err
}

// withLength responds with a length and no body, as to a HEAD.
func withLength(length int64, header map[string]string) step {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := respond(200, header, "")(r)
		resp.ContentLength = length
		return resp, err
	}
}

// TestHostileConnections checks responses that are refused while they arrive, and how long that
// takes at most.
// Invariant 151.
func TestHostileConnections(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 64<<20))
	testenv.OK(t, errors.Join(err, z.Close()))
	for name, test := range map[string]struct {
		hostile *hostile
		want    error
		within  time.Duration
	}{
		"informational responses": {&hostile{replies: []string{strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("a", 1000)+"\r\n\r\n", 1000)}}, errAny, 10 * time.Second},
		"long header":             {&hostile{replies: []string{"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"}}, errAny, 10 * time.Second},
		"redirect":                {&hostile{replies: []string{"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n"}}, errAny, 0},
		"redirect to nothing":     {&hostile{replies: []string{"HTTP/1.1 301 Moved\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n"}}, errAny, 0},
		"compressed":              {&hostile{replies: []string{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bomb.String()}}, client.ErrBadResponse, 0},
		"slow JSON":               {&hostile{replies: []string{"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", 1000)}, drip: 50 * time.Second}, errAny, 3*5*time.Minute + 10*time.Second},
		"slow error":              {&hostile{replies: []string{"HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat(" ", 1000)}, drip: 50 * time.Second}, client.ErrInvalid, 3*5*time.Minute + 10*time.Second},
		"long trailer":            {&hostile{replies: []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"}}, errAny, 10 * time.Second},
	} {
		runInBubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := test.hostile
			c := h.client(t, cancel, client.Options{MaxAttempts: 3, Key: "secret"})
			begin := time.Now()
			_, err := c.Info(ctx)
			if !expected(err, test.want) || ctx.Err() != nil {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begin); took > test.within {
				t.Errorf("it took %v", took)
			}
			if n := h.requests.Load(); n > 3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestWaitsAreBounded checks that the client does not wait longer than its options permit, logs
// before it waits, and reports the time that the server demanded.
// Invariant 152.
func TestWaitsAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		field  string
		most   time.Duration
		waited bool
		after  time.Duration
	}{
		"a minute":            {"60", 0, true, time.Minute},
		"default":             {"300", 0, true, 5 * time.Minute},
		"above the default":   {"301", 0, false, 301 * time.Second},
		"a day":               {"86400", 0, false, 24 * time.Hour},
		"68 years":            {"2147483647", 0, false, 2147483647 * time.Second},
		"more than any year":  {"99999999999999999999", 0, false, 2147483648 * time.Second},
		"date":                {"Fri, 31 Dec 9999 23:59:59 GMT", 0, false, 2147483648 * time.Second},
		"option":              {"60", time.Second, false, time.Minute},
		"option that permits": {"86400", 48 * time.Hour, true, 24 * time.Hour},
	} {
		runInBubble(t, name, func(t *testing.T) {
			limited := respond(429, map[string]string{"Retry-After": test.field}, "")
			s := &script{t: t, steps: []step{limited}}
			if test.waited {
				s.steps = append(s.steps, stored)
			}
			var announced []time.Duration
			c := testenv.Must(client.New("http://localhost:9090", client.Options{Transport: s, MaxRetryAfter: test.most, OnWait: func(d time.Duration, _ error) { announced = append(announced, d) }}))(t)
			begin := time.Now()
			_, err := c.Put(t.Context(), "team", "a", strings.NewReader("hello"), client.PutOptions{})
			if took := time.Since(begin); test.waited {
				if err != nil || took < test.after || took > test.after+time.Second || len(announced) != 1 || announced[0] != test.after {
					t.Errorf("%v after %v, announced %v", err, took, announced)
				}
				return
			}
			var e *client.Error
			if !errors.As(err, &e) || e.RetryAfter != test.after || !strings.Contains(err.Error(), "to be repeated after "+test.after.String()) || time.Since(begin) != 0 || announced != nil {
				t.Errorf("error %v after %v, announced %v", err, time.Since(begin), announced)
			}
		})
	}
}

// TestMemoryOfResponses measures the memory that the client allocates for responses that are made
// to take much.
// Invariant 151.
func TestMemoryOfResponses(t *testing.T) {
	const most = 160 << 20 // bytes: a page of 32 MiB, read into a growing buffer, and as much again
	list := func(c *client.Client) error { return last(c.List(t.Context(), "team", client.ListOptions{})) }
	download := func(rangeSize int64) func(*client.Client) error {
		return func(c *client.Client) error {
			o := client.DownloadOptions{RangeSize: rangeSize}
			discard := writerAtFunc(func(p []byte, _ int64) (int, error) { return len(p), nil })
			return testenv.Error(c.Download(t.Context(), "team", "a", discard, o))
		}
	}
	part := func(contentRange, body string) step {
		return respond(206, map[string]string{"ETag": `"a"`, "Content-Range": contentRange}, body)
	}
	for name, test := range map[string]struct {
		step step
		call func(c *client.Client) error
	}{
		"page of empty blobs":     {respond(200, nil, `{"blobs":[`+strings.Repeat("{},", 10<<20)+`{}]}`), list},
		"page of empty lists":     {respond(200, nil, `{"blobs":`+strings.Repeat("[", 31<<20)), list},
		"size of a blob":          {part("bytes 0-16777215/9223372036854775807", strings.Repeat("a", 16<<20)), download(0)},
		"size of a blob of 5 TiB": {part("bytes 0-0/5497558138880", "a"), download(1)},
		"body of an error": {respond(500, nil, strings.Repeat("a", 64<<20)), func(c *client.Client) error {
			return testenv.Error(c.Info(t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := newScript(t, 1, test.step)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := test.call(c)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("no error")
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > most {
				t.Errorf("%d MiB were allocated: %.200v", n>>20, err)
			}
		})
	}
}
