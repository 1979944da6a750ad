package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/e2e"
	"sluice/exchange/headers"
	"sluice/test/testenv"
)

// pageView is a response as a page sees it.
type pageView struct {
	Status  int
	Headers map[string]string
	Size    int
	Body    e2e.Problem
}

// Check fails the test unless the page could read the status, the headers h and, for an error, the
// body with this code. An empty value matches any.
func (v pageView) Check(t *testing.T, name string, status int, code string, h ...string) {
	t.Helper()
	if v.Status != status {
		t.Errorf("%s: the page saw %s, want %d", name, e2e.AsJSON(t, v), status)
		return
	}
	for i := 0; i < len(h); i += 2 {
		if got := v.Headers[strings.ToLower(h[i])]; got == "" || h[i+1] != "" && got != h[i+1] {
			t.Errorf("%s: the page saw %s as %q, want %q (empty: any)", name, h[i], got, h[i+1])
		}
	}
	if code == "" {
		return
	}
	if v.Body.Code == nil || *v.Body.Code != code || v.Body.RequestID == nil || *v.Body.RequestID != v.Headers["x-request-id"] {
		t.Errorf("%s: the page saw %s, want the error %s", name, e2e.AsJSON(t, v), code)
	}
}

// TestForeignPage uses a hosted service from a foreign origin's page, with the public client and
// with fetch. The browser's preflights have no key.
func TestForeignPage(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	s := e2e.StartHosted(t, "paid", "--log-level", "debug") // logs preflights too
	key := s.NewKey("--scopes", "read,write", "--accounts", "0x1")
	browser := e2e.OpenForeign(t, e2e.ServePage(t, bundle(t, "hostedpage.js")))
	got, err := chromedp.Run(browser, chromedp.Evaluate[struct {
		Whole, Piece                                              bool
		Ranged, Head, Missing, UnknownKey, NoKey, Unpaid, Removed pageView
		Stored, Described, Created                                pageView
		Listed                                                    []map[string]any
		WithCredentials                                           string
	}](fmt.Sprintf("window.visit(%s, %s)", e2e.AsJSON(t, s.URL), e2e.AsJSON(t, key)), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v\n%s", err, e2e.Tail(s.Log.String()))
	}
	if !got.Whole || !got.Piece {
		t.Errorf("the page received other bytes than it sent: whole %v, range %v", got.Whole, got.Piece)
	}
	const size = 6<<20 + 7
	limits := []string{"RateLimit", "", "RateLimit-Policy", "", "X-Request-Id", ""}
	got.Ranged.Check(t, "range", 206, "", append(limits, "ETag", "", "Content-Range", fmt.Sprintf("bytes 5-9/%d", size), "Content-Length", "5", "Accept-Ranges", "bytes")...)
	got.Head.Check(t, "HEAD", 200, "", append(limits, "ETag", got.Ranged.Headers["etag"], "Content-Length", fmt.Sprint(size), "Chunksets-Required", "1", "Chunkset-Price", "1")...)
	got.Missing.Check(t, "absent blob", 404, "blob_not_found", limits...)
	got.UnknownKey.Check(t, "unknown key", 401, "credential_unknown", append(limits, "WWW-Authenticate", "")...)
	got.NoKey.Check(t, "write without a key", 401, "credential_required", append(limits, "WWW-Authenticate", "")...)
	got.Unpaid.Check(t, "read without a payment", 402, "payment_required", limits...)
	got.Stored.Check(t, "PUT with metadata", 204, "", append(limits, "ETag", "")...)
	got.Created.Check(t, "PUT with a condition", 204, "", append(limits, "ETag", "")...)
	if len(got.Listed) != 1 || got.Listed[0]["name"] != "created" || got.Listed[0]["cacheControl"] != nil {
		t.Errorf("a blob stored with a condition is listed as %v", got.Listed)
	}
	got.Described.Check(t, "metadata", 200, "", "Blob-Meta-Color", "red", "Content-Disposition", "attachment")
	got.Removed.Check(t, "DELETE", 204, "", limits...)
	if got.Ranged.Size != 5 || got.WithCredentials != "TypeError" {
		t.Errorf("the page read %d bytes of a range, and with credentials of the browser %q", got.Ranged.Size, got.WithCredentials)
	}
	if !strings.Contains(s.SettledLog(), "method=OPTIONS") {
		t.Errorf("the browser sent no preflight:\n%s", e2e.Tail(s.Log.String()))
	}
}

// TestSDKInAPage uses both interfaces by Amazon's SDK and fetch in pages of other origins, with
// headers that tracing adds: the local instance's page is on loopback, the hosted one's anywhere.
func TestSDKInAPage(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	script := bundle(t, "s3page.js")
	for _, profile := range []string{"local", "hosted"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			open, flags := e2e.OpenForeign, []string{"--s3-addr", "localhost:0"}
			var s *e2e.Server
			id, secret := "any", "any"
			if profile == "hosted" {
				file := filepath.Join(testenv.MemoryDir(t), "s3.key")
				testenv.OK(t, os.WriteFile(file, []byte(strings.Repeat("5a", 32)+"\n"), 0o600))
				s = e2e.StartHosted(t, "public", append(flags, "--s3-secret-key-file", file)...)
				id, secret = e2e.S3Key(t, s.Data, file, "create", "--scopes", "read,write", "--accounts", "team")
			} else {
				open, s = func(t *testing.T, page string) context.Context { return e2e.OpenBrowser(t, page) }, e2e.Start(t, e2e.Options{Addr: "localhost:0", Flags: flags})
			}
			got, err := chromedp.Run(open(t, e2e.ServePage(t, script)), chromedp.Evaluate[map[string]any](fmt.Sprintf("window.visit(%s, %s, %s, %s)",
				e2e.AsJSON(t, s.S3), e2e.AsJSON(t, id), e2e.AsJSON(t, secret), e2e.AsJSON(t, s.URL)), chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatalf("%v\n%s", err, e2e.Tail(s.Log.String()))
			}
			const want = `{"color":"blue","deleted":2,"listed":["a b/ü.txt","parts"],"missing":"NoSuchKey","native":"a part","read":["from a page","a part"],"tags":true}`
			testenv.Equal(t, string(e2e.AsJSON(t, got)), want, "the page's results")
		})
	}
}

