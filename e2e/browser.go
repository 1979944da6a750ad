package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/testenv"
)

// ServePage serves a page with the script on localhost, at port 3000 if that is free, and returns
// its address.
func ServePage(t *testing.T, script string) string {
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
	testenv.OK(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	testenv.OK(t, err)
	return "http://localhost:" + port + "/"
}

// OpenBrowser opens a page in a headless Chromium, and stops that when the test ends. The context
// bounds all that the test does with it.
func OpenBrowser(t *testing.T, page string, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	bounded, expire := context.WithTimeout(StartBrowser(t, page, more...), Patience)
	t.Cleanup(expire)
	return bounded
}

// StartBrowser is openBrowser with a context that is not bounded.
func StartBrowser(t *testing.T, page string, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path, err := testenv.ChromiumPath()
	testenv.OK(t, err)
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
	bounded, expire := context.WithTimeout(browser, Patience)
	defer expire()
	testenv.OK(t, chromedp.Do(bounded, chromedp.Navigate(page)))
	return browser
}

// ForeignHost is a page's host. Its origin and site differ from the services'. The browser resolves
// it to loopback.
const ForeignHost = "page.example"

// OpenForeign opens a page of localhost under the name foreignHost.
func OpenForeign(t *testing.T, page string) context.Context {
	t.Helper()
	return OpenBrowser(t, strings.Replace(page, "localhost", ForeignHost, 1), chromedp.Flag("host-resolver-rules", "MAP "+ForeignHost+" 127.0.0.1"))
}
