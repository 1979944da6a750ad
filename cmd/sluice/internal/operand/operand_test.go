package operand_test

import (
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/operand"
)

func TestParseRemote(t *testing.T) {
	for text, want := range map[string]operand.Remote{
		"team":            {Account: "team"},
		"team/":           {Account: "team"},
		"team/a":          {Account: "team", Name: "a"},
		"team//a":         {Account: "team", Name: "/a"},
		"team/a/../b":     {Account: "team", Name: "a/../b"},
		"team/dir/":       {Account: "team", Name: "dir/"},
		":team/a":         {Account: "team", Name: "a"},
		"prod:team":       {Context: "prod", Account: "team"},
		"0x1/a:b":         {Account: "0x1", Name: "a:b"},
		"team/\x1b[31m\n": {Account: "team", Name: "\x1b[31m\n"},
	} {
		got, err := operand.ParseRemote(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":         "the operand is empty: want ACCOUNT/NAME, such as team/photo.jpg",
		"/a":       `"/a" has no account: want ACCOUNT/NAME, such as team/photo.jpg`,
		"/":        `"/" has no account: want ACCOUNT/NAME, such as team/photo.jpg`,
		"p:team":   `"p:team": want ACCOUNT/NAME, or CONTEXT:ACCOUNT/NAME with the name of a context`,
		"prod:a:b": `"prod:a:b": want ACCOUNT/NAME, or CONTEXT:ACCOUNT/NAME with the name of a context`,
		"prod:":    `"prod:" has no account: want ACCOUNT/NAME, such as team/photo.jpg`,
		"http://h": `"http://h" is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME`,
	} {
		if got, err := operand.ParseRemote(text); err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v, want %s", text, got, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]operand.Remote{
		"prod:team/a":     {Context: "prod", Account: "team", Name: "a"},
		":team/a":         {Account: "team", Name: "a"},
		":team":           {Account: "team"},
		"ab:team/a:b":     {Context: "ab", Account: "team", Name: "a:b"},
		"a-1.x_:0x1/dir/": {Context: "a-1.x_", Account: "0x1", Name: "dir/"},
	} {
		got, err := operand.Parse(text)
		if err != nil || got.Remote == nil || *got.Remote != want || got.Path != "" {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, path := range []string{"-", "a", "team/a", "./prod:team/a", "/abs:olute", `C:\Users\a`, "c:relative", "C:/a", "a b:c", "-x:y", "café:x", strings.Repeat("c", 65) + ":a"} {
		got, err := operand.Parse(path)
		if err != nil || got.Remote != nil || got.Path != path || got.IsStdio() != (path == "-") {
			t.Errorf("%q: %+v, %v, want a local path", path, got, err)
		}
	}
	for text, want := range map[string]string{
		"":               "the operand is empty: want a file, a folder, -, ACCOUNT/NAME or CONTEXT:ACCOUNT/NAME",
		":":              `":" has no account: want ACCOUNT/NAME, such as team/photo.jpg; a local file of that name is ./:`,
		"prod:":          `"prod:" has no account: want ACCOUNT/NAME, such as team/photo.jpg; a local file of that name is ./prod:`,
		"prod:/a":        `"prod:/a" has no account: want ACCOUNT/NAME, such as team/photo.jpg; a local file of that name is ./prod:/a`,
		"http://host/v1": `"http://host/v1" is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME`,
	} {
		if got, err := operand.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: %+v, %v, want %s", text, got, err, want)
		}
	}
}

func TestFolder(t *testing.T) {
	for text, want := range map[string]bool{"team": true, "team/": true, "team/a": false, "team/a/": true, "team//": true} {
		if got, err := operand.ParseRemote(text); err != nil || got.Folder() != want {
			t.Errorf("%q: Folder is %t, %v", text, got.Folder(), err)
		}
	}
}

// FuzzParse checks that an operand is either local, and then as it was written, or remote with
// parts that make up the text.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "-", ":a/b", "ab:c/d", `C:\x`, "ab:c//..", "http://h", "\xff\xff:a/b", "a:b:c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := operand.Parse(text)
		if err != nil {
			return
		}
		if o.Remote == nil {
			if o.Path != text {
				t.Fatalf("%q: the path is %q", text, o.Path)
			}
			return
		}
		if o.Remote.Account == "" || o.Remote.Context != "" && !operand.IsContext(o.Remote.Context) || strings.ContainsAny(o.Remote.Account, "/:") {
			t.Fatalf("%q: %+v", text, o.Remote)
		}
		if joined := o.Remote.Context + ":" + o.Remote.Account + "/" + o.Remote.Name; joined != text && joined != text+"/" {
			t.Fatalf("%q: the parts are %q", text, joined)
		}
		if again, err := operand.Parse(o.String()); err != nil || again.Remote == nil || *again.Remote != *o.Remote {
			t.Fatalf("%q: %q is parsed as %+v, %v", text, o, again, err)
		}
	})
}
