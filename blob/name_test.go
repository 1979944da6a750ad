package blob

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"sluice/test/testenv"
)

func TestParseAccount(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("0", n) }
	one := "0x1"
	ten := "0x" + zeros(62) + "10"
	full := "0x" + strings.Repeat("ab", 32)
	for _, tc := range []struct{ in, want string }{
		// Addresses with the prefix.
		{"0x1", one},
		{"0x01", one},
		{"0x" + zeros(63) + "1", one},
		{"0x0", "0x0"},
		{"0x" + zeros(64), "0x0"},
		{"0xf", "0xf"},
		{"0xF", "0xf"},
		{"0x0F", "0xf"},
		{"0x10", ten},
		{"0x0010", ten},
		{ten, ten},
		{full, full},
		{"0x" + strings.Repeat("AB", 32), full},
		{"0x" + strings.Repeat("aB", 32), full},
		// Addresses without it: one digit, or 60 to 64.
		{"1", one},
		{"a", "0xa"},
		{"F", "0xf"},
		{"0", "0x0"},
		{zeros(63) + "1", one},
		{zeros(60), "0x0"},
		{strings.Repeat("a", 60), "0x0000" + strings.Repeat("a", 60)},
		{strings.Repeat("A", 60), "0x0000" + strings.Repeat("a", 60)},
		{strings.Repeat("AB", 32), full},
		// Plain names, some of them made of hex digits.
		{"ab", "ab"},
		{"00", "00"},
		{"10", "10"},
		{"zz", "zz"},
		{"g", "g"},
		{"x", "x"},
		{"0", "0x0"},
		{"00x", "00x"},
		{"1x0", "1x0"},
		{"my-team_1.prod", "my-team_1.prod"},
		{strings.Repeat("a", 59), strings.Repeat("a", 59)},
		{strings.Repeat("z", 64), strings.Repeat("z", 64)},
		{strings.Repeat("a", 59) + "g", strings.Repeat("a", 59) + "g"},
		{"a..b", "a..b"},
		{"a--", "a--"},
		// Neither.
		{"", ""},
		{"0x", ""},
		{"0x" + zeros(65), ""},
		{"0xg", ""},
		{"0x-1", ""},
		{"0x 1", ""},
		{"0x1/", ""},
		{"0x1/2", ""},
		{"0X1", ""},
		{"0X", ""},
		{"Zz", ""},
		{"AB", ""},
		{strings.Repeat("A", 59), ""},
		{zeros(65), ""},
		{strings.Repeat("z", 65), ""},
		{".a", ""},
		{"-a", ""},
		{"_a", ""},
		{".", ""},
		{"..", ""},
		{"a b", ""},
		{"a/b", ""},
		{"a,b", ""},
		{"0,0,1", ""},
		{"é", ""},
		{"a\x00", ""},
		{"a\xff", ""},
	} {
		got, err := ParseAccount(tc.in)
		if tc.want == "" {
			var ne *NameError
			if !errors.Is(err, ErrInvalidName) || !errors.As(err, &ne) || ne.What != "account" || got != "" {
				t.Errorf("ParseAccount(%q) = %q, %v; want a *NameError", tc.in, got, err)
			}
			continue
		}
		if err != nil || got != tc.want {
			t.Errorf("ParseAccount(%q) = %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{
		"a", "a.txt", "a b", " ", "a ", "folder/sub/a.txt", "/a", "//a", "a//b", ".", "..", "../x", "a/./b",
		"100%", "a%2Fb", "%", "?", "#", "日本語", "e\u0301", "😀.png", "\u0080", "\u00a0", "\ufffd", "\uffff", "a\\b",
		strings.Repeat("a", 1024),
		strings.Repeat("日", 1024),
		strings.Repeat("\uffff", 1024),
		strings.Repeat("😀", 512),
		strings.Repeat("😀", 511) + "ab",
	} {
		testenv.Is(t, CheckName(name), nil, "CheckName(%.20q)", name)
	}
	for _, name := range []string{
		"", "/", "a/", "a//", "\x00", "a\nb", "a\tb", "\x1f", "\x7f", "a\xff", "\xed\xa0\x80", "\xc0\xaf",
		strings.Repeat("a", 1025),
		strings.Repeat("日", 1025),
		strings.Repeat("😀", 512) + "a",
		strings.Repeat("😀", 513),
		strings.Repeat("a", 1<<20),
	} {
		err := CheckName(name)
		var ne *NameError
		if !errors.Is(err, ErrInvalidName) || !errors.As(err, &ne) || ne.What != "blob name" || ne.Reason == "" {
			t.Errorf("CheckName(%.20q) = %v, want a *NameError", name, err)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "0x1", "0X1", "a/b", "a/", "\xff", "😀", strings.Repeat("Ab", 32), strings.Repeat("9", 60)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if canonical, err := ParseAccount(s); err == nil {
			again, err := ParseAccount(canonical)
			if err != nil || again != canonical {
				t.Errorf("ParseAccount(%q) = %q, but that parses to %q, %v", s, canonical, again, err)
			}
			if strings.ContainsAny(canonical, "/\x00") || canonical != strings.ToLower(canonical) {
				t.Errorf("ParseAccount(%q) = %q", s, canonical)
			}
		}
		units := len(utf16.Encode([]rune(s)))
		good := utf8.ValidString(s) && units >= 1 && units <= 1024 && !strings.HasSuffix(s, "/") &&
			!strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
		if err := CheckName(s); (err == nil) != good {
			t.Errorf("CheckName(%q) = %v, want good %v", s, err, good)
		}
	})
}