// hostile are documents with scripts that leave a mark when they run, and set a cookie.
var hostile = map[string]string{
	"text/html": `<!doctype html><html><title>x</title><script>` + hostileScript + `</script>
<img src="data:," onerror="document.documentElement.setAttribute('data-ran', 'yes')"></html>`,
	"image/svg+xml":         `<svg xmlns="http://www.w3.org/2000/svg"><script>` + hostileScript + `</script></svg>`,
	"application/xhtml+xml": `<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title><script>` + hostileScript + `</script></head></html>`,
}

const hostileScript = `document.documentElement.setAttribute('data-ran', 'yes'); document.cookie = 'planted=1; path=/'`

// pageState is a document's state in a browser.
type pageState struct {
	Root   string // the outermost element
	Ran    bool   // whether one of its scripts ran
	Origin string
	Cookie string
}

// visit opens a document in a browser.
func visit(browser context.Context, t *testing.T, url string) pageState {
	t.Helper()
	if err := chromedp.Do(browser, chromedp.Navigate(url)); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	state, err := chromedp.Run(browser, chromedp.Evaluate[pageState](`(() => {
		let cookie = "unavailable";
		try { cookie = document.cookie } catch {}
		const root = document.documentElement;
		return {root: root.localName, ran: root.getAttribute("data-ran") === "yes", origin: self.origin, cookie};
	})()`))
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return state
}

// TestHostileBlobs checks that a browser shows a stored document, but not in the service's origin,
// and without running its scripts. The scripts would run if another server sent the document. No
// service sets a cookie.
// Invariant 48.
func TestHostileBlobs(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	control := serveHostile(t)
	hosted, local := e2e.StartHosted(t, "public").AsAdmin(), e2e.Start(t, e2e.Options{})
	browser := e2e.OpenBrowser(t, control.url+"/empty")
	for _, s := range []*e2e.Server{hosted, local} {
		for kind, document := range hostile {
			s.Must(204, "PUT", e2e.BlobTarget("0x1", kind), []byte(document), "Content-Type", kind)
			got := visit(browser, t, s.URL+e2e.BlobTarget("0x1", kind))
			if got.Ran || got.Origin != "null" || got.Cookie != "unavailable" || got.Root == "" {
				t.Errorf("a blob of %s on %s is shown as %+v", kind, s.URL, got)
			}
		}
	}
	// Cookies are shared between ports, so this server receives the services' cookies.
	if got := visit(browser, t, control.url+"/empty"); got.Cookie != "" {
		t.Errorf("the services set the cookies %q", got.Cookie)
	}
	if cookies := control.cookies(); len(cookies) != 0 {
		t.Errorf("the browser sent the cookies %q", cookies)
	}
	for kind := range hostile {
		if got := visit(browser, t, control.url+"/"+kind); !got.Ran || got.Origin != control.url || !strings.Contains(got.Cookie, "planted=1") {
			t.Errorf("the document of %s is harmless on any server, so the test shows nothing: %+v", kind, got)
		}
	}
	visit(browser, t, control.url+"/empty")
	if len(control.cookies()) == 0 {
		t.Error("the browser sends no cookies, so the test shows nothing")
	}
}

