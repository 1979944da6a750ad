package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// errBadPath: the path of the request cannot be read as one of ours: a broken
// escape, or an encoded slash where one segment stands for one value.
var errBadPath = errors.New("malformed path")

// handlerFunc answers a request that the router matched. A returned error is
// turned into the error reply; after the first byte of a reply it must be one
// that aborts the connection.
type handlerFunc func(x *exchange, r *http.Request, p params) error

// route is one operation: a method on a pattern.
//
// A pattern is a path whose segments are words, "{name}" for exactly one
// segment that is not empty, or, as the last one, "{name...}" for all that
// follows the slash: any number of segments, empty ones included, or nothing.
type route struct {
	method  string
	pattern string
	rule    rule
	handle  handlerFunc
	bare    bool // answers without the base path, too
}

// router finds the route of a request on the escaped path, which it never
// cleans: "//", "." and ".." are segments like any other. It does not change
// after newRouter and may be used from many goroutines.
type router struct {
	base      string // the segment before all operations, decoded; may be empty
	table     []route
	endpoints []endpoint // the most specific pattern first
}

// endpoint is a pattern with all its methods.
type endpoint struct {
	pattern  string
	segments []segment
	bare     bool
	routes   []*route // into the table
	allow    []string // sorted
}

// segment is one piece of a pattern. The kinds are in order of precedence.
type segment struct {
	kind segmentKind
	text string // the word, or the parameter's name
}

type segmentKind int

const (
	wordSegment segmentKind = iota // matches itself
	oneSegment                     // "{name}"
	restSegment                    // "{name...}"
)

// maxParams is the greatest number of parameters in a pattern.
const maxParams = 3

// params are the decoded parameters of a matched path. A copy is independent.
type params struct {
	segments []segment
	values   [maxParams]string
}

// get gives the value of a parameter, each %XX decoded once. The value of a
// "{name}" is not empty and holds no slash. It panics when the pattern has no
// such parameter.
func (p params) get(name string) string {
	i := 0
	for _, s := range p.segments {
		if s.kind == wordSegment {
			continue
		}
		if s.text == name {
			return p.values[i]
		}
		i++
	}
	panic("httpapi: pattern has no parameter " + name)
}

// outcome tells what a router knows of a method and path.
type outcome int

const (
	unknownPath   outcome = iota // 404
	unknownMethod                // 405 with allow
	optionsAsked                 // OPTIONS on a known path: allow
	malformedPath                // 400: errBadPath
	routeFound                   // route and params
)

// match is the answer of a router.
type match struct {
	outcome outcome
	pattern string   // of the path, for the log; empty for an unknown path
	allow   []string // every method of the path, sorted; shared, read only
	route   *route   // only for routeFound
	params  params   // only for routeFound
	err     error    // only for malformedPath: wraps errBadPath, tells what is wrong
}

// newRouter makes a router for these routes, offered under basePath: empty, or
// "/" and one segment of letters, digits, "-", "_" and ".". Where two patterns
// match a path, the one with a word in the first differing segment wins, and
// only its methods count. Errors: a bad base path, a malformed pattern, or two
// routes that cannot be told apart.
func newRouter(basePath string, routes []route) (*router, error) {
	rt := &router{table: slices.Clone(routes)}
	if basePath != "" {
		name, ok := strings.CutPrefix(basePath, "/")
		if !ok || !isBaseName(name) {
			return nil, fmt.Errorf(`base path %q: want "/" and one name of letters, digits, "-", "_" and "."`, basePath)
		}
		rt.base = name
	}
	for i := range rt.table {
		if err := rt.add(&rt.table[i]); err != nil {
			return nil, fmt.Errorf("route %s %s: %w", rt.table[i].method, rt.table[i].pattern, err)
		}
	}
	slices.SortStableFunc(rt.endpoints, func(a, b endpoint) int {
		return slices.CompareFunc(a.segments, b.segments, func(x, y segment) int { return cmp.Compare(x.kind, y.kind) })
	})
	for i := range rt.endpoints {
		rt.endpoints[i].allow = allowed(rt.endpoints[i].routes)
	}
	return rt, nil
}

// routes lists every route, in the order in which they were given.
func (rt *router) routes() []route { return slices.Clone(rt.table) }

// add puts a route to the endpoint of its pattern.
func (rt *router) add(r *route) error {
	segments, err := parsePattern(r.pattern)
	if err != nil {
		return err
	}
	for i := range rt.endpoints {
		e := &rt.endpoints[i]
		if e.pattern == r.pattern {
			if e.bare != r.bare {
				return errors.New("the routes of a pattern must all be bare or none")
			}
			if e.lookup(r.method) != nil {
				return errors.New("the route exists twice")
			}
			e.routes = append(e.routes, r)
			return nil
		}
		if sameShape(e.segments, segments) {
			return fmt.Errorf("cannot be told from %s", e.pattern)
		}
	}
	rt.endpoints = append(rt.endpoints, endpoint{pattern: r.pattern, segments: segments, bare: r.bare, routes: []*route{r}})
	return nil
}

