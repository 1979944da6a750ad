package keys

import (
	"testing"

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
