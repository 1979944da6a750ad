package headers

import (
	"mime"
	"strings"
)

// encodedWords returns a value as Amazon S3 returns it: in encoded words of RFC 2047, in UTF-8 and
// base64, unless it is ASCII ("Working with object metadata" in the Amazon S3 User Guide).
func encodedWords(value string) string {
	encoded := mime.BEncoding.Encode("UTF-8", value)
	if encoded != value {
		encoded = strings.ReplaceAll(encoded, "=?UTF-8?b?", "=?UTF-8?B?") // as Amazon writes it
	}
	return encoded
}

// disposition returns a Content-Disposition in ASCII. Other characters of a file's name are sent as
// RFC 8187 has them, in filename*. Of a value from which that cannot be made, only the type is
// left.
func disposition(value string) string {
	if !strings.ContainsFunc(value, isNotPrintable) {
		return value
	}
	kind, parameters, err := mime.ParseMediaType(value)
	if err == nil {
		if text := mime.FormatMediaType(kind, parameters); text != "" {
			return text
		}
	}
	if kind, _, _ = strings.Cut(value, ";"); strings.EqualFold(strings.TrimSpace(kind), "inline") {
		return "inline"
	}
	return "attachment" // as any type that is not known (RFC 6266, section 4.2)
}

// fromLatin1 converts a text from ISO 8859-1 to UTF-8.
func fromLatin1(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}
