package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// watch plants secrets in requests and records all that the server outputs.
type watch struct {
	t       *testing.T
	secrets map[string]string // by description
	seen    []sighting
	stalled []io.Closer
}

// sighting is one of the server's outputs, with the secrets that it may contain.
type sighting struct {
	where, text string
	may         []string
}

func newWatch(t *testing.T) *watch { return &watch{t: t, secrets: map[string]string{}} }

// plant returns a new secret of 130 random bits.
func (w *watch) plant(what string) string { return w.keep(what, rand.Text()) }

// keep registers a text as a secret.
func (w *watch) keep(what, text string) string {
	w.secrets[what] = text
	return text
}

// payment registers a micropayment's secret parts: the key and the signature.
func (w *watch) payment(what, text string) string {
	w.keep(what, text[364:]) // from byte 273 on
	return text
}

// ask sends a request and records the response. The response may contain the secrets in may if the
// request succeeds, or if it is a 409 that shows the stored micropayment.
func (w *watch) ask(s *server, may, method, target, body string, h ...string) response {
	w.t.Helper()
	var content []byte
	if body != "" {
		content = []byte(body)
	}
	r := s.do(method, target, content, h...)
	one := sighting{where: fmt.Sprintf("%d to %s %s %q", r.status, method, target, h), text: fmt.Sprintf("%q\n%s", r.header, r.body)}
	if r.status < 300 || r.status == 409 && strings.Contains(string(r.body), "storedMicropayment") {
		one.may = strings.Split(may, ",")
	}
	w.seen = append(w.seen, one)
	return r
}

// raw sends bytes unmodified and records what is received until the connection ends.
func (w *watch) raw(s *server, text string) {
	w.t.Helper()
	connection := s.dial()
	s.write(connection, text)
	if err := connection.CloseWrite(); err != nil {
		w.t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	if err != nil {
		w.t.Fatalf("%q: %v", text, err)
	}
	where := fmt.Sprintf("the response to %.200q", text)
	head, _, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r >= 0x7f }) || bytes.HasPrefix(bytes.ToLower(line), []byte("x-injected")) {
			w.t.Errorf("%s has the line %q", where, line)
		}
	}
	w.seen = append(w.seen, sighting{where: where, text: string(answer)})
}

// check searches all output for every secret, in every encoding.
func (w *watch) check() {
	w.t.Helper()
	const enough = 10 // characters that do not match by chance
	for what, secret := range w.secrets {
		for _, one := range w.seen {
			if slices.Contains(one.may, what) {
				continue
			}
			for _, form := range []string{secret, fmt.Sprintf("%x", secret), asBase64([]byte(secret)), fmt.Sprintf("%d", []byte(secret))} {
				if found := piece(strings.ToLower(one.text), strings.ToLower(form), min(len(form), enough*len(form)/len(secret))); found != "" {
					w.t.Errorf("%s contains %q of the %s:\n%.500s", one.where, found, what, one.text)
					break
				}
			}
		}
	}
}

// checkLines fails the test unless the log consists of whole lines in the log's format, without
// control characters.
func checkLines(t *testing.T, log, format string) {
	t.Helper()
	if !utf8.ValidString(log) {
		t.Errorf("the log is not UTF-8: %q", log)
	}
	for line := range strings.Lines(log) {
		valid := strings.HasPrefix(line, "time=")
		if format == "json" {
			valid = strings.HasPrefix(line, `{"time":`) && json.Valid([]byte(line))
		}
		if !valid || strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("the log contains the line %q", line)
		}
	}
}

