package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/e2e"
	"sluice/test/testenv"
)

// consolePage is a server's console in a browser.
type consolePage struct {
	t   *testing.T
	s   *e2e.Server
	ctx context.Context
}

// recordProblems runs before a page's scripts. It records requests that the policy blocked, errors
// that nothing handles, and parts that the page sends again although it had their response.
const recordProblems = `
window.__problems = [];
window.__sending = window.__mostSending = 0;
const { open, send } = XMLHttpRequest.prototype;
XMLHttpRequest.prototype.open = function (method, url) {
  this.__url = url;
  return open.apply(this, arguments);
};
XMLHttpRequest.prototype.send = function () {
  const acknowledged = () => JSON.parse(localStorage.getItem("test-acknowledged") ?? "[]");
  if (this.__url.includes("/parts/") && acknowledged().includes(this.__url)) __problems.push("an acknowledged part was sent again: " + this.__url);
  __mostSending = Math.max(__mostSending, ++__sending);
  this.addEventListener("loadend", () => __sending--);
  this.addEventListener("load", () => this.status === 200 && localStorage.setItem("test-acknowledged", JSON.stringify([...acknowledged(), this.__url])));
  return send.apply(this, arguments);
};
addEventListener("beforeunload", (e) => e.stopImmediatePropagation()); // no dialog may stop the test from leaving
addEventListener("securitypolicyviolation", (e) => __problems.push("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber));
addEventListener("error", (e) => e.message && __problems.push("error: " + e.message + " " + e.filename + ":" + e.lineno));
addEventListener("unhandledrejection", (e) => __problems.push("rejection: " + (e.reason?.stack ?? e.reason)));
`

// openConsole opens a console view, such as "#/blobs/0x1/". When the test ends, the page must have
// had no error that nothing handled, and its policy must have blocked nothing.
func openConsole(t *testing.T, s *e2e.Server, view string) *consolePage {
	t.Helper()
	testenv.Require(t, testenv.Chromium)
	p := &consolePage{t: t, s: s, ctx: e2e.StartBrowser(t, "about:blank")}
	p.Begin(view)
	return p
}

// openLocal starts a local instance and opens a view of its console.
func openLocal(t *testing.T, view string) (*e2e.Server, *consolePage) {
	t.Helper()
	s := e2e.Start(t, e2e.Options{Addr: "localhost:0"})
	return s, openConsole(t, s, view)
}

// openEmptyFolder opens the empty folder of account 0x1 in a new local instance's console.
func openEmptyFolder(t *testing.T) (*e2e.Server, *consolePage) {
	t.Helper()
	s, p := openLocal(t, "#/blobs/0x1/")
	p.untilText("main", "Nothing is stored here")
	return s, p
}

// newTab opens a console view in another tab of the same browser.
func (p *consolePage) newTab(view string) *consolePage {
	p.t.Helper()
	ctx, stop := chromedp.NewContext(p.ctx)
	p.t.Cleanup(stop)
	tab := &consolePage{t: p.t, s: p.s, ctx: ctx}
	tab.Begin(view)
	return tab
}

// Begin loads a page's first view. The page records its problems.
func (p *consolePage) Begin(view string) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: recordProblems}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.checkProblems)
	p.Open(view)
}

// address returns the console's address.
func (p *consolePage) address() string { return p.s.URL + "/console/" }

// Open loads the page anew.
func (p *consolePage) Open(view string) {
	p.t.Helper()
	p.checkProblems()
	p.Do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.address()+view))
}

func (p *consolePage) checkProblems() {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	problems, err := chromedp.Run(ctx, chromedp.Evaluate[[]string]("window.__problems ?? []"))
	if err != nil {
		p.t.Errorf("reading the problems of the page: %v", err)
	}
	for _, problem := range problems {
		p.t.Errorf("the page reported: %s", problem)
	}
}

// bounded returns a context for one step.
func (p *consolePage) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, e2e.Patience)
}

// Do runs actions.
func (p *consolePage) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%v\nthe page: %s\n%s", err, p.Text("body"), e2e.Tail(p.s.Log.String()))
	}
}

