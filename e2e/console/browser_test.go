package console

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestBrowserClient runs the public client's browser build in a page from another origin on
// loopback.
func TestBrowserClient(t *testing.T) {
	testenv.Require(t, testenv.Chromium)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	page := e2e.ServePage(t, bundle(t, "page.js"))
	browser := e2e.OpenBrowser(t, page)
	got, err := chromedp.Run(browser, chromedp.Evaluate[struct {
		Sent             string      `json:"sent"`
		Received         string      `json:"received"`
		PartSent         string      `json:"partSent"`
		PartReceived     string      `json:"partReceived"`
		MissingStatus    int         `json:"missingStatus"`
		MissingBody      e2e.Problem `json:"missingBody"`
		MissingRequestID string      `json:"missingRequestId"`
		ETag             string      `json:"etag"`
		ContentRange     string      `json:"contentRange"`
		RemovedStatus    int         `json:"removedStatus"`
	}]("window.transfer("+string(e2e.AsJSON(t, s.URL))+")", chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v\n%s", err, e2e.Tail(s.Log.String()))
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
	testenv.OK(t, err)
	out := filepath.Join(t.TempDir(), "page.js")
	esbuild := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules", ".bin", "esbuild"),
		script, "--bundle", "--inject:buffer.js", "--format=iife", "--platform=browser", "--log-level=error", "--outfile="+out)
	esbuild.Dir = dir
	if text, err := esbuild.CombinedOutput(); err != nil {
		t.Fatalf("esbuild: %v\n%s", err, text)
	}
	return out
}