// TestSecretsStayIn plants secrets in every part of requests to every route, with every kind of
// credential, and searches for them in the log, in metrics, profiles and traces, and in all
// responses except those which must contain them.
func TestSecretsStayIn(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"local", "hosted"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			spans := newTraceCollector(t)
			o := options{wrapper: spans.environment("OTEL_BSP_MAX_QUEUE_SIZE=100000"), flags: []string{"--reads", "paid", "--admin-addr", "127.0.0.1:0"}}
			if profile == "hosted" {
				o.flags = append(hostedChoices("paid"), "--admin-addr", "127.0.0.1:0", "--drain-wait", "0s",
					"--trusted-proxies", "127.0.0.1", "--address-requests-per-second", "unlimited", "--log-format", "json")
			}
			s := start(t, o)
			w := newWatch(t)
			c := w.createSecrets(s)
			for _, h := range w.credentials(s) {
				w.walk(s, c, h)
			}
			w.sendRaw(s)
			w.stall(s)
			for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/goroutine?debug=1",
				"/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1", "/debug/pprof/block?debug=1", "/debug/pprof/mutex?debug=1",
				"/debug/pprof/threadcreate?debug=1"} {
				r, err := s.adminGet(path)
				if err != nil || r.status != 200 || len(r.body) == 0 {
					t.Fatalf("%s: %v, %v", path, r, err)
				}
				w.seen = append(w.seen, sighting{where: path, text: fmt.Sprintf("%q\n%s", r.header, r.body)})
			}
			for _, one := range w.stalled {
				if err := one.Close(); err != nil {
					t.Error(err)
				}
			}
			last := s.must(200, "GET", "/v1/info", nil).header.Get("X-Request-Id")
			s.stop()
			if !strings.Contains(s.log.String(), last) {
				t.Fatalf("the log does not contain the last request:\n%s", tail(s.log.String()))
			}
			w.seen = append(w.seen, sighting{where: "the log", text: s.log.String()})
			if n := len(spans.spans()); n < len(w.seen) {
				t.Errorf("%d spans of %d requests", n, len(w.seen))
			}
			spans.checkClosed(spans.spans())
			w.seen = append(w.seen, sighting{where: "the traces", text: spans.text()})
			w.check()
			checkLines(t, s.log.String(), map[string]string{"local": "text", "hosted": "json"}[profile])
			w.checkFiles(s, "valid key", "revoked key", "key with a wrong secret", "malformed key")
		})
	}
}

// checkFiles fails the test if a file contains a secret.
func (w *watch) checkFiles(s *server, whats ...string) {
	w.t.Helper()
	for name := range s.files() {
		text, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, what := range whats {
			if bytes.Contains(text, []byte(w.secrets[what])) {
				w.t.Errorf("%s contains the %s", name, what)
			}
		}
	}
}

// operator contains the flags for a key with every scope. All keys created with them are in one
// group.
var operator = []string{"--scopes", "admin", "--all-accounts", "--group", "operators"}

// createSecrets creates a channel, a session, an upload and a blob. Their ids and names are
// secrets.
func (w *watch) createSecrets(s *server) *channel {
	w.t.Helper()
	admin := s.as(s.newKey(operator...))
	account := strings.ToLower(w.plant("account"))
	admin.must(204, "PUT", blobTarget(account, w.plant("name")), []byte("kept"))
	w.keep("upload", admin.begin(account, w.secrets["name"], 1000))
	c := admin.open(s.payer(1), 1000)
	c.s = s
	w.keep("channel", c.id)
	first := w.payment("accepted micropayment", c.next(10))
	w.keep("session", asSession(w.t, s.must(201, "POST", "/v1/sessions", purchaseBody(w.t, first, ""))).SessionID)
	for _, what := range []string{"query", "header", "member", "request id", "user", "other session", "other channel", "other upload", "idempotency key", "metadata", "metadata name"} {
		w.plant(what)
	}
	return c
}

// credentials returns credentials of every kind: valid, invalid, revoked and none.
func (w *watch) credentials(s *server) []headers {
	secret := func(key string) string { return strings.Split(key, "_")[2] }
	right := s.newKey(operator...)
	w.keep("valid key", secret(right))
	revoked := s.newKey("--scopes", "admin", "--all-accounts")
	w.keep("revoked key", secret(revoked))
	key(w.t, s.data, "revoke", revoked)
	limited := s.newKey("--scopes", "read", "--accounts", "bob")
	w.keep("key without scopes", secret(limited))
	stranger := s.newKey("--scopes", "admin", "--accounts", "bob")
	w.keep("key for another account", secret(stranger))
	wrong := strings.ToLower(w.plant("key with a wrong secret") + rand.Text() + rand.Text())[:56]
	w.keep("key with a wrong secret", wrong)
	none := w.plant("malformed key")
	return []headers{
		{},
		{"Authorization", "Bearer " + right}, {"X-Api-Key", right},
		{"Authorization", "Bearer " + revoked},
		{"X-Api-Key", limited}, {"Authorization", "Bearer " + stranger},
		{"Authorization", "Bearer " + right[:len(right)-56] + wrong},
		{"Authorization", "Bearer " + none}, {"X-Api-Key", none}, {"Authorization", none}, {"Authorization", "Basic " + none},
		{"Authorization", "Bearer " + right, "X-Api-Key", none},
	}
}

