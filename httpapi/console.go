package httpapi

import (
	"net/http"
	"strings"
)

// getConsole sends a file of the console.
func (s *Server) getConsole(x *exchange) error {
	setFixed(x.Header(), "Cross-Origin-Resource-Policy", sameOrigin)
	if !s.console.Serve(x, x.r, x.params.Get("file")) {
		return errNoRoute
	}
	return nil
}

// redirectToConsole redirects from a sibling of the folder of the console. The location is relative,
// because a proxy may serve it under another path.
func redirectToConsole(x *exchange) error {
	x.setHeader("Location", "console/")
	x.setHeader("Content-Length", "0")
	x.WriteHeader(http.StatusFound)
	return nil
}

// serveUnknown responds to a path that has no route: 404, but on a local instance the start of the
// service leads browsers to the console.
func (s *Server) serveUnknown(x *exchange) error {
	path := strings.TrimPrefix(x.r.URL.Path, s.basePath)
	reads := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
	if s.console == nil || s.keys != nil || !reads || path != "/" {
		return errNoRoute
	}
	x.Header().Add("Vary", "Accept")
	if !strings.Contains(x.r.Header.Get("Accept"), "text/html") {
		return errNoRoute
	}
	x.Header().Set("Cache-Control", "no-store")
	if err := redirectToConsole(x); err != nil || path != x.r.URL.Path {
		return err
	}
	x.setHeader("Location", strings.TrimPrefix(s.basePath+"/console/", "/")) // from above the base path
	return nil
}