// Text returns an element's text, or "" if there is none.
func (p *consolePage) Text(selector string) string {
	p.t.Helper()
	return evaluate[string](p, fmt.Sprintf("document.querySelector(%s)?.innerText ?? ''", e2e.AsJSON(p.t, selector)))
}

// evaluate returns an expression's value in the page. It waits if that is a promise.
func evaluate[T any](p *consolePage, expression string) T {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// until waits until an expression is true, in the page that then replaced the one before if it is
// being replaced.
func (p *consolePage) until(expression string) {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	poll := chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(e2e.Patience))
	_, err := chromedp.Run(ctx, poll)
	for isReplaced(err) {
		_, err = chromedp.Run(ctx, poll)
	}
	if err != nil {
		p.t.Fatalf("%s: %v\nthe page: %s\n%s", expression, err, p.Text("body"), e2e.Tail(p.s.Log.String()))
	}
}

// isReplaced reports whether the browser could not evaluate an expression because it had replaced
// the page in the meantime.
func isReplaced(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused) && strings.HasPrefix(refused.Message, "Cannot find context with specified id")
}

// untilText waits until an element has a text somewhere.
func (p *consolePage) untilText(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.querySelector(%s)?.innerText.includes(%s)", e2e.AsJSON(p.t, selector), e2e.AsJSON(p.t, text)))
}

// press clicks on the button, or the link, with this label or text.
func (p *consolePage) press(label string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a, [role=button]")].filter((e) => !e.disabled && (e.getAttribute("aria-label") ?? e.innerText).trim() === %s)`, e2e.AsJSON(p.t, label))
	p.until(find + ".length > 0")
	evaluate[bool](p, "("+find+"[0].click(), true)")
}

// keys presses keys, one after another.
func (p *consolePage) keys(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		if key == kb.Enter {
			p.enter()
			continue
		}
		p.Do(chromedp.KeyEvent(key))
	}
}

// enter presses Enter. Its character is sent with the key, as a keyboard does: sent afterwards, it
// could press a button that has the focus since.
func (p *consolePage) enter() {
	p.t.Helper()
	p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for _, event := range kb.Encode('\r') {
			switch event.Type {
			case kb.KeyChar:
				continue
			case kb.KeyDown:
				event.Text, event.UnmodifiedText = "\r", "\r"
			}
			if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, *event); err != nil {
				return err
			}
		}
		return nil
	}))
}

// focused describes the element that has the focus.
func (p *consolePage) focused() string {
	p.t.Helper()
	return evaluate[string](p, `(() => { const e = document.activeElement; return (e.getAttribute("role") ?? e.tagName.toLowerCase()) + " " + (e.getAttribute("aria-label") ?? e.innerText ?? "").trim(); })()`)
}

// tabTo presses the tabulator until the focus is on an element with a text in its description.
func (p *consolePage) tabTo(text string) {
	p.t.Helper()
	for range 40 {
		p.keys(kb.Tab)
		if strings.Contains(p.focused(), text) {
			return
		}
	}
	p.t.Fatalf("the tabulator never reached %q; the focus is on %q", text, p.focused())
}

// chord presses a key together with modifiers.
func (p *consolePage) chord(key string, with ...kb.Modifier) {
	p.t.Helper()
	p.Do(chromedp.KeyEvent(key, chromedp.KeyModifiers(with...)))
}

// tabBackTo is tabTo in the other direction.
func (p *consolePage) tabBackTo(text string) {
	p.t.Helper()
	for range 40 {
		p.chord(kb.Tab, kb.ModifierShift)
		if strings.Contains(p.focused(), text) {
			return
		}
	}
	p.t.Fatalf("the tabulator never reached %q backwards; the focus is on %q", text, p.focused())
}

// enterKey answers the dialog that asks for a key.
func (p *consolePage) enterKey(key string) {
	p.t.Helper()
	p.until(`document.querySelector("dialog input")`)
	evaluate[bool](p, fmt.Sprintf(`(document.querySelector("dialog input").value = %s, true)`, e2e.AsJSON(p.t, key)))
	p.press("Use key")
}

