package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/testenv"
)

// TestBrowserClient runs the public client's browser build in a page from another origin on
// loopback.
func TestBrowserClient(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	s := start(t, options{addr: "localhost:0"})
	page := servePage(t, bundle(t, "page.js"))
	browser := openBrowser(t, page)
	got, err := chromedp.Run(browser, chromedp.Evaluate[struct {
		Sent             string  `json:"sent"`
		Received         string  `json:"received"`
		PartSent         string  `json:"partSent"`
		PartReceived     string  `json:"partReceived"`
		MissingStatus    int     `json:"missingStatus"`
		MissingBody      problem `json:"missingBody"`
		MissingRequestID string  `json:"missingRequestId"`
		ETag             string  `json:"etag"`
		ContentRange     string  `json:"contentRange"`
		RemovedStatus    int     `json:"removedStatus"`
	}]("window.transfer("+string(asJSON(t, s.url))+")", chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(s.log.String()))
	}
	if len(got.Sent) != 64 || got.Received != got.Sent {
		t.Errorf("the page sent %s and received %s", got.Sent, got.Received)
	}
	if len(got.PartSent) != 64 || got.PartReceived != got.PartSent {
		t.Errorf("the page requested a range of %s and received %s", got.PartSent, got.PartReceived)
	}
	body := got.MissingBody
	if got.MissingStatus != 404 || body.Code == nil || *body.Code != "blob_not_found" || body.RequestID == nil || *body.RequestID != got.MissingRequestID {
		t.Errorf("the page saw the error %d %v with X-Request-Id %q", got.MissingStatus, body, got.MissingRequestID)
	}
	if got.ETag == "" || got.ContentRange != "bytes 0-0/6291463" {
		t.Errorf("the page saw ETag %q and Content-Range %q", got.ETag, got.ContentRange)
	}
	if got.RemovedStatus != 204 {
		t.Errorf("the page's DELETE got %d", got.RemovedStatus)
	}
}

// bundle bundles a page's script with the client for the browser.
func bundle(t *testing.T, script string) string {
	t.Helper()
	dir, err := testenv.ClientDir()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "page.js")
	esbuild := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "esbuild"),
		script, "--bundle", "--inject:buffer.js", "--format=iife", "--platform=browser", "--log-level=error", "--outfile="+out)
	esbuild.Dir = dir
	if text, err := esbuild.CombinedOutput(); err != nil {
		t.Fatalf("esbuild: %v\n%s", err, text)
	}
	return out
}

// servePage serves a page with the script on localhost, at port 3000 if that is free, and returns
// its address.
func servePage(t *testing.T, script string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if _, err := w.Write([]byte(`<!doctype html><title>page</title><script src="/page.js"></script>`)); err != nil {
			t.Errorf("page: %v", err)
		}
	})
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, script) })
	listener, err := net.Listen("tcp", "127.0.0.1:3000")
	if err != nil {
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewUnstartedServer(mux)
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "http://localhost:" + port + "/"
}

// openBrowser opens a page in a headless Chromium, and stops that when the test ends. The context
// bounds all that the test does with it.
func openBrowser(t *testing.T, page string, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	bounded, expire := context.WithTimeout(startBrowser(t, page, more...), patience)
	t.Cleanup(expire)
	return bounded
}

// startBrowser is openBrowser with a context that is not bounded.
func startBrowser(t *testing.T, page string, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path, err := testenv.ChromiumPath()
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// Its folder is removed after its processes have ended.
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true))
	options = append(options, more...)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	browser, _ := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(browser); err != nil {
			t.Errorf("browser: %v", err)
		}
	})
	if err := chromedp.Do(browser); err != nil { // starts it, and would end it with the context
		t.Fatal(err)
	}
	bounded, expire := context.WithTimeout(browser, patience)
	defer expire()
	if err := chromedp.Do(bounded, chromedp.Navigate(page)); err != nil {
		t.Fatal(err)
	}
	return browser
}
