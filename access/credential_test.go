package access

import (
	"strings"
	"testing"
)

func TestCredentialForm(t *testing.T) {
	id, secret := newID(), newSecret()
	if len(id) != 16 || len(secret)*5 < 256 {
		t.Errorf("id %q, a secret of %d characters", id, len(secret))
	}
	whole := formatCredential(id, secret)
	if gotID, gotSecret, ok := parseCredential(whole); !ok || gotID != id || gotSecret != secret {
		t.Errorf("parsing %q: %q, %q, %t", whole, gotID, gotSecret, ok)
	}
	for name, bad := range map[string]string{
		"empty":                "",
		"prefix alone":         "sluice_",
		"another prefix":       strings.Replace(whole, "sluice_", "sluicy_", 1),
		"no prefix":            strings.TrimPrefix(whole, "sluice_"),
		"upper case":           strings.ToUpper(whole),
		"upper-case secret":    formatCredential(id, strings.ToUpper(secret)),
		"no secret":            formatCredential(id, ""),
		"no id":                formatCredential("", secret),
		"a character less":     whole[:len(whole)-1],
		"a character more":     whole + "a",
		"a trailing space":     whole + " ",
		"a leading space":      " " + whole,
		"digits not of base32": formatCredential(id, "0189"+secret[4:]),
		"padding":              whole[:len(whole)-1] + "=",
		"id and secret joined": "sluice_" + id + "a" + secret,
		"underscore elsewhere": "sluice_" + id[:15] + "_" + id[15:] + secret,
		"not ASCII":            whole[:len(whole)-2] + "é",
		"a null byte":          whole[:len(whole)-1] + "\x00",
		"very long":            strings.Repeat(whole, 10_000),
	} {
		if _, _, ok := parseCredential(bad); ok {
			t.Errorf("%s: %.100q is accepted", name, bad)
		}
	}
}

// TestCredentialsAreRandom checks that every character in a secret takes every value.
func TestCredentialsAreRandom(t *testing.T) {
	seen := map[string]bool{}
	values := make([]map[byte]bool, secretLength)
	for range 2_000 {
		secret := newSecret()
		if seen[secret] {
			t.Fatalf("%q was created twice", secret)
		}
		seen[secret] = true
		for i := range values {
			if values[i] == nil {
				values[i] = map[byte]bool{}
			}
			values[i][secret[i]] = true
		}
	}
	for i, v := range values {
		if len(v) != len(alphabet) {
			t.Errorf("character %d takes %d values", i, len(v))
		}
	}
}

// FuzzParseCredential checks that a credential that is accepted is spelled as a created one.
func FuzzParseCredential(f *testing.F) {
	whole := formatCredential(newID(), newSecret())
	for _, seed := range []string{"", "sluice_", whole, whole[1:], whole[:40], whole + "_", strings.ToUpper(whole)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, ok := parseCredential(text)
		if !ok {
			if id != "" && secret != "" && formatCredential(id, secret) == text && isRandomText(id+secret) {
				t.Errorf("%q is refused", text)
			}
			return
		}
		if formatCredential(id, secret) != text || len(id) != idLength || len(secret) != secretLength ||
			strings.Trim(id+secret, alphabet) != "" {
			t.Errorf("%q is parsed as %q, %q", text, id, secret)
		}
	})
}