// TestBlobsAreNoScripts checks that a browser runs no blob in the console's origin: neither as a
// script or module, nor as a worker, nor as a style sheet. Somebody who can place an element in the
// console's page could demand this. The browser also registers no blob as a service worker, from
// any page.
// Invariant 48.
func TestBlobsAreNoScripts(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	hosted := e2e.StartHosted(t, "public", "--console")
	for _, s := range []*e2e.Server{hosted.AsAdmin(), e2e.Start(t, e2e.Options{Addr: "localhost:0"})} {
		script, style := e2e.BlobTarget("0x1", "hostile.js"), e2e.BlobTarget("0x1", "hostile.css")
		s.Must(204, "PUT", script, []byte(`(self.window ?? self).ran = true; self.postMessage?.("ran"); self.onconnect = (e) => e.ports[0].postMessage("ran")`), "Content-Type", "text/javascript")
		s.Must(204, "PUT", style, []byte(`html { --ran: yes }`), "Content-Type", "text/css")
		at := strings.Replace(s.URL, "127.0.0.1", "localhost", 1) // where browsers have service workers
		browser := e2e.OpenBrowser(t, at+"/console/")
		got, err := chromedp.Run(browser, chromedp.Evaluate[map[string]string](fmt.Sprintf(`(async () => {
			const script = %s, style = %s;
			const element = (name, attributes) => new Promise((resolve) => {
				const e = Object.assign(document.createElement(name), attributes);
				e.onload = () => resolve("loaded");
				e.onerror = () => resolve("blocked");
				document.head.append(e);
			});
			const worker = (start) => new Promise((resolve) => {
				try {
					const w = start(), port = w.port ?? w;
					w.onerror = () => resolve("blocked");
					port.onmessage = () => resolve("ran");
				} catch { resolve("blocked") }
			});
			return {
				script: await element("script", {src: script}),
				module: await element("script", {src: script, type: "module"}),
				import: await import(script).then(() => "loaded", () => "blocked"),
				style: await element("link", {rel: "stylesheet", href: style}),
				worker: await worker(() => new Worker(script)),
				shared: await worker(() => new SharedWorker(script)),
				service: await navigator.serviceWorker.register(script).then(() => "registered", () => "blocked"),
				ran: String(window.ran), styled: getComputedStyle(document.documentElement).getPropertyValue("--ran"),
				own: await element("script", {src: document.querySelector("script[src]").src}),
			};
		})()`, e2e.AsJSON(t, at+script), e2e.AsJSON(t, at+style)), chromedp.EvalAwaitPromise))
		testenv.OK(t, err)
		for label, want := range map[string]string{"script": "blocked", "module": "blocked", "import": "blocked", "style": "blocked", "worker": "blocked",
			"shared": "blocked", "service": "blocked", "ran": "undefined", "styled": "", "own": "loaded"} {
			if got[label] != want {
				t.Errorf("in the console of %s, a blob as %s: %q, want %q", at, label, got[label], want)
			}
		}
		// A page without a policy, which a proxy serves in the same origin.
		for _, method := range []string{"GET", "HEAD"} {
			r := s.Do(method, script, nil, "Service-Worker", "script")
			if r.Status != 403 {
				t.Errorf("%s of a service worker: %v", method, r)
			}
		}
		e2e.CheckProblem(t, s.Do("GET", script, nil, "Service-Worker", "script"), 403, "script_forbidden")
		s.Must(200, "GET", script, nil)
	}
}

// hostileServer serves the hostile documents without protective headers.
type hostileServer struct {
	url string
	mu  sync.Mutex
	got []string // Cookie headers
}

