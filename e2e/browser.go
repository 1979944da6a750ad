package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"sluice/test/testenv"
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

// OpenBrowser opens a page as StartBrowser does. The context bounds all that the test does with it.
func OpenBrowser(t *testing.T, page string, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	bounded, expire := context.WithTimeout(StartBrowser(t, page, more...), Patience)
	t.Cleanup(expire)
	return bounded
}

// StartBrowser opens a page in a headless Chromium, and closes it when the test ends. Pages of
// different tests share nothing but the processes; with further options they do not share these
// either.
func StartBrowser(t *testing.T, page string, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	var tab context.Context
	if len(more) > 0 {
		browser, stop, err := startChromium(more)
		testenv.OK(t, err)
		testenv.AtEnd(t, stop)
		tab = browser
	} else {
		browser, err := sharedChromium()
		testenv.OK(t, err)
		// Cookies, storage and caches belong to the browser context.
		tab, _ = chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
		testenv.AtEnd(t, func() error { return chromedp.Cancel(tab) })
		testenv.OK(t, chromedp.Do(tab)) // opens it, and would close it with the context
		_, err = chromedp.Call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		testenv.OK(t, err)
	}
	bounded, expire := context.WithTimeout(tab, Patience)
	defer expire()
	testenv.OK(t, chromedp.Do(bounded, chromedp.Navigate(page)))
	return tab
}

// ForeignHost is a page's host. Its origin and site differ from the services'. The browser resolves
// it to loopback.
const ForeignHost = "page.example"

// OpenForeign opens a page of localhost under the name foreignHost.
func OpenForeign(t *testing.T, page string) context.Context {
	t.Helper()
	return OpenBrowser(t, strings.Replace(page, "localhost", ForeignHost, 1), chromedp.Flag("host-resolver-rules", "MAP "+ForeignHost+" 127.0.0.1"))
}