// keepCopies makes the page copy to window.__copied and not to the clipboard.
func (p *consolePage) keepCopies() {
	p.t.Helper()
	evaluate[bool](p, `(Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.__copied = text; } } }), true)`)
}

// store stores a blob with a content type.
func store(s *e2e.Server, account, name, contentType, content string, more ...string) {
	s.T.Helper()
	s.Must(http.StatusNoContent, "PUT", "/v1/blobs/"+account+"/"+name, []byte(content), append([]string{"Content-Type", contentType}, more...)...)
}

// themes are the values of prefers-color-scheme.
var themes = []string{"light", "dark"}

// widths are a phone's, a tablet's and a wide screen's, in pixels.
var widths = []int64{375, 768, 1440}

// screenshots takes the view's picture at each width in each theme, saves it in the folder that
// go test -artifacts keeps, and checks the view with axe-core. If elements are named, a picture
// begins at each of them, and these alone are checked.
func (p *consolePage) screenshots(name string, at ...string) {
	p.t.Helper()
	for _, theme := range themes {
		p.theme(theme)
		shown := widths
		if theme == "dark" {
			shown = widths[:1] // the themes have one layout and differ in colours
		}
		for _, width := range shown {
			p.Do(chromedp.EmulateViewport(width, 900))
			for i := range max(len(at), 1) {
				if len(at) > 0 {
					evaluate[bool](p, fmt.Sprintf("(document.querySelector(%s).scrollIntoView(), true)", e2e.AsJSON(p.t, at[i])))
				}
				evaluate[bool](p, "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))")
				picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
				testenv.OK(p.t, err)
				file := filepath.Join(p.t.ArtifactDir(), fmt.Sprintf("%s-%d-%s-%d.png", name, width, theme, i))
				testenv.OK(p.t, os.WriteFile(file, picture, 0o600))
			}
			if width != widths[1] { // it has the layout of one of the other two
				p.accessible(name, width, theme, at...)
			}
			if overflow := evaluate[int](p, "document.documentElement.scrollWidth - innerWidth"); overflow > 0 {
				p.t.Errorf("%s is %d pixels too wide for %d", name, overflow, width)
			}
			if hidden := evaluate[int](p, `[...document.querySelectorAll("td.number, .stacked td")].filter((cell) => cell.getBoundingClientRect().right > innerWidth).length`); hidden > 0 {
				p.t.Errorf("%d cells of %s are not visible at %d without scrolling sideways", hidden, name, width)
			}
			if beyond := evaluate[int](p, `[...document.querySelectorAll(".grid")].filter((grid) => grid.clientHeight < 300 && grid.scrollHeight > grid.clientHeight).length`); beyond > 0 {
				p.t.Errorf("a short list of %s has a scrollbar at %d", name, width)
			}
		}
	}
	p.Do(chromedp.EmulateViewport(1280, 900))
}

func (p *consolePage) theme(theme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme},
		// A picture during a transition shows neither state.
		{Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	testenv.OK(p.t, err)
}

// accessible checks a view with axe-core, which knows the rules of WCAG, or only the elements that
// are named. In the dark theme, which changes nothing else, it checks the colours.
func (p *consolePage) accessible(name string, width int64, theme string, elements ...string) {
	p.t.Helper()
	if !evaluate[bool](p, "'axe' in window") {
		dir, err := testenv.ClientDir()
		testenv.OK(p.t, err)
		script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
		testenv.OK(p.t, err)
		evaluate[bool](p, string(script)+"; true")
	}
	within := "document"
	if len(elements) > 0 {
		within = string(e2e.AsJSON(p.t, elements))
	}
	options := `{ resultTypes: ["violations"] }`
	if theme == "dark" {
		options = `{ resultTypes: ["violations"], runOnly: ["color-contrast", "link-in-text-block"] }`
	}
	// In the API page, which has 13,000 elements, it takes more than ten seconds of processor time.
	ctx, cancel := context.WithTimeout(p.ctx, 3*e2e.Patience)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string]("axe.run("+within+", "+options+`).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)))`, chromedp.EvalAwaitPromise))
	testenv.OK(p.t, err)
	for _, violation := range found {
		p.t.Errorf("%s at %d in %s: %s", name, width, theme, violation)
	}
}
