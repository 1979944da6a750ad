package terminal_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/test/testenv"
)

// hostile are names that would control a terminal.
var hostile = map[string]string{
	"\x1b[31mred":       `\x1b[31mred`,
	"\x1b]0;title\a":    `\x1b]0;title\a`,
	"a\nb":              `a\nb`,
	"a\rb":              `a\rb`,
	"a\bb":              `a\bb`,
	"\u009b31m":         `\u009b31m`, // CSI as one character
	"\x9b31m":           `\x9b31m`,   // the same as a byte, which is not UTF-8
	"\u202egpj.exe":     `\u202egpj.exe`,
	"\u2066x\u2069":     `\u2066x\u2069`,
	"a\u200bb":          `a\u200bb`,
	"\ufeffa":           `\ufeffa`,
	"a\x7f":             `a\x7f`,
	"a\u2028b":          `a\u2028b`,
	"\U000e0041":        `\U000e0041`,
	"bad\xff":           `bad\xff`,
	"\xe2\x80":          `\xe2\x80`,
	"no-break\u00a0one": `no-break\u00a0one`,
}

func TestNamesCannotControlTheTerminal(t *testing.T) {
	for name, want := range hostile {
		if got := terminal.Name(name); got != `"`+want+`"` {
			t.Errorf("Name(%q) = %s, want it quoted as %s", name, got, want)
		}
		if got := terminal.Text("no such blob: " + name + "."); got != "no such blob: "+want+"." {
			t.Errorf("Text of %q = %s", name, got)
		}
		var line strings.Builder
		if err := terminal.WriteJSON(&line, map[string]string{"name": name}); err != nil || strings.Count(line.String(), "\n") != 1 {
			t.Fatalf("%q: %q, %v", name, line.String(), err)
		}
		for _, r := range strings.TrimSuffix(line.String(), "\n") {
			if !strconv.IsPrint(r) {
				t.Errorf("%q: the line %q has the character %U", name, line.String(), r)
			}
		}
		var back struct{ Name string }
		if err := json.Unmarshal([]byte(line.String()), &back); err != nil || utf8.ValidString(name) && back.Name != name {
			t.Errorf("%q: the line %q is read as %q, %v", name, line.String(), back.Name, err)
		}
	}
}

func TestOrdinaryNamesAreShownAsTheyAre(t *testing.T) {
	for _, name := range []string{"a", "dir/photo 1.jpg", `C:\x`, "müller", "日本.txt", "a,b", `5"`, "🙂", "e\u0301", "<&>"} {
		testenv.Equal(t, terminal.Name(name), name, "Name(%q)", name)
		testenv.Equal(t, terminal.Text(name), name, "Text(%q)", name)
		var line strings.Builder
		if err := terminal.WriteJSON(&line, struct{ N string }{name}); err != nil || !strings.Contains(line.String(), strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), `"`, `\"`)) {
			t.Errorf("the line of %q is %q, %v", name, line.String(), err)
		}
	}
	for name, want := range map[string]string{"": `""`, " a": `" a"`, "a ": `"a "`, `"a"`: `"\"a\""`} {
		testenv.Equal(t, terminal.Name(name), want, "Name(%q)", name)
	}
}

// FuzzName checks that the result's characters can be shown, and that a quoted name can be read
// back.
func FuzzName(f *testing.F) {
	for name := range hostile {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := terminal.Name(name)
		for _, text := range []string{got, terminal.Text(name)} {
			for _, r := range text {
				if !strconv.IsPrint(r) {
					t.Fatalf("%q is shown as %q", name, text)
				}
			}
		}
		if got == name {
			return
		}
		if back, err := strconv.Unquote(got); err != nil || back != name {
			t.Fatalf("%q is shown as %s, which is read as %q, %v", name, got, back, err)
		}
	})
}