// match finds the route for a method and an escaped path (see escapedPath).
// HEAD is answered by the route for GET where it has none of its own.
func (rt *router) match(method, path string) match {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return match{}
	}
	if rt.base == "" {
		return rt.find(method, path, false)
	}
	if first, rest, more := strings.Cut(path, "/"); more && isWord(first, rt.base) {
		if m := rt.find(method, rest, false); m.outcome != unknownPath {
			return m
		}
	}
	return rt.find(method, path, true)
}

// find matches a path without its first slash and base path.
func (rt *router) find(method, path string, bareOnly bool) match {
	for i := range rt.endpoints {
		e := &rt.endpoints[i]
		if bareOnly && !e.bare {
			continue
		}
		raw, ok := e.capture(path)
		if !ok {
			continue
		}
		m := match{pattern: e.pattern, allow: e.allow}
		m.route = e.lookup(method)
		if m.route == nil && method == http.MethodHead {
			m.route = e.lookup(http.MethodGet)
		}
		switch {
		case m.route == nil && method == http.MethodOptions:
			m.outcome = optionsAsked
		case m.route == nil:
			m.outcome = unknownMethod
		default:
			m.outcome = routeFound
			if m.params, m.err = decodeParams(e.segments, raw); m.err != nil {
				m = match{outcome: malformedPath, pattern: e.pattern, allow: e.allow, err: m.err}
			}
		}
		return m
	}
	return match{}
}

// lookup gives the endpoint's route for exactly this method, or nil.
func (e *endpoint) lookup(method string) *route {
	for _, r := range e.routes {
		if r.method == method {
			return r
		}
	}
	return nil
}

// capture matches a path against the pattern and gives its parameters, still
// escaped.
func (e *endpoint) capture(path string) (raw [maxParams]string, ok bool) {
	n, more := 0, true
	for _, s := range e.segments {
		if !more {
			return raw, false
		}
		if s.kind == restSegment {
			raw[n] = path
			return raw, true
		}
		var piece string
		piece, path, more = strings.Cut(path, "/")
		if s.kind == wordSegment {
			if !isWord(piece, s.text) {
				return raw, false
			}
			continue
		}
		if piece == "" {
			return raw, false
		}
		raw[n] = piece
		n++
	}
	return raw, !more
}

// decodeParams decodes the parameters of a path, each once.
func decodeParams(segments []segment, raw [maxParams]string) (params, error) {
	p := params{segments: segments}
	n := 0
	for _, s := range segments {
		if s.kind == wordSegment {
			continue
		}
		value, ok := unescape(raw[n])
		if !ok {
			return params{}, fmt.Errorf(`%w: a "%%" in {%s} is not followed by two hexadecimal digits`, errBadPath, s.text)
		}
		if s.kind == oneSegment && strings.Contains(value, "/") {
			return params{}, fmt.Errorf("%w: {%s} must not hold an encoded slash", errBadPath, s.text)
		}
		p.values[n] = value
		n++
	}
	return p, nil
}

// isWord reports whether an escaped segment spells the word.
func isWord(escaped, word string) bool {
	if escaped == word {
		return true
	}
	if len(escaped) <= len(word) { // escapes only ever make it longer
		return false
	}
	decoded, ok := unescape(escaped)
	return ok && decoded == word
}

// parsePattern cuts a pattern into its segments.
func parsePattern(pattern string) ([]segment, error) {
	path, ok := strings.CutPrefix(pattern, "/")
	if !ok {
		return nil, errors.New("a pattern begins with a slash")
	}
	pieces := strings.Split(path, "/")
	segments := make([]segment, len(pieces))
	parameters := map[string]bool{}
	for i, piece := range pieces {
		name, isParam := strings.CutPrefix(piece, "{")
		name, closed := strings.CutSuffix(name, "}")
		if isParam != closed {
			return nil, fmt.Errorf("segment %q: unbalanced braces", piece)
		}
		name, isRest := strings.CutSuffix(name, "...")
		switch {
		case name == "" || strings.ContainsAny(name, "{}%"):
			return nil, fmt.Errorf("segment %q: not a word or a parameter", piece)
		case !isParam:
			segments[i] = segment{wordSegment, piece}
			continue
		case isRest && i != len(pieces)-1:
			return nil, fmt.Errorf("segment %q: only the last can take the rest", piece)
		case parameters[name]:
			return nil, fmt.Errorf("parameter %s occurs twice", name)
		case len(parameters) == maxParams:
			return nil, fmt.Errorf("more than %d parameters", maxParams)
		case isRest:
			segments[i] = segment{restSegment, name}
		default:
			segments[i] = segment{oneSegment, name}
		}
		parameters[name] = true
	}
	return segments, nil
}

// sameShape reports whether two patterns match the same paths.
func sameShape(a, b []segment) bool {
	return slices.EqualFunc(a, b, func(x, y segment) bool {
		return x.kind == y.kind && (x.kind != wordSegment || x.text == y.text)
	})
}

// allowed lists the methods that an endpoint answers, sorted.
func allowed(routes []*route) []string {
	methods := []string{http.MethodOptions}
	for _, r := range routes {
		methods = append(methods, r.method)
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// isBaseName reports whether s is a name that needs no escaping in a path.
func isBaseName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != "" && s != "." && s != ".."
}
