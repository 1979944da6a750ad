package operation

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/e2e"
	"sluice/test/testenv"
)

// plant returns a new secret of 130 random bits.
func plant(w *e2e.Watch, label string) string { return w.Keep(label, rand.Text()) }

// payment registers a micropayment's secret parts: the key and the signature.
func payment(w *e2e.Watch, label, text string) string {
	w.Keep(label, text[364:]) // from byte 273 on
	return text
}

// raw sends bytes unmodified and records all bytes that are received until the connection ends.
func raw(w *e2e.Watch, s *e2e.Server, text string) {
	w.T.Helper()
	connection := s.Dial()
	s.Write(connection, text)
	testenv.OK(w.T, connection.CloseWrite())
	answer, err := io.ReadAll(connection)
	if err != nil {
		w.T.Fatalf("%q: %v", text, err)
	}
	where := fmt.Sprintf("the response to %.200q", text)
	head, _, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r >= 0x7f }) || bytes.HasPrefix(bytes.ToLower(line), []byte("x-injected")) {
			w.T.Errorf("%s has the line %q", where, line)
		}
	}
	w.Seen = append(w.Seen, e2e.Sighting{Where: where, Text: string(answer)})
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
// Invariants 50, 136, 140.
func TestSecretsStayIn(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"local", "hosted"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			spans := e2e.NewTraceCollector(t)
			o := e2e.Options{Wrapper: spans.Environment("OTEL_BSP_MAX_QUEUE_SIZE=100000"), Flags: []string{"--reads", "paid", "--admin-addr", "127.0.0.1:0"}}
			if profile == "hosted" {
				o.Flags = append(e2e.HostedChoices("paid"), "--admin-addr", "127.0.0.1:0", "--drain-wait", "0s",
					"--trusted-proxies", "127.0.0.1", "--address-limits", "requests-per-second=unlimited", "--log-format", "json")
			}
			s := e2e.Start(t, o)
			w := e2e.NewWatch(t)
			c := createSecrets(w, s)
			for _, h := range credentials(w, s) {
				walk(w, s, c, h)
			}
			sendRaw(w, s)
			stall(w, s)
			for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/goroutine?debug=1",
				"/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1", "/debug/pprof/block?debug=1", "/debug/pprof/mutex?debug=1",
				"/debug/pprof/threadcreate?debug=1"} {
				r, err := s.AdminGet(path)
				if err != nil || r.Status != 200 || len(r.Body) == 0 {
					t.Fatalf("%s: %v, %v", path, r, err)
				}
				w.Seen = append(w.Seen, e2e.Sighting{Where: path, Text: fmt.Sprintf("%q\n%s", r.Header, r.Body)})
			}
			for _, one := range w.Stalled {
				if err := one.Close(); err != nil {
					t.Error(err)
				}
			}
			last := s.Must(200, "GET", "/v1/info", nil).Header.Get("X-Request-Id")
			s.Stop()
			if !strings.Contains(s.Log.String(), last) {
				t.Fatalf("the log does not contain the last request:\n%s", e2e.Tail(s.Log.String()))
			}
			w.Seen = append(w.Seen, e2e.Sighting{Where: "the log", Text: s.Log.String()})
			if n := len(spans.Spans()); n < len(w.Seen) {
				t.Errorf("%d spans of %d requests", n, len(w.Seen))
			}
			spans.CheckClosed(spans.Spans())
			w.Seen = append(w.Seen, e2e.Sighting{Where: "the traces", Text: spans.Text()})
			w.Check()
			checkLines(t, s.Log.String(), map[string]string{"local": "text", "hosted": "json"}[profile])
			w.CheckFiles(s, "valid key", "revoked key", "key with a wrong secret", "malformed key")
		})
	}
}

// operator contains the flags for a key with every scope. All keys created with them are in one
// group.
var operator = []string{"--scopes", "admin", "--all-accounts", "--group", "operators"}

// createSecrets creates a channel, a session, an upload and a blob. Their ids and names are
// secrets.
func createSecrets(w *e2e.Watch, s *e2e.Server) *e2e.Channel {
	w.T.Helper()
	admin := s.As(s.NewKey(operator...))
	account := strings.ToLower(plant(w, "account"))
	admin.Must(204, "PUT", e2e.BlobTarget(account, plant(w, "name")), []byte("kept"))
	w.Keep("upload", admin.Begin(account, w.Secrets["name"], 1000))
	c := admin.Open(s.Payer(1), 1000)
	c.S = s
	w.Keep("channel", c.ID)
	first := payment(w, "accepted micropayment", c.Next(10))
	w.Keep("session", e2e.AsSession(w.T, s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(w.T, first, ""))).SessionID)
	for _, label := range []string{"query", "header", "member", "request id", "user", "other session", "other channel", "other upload", "idempotency key", "metadata", "metadata name"} {
		plant(w, label)
	}
	return c
}

