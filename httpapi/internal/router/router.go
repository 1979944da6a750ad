// Package router finds a request's operation from its method and escaped path.
//
// It never cleans a path: "//", "." and ".." are segments like any other, and every parameter
// is decoded exactly once, so blob names reach their handlers as clients wrote them. In contrast,
// http.ServeMux redirects such paths to cleaned ones, and most router libraries match the decoded
// path, in which "%2F" and "/" are the same.
package router

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ErrMalformedPath reports a path that matches a pattern, with parameters that cannot be decoded:
// an invalid escape, or an encoded slash in a single segment's parameter.
var ErrMalformedPath = errors.New("malformed path")

// Route is one operation: a method on a pattern.
//
// A pattern is a path. Its segments are words, "{name}" for exactly one non-empty segment, or, as
// the last one, "{name...}" for everything after the slash: any number of segments, including empty
// ones, or nothing.
type Route[T any] struct {
	Method     string
	Pattern    string
	Unprefixed bool // also available without the base path
	Value      T    // the caller's data about the route
}

// Router matches requests against a table of routes. It is immutable and safe for concurrent use.
type Router[T any] struct {
	base      string // the decoded segment before all operations, or ""
	table     []Route[T]
	endpoints []endpoint[T] // the most specific pattern first
	// The endpoints that a path without escapes can have, by its start, so that a match does not
	// take longer the more operations there are.
	byStart map[string][]endpoint[T]
	others  []endpoint[T] // of a path with another start
}

// endpoint is a pattern with all its methods.
type endpoint[T any] struct {
	pattern    string
	segments   []segment
	words      string // with which each of the pattern's paths that has no escapes begins
	unprefixed bool
	routes     []*Route[T] // into the table
	allow      []string    // sorted
}

// segment is one segment in a pattern. The kinds are in order of precedence.
type segment struct {
	kind segmentKind
	text string // the word or the parameter's name
}

type segmentKind int

const (
	wordSegment segmentKind = iota // matches itself
	oneSegment                     // "{name}"
	restSegment                    // "{name...}"
)

// maxParams is the maximum number of parameters in a pattern.
const maxParams = 3

// Params are a matched path's decoded parameters. Copies are independent.
type Params struct {
	segments []segment
	values   [maxParams]string
}

// Get returns a parameter's value, in which each %XX has been decoded once. A "{name}" is not empty
// and contains no slash. Get panics if the pattern has no such parameter.
func (p Params) Get(name string) string {
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
	panic("router: pattern has no parameter " + name)
}

// Outcome is the result of matching a method and path.
type Outcome int

// The outcomes.
const (
	UnknownPath   Outcome = iota // 404
	UnknownMethod                // 405 with Allow
	Options                      // OPTIONS on a known path: Allow
	MalformedPath                // 400: Err
	Found                        // Route and Params
)

// Match is the result of Router.Match.
type Match[T any] struct {
	Outcome Outcome
	Pattern string    // the path's, "" if it is unknown
	Allow   []string  // the path's methods, sorted; shared and read-only
	Route   *Route[T] // only if Found; read-only
	Params  Params    // only if Found
	Err     error     // only if MalformedPath; it wraps ErrMalformedPath
}

// New returns a router for these routes below basePath, which is empty or "/" and one segment of
// letters, digits, "-", "_" and ".". If several patterns match a path, the one with a word in the
// first segment in which they differ has precedence, and only its methods are available. New
// returns an error if the base path or a pattern is malformed or if two routes are ambiguous.
func New[T any](basePath string, routes []Route[T]) (*Router[T], error) {
	base, err := parseBasePath(basePath)
	if err != nil {
		return nil, err
	}
	rt := &Router[T]{base: base, table: slices.Clone(routes)}
	for i := range rt.table {
		if err := rt.add(&rt.table[i]); err != nil {
			return nil, fmt.Errorf("route %s %s: %w", rt.table[i].Method, rt.table[i].Pattern, err)
		}
	}
	slices.SortStableFunc(rt.endpoints, func(a, b endpoint[T]) int {
		return slices.CompareFunc(a.segments, b.segments, func(x, y segment) int { return cmp.Compare(x.kind, y.kind) })
	})
	for i := range rt.endpoints {
		rt.endpoints[i].allow = allowed(rt.endpoints[i].routes)
	}
	rt.group()
	return rt, nil
}

