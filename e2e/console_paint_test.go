package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// heldRequests are the requests of a page that wait until they are released.
type heldRequests struct {
	p    *consolePage
	lock sync.Mutex
	held []*fetch.EventRequestPaused
}

// hold makes all requests of these types wait.
func (p *consolePage) hold(types ...network.ResourceType) *heldRequests {
	p.t.Helper()
	h := &heldRequests{p: p}
	err := chromedp.Listen(p.ctx, func(event any) {
		if paused, ok := event.(*fetch.EventRequestPaused); ok {
			h.lock.Lock()
			defer h.lock.Unlock()
			h.held = append(h.held, paused)
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	var patterns []*fetch.RequestPattern
	for _, one := range types {
		patterns = append(patterns, &fetch.RequestPattern{ResourceType: one})
	}
	if _, err := chromedp.Call(p.ctx, fetch.Enable, fetch.EnableParams{Patterns: patterns}); err != nil {
		p.t.Fatal(err)
	}
	return h
}

// paths returns the paths of the held requests below the folder of assets.
func (h *heldRequests) paths() []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	var paths []string
	for _, one := range h.held {
		if _, asset, found := strings.Cut(one.Request.URL, "/assets-"); found {
			_, asset, _ = strings.Cut(asset, "/")
			paths = append(paths, asset)
		}
	}
	slices.Sort(paths)
	return paths
}

// release sends the held requests, and holds no more.
func (h *heldRequests) release() {
	h.p.t.Helper()
	if _, err := chromedp.Call(h.p.ctx, fetch.Disable, struct{}{}); err != nil {
		h.p.t.Fatal(err)
	}
}

const firstPaint = `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`

// TestConsolePaintsBeforeScripts checks that the first paint needs the page and one style sheet only:
// the frame of the page is shown, in the theme that was chosen, while all other requests wait. The
// page names all modules of its views, so that no module is requested only after another has come.
func TestConsolePaintsBeforeScripts(t *testing.T) {
	t.Parallel()
	s := start(t, options{addr: "localhost:0"})
	p := openConsole(t, s, "")
	p.theme("light")
	p.press("Switch between light and dark")
	p.until(`document.documentElement.dataset.theme === "dark"`)
	p.do(chromedp.Navigate("about:blank"))

	held := p.hold(network.ResourceTypeScript, network.ResourceTypeImage, network.ResourceTypeFont, network.ResourceTypeFetch,
		network.ResourceTypeXHR, network.ResourceTypeOther)
	if _, err := chromedp.Call(p.ctx, page.Navigate, page.NavigateParams{URL: p.address()}); err != nil {
		t.Fatal(err)
	}
	p.until(firstPaint)
	if sheets := evaluate[int](p, "document.styleSheets.length"); sheets != 1 {
		t.Errorf("%d style sheets were loaded before the first paint, want 1", sheets)
	}
	if got := p.text("nav"); !strings.Contains(got, "Blobs") || !strings.Contains(got, "Status") {
		t.Errorf("the navigation before the scripts is %q", got)
	}
	if got := evaluate[string](p, "getComputedStyle(document.body).backgroundColor"); got != "rgb(18, 20, 22)" {
		t.Errorf("the background before the scripts is %s, want that of the dark theme", got)
	}
	named := evaluate[[]string](p, `[...document.querySelectorAll("link[rel=modulepreload]")].map((l) => l.getAttribute("href").replace(/^assets-\w+\//, "")).sort()`)
	held.release()
	p.untilText("main", "Nothing is stored yet")
	loaded := evaluate[[]string](p, `performance.getEntriesByType("resource").map((r) => r.name).filter((name) => name.endsWith(".js")).map((name) => name.replace(/.*\/assets-\w+\//, "")).sort()`)
	if !slices.Equal(loaded, named) {
		t.Errorf("the page loaded the modules %q, but names %q", loaded, named)
	}
}

// TestConsolePaintTime logs when the first paint is, without and with a filled cache, and how long the
// browser needs for a plain text. This depends on the machine, so nothing is asserted.
func TestConsolePaintTime(t *testing.T) {
	s := start(t, options{addr: "localhost:0"})
	p := openConsole(t, s, "")
	for _, one := range []struct {
		what, address string
		cached        bool
	}{
		{"a plain text", p.address() + "assets-0/vendor/uplot/LICENSE.txt", false},
		{"the console", p.address(), false},
		{"the console, from the cache", p.address(), true},
	} {
		if _, err := chromedp.Call(p.ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: !one.cached}); err != nil {
			t.Fatal(err)
		}
		var times []float64
		for range 9 {
			p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(one.address))
			p.until(firstPaint)
			times = append(times, evaluate[float64](p, firstPaint))
		}
		slices.Sort(times)
		t.Logf("%s: first contentful paint after %.0f ms, the median of %.0f", one.what, times[len(times)/2], times)
	}
}
