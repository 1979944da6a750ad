package document

import (
	"encoding/xml"
	"fmt"
)

// DecodeVersioning reads a body with a bucket's versioning ("VersioningConfiguration", Amazon S3
// API Reference). The status is Enabled, Suspended or empty; mfaDelete reports whether deletions of
// versions need a second factor. The error wraps ErrMalformed. The caller bounds the body's size.
func DecodeVersioning(body []byte) (status string, mfaDelete bool, err error) {
	var sent struct {
		XMLName   xml.Name `xml:"VersioningConfiguration"`
		Status    []string
		MFADelete []string                     `xml:"MfaDelete"`
		Unknown   []struct{ XMLName xml.Name } `xml:",any"`
	}
	if err := decode(body, &sent); err != nil {
		return "", false, err
	}
	if len(sent.Unknown) > 0 {
		return "", false, fmt.Errorf("%w: there is no element %.100s in it", ErrMalformed, sent.Unknown[0].XMLName.Local)
	}
	if status, err = oneOf("Status", sent.Status, "Enabled", "Suspended"); err != nil {
		return "", false, err
	}
	factor, err := oneOf("MfaDelete", sent.MFADelete, "Enabled", "Disabled")
	return status, factor == "Enabled", err
}

// oneOf is optional for an element with one of two texts.
func oneOf(element string, texts []string, a, b string) (string, error) {
	text, err := optional(element, texts)
	if err == nil && text != "" && text != a && text != b {
		err = fmt.Errorf("%w: %s must be %s or %s", ErrMalformed, element, a, b)
	}
	return text, err
}