// walk sends requests to every route. Some succeed, some fail.
func (w *watch) walk(s *server, c *channel, h headers) {
	w.t.Helper()
	account, name, query, header, member := strings.ToLower(w.secrets["account"]), w.secrets["name"], w.secrets["query"], w.secrets["header"], w.secrets["member"]
	ask := func(may, method, target, body string, more ...string) response {
		return w.ask(s, may, method, target, body, slices.Concat(headers{"X-Request-Id", w.secrets["request id"] + "\"<>", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "v=" + w.secrets["header"], "Baggage", "b=" + w.secrets["header"]}, h, more)...)
	}
	blob := blobTarget(account, name)
	ask("", "PUT", blob, "kept, too", "Content-Type", "text/plain", "Blob-Meta-Note", w.secrets["metadata"], "Blob-Meta-"+w.secrets["metadata name"], "x",
		"Content-Disposition", w.secrets["metadata"])
	for _, one := range []headers{
		{"If-Match", `"` + header + `"`}, {"If-None-Match", header}, {"Content-Digest", "sha-256=:" + header + ":"}, {"Repr-Digest", header}, {"Blob-Expires", header},
		{"Content-Encoding", header}, {"Content-Range", header}, {"Content-Type", header + strings.Repeat("x", 255)}, {"Content-Digest", wrongDigest()},
		{"Blob-Meta-" + header, "\xe9"}, {"Blob-Meta-Note", header + "\xe9"}, {"Blob-Meta-" + header, "x", "blob-meta-" + header, "x"}, {"Cache-Control", header + "="}, {"Content-Language", header + strings.Repeat("x", 255)},
	} {
		ask("", "PUT", blob, "refused", one...)
		ask("", "PUT", partTarget(w.secrets["upload"], 0), "refused", one...)
	}
	for _, method := range []string{"GET", "HEAD"} {
		for _, one := range []headers{
			nil, {"Session-Id", w.secrets["session"]}, {"Session-Id", w.secrets["other session"]}, {"Session-Id", w.secrets["session"], "Range", "bytes=" + header},
			{"Session-Id", w.secrets["session"], "Range", "bytes=99999-"}, {"Session-Id", w.secrets["session"], "If-Match", header},
			{"X-Shelby-Micropayment", w.payment("refused micropayment", s.payer(2).sign(w.t, 1, 1, 1).Base64())},
			{"X-Shelby-Micropayment", header}, {"Session-Id", w.secrets["session"], "Max-Chunksets", header},
			{"Cookie", "session=" + header}, {"Referer", "https://x/" + header}, {"User-Agent", header}, {"X-Forwarded-For", header}, {"Origin", "https://" + header + ".example"},
		} {
			ask("metadata,metadata name", method, blob, "", one...)
		}
	}
	stale := w.secrets["accepted micropayment"]
	ask("accepted micropayment,metadata,metadata name", "GET", blob, "", "X-Shelby-Micropayment", c.payer.sign(w.t, c.number, 1, 10).Base64())
	ask("accepted micropayment,session", "POST", "/v1/sessions", string(purchaseBody(w.t, c.payer.sign(w.t, c.number, 1, 9).Base64(), w.secrets["session"])))
	ask("", "POST", "/v1/sessions", string(purchaseBody(w.t, stale, "")))
	ask("", "POST", "/v1/sessions", string(purchaseBody(w.t, s.payer(2).sign(w.t, 1, 1, 1).Base64(), w.secrets["other session"])))
	ask("user", "POST", "/v1/sessions", fmt.Sprintf(`{"userIdentity":%q}`, w.secrets["user"]), "Idempotency-Key", w.secrets["idempotency key"])
	ask("", "POST", "/v1/sessions", fmt.Sprintf(`{"userIdentity":[%q]}`, member), "Idempotency-Key", w.secrets["idempotency key"]+" ")
	ask("", "POST", "/v1/sessions", fmt.Sprintf(`{"userIdentity":%q`, member))
	for _, id := range []string{"session", "other session"} {
		ask(id, "GET", "/v1/sessions/"+w.secrets[id], "")
		ask("", "POST", "/v1/sessions/"+w.secrets[id]+"/use", "")
		ask("", "DELETE", "/v1/sessions/"+w.secrets[id], "")
	}

	ask("query,name", "GET", "/v1/blobs/"+account+"?prefix="+query+"&delimiter="+query, "")
	ask("name", "GET", "/v1/blobs/"+account, "")
	ask("name,metadata,metadata name", "GET", "/v1/blobs/"+account+"?include=metadata", "")
	ask("", "GET", "/v1/blobs/"+account+"?include="+query, "")
	for _, bad := range []string{"?limit=" + query, "?prefix=%zz" + query, "?prefix=" + query + "&prefix=" + query, "?prefix=%FF" + query} {
		ask("", "GET", "/v1/blobs/"+account+bad, "")
	}
	for _, bad := range []string{"%00", "%0A", "%1b%5B31m", "%7F", "/", strings.Repeat("x", 1024)} {
		ask("", "PUT", blob+bad, "refused")
		ask("", "GET", blob+bad, "")
		ask("", "GET", "/v1/blobs/"+account+bad+"/name", "")
		ask("", "POST", "/v1/multipart-uploads", fmt.Sprintf(`{"rawAccount":%q,"rawBlobName":%q}`, account, name+strings.Repeat("x", 1024)))
	}

	begun := ask("", "POST", "/v1/multipart-uploads", fmt.Sprintf(`{"rawAccount":%q,"rawBlobName":%q,"contentType":"text/plain"}`, account, name))
	for _, body := range []string{
		fmt.Sprintf(`{"rawAccount":%q,"rawBlobName":%q,"expires":%q}`, account, name, member), fmt.Sprintf(`{"rawAccount":%q}`, member),
		fmt.Sprintf(`{"rawAccount":%q,"rawBlobName":%q,"ifNoneMatch":%q}`, account, name, member), fmt.Sprintf(`{"rawAccount":%q,"rawBlobName":[%q]}`, account, member),
		fmt.Sprintf(`{"rawAccount":%q,"rawBlobName":%q,"rawPartSize":%q}`, account, name, member), member,
		fmt.Sprintf(`{"rawAccount":%q,"rawBlobName":%q,"metadata":{%q:"\u00e9"},"cacheControl":%q}`, account, name, member, member),
	} {
		ask("", "POST", "/v1/multipart-uploads", body)
	}
	ask("upload,name,account", "GET", "/v1/multipart-uploads?account="+account, "")
	ask("", "GET", "/v1/multipart-uploads?account="+query, "")
	for _, id := range []string{"upload", "other upload"} {
		at := "/v1/multipart-uploads/" + w.secrets[id]
		ask("upload,name,account", "GET", at, "")
		ask("", "GET", at+"?after="+query, "")
		ask("", "PUT", at+"/parts/"+query, "refused")
		ask("", "PUT", at+"/parts/0", strings.Repeat("x", 1001))
		ask("", "POST", at+"/complete", fmt.Sprintf(`{"etag":%q}`, member), "If-Match", `"`+header+`"`)
	}
	if begun.status == 200 {
		id := text(w.t, begun.object(w.t), "uploadId")
		ask("", "DELETE", "/v1/multipart-uploads/"+id, "")
		ask("", "PUT", partTarget(id, 0), "refused")
		w.secrets["upload "+id] = id
		for i := range w.seen {
			w.seen[i].may = append(w.seen[i].may, "upload "+id) // while it was open, its id was returned and listed
		}
	}

	ask("", "POST", channels, fmt.Sprintf(`{"userIdentity":%q}`, member))
	ask("", "POST", channels, fmt.Sprintf(`{"deposit":%q}`, member))
	for _, id := range []string{"channel", "other channel"} {
		at := channels + "/" + w.secrets[id]
		ask("channel,session", "GET", at, "")
		ask("channel,session", "POST", at+"/deposit", `{"amount":"1"}`)
		ask("", "POST", at+"/deposit", fmt.Sprintf(`{"amount":%q}`, member))
	}
	ask("", "POST", channels+"/"+w.secrets["other channel"]+"/close", "")
	for _, target := range []string{"/" + query, "/v1/" + query, "/v1/info?x=" + query, "/livez?x=" + query, "/v1/blobs/" + account + "%2F" + query + "/x"} {
		for _, method := range []string{"GET", "OPTIONS", "PATCH"} {
			ask("", method, target, "")
		}
	}
}