// group sets byStart and others.
func (rt *Router[T]) group() {
	rt.byStart = map[string][]endpoint[T]{}
	for _, e := range rt.endpoints {
		if e.anyStart() {
			rt.others = append(rt.others, e)
		} else {
			rt.byStart[start(e.words)] = nil
		}
	}
	for text := range rt.byStart {
		for _, e := range rt.endpoints {
			if e.anyStart() || start(e.words) == text {
				rt.byStart[text] = append(rt.byStart[text], e)
			}
		}
	}
}

// anyStart reports whether the pattern's paths have more than one start.
func (e *endpoint[T]) anyStart() bool {
	return slices.ContainsFunc(e.segments[:min(2, len(e.segments))], func(s segment) bool { return s.kind != wordSegment })
}

// start returns the first two segments of a path, or the only one.
func start(path string) string {
	first, rest, _ := strings.Cut(path, "/")
	if second := strings.IndexByte(rest, '/'); second >= 0 {
		return path[:len(first)+1+second]
	}
	return path
}

// CheckBasePath returns an error if New would not accept path as a base path.
func CheckBasePath(path string) error {
	_, err := parseBasePath(path)
	return err
}

// parseBasePath returns the name in a base path, or "".
func parseBasePath(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	name, ok := strings.CutPrefix(path, "/")
	if !ok || !isBaseName(name) {
		return "", fmt.Errorf(`base path %q: want "/" and one name of letters, digits, "-", "_" and "."`, path)
	}
	return name, nil
}

// Routes returns every route in the order in which they were passed to New.
func (rt *Router[T]) Routes() []Route[T] { return slices.Clone(rt.table) }

// add adds a route to the endpoint of its pattern.
func (rt *Router[T]) add(r *Route[T]) error {
	segments, err := parsePattern(r.Pattern)
	if err != nil {
		return err
	}
	for i := range rt.endpoints {
		e := &rt.endpoints[i]
		if e.pattern == r.Pattern {
			if e.unprefixed != r.Unprefixed {
				return errors.New("either all routes of a pattern or none must be unprefixed")
			}
			if e.lookup(r.Method) != nil {
				return errors.New("the route exists twice")
			}
			e.routes = append(e.routes, r)
			return nil
		}
		if sameShape(e.segments, segments) {
			return fmt.Errorf("is ambiguous with %s", e.pattern)
		}
	}
	rt.endpoints = append(rt.endpoints, endpoint[T]{pattern: r.Pattern, segments: segments, words: leadingWords(segments), unprefixed: r.Unprefixed, routes: []*Route[T]{r}})
	return nil
}

// Match finds the route for a method and an escaped path (see EscapedPath). A path that has no
// route for HEAD uses its route for GET.
func (rt *Router[T]) Match(method, path string) Match[T] {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return Match[T]{}
	}
	if rt.base == "" {
		return rt.find(method, path, false)
	}
	if first, rest, more := strings.Cut(path, "/"); more && isWord(first, rt.base) {
		if m := rt.find(method, rest, false); m.Outcome != UnknownPath {
			return m
		}
	}
	return rt.find(method, path, true)
}

// find matches a path without its leading slash and base path.
func (rt *Router[T]) find(method, path string, unprefixedOnly bool) Match[T] {
	escaped := strings.Contains(path, "%")
	endpoints := rt.endpoints
	if !escaped {
		var known bool
		if endpoints, known = rt.byStart[start(path)]; !known {
			endpoints = rt.others
		}
	}
	for i := range endpoints {
		e := &endpoints[i]
		if unprefixedOnly && !e.unprefixed || !escaped && !strings.HasPrefix(path, e.words) {
			continue
		}
		raw, ok := e.capture(path)
		if !ok {
			continue
		}
		m := Match[T]{Pattern: e.pattern, Allow: e.allow}
		m.Route = e.lookup(method)
		if m.Route == nil && method == http.MethodHead {
			m.Route = e.lookup(http.MethodGet)
		}
		switch {
		case m.Route == nil && method == http.MethodOptions:
			m.Outcome = Options
		case m.Route == nil:
			m.Outcome = UnknownMethod
		default:
			m.Outcome = Found
			if m.Params, m.Err = decodeParams(e.segments, raw); m.Err != nil {
				m = Match[T]{Outcome: MalformedPath, Pattern: e.pattern, Allow: e.allow, Err: m.Err}
			}
		}
		return m
	}
	return Match[T]{}
}

