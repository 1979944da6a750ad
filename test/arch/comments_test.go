package arch

import (
	"fmt"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A line that is a comment has at most commentColumns, and one with a comment after code at most
// codeColumns. A tab counts as 4.
const (
	commentColumns = 100
	codeColumns    = 120
)

// TestCommentsAreWrapped checks the length of lines with comments.
func TestCommentsAreWrapped(t *testing.T) {
	for _, s := range sources(t) {
		for _, found := range longLines(s.text) {
			t.Errorf("%s:%s", s.file, found)
		}
	}
}

// longLines returns a Go file's lines that a comment makes too long. Lines that cannot be wrapped
// are not among them: directives, preformatted text, an example's output, and single words.
func longLines(text string) (found []string) {
	lines := strings.Split(text, "\n")
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	output := false // whether the comment is an example's output
	for last := 0; ; {
		pos, tok, comment := s.Scan()
		if tok == token.EOF {
			return found
		}
		if tok != token.COMMENT || !strings.HasPrefix(comment, "//") {
			continue
		}
		number := file.Line(pos)
		output = output && number == last+1 || exampleOutput.MatchString(comment)
		last = number
		line := lines[number-1]
		columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
		alone, limit := strings.HasPrefix(strings.TrimSpace(line), "//"), codeColumns
		if alone {
			limit = commentColumns
		}
		if columns > limit && (!alone || !output && !unwrappable(comment)) {
			found = append(found, fmt.Sprintf("%d has %d columns, want at most %d", number, columns, limit))
		}
	}
}

var (
	exampleOutput = regexp.MustCompile(`^// (Unordered o|O)utput:`)
	listItem      = regexp.MustCompile(`^//   ?(  |[-*] |[0-9]+\. )\S`)
)

// unwrappable reports whether a comment's line is a directive, preformatted, or a single word.
func unwrappable(comment string) bool {
	text, spaced := strings.CutPrefix(comment, "// ")
	preformatted := strings.HasPrefix(text, " ") && !listItem.MatchString(comment)
	return !spaced || preformatted || strings.HasPrefix(text, "\t") || len(strings.Fields(text)) == 1
}

// TestCommentsHaveNoEmptyEdges checks that no comment begins or ends with an empty line, or has two
// empty lines in a row.
func TestCommentsHaveNoEmptyEdges(t *testing.T) {
	for _, s := range sources(t) {
		lines := strings.Split(s.text, "\n")
		inComment := func(i int) bool {
			line := strings.TrimSpace(lines[i])
			return strings.HasPrefix(line, "//") && line != "//"
		}
		for i := 1; i < len(lines)-1; i++ {
			if strings.TrimSpace(lines[i]) == "//" && (!inComment(i-1) || !inComment(i+1)) {
				t.Errorf("%s:%d is an empty line at the edge of a comment", s.file, i+1)
			}
		}
	}
}

// TestLongLines checks which lines are found.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for text, want := range map[string]int{
		"// " + long[:97]:                           0,
		"// " + long[:97] + "x":                     1,
		"//   - " + long + "x":                      1,
		"//\t" + long + "x":                         0,
		"//go:generate " + long + "x":               0,
		"// https://" + strings.Repeat("x", 100):    0,
		"// Output: " + long + "\n// " + long + "x": 0,
		"var x = `\n// " + long + long + "`":        0,
		"var x = 1 // " + long:                      0,
		"var x = 1 // " + long + long:               1,
	} {
		if found := longLines("package p\n\n" + text + "\n"); len(found) != want {
			t.Errorf("%q: found %q, want %d lines", text, found, want)
		}
	}
}

// Bounds for phrases that make a sentence hard to read, in all comments.
const (
	maxThatOf  = 0    // matches of thatOf
	maxOfWhich = 0.15 // matches of ofWhich for each 1,000 words
	maxOfThe   = 4    // matches of ofThe for each 1,000 words
	maxWhat    = 0.5  // matches of what for each 1,000 words
	maxOthers  = 0.2  // matches of others for each 1,000 words
	maxSays    = 0.1  // matches of says for each 1,000 words
)

// TestCommentsArePlain counts the phrases. Write "a blob's name" or "the request log" instead of a
// chain of genitives, and one relative clause in a sentence. Name the thing instead of "what" and
// "others": "the bytes on disk", "the other requests".
func TestCommentsArePlain(t *testing.T) {
	var total phrases
	for _, s := range sources(t) {
		found := phrasesOf(s.text)
		total.words += found.words
		total.thatOf += found.thatOf
		total.ofWhich += found.ofWhich
		total.ofThe += found.ofThe
		total.what += found.what
		total.others += found.others
		total.says += found.says
	}
	if total.words < 100_000 {
		t.Fatalf("only %d words were read", total.words)
	}
	each := func(n int) float64 { return 1000 * float64(n) / float64(total.words) }
	if total.thatOf > maxThatOf {
		t.Errorf("%d times %q, want at most %d", total.thatOf, "that of", maxThatOf)
	}
	for _, mark := range []struct {
		phrase string
		n      int
		most   float64
	}{
		{"of which", total.ofWhich, maxOfWhich}, {"of the", total.ofThe, maxOfThe},
		{"what", total.what, maxWhat}, {"others", total.others, maxOthers}, {"says", total.says, maxSays},
	} {
		if got := each(mark.n); got > mark.most {
			t.Errorf("%.2f times %q for each 1,000 words, want at most %v", got, mark.phrase, mark.most)
		}
	}
}

type phrases struct{ words, thatOf, ofWhich, ofThe, what, others, says int }

var (
	commentText = regexp.MustCompile(`(?m)(?:^|\s)//\s?(.*)$`)
	thatOf      = regexp.MustCompile(`\b(?:that|those) of\b`)
	ofWhich     = regexp.MustCompile(`\bof which\b|\bwhose\b`)
	ofThe       = regexp.MustCompile(`\bof (?:a|an|the)\b`)
	what        = regexp.MustCompile(`(?i)\bwhat\b`)
	others      = regexp.MustCompile(`(?i)\bothers\b|\b(?:another|the other) one\b`)
	says        = regexp.MustCompile(`(?i)\bsa(?:ys?|id)\b|\btells?\b`)
)

// phrasesOf counts in a file's comments.
func phrasesOf(text string) phrases {
	var words []string
	for _, line := range commentText.FindAllStringSubmatch(text, -1) {
		words = slices.Concat(words, strings.Fields(line[1]))
	}
	comments := strings.Join(words, " ")
	count := func(phrase *regexp.Regexp) int { return len(phrase.FindAllString(comments, -1)) }
	return phrases{len(words), count(thatOf), count(ofWhich), count(ofThe), count(what), count(others), count(says)}
}

// TestPhrasesOf checks that phrases are counted across lines, and in comments only.
func TestPhrasesOf(t *testing.T) {
	const text = "package p\n\n// F returns the size of\n// the blob, those of a part, and one whose name is odd.\nfunc F() {}\t// that of\n" +
		"\n// What it says of another\n// one: the others tell, saying somewhat.\nvar s = \"of the others says what\"\n"
	if got, want := phrasesOf(text), (phrases{30, 2, 1, 2, 1, 2, 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
