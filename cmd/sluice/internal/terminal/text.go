// Package terminal writes to terminals: foreign texts such that they cannot control the terminal,
// and the progress of transfers.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Name returns a name for people: unchanged if every character of it is shown as it is, and quoted
// and escaped like Go's %q otherwise. Escaped are control characters, which include those that
// begin escape sequences, characters without a shape such as those that change the direction of
// text, and bytes that are not UTF-8. Also quoted are names that could be taken for something else:
// the empty name, and names that begin or end with a space or begin with a quotation mark.
func Name(s string) string {
	if s == "" || s[0] == ' ' || s[0] == '"' || s[len(s)-1] == ' ' || !printable(s) {
		return strconv.Quote(s)
	}
	return s
}

// Text returns a sentence that may contain foreign names, such as an error, with everything escaped
// that Name escapes, but not quoted.
func Text(s string) string {
	if printable(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || !strconv.IsPrint(r) {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func printable(s string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		}
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// WriteJSON writes v as one line of JSON. The line is ASCII apart from characters that are shown as
// they are: the rest are escaped, so that the line is safe on a terminal too.
func WriteJSON(w io.Writer, v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeJSON(strings.TrimSuffix(b.String(), "\n"))+"\n")
	return err
}

// escapeJSON escapes the characters of valid JSON that are not shown as they are. They occur in
// strings only.
func escapeJSON(s string) string {
	if printable(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
