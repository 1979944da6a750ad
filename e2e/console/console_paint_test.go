package console

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// hold makes all requests with these types wait, until release.
func (p *consolePage) hold(types ...network.ResourceType) {
	p.t.Helper()
	var patterns []*fetch.RequestPattern
	for _, one := range types {
		patterns = append(patterns, &fetch.RequestPattern{ResourceType: one})
	}
	if _, err := chromedp.Call(p.ctx, fetch.Enable, fetch.EnableParams{Patterns: patterns}); err != nil {
		p.t.Fatal(err)
	}
}

// Release sends the requests that wait, and holds no more.
func (p *consolePage) Release() {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, fetch.Disable, struct{}{}); err != nil {
		p.t.Fatal(err)
	}
}

const firstPaint = `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`

// TestConsolePaintsBeforeScripts checks that the first paint needs the page and one style sheet
// only: the browser shows the page's frame, in the chosen theme, while all other requests wait. The
// page names all modules that its views need, so that the browser requests no module only after
// another has come.
// Invariant 161.
func TestConsolePaintsBeforeScripts(t *testing.T) {
	t.Parallel()
	_, p := openLocal(t, "")
	p.theme("light")
	p.press("Switch between light and dark")
	p.until(`document.documentElement.dataset.theme === "dark"`)
	p.Do(chromedp.Navigate("about:blank"))

	p.hold(network.ResourceTypeScript, network.ResourceTypeImage, network.ResourceTypeFont, network.ResourceTypeFetch,
		network.ResourceTypeXHR, network.ResourceTypeOther)
	if _, err := chromedp.Call(p.ctx, page.Navigate, page.NavigateParams{URL: p.address()}); err != nil {
		t.Fatal(err)
	}
	p.until(firstPaint)
	if buttons := evaluate[int](p, `document.getElementById("tools").children.length`); buttons != 0 {
		t.Fatal("a script ran, though all were held back")
	}
	if sheets := evaluate[int](p, "document.styleSheets.length"); sheets != 1 {
		t.Errorf("%d style sheets were loaded before the first paint, want 1", sheets)
	}
	if got := p.Text("nav"); !strings.Contains(got, "Blobs") || !strings.Contains(got, "Status") {
		t.Errorf("the navigation before the scripts is %q", got)
	}
	if got := evaluate[string](p, "getComputedStyle(document.body).backgroundColor"); got != "rgb(18, 20, 22)" {
		t.Errorf("the background before the scripts is %s, want the dark theme's", got)
	}
	named := evaluate[[]string](p, `[...document.querySelectorAll("link[rel=modulepreload]")].map((l) => l.getAttribute("href").replace(/^assets-\w+\//, "")).sort()`)
	p.Release()
	p.untilText("main", "Nothing is stored yet")
	loaded := evaluate[[]string](p, `performance.getEntriesByType("resource").map((r) => r.name).filter((name) => name.endsWith(".js")).map((name) => name.replace(/.*\/assets-\w+\//, "")).sort()`)
	if !slices.Equal(loaded, named) {
		t.Errorf("the page loaded the modules %q, but names %q", loaded, named)
	}
}
