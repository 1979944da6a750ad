package document

import "encoding/xml"

// DecodeVersioning reads a body with a bucket's versioning ("VersioningConfiguration", Amazon S3
// API Reference). The status is Enabled, Suspended or empty; mfaDelete reports whether deletions of
// versions need a second factor. The error wraps ErrMalformed. The caller bounds the body's size.
func DecodeVersioning(body []byte) (status string, mfaDelete bool, err error) {
	var sent struct {
		strict
		XMLName   xml.Name `xml:"VersioningConfiguration"`
		Status    []string
		MFADelete []string `xml:"MfaDelete"`
	}
	if err := decodeStrictly(body, &sent); err != nil {
		return "", false, err
	}
	if status, err = oneOf("Status", sent.Status, "Enabled", "Suspended"); err != nil {
		return "", false, err
	}
	factor, err := oneOf("MfaDelete", sent.MFADelete, "Enabled", "Disabled")
	return status, factor == "Enabled", err
}
