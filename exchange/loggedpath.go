package exchange

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Of a segment that can be an id, the log has idCharacters if it is longer than shortSegment, as
// every id is.
const (
	idCharacters = 6
	shortSegment = 12
)

// loggedPath returns a request's decoded path for the log, with ids cut to six characters. pattern
// is the route's. Without a route, any segment can be an id.
func loggedPath(pattern, path string) string {
	if pattern != "" && !strings.Contains(pattern, "Id}") {
		return path
	}
	words, segments := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, s := range segments {
		if utf8.RuneCountInString(s) > shortSegment && !slices.Contains(words, s) {
			segments[i] = string([]rune(s)[:idCharacters]) + "..."
		}
	}
	return strings.Join(segments, "/")
}
