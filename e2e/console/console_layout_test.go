package console

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/test/testenv"
)

// shiftRecorder runs before a page's scripts. It records the elements that moved without being
// scrolled (Layout Instability), also just after an input.
const shiftRecorder = `
window.__shifts = [];
new PerformanceObserver((list) => {
  for (const { value, sources } of list.getEntries()) {
    for (const { node, previousRect: a, currentRect: b } of sources) {
      __shifts.push((node?.className?.baseVal ?? node?.className ?? node?.nodeName) + " " + [a.x, a.y, a.width, a.height].map(Math.round) + " to " + [b.x, b.y, b.width, b.height].map(Math.round) + ", " + value.toFixed(4));
    }
  }
}).observe({ type: "layout-shift", buffered: true });
`

// twoFrames waits until a change has been painted.
const twoFrames = "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => r(true), 50))))"

// recordShifts records the shifts on pages that are opened from now on.
func (p *consolePage) recordShifts() {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: shiftRecorder})
	testenv.OK(p.t, err)
}

// shifts fails the test if anything has moved since it was called last.
func (p *consolePage) shifts(name string) {
	p.t.Helper()
	evaluate[bool](p, twoFrames)
	for _, shift := range evaluate[[]string](p, "__shifts.splice(0)") {
		p.t.Errorf("%s: %s", name, shift)
	}
}

// TestConsoleDoesNotMove checks that nothing on a page moves when it is loaded, and in a folder not
// by a selection, a hover, an order or a search either; nor do figures when the server goes away.
func TestConsoleDoesNotMove(t *testing.T) {
	t.Parallel()
	s, p := openLocal(t, "")
	channel := fillForScreens(s)
	p.recordShifts()
	for _, width := range widths {
		p.Do(chromedp.EmulateViewport(width, 900))
		for _, view := range []screen{
			{"accounts", "#/", "[role=grid]", "0x1"},
			{"text", "#/blob/0x1/docs%2Freadme.md", ".stage", "sluice"},
			{"image", "#/blob/0x1/photos%2Fwaves.png", ".properties", "image/png"},
			{"missing", "#/blob/0x1/absent", "main", "There is no blob"},
			{"open uploads", "#/uploads/0x1", "[role=grid]", "film.mp4"},
			{"sessions", "#/sessions", "main", "ana"},
			{"channels", "#/channels", "main", "1 open"},
			{"ledger", "#/channels/" + channel, "main table", "40"},
			{"status", "#/status", ".chart .legend", "Requests"},
			{"folder", "#/blobs/0x1/photos%2F", "[role=grid]", "harbour"},
		} {
			p.Open(view.address)
			p.untilText(view.selector, view.text)
			if view.name == "image" {
				p.until(`document.querySelector(".stage img")?.complete`)
			}
			p.shifts(fmt.Sprintf("%s at %d", view.name, width))
		}
		place := func() string {
			return evaluate[string](p, `(({ x, y, width, height }) => [x, y, width, height].join(" "))(document.querySelector(".grid-body [role=row][aria-rowindex='2']").getBoundingClientRect())`)
		}
		before := place()
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"a focus", func() { p.tabTo("row 2026/") }},
			{"a selection", func() { p.keys(" ", kb.ArrowDown, " ") }},
			{"a hover", func() { p.Do(chromedp.MouseEvent("mouseMoved", float64(width)/2, 500)) }},
			{"no selection", func() { p.keys(kb.Escape) }},
			{"a search", func() {
				evaluate[bool](p, `((f) => (f.value = "o", f.dispatchEvent(new Event("input")), true))(document.querySelector(".search input"))`)
				p.untilText(".line", "Found in")
			}},
		} {
			step.do()
			evaluate[bool](p, twoFrames)
			if after := place(); after != before {
				t.Errorf("at %d the first row was at %s, and is at %s after %s", width, before, after, step.name)
			}
		}
	}
	p.Open("#/status")
	p.untilText(".chart .legend", "Requests")
	p.shifts("status")
	s.Kill()
	p.untilText(".tiles .error", "Try again")
	p.shifts("status without the server")
	evaluate[bool](p, `(document.getElementById("main").prepend(Object.assign(document.createElement("p"), { textContent: "moves all" })), true)`)
	if evaluate[bool](p, twoFrames); len(evaluate[[]string](p, "__shifts.splice(0)")) == 0 {
		t.Error("a move is not recorded, so the test shows nothing")
	}
	if states := evaluate[int](p, `new Set(["", ":hover", ":focus-visible", "[aria-selected='true']"].map((state) => [...document.styleSheets].flatMap((s) => [...s.cssRules]).find((r) => r.selectorText === ".grid-body .grid-row" + state)?.cssText)).size`); states != 4 {
		t.Errorf("a row has %d looks, want 4", states)
	}
}
