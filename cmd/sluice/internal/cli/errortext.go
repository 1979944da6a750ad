package cli

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/client"
	"sluice/wire"
)

// describedError is an error with another text.
type describedError struct {
	text string
	err  error
}

func (e *describedError) Error() string { return e.text }
func (e *describedError) Unwrap() error { return e.err }

// About returns an error with a text that begins with its subject.
func About(subject string, err error) error {
	return &describedError{subject + ": " + LineOf(err), err}
}

// LineOf returns an error's text in one line, in which no line is repeated. It omits the package
// name client, which means nothing to users.
func LineOf(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.Trim(line, " \t"), "client: "), "client/folder: ")
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

// IsWrongAddress reports whether a server has no such route, or something else than a service has
// responded so: then nothing is known about the thing that the request named.
func IsWrongAddress(err error) bool {
	e, reported := errors.AsType[*client.Error](err)
	return reported && e.Status == http.StatusNotFound && (e.Code == "" || e.Code == wire.CodeRouteNotFound)
}

// Closest returns the candidate that somebody meant by word, or "" if more than a third of the
// characters differ. An exchange of two neighbouring characters is one difference. If several
// candidates are equally close, it returns the first.
func Closest(word string, candidates []string) string {
	found, least := "", max(utf8.RuneCountInString(word)/3, 1)+1
	for _, candidate := range candidates {
		if d := distance([]rune(word), []rune(candidate)); d < least {
			found, least = candidate, d
		}
	}
	return found
}

// distance returns the number of insertions, deletions, replacements and exchanges of neighbours
// that turn a into b, if no character is edited twice (the optimal string alignment distance).
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