// lookup returns the route for exactly this method, or nil.
func (e *endpoint[T]) lookup(method string) *Route[T] {
	for _, r := range e.routes {
		if r.Method == method {
			return r
		}
	}
	return nil
}

// capture matches a path against the pattern and returns its parameters, which are still
// escaped.
func (e *endpoint[T]) capture(path string) (raw [maxParams]string, ok bool) {
	n, more := 0, true
	for _, s := range e.segments {
		if !more {
			return raw, false
		}
		if s.kind == restSegment {
			raw[n] = path
			return raw, true
		}
		var first string
		first, path, more = strings.Cut(path, "/")
		if s.kind == wordSegment {
			if !isWord(first, s.text) {
				return raw, false
			}
			continue
		}
		if first == "" {
			return raw, false
		}
		raw[n] = first
		n++
	}
	return raw, !more
}

// decodeParams decodes a path's parameters, each once.
func decodeParams(segments []segment, raw [maxParams]string) (Params, error) {
	p := Params{segments: segments}
	n := 0
	for _, s := range segments {
		if s.kind == wordSegment {
			continue
		}
		value, ok := unescape(raw[n])
		if !ok {
			return Params{}, fmt.Errorf(`%w: a "%%" in {%s} is not followed by two hexadecimal digits`, ErrMalformedPath, s.text)
		}
		if s.kind == oneSegment && strings.Contains(value, "/") {
			return Params{}, fmt.Errorf("%w: {%s} must not contain an encoded slash", ErrMalformedPath, s.text)
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
	if len(escaped) <= len(word) { // escaping never shortens a word
		return false
	}
	decoded, ok := unescape(escaped)
	return ok && decoded == word
}

// parsePattern splits a pattern into its segments.
func parsePattern(pattern string) ([]segment, error) {
	path, ok := strings.CutPrefix(pattern, "/")
	if !ok {
		return nil, errors.New("a pattern must begin with a slash")
	}
	words := strings.Split(path, "/")
	segments := make([]segment, len(words))
	parameters := map[string]bool{}
	for i, word := range words {
		name, isParam := strings.CutPrefix(word, "{")
		name, closed := strings.CutSuffix(name, "}")
		if isParam != closed {
			return nil, fmt.Errorf("segment %q: unbalanced braces", word)
		}
		name, isRest := strings.CutSuffix(name, "...")
		switch {
		case name == "" || strings.ContainsAny(name, "{}%"):
			return nil, fmt.Errorf("segment %q: not a word or a parameter", word)
		case !isParam:
			segments[i] = segment{wordSegment, word}
			continue
		case isRest && i != len(words)-1:
			return nil, fmt.Errorf("segment %q: only the last segment can match the rest", word)
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

// leadingWords returns the words before the first parameter, each that is not the last segment with
// a slash.
func leadingWords(segments []segment) string {
	var all strings.Builder
	for i, s := range segments {
		if s.kind != wordSegment {
			break
		}
		all.WriteString(s.text)
		if i < len(segments)-1 {
			all.WriteByte('/')
		}
	}
	return all.String()
}

// sameShape reports whether two patterns match the same paths.
func sameShape(a, b []segment) bool {
	return slices.EqualFunc(a, b, func(x, y segment) bool {
		return x.kind == y.kind && (x.kind != wordSegment || x.text == y.text)
	})
}

// allowed returns an endpoint's methods, sorted.
func allowed[T any](routes []*Route[T]) []string {
	methods := []string{http.MethodOptions}
	for _, r := range routes {
		methods = append(methods, r.Method)
		if r.Method == http.MethodGet {
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