// credentials returns credentials of every kind: valid, invalid, revoked and none.
func credentials(w *e2e.Watch, s *e2e.Server) []e2e.Headers {
	secret := func(key string) string { return strings.Split(key, "_")[2] }
	right := s.NewKey(operator...)
	w.Keep("valid key", secret(right))
	revoked := s.NewKey("--scopes", "admin", "--all-accounts")
	w.Keep("revoked key", secret(revoked))
	e2e.Key(w.T, s.Data, "revoke", revoked)
	limited := s.NewKey("--scopes", "read", "--accounts", "bob")
	w.Keep("key without scopes", secret(limited))
	stranger := s.NewKey("--scopes", "admin", "--accounts", "bob")
	w.Keep("key for another account", secret(stranger))
	wrong := strings.ToLower(plant(w, "key with a wrong secret") + rand.Text() + rand.Text())[:56]
	w.Keep("key with a wrong secret", wrong)
	none := plant(w, "malformed key")
	return []e2e.Headers{
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
func walk(w *e2e.Watch, s *e2e.Server, c *e2e.Channel, h e2e.Headers) {
	w.T.Helper()
	account, name, query, header, member := strings.ToLower(w.Secrets["account"]), w.Secrets["name"], w.Secrets["query"], w.Secrets["header"], w.Secrets["member"]
	ask := func(may, method, target, body string, more ...string) e2e.Response {
		return w.Ask(s, may, method, target, body, slices.Concat(e2e.Headers{"X-Request-Id", w.Secrets["request id"] + "\"<>", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "v=" + w.Secrets["header"], "Baggage", "b=" + w.Secrets["header"]}, h, more)...)
	}
	blob := e2e.BlobTarget(account, name)
	ask("", "PUT", blob, "kept, too", "Content-Type", "text/plain", "Blob-Meta-Note", w.Secrets["metadata"], "Blob-Meta-"+w.Secrets["metadata name"], "x",
		"Content-Disposition", w.Secrets["metadata"])
	for _, one := range []e2e.Headers{
		{"If-Match", `"` + header + `"`}, {"If-None-Match", header}, {"Content-Digest", "sha-256=:" + header + ":"}, {"Repr-Digest", header}, {"Blob-Expires", header},
		{"Content-Encoding", header}, {"Content-Range", header}, {"Content-Type", header + strings.Repeat("x", 255)}, {"Content-Digest", e2e.WrongDigest()},
		{"Blob-Meta-" + header, "\xe9"}, {"Blob-Meta-Note", header + "\xe9"}, {"Blob-Meta-" + header, "x", "blob-meta-" + header, "x"}, {"Cache-Control", header + "="}, {"Content-Language", header + strings.Repeat("x", 255)},
	} {
		ask("", "PUT", blob, "refused", one...)
		ask("", "PUT", e2e.PartTarget(w.Secrets["upload"], 0), "refused", one...)
	}
	for _, method := range []string{"GET", "HEAD"} {
		for _, one := range []e2e.Headers{
			nil, {"Session-Id", w.Secrets["session"]}, {"Session-Id", w.Secrets["other session"]}, {"Session-Id", w.Secrets["session"], "Range", "bytes=" + header},
			{"Session-Id", w.Secrets["session"], "Range", "bytes=99999-"}, {"Session-Id", w.Secrets["session"], "If-Match", header},
			{"X-Shelby-Micropayment", payment(w, "refused micropayment", s.Payer(2).Sign(w.T, 1, 1, 1).Base64())},
			{"X-Shelby-Micropayment", header}, {"Session-Id", w.Secrets["session"], "Max-Chunksets", header},
			{"Cookie", "session=" + header}, {"Referer", "https://x/" + header}, {"User-Agent", header}, {"X-Forwarded-For", header}, {"Origin", "https://" + header + ".example"},
		} {
			ask("metadata,metadata name", method, blob, "", one...)
		}
	}
	stale := w.Secrets["accepted micropayment"]
	ask("accepted micropayment,metadata,metadata name", "GET", blob, "", "X-Shelby-Micropayment", c.Payer.Sign(w.T, c.Number, 1, 10).Base64())
	ask("accepted micropayment,session", "POST", "/v1/sessions", string(e2e.PurchaseBody(w.T, c.Payer.Sign(w.T, c.Number, 1, 9).Base64(), w.Secrets["session"])))
	ask("", "POST", "/v1/sessions", string(e2e.PurchaseBody(w.T, stale, "")))
	ask("", "POST", "/v1/sessions", string(e2e.PurchaseBody(w.T, s.Payer(2).Sign(w.T, 1, 1, 1).Base64(), w.Secrets["other session"])))
	ask("user", "POST", "/v1/sessions", fmt.Sprintf(`{"userIdentity":%q}`, w.Secrets["user"]), "Idempotency-Key", w.Secrets["idempotency key"])
	ask("", "POST", "/v1/sessions", fmt.Sprintf(`{"userIdentity":[%q]}`, member), "Idempotency-Key", w.Secrets["idempotency key"]+" ")
	ask("", "POST", "/v1/sessions", fmt.Sprintf(`{"userIdentity":%q`, member))
	for _, id := range []string{"session", "other session"} {
		ask(id, "GET", "/v1/sessions/"+w.Secrets[id], "")
		ask("", "POST", "/v1/sessions/"+w.Secrets[id]+"/use", "")
		ask("", "DELETE", "/v1/sessions/"+w.Secrets[id], "")
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
		at := "/v1/multipart-uploads/" + w.Secrets[id]
		ask("upload,name,account", "GET", at, "")
		ask("", "GET", at+"?after="+query, "")
		ask("", "PUT", at+"/parts/"+query, "refused")
		ask("", "PUT", at+"/parts/0", strings.Repeat("x", 1001))
		ask("", "POST", at+"/complete", fmt.Sprintf(`{"etag":%q}`, member), "If-Match", `"`+header+`"`)
	}
	if begun.Status == 200 {
		id := e2e.Text(w.T, begun.Object(w.T), "uploadId")
		ask("", "DELETE", "/v1/multipart-uploads/"+id, "")
		ask("", "PUT", e2e.PartTarget(id, 0), "refused")
		w.Secrets["upload "+id] = id
		for i := range w.Seen {
			w.Seen[i].May = append(w.Seen[i].May, "upload "+id) // while it was open, its id was returned and listed
		}
	}

	ask("", "POST", e2e.Channels, fmt.Sprintf(`{"userIdentity":%q}`, member))
	ask("", "POST", e2e.Channels, fmt.Sprintf(`{"deposit":%q}`, member))
	for _, id := range []string{"channel", "other channel"} {
		at := e2e.Channels + "/" + w.Secrets[id]
		ask("channel,session", "GET", at, "")
		ask("channel,session", "POST", at+"/deposit", `{"amount":"1"}`)
		ask("", "POST", at+"/deposit", fmt.Sprintf(`{"amount":%q}`, member))
	}
	ask("", "POST", e2e.Channels+"/"+w.Secrets["other channel"]+"/close", "")
	for _, target := range []string{"/" + query, "/v1/" + query, "/v1/info?x=" + query, "/livez?x=" + query, "/v1/blobs/" + account + "%2F" + query + "/x"} {
		for _, method := range []string{"GET", "OPTIONS", "PATCH"} {
			ask("", method, target, "")
		}
	}
}

// sendRaw sends requests that no client library would send.
func sendRaw(w *e2e.Watch, s *e2e.Server) {
	w.T.Helper()
	secret := plant(w, "raw text")
	account := strings.ToLower(w.Secrets["account"])
	const esc = "\x1b[31m"
	targets := []string{
		"/v1/blobs/" + account + "/" + secret + "%0d%0aX-Injected:%20yes", "/v1/blobs/" + account + "/" + secret + "%1b%5B31m", "/v1/blobs/" + account + "/" + secret + esc,
		"/v1/blobs/" + account + "/" + secret + "\x85\xff", "/v1/blobs/" + account + "/\"" + secret + "\"'", "/v1/blobs/" + account + "/" + secret + "%zz",
		"/" + secret + "%0a", "/v1/blobs/" + account + "?prefix=" + secret + "%0d%0aX-Injected:%20yes", "/v1/sessions/" + secret + "%0d%0aX-Injected:%20yes",
	}
	for _, target := range targets {
		for _, method := range []string{"GET", "PUT", "OPTIONS"} {
			raw(w, s, method+" "+s.Base+target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
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
			raw(w, s, method+" "+s.Base+"/v1/blobs/"+account+"/name HTTP/1.1\r\nHost: localhost\r\n"+field+"\r\nConnection: close\r\n\r\n")
		}
	}
	for _, line := range []string{
		"GET http://user:" + secret + "@localhost" + s.Base + "/v1/info HTTP/1.1", "GET http://" + secret + ".example/v1/info HTTP/1.1", "GET /v1/info " + secret,
		"GET /v1/info HTTP/" + secret, secret, secret + esc + " /v1/info HTTP/1.1", "GET " + secret + " HTTP/1.1", "CONNECT " + secret + ":443 HTTP/1.1", "GET /v1/info#" + secret + " HTTP/1.1",
	} {
		raw(w, s, line+"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	}
}

// stall leaves requests in progress, so that profiles show them.
func stall(w *e2e.Watch, s *e2e.Server) {
	w.T.Helper()
	admin := s.As(s.NewKey(operator...))
	w.Keep("key at work", strings.Split(admin.Key, "_")[2])
	account, name := strings.ToLower(w.Secrets["account"]), plant(w, "name at work")
	for _, target := range []string{e2e.BlobTarget(account, name), e2e.PartTarget(w.Secrets["upload"], 0)} {
		connection := s.Dial()
		s.Write(connection, "PUT "+s.Base+target+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+admin.Key+"\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
		interim := make([]byte, len("HTTP/1.1 100"))
		if _, err := io.ReadFull(connection, interim); err != nil || string(interim) != "HTTP/1.1 100" {
			w.T.Fatalf("interim response %q, %v", interim, err)
		}
		w.Stalled = append(w.Stalled, connection)
	}
}