func serveHostile(t *testing.T) *hostileServer {
	t.Helper()
	h := &hostileServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.got = append(h.got, r.Header["Cookie"]...)
		h.mu.Unlock()
		kind := strings.TrimPrefix(r.URL.Path, "/")
		document, ok := hostile[kind]
		if !ok {
			kind, document = "text/html", "<!doctype html><title>empty</title>"
		}
		w.Header().Set("Content-Type", kind)
		if _, err := w.Write([]byte(document)); err != nil {
			t.Errorf("page: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// cookies returns the Cookie headers received so far.
func (h *hostileServer) cookies() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got
}

// TestEmbeddedBlobs checks that any page can embed a hosted service's public blob, and that only
// pages from the same host can embed a local instance's blob.
func TestEmbeddedBlobs(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	hosted, local := e2e.StartHosted(t, "public").AsAdmin(), e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	const image = `<svg xmlns="http://www.w3.org/2000/svg" width="3" height="2"/>`
	page := e2e.ServePage(t, bundle(t, "hostedpage.js"))
	foreign, neighbour := e2e.OpenForeign(t, page), e2e.OpenBrowser(t, page)
	for _, test := range []struct {
		name    string
		s       *e2e.Server
		browser context.Context
		want    string
	}{
		{"hosted, foreign page", hosted, foreign, "shown"},
		{"hosted, page of another port", hosted, neighbour, "shown"},
		{"local, foreign page", local, foreign, "blocked"},
		{"local, page of another port", local, neighbour, "shown"},
	} {
		target := e2e.BlobTarget("0x1", "image")
		test.s.Must(204, "PUT", target, []byte(image), "Content-Type", "image/svg+xml")
		got, err := chromedp.Run(test.browser, chromedp.Evaluate[string](fmt.Sprintf(`new Promise((resolve) => {
			const image = new Image();
			image.onload = () => resolve("shown");
			image.onerror = () => resolve("blocked");
			image.src = %s;
		})`, e2e.AsJSON(t, test.s.URL+target)), chromedp.EvalAwaitPromise))
		if err != nil || got != test.want {
			t.Errorf("%s: the image is %s, %v, want %s", test.name, got, err, test.want)
		}
	}
}

// TestBlobsAreGuarded checks that every response about a blob has headers for two purposes. They
// prevent a browser from sniffing its type and from running it in the service's origin, and they
// restrict the pages that may embed it.
// Invariant 48.
func TestBlobsAreGuarded(t *testing.T) {
	t.Parallel()
	for embedding, s := range map[string]*e2e.Server{"cross-origin": e2e.StartHosted(t, "public").AsAdmin(), "same-site": e2e.Start(t, e2e.Options{})} {
		for i, kind := range []string{"", "text/html", "image/svg+xml", "text/javascript", "application/pdf", "multipart/related"} {
			target := e2e.BlobTarget("0x1", fmt.Sprint("blob ", i))
			etag := s.Must(204, "PUT", target, e2e.Content(1, 1000), "Content-Type", kind).Header.Get("ETag")
			for _, test := range []struct {
				method string
				h      e2e.Headers
				status int
			}{
				{"GET", nil, 200}, {"HEAD", nil, 200}, {"GET", e2e.Headers{"Range", "bytes=1-2"}, 206}, {"GET", e2e.Headers{"Range", "bytes=1-2,9-9"}, 206},
				{"GET", e2e.Headers{"If-None-Match", etag}, 304},
			} {
				r := s.Must(test.status, test.method, target, nil, test.h...)
				for name, want := range map[string]string{
					"X-Content-Type-Options": "nosniff", "Content-Security-Policy": headers.ContentPolicy(kind), "Cross-Origin-Resource-Policy": embedding,
				} {
					if got := r.Header.Get(name); got != want {
						t.Errorf("%s %q of a blob of %q: %s is %q, want %q", test.method, test.h, kind, name, got, want)
					}
				}
			}
		}
		// Errors cannot be embedded either.
		r := s.Do("GET", e2e.BlobTarget("0x1", "<script>"), nil)
		e2e.CheckProblem(t, r, 404, "blob_not_found")
		if got := r.Header.Get("Cross-Origin-Resource-Policy"); got != embedding {
			t.Errorf("an error: Cross-Origin-Resource-Policy is %q, want %q", got, embedding)
		}
	}
}
