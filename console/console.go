// Package console has the web console: pages of plain modules, embedded in the binary, that use the
// interface of their server.
package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Console serves the console's files. It is immutable and safe for concurrent use.
type Console struct {
	pages   map[string]map[string]*file // by path and theme
	assets  map[string]*file
	version string // first segment in an asset's path; it changes with any file
}

// themes that a user can choose. Without a choice, a page has the system's theme.
var themes = []string{"", "light", "dark"}

// Serve responds to GET or HEAD for a path below the console's, and reports whether there is such a
// file. If there is none, it has written nothing.
//
// An asset's path changes with the console's version, so browsers keep it; a page is validated each
// time. The path of another version has the assets of this one, for browsers that reach several
// nodes while these are replaced. A page has the theme in the cookie sluice-theme, so that its
// first paint waits for no script.
//
// sources is a source list (Content Security Policy, section 2.3.1): where the browser finds the
// console's files, and nothing that a stranger can store.
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

// splitList returns a list header's elements.
func splitList(values []string) []string {
	var list []string
	for _, v := range values {
		for e := range strings.SplitSeq(v, ",") {
			list = append(list, strings.TrimSpace(e))
		}
	}
	return list
}