// sendRaw sends requests that no client library would send.
func (w *watch) sendRaw(s *server) {
	w.t.Helper()
	secret := w.plant("raw text")
	account := strings.ToLower(w.secrets["account"])
	const esc = "\x1b[31m"
	targets := []string{
		"/v1/blobs/" + account + "/" + secret + "%0d%0aX-Injected:%20yes", "/v1/blobs/" + account + "/" + secret + "%1b%5B31m", "/v1/blobs/" + account + "/" + secret + esc,
		"/v1/blobs/" + account + "/" + secret + "\x85\xff", "/v1/blobs/" + account + "/\"" + secret + "\"'", "/v1/blobs/" + account + "/" + secret + "%zz",
		"/" + secret + "%0a", "/v1/blobs/" + account + "?prefix=" + secret + "%0d%0aX-Injected:%20yes", "/v1/sessions/" + secret + "%0d%0aX-Injected:%20yes",
	}
	for _, target := range targets {
		for _, method := range []string{"GET", "PUT", "OPTIONS"} {
			w.raw(s, method+" "+s.base+target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	}
	fields := []string{
		"X-Request-Id: " + secret + esc, "X-Request-Id: " + secret + " x", "X-Request-Id: \"" + secret, "X-Request-Id: " + strings.Repeat(secret, 10),
		"X-Api-Key: " + secret + "\rX-Injected: yes", "X-Api-Key: " + secret + "\r\n X-Injected: yes", "X-Api-Key: " + secret + "\nX-Injected: yes",
		"X-Api-Key: " + secret + esc, "Authorization: Bearer " + secret + "\t\"", "X-" + secret + esc + ": x", secret, "Host: " + secret + esc, "Content-Type: " + secret + esc,
		"Content-Type: " + secret + "\x85", "Origin: https://" + secret + "\".example", "Range: bytes=" + secret + "\"", "Expect: " + secret, "Transfer-Encoding: " + secret,
		"Content-Length: " + secret, "X-Forwarded-For: " + secret + esc, "X-Forwarded-For: " + secret + ", \"", "Session-Id: " + secret + "\"", "X-Shelby-Micropayment: " + secret + "\"",
		"Access-Control-Request-Method: PUT\r\nOrigin: http://localhost\r\nAccess-Control-Request-Headers: " + secret + "\"", "X-Large: " + strings.Repeat(secret, 2000),
		"Upgrade: " + secret + "\r\nHTTP2-Settings: " + secret, "Cookie: " + secret + esc,
	}
	for _, field := range fields {
		for _, method := range []string{"GET", "PUT", "OPTIONS"} {
			w.raw(s, method+" "+s.base+"/v1/blobs/"+account+"/name HTTP/1.1\r\nHost: localhost\r\n"+field+"\r\nConnection: close\r\n\r\n")
		}
	}
	for _, line := range []string{
		"GET http://user:" + secret + "@localhost" + s.base + "/v1/info HTTP/1.1", "GET http://" + secret + ".example/v1/info HTTP/1.1", "GET /v1/info " + secret,
		"GET /v1/info HTTP/" + secret, secret, secret + esc + " /v1/info HTTP/1.1", "GET " + secret + " HTTP/1.1", "CONNECT " + secret + ":443 HTTP/1.1", "GET /v1/info#" + secret + " HTTP/1.1",
	} {
		w.raw(s, line+"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	}
}

// stall leaves requests in progress, so that profiles show them.
func (w *watch) stall(s *server) {
	w.t.Helper()
	admin := s.as(s.newKey(operator...))
	w.keep("key at work", strings.Split(admin.key, "_")[2])
	account, name := strings.ToLower(w.secrets["account"]), w.plant("name at work")
	for _, target := range []string{blobTarget(account, name), partTarget(w.secrets["upload"], 0)} {
		connection := s.dial()
		s.write(connection, "PUT "+s.base+target+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+admin.key+"\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
		interim := make([]byte, len("HTTP/1.1 100"))
		if _, err := io.ReadFull(connection, interim); err != nil || string(interim) != "HTTP/1.1 100" {
			w.t.Fatalf("interim response %q, %v", interim, err)
		}
		w.stalled = append(w.stalled, connection)
	}
}
