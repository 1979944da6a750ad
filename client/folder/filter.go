package folder

import (
	"fmt"
	"regexp"
	"strings"

	"sluice/client"
)

// Rule includes or excludes files and blobs by their names.
type Rule struct {
	Pattern string
	Exclude bool
}

// Filter chooses which files or blobs of a folder or prefix are transferred, by rules like rsync's.
// The first rule with a pattern that matches decides; if none does, the name is included. A folder
// that is excluded excludes all that is in it.
//
// In a pattern, * matches any characters but a slash, ** any characters, ? one character but a
// slash, and [a-z] one of a set, or [!a-z] one that is not in it. A backslash takes the meaning of
// the next character away. A pattern that begins with a slash matches names from their beginning,
// any other one the last parts of a name. One that ends in a slash matches folders only. For
// example, *.tmp matches a.tmp and sub/a.tmp, /*.tmp only a.tmp, and cache/ every folder with that
// name.
type Filter struct{ rules []rule }

type rule struct {
	exclude    bool
	onlyFolder bool
	pattern    *regexp.Regexp
}

// NewFilter returns a filter with rules in this order, or client.ErrInvalid for a pattern that is
// malformed.
func NewFilter(rules []Rule) (*Filter, error) {
	f := &Filter{}
	for _, r := range rules {
		path, onlyFolder := strings.CutSuffix(r.Pattern, "/")
		text, err := expressionOf(path)
		if err != nil {
			return nil, fmt.Errorf("client/folder: %w: the pattern %q %w", client.ErrInvalid, r.Pattern, err)
		}
		compiled, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("client/folder: %w: the pattern %q is malformed", client.ErrInvalid, r.Pattern)
		}
		f.rules = append(f.rules, rule{r.Exclude, onlyFolder, compiled})
	}
	return f, nil
}

// expressionOf returns a pattern as a regular expression.
func expressionOf(pattern string) (string, error) {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	rest, anchored := strings.CutPrefix(pattern, "/")
	if !anchored {
		b.WriteString(`(?:.*/)?`)
	}
	if rest == "" {
		return "", fmt.Errorf("has no name")
	}
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "**"):
			b.WriteString(`.*`)
			rest = strings.TrimLeft(rest, "*")
			continue
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
		case rest[0] == '?':
			b.WriteString(`[^/]`)
		case rest[0] == '[':
			end := strings.IndexByte(rest[1:], ']') + 1
			if end <= 1 {
				return "", fmt.Errorf("has a [ without characters and a ]")
			}
			set := strings.ReplaceAll(rest[1:end], `\`, `\\`)
			if strings.HasPrefix(set, "!") {
				set = "^/" + set[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(set, "[", `\[`) + "]")
			rest = rest[end+1:]
			continue
		case rest[0] == '\\' && len(rest) > 1:
			rest = rest[1:]
			fallthrough
		default:
			n := len(rest)
			if i := strings.IndexAny(rest[1:], `*?[\`); i >= 0 {
				n = i + 1
			}
			b.WriteString(regexp.QuoteMeta(rest[:n]))
			rest = rest[n:]
			continue
		}
		rest = rest[1:]
	}
	return b.String() + `$`, nil
}

// Includes reports whether the file or blob with a name, relative to the folder or prefix, is
// transferred. A nil filter includes all.
func (f *Filter) Includes(name string) bool {
	if f == nil {
		return true
	}
	for i := range len(name) {
		if name[i] == '/' && !f.admits(name[:i], true) {
			return false
		}
	}
	return f.admits(name, false)
}

// admits reports whether the first rule that matches includes a file, or a folder by itself.
func (f *Filter) admits(name string, folder bool) bool {
	for _, r := range f.rules {
		if (folder || !r.onlyFolder) && r.pattern.MatchString(name) {
			return !r.exclude
		}
	}
	return true
}
