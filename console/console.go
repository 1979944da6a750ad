// Package console has the web console: a page of plain modules, embedded in the binary, that uses
// the interface of the server which serves it.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
)

//go:embed static
var static embed.FS

// policy returns the Content-Security-Policy of every response. Nothing inline runs, scripts, workers
// and styles are loaded from sources only, and no other page can frame the console. A preview of a blob
// that needed a key is a blob: URL. Styles are set by script through the object model, which needs no
// permission.
func policy(sources string) string {
	return "default-src 'none'; script-src " + sources + "; style-src " + sources + "; worker-src " + sources + "; " +
		"img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// pages maps the path of each page to what differs in it.
var pages = map[string]pageSource{
	"":    {"sluice console", "index.js"},
	"api": {"API · sluice", "reference.js"},
}

type pageSource struct{ title, script string }

// pageTemplate is the static file from which all pages are made.
const pageTemplate = "page.html"

// themes that a user can choose. Without a choice, a page has the theme of the system.
var themes = []string{"", "light", "dark"}

// types maps the extensions of the files to their content types.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// Console serves the files of the console. It is immutable and safe for concurrent use.
type Console struct {
	pages   map[string]map[string]*file // by path and theme
	assets  map[string]*file
	version string // first segment of the path of an asset; it changes with any file
}

// file is what a response sends.
type file struct {
	content     []byte
	contentType string
	etag        string // without quotes
	zipped      func() []byte
}

// New reads the embedded files.
func New() (*Console, error) {
	c := &Console{pages: map[string]map[string]*file{}, assets: map[string]*file{}}
	all := sha256.New()
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "static/")
		all.Write(fmt.Appendf(nil, "%s %d\n", name, len(content)))
		all.Write(content)
		if c.assets[name], err = newFile(name, content); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.version = "assets-" + hex.EncodeToString(all.Sum(nil)[:8])
	page, err := template.New(pageTemplate).Parse(string(c.assets[pageTemplate].content))
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	delete(c.assets, pageTemplate)
	for at, source := range pages {
		c.pages[at] = map[string]*file{}
		for _, theme := range themes {
			if c.pages[at][theme], err = c.page(page, source, theme); err != nil {
				return nil, fmt.Errorf("console: %w", err)
			}
		}
	}
	return c, nil
}

func newFile(name string, content []byte) (*file, error) {
	contentType := types[path.Ext(name)]
	if contentType == "" {
		return nil, fmt.Errorf("%s has no content type", name)
	}
	sum := sha256.Sum256(content)
	return &file{content: content, contentType: contentType, etag: hex.EncodeToString(sum[:16]), zipped: sync.OnceValue(func() []byte { return zip(content) })}, nil
}

// zip returns the compressed content.
func zip(content []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(content) // a Buffer returns no errors
	_ = z.Close()
	return out.Bytes()
}

// page returns a page with the paths of its assets. The page names all modules that its script
// imports, so that the browser fetches them together.
func (c *Console) page(page *template.Template, source pageSource, theme string) (*file, error) {
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		Title, Theme, Assets, Script string
		Modules                      []string
	}{source.title, theme, c.version, source.script, c.modules(source.script)})
	if err != nil {
		return nil, err
	}
	return newFile(pageTemplate, out.Bytes())
}

// imported matches an import of a module that is loaded with the importing one.
var imported = regexp.MustCompile(`(?m)^(?:import|\}) .*?"\./([\w/.-]+)";$|^import "\./([\w/.-]+)";$`)

// modules returns the module and, directly or not, what it imports, sorted.
func (c *Console) modules(first string) []string {
	found := []string{first}
	for i := 0; i < len(found); i++ {
		f := c.assets[found[i]]
		if f == nil {
			continue
		}
		for _, match := range imported.FindAllSubmatch(f.content, -1) {
			if name := path.Join(path.Dir(found[i]), string(match[1])+string(match[2])); !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}

// Serve responds to GET or HEAD of a path below that of the console, and reports whether there is
// such a file. If there is none, it has written nothing.
//
// The path of an asset changes with the version of the console, so browsers keep it; a page is
// validated each time. The path of another version has the assets of this one, for browsers that
// reach several nodes while these are replaced. A page has the theme of the cookie sluice-theme, so
// that its first paint waits for no script.
//
// sources is a source list (Content Security Policy, section 2.3.1): where the browser finds the files
// of the console, and nothing that others can store.
func (c *Console) Serve(w http.ResponseWriter, r *http.Request, name, sources string) bool {
	found, cache, vary := c.pages[name][chosenTheme(r)], "no-cache", "Accept-Encoding, Cookie"
	if version, asset, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(version, "assets-") {
		found, vary = c.assets[asset], "Accept-Encoding"
		if version == c.version {
			cache = "public, max-age=31536000, immutable"
		}
	}
	if found == nil {
		return false
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy(sources))
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", cache)
	h.Add("Vary", vary)
	content, etag := found.content, `"`+found.etag+`"`
	if acceptsGzip(r) {
		content, etag = found.zipped(), `"`+found.etag+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	if slices.Contains(splitList(r.Header.Values("If-None-Match")), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	h.Set("Content-Type", found.contentType)
	h.Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // an error means that the client is gone
	}
	return true
}

// chosenTheme returns the theme that the user chose in the console, or "".
func chosenTheme(r *http.Request) string {
	if cookie, err := r.Cookie("sluice-theme"); err == nil && slices.Contains(themes, cookie.Value) {
		return cookie.Value
	}
	return ""
}

// acceptsGzip reports whether the client accepts gzip. A weight of zero refuses it.
func acceptsGzip(r *http.Request) bool {
	for _, coding := range splitList(r.Header.Values("Accept-Encoding")) {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// splitList returns the elements of a header that is a list.
func splitList(values []string) []string {
	var list []string
	for _, v := range values {
		for e := range strings.SplitSeq(v, ",") {
			list = append(list, strings.TrimSpace(e))
		}
	}
	return list
}
