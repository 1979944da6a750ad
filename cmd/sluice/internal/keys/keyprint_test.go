package keys

import (
	"testing"
	"time"

	"sluice/access/keys"
	"sluice/test/testenv"
)

func TestPrintableTexts(t *testing.T) {
	for text, want := range map[string]string{
		"bob": "bob", "0xab": "0xab", "": `""`, "two words": `"two words"`, "a,b": `"a,b"`,
		"\x1b[31m": `"\x1b[31m"`, "a\nb": `"a\nb"`, "\u202eevil": `"\u202eevil"`, `"`: `"\""`, "müller": "müller",
	} {
		testenv.Equal(t, printable(text), want, "what is shown of %q", text)
	}
}

func TestStates(t *testing.T) {
	now := time.Now()
	for want, k := range map[string]keys.Key{
		"active":  {Expires: now.Add(time.Hour)},
		"expired": {Expires: now.Add(-time.Hour)},
		"revoked": {Expires: now.Add(-time.Hour), Revoked: now},
	} {
		testenv.Equal(t, stateOf(k), want, "state of %+v", k)
	}
}
