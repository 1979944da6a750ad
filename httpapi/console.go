package httpapi

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// getConsole sends a file for the console.
func (s *Server) getConsole(x *call) error {
	x.Fields.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !s.console.Serve(x, x.Request, x.params.Get("file"), s.consoleSources(x.Request.Host)) {
		return errNoRoute
	}
	return nil
}

// consoleSources returns where a browser that sends this Host finds the console's files: below
// their path, so that no stored blob is one. Behind a proxy that changes the Host or the path, they
// are at the public URL.
func (s *Server) consoleSources(host string) string {
	const path = "/console/"
	sources := "'self'" // a source list has no form for other hosts, such as IPv6 addresses
	if sourceHost.MatchString(host) {
		sources = host + s.basePath + path
	}
	if s.info.URL != "" {
		sources += " " + sourceCharacters.Replace(s.info.URL) + path
	}
	return sources
}

// sourceHost matches a host, with or without a port, that a source list can have.
var sourceHost = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:[0-9]+)?$`)

// sourceCharacters encodes characters that end an element in a source list.
var sourceCharacters = strings.NewReplacer(" ", "%20", ",", "%2C", ";", "%3B")

// redirectToConsole redirects from the console folder's sibling. The location is relative, because
// a proxy may serve it under another path.
func redirectToConsole(x *call) error {
	x.Fields.Set("Location", "console/")
	x.Fields.Set("Content-Length", "0")
	x.WriteHeader(http.StatusFound)
	return nil
}

// serveUnknown responds to a path that has no route: 404, but the service's root, on a local
// instance also above the base path, leads browsers to the console.
func (s *Server) serveUnknown(x *call) error {
	path := x.Request.URL.Path
	root := path == s.basePath || path == s.basePath+"/" || path == "/" && s.keys == nil
	reads := x.Request.Method == http.MethodGet || x.Request.Method == http.MethodHead
	if s.console == nil || !reads || !root {
		return errNoRoute
	}
	x.Fields.Add("Vary", "Accept")
	if !strings.Contains(x.Request.Header.Get("Accept"), "text/html") {
		return fmt.Errorf("%w: browsers find the web console at %s/console/, and programs the interface's description at %s/openapi.yaml", errNoRoute, s.basePath, s.basePath)
	}
	x.Fields.Set("Cache-Control", "no-store")
	err := redirectToConsole(x)
	x.Fields.Set("Location", strings.TrimPrefix(s.basePath+"/console/", path[:strings.LastIndex(path, "/")+1]))
	return err
}
