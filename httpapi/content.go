package httpapi

import (
	"crypto/subtle"
	"fmt"
	"net/http"

	"sluice/wire"
)

// checkContent looks at what a PUT says of its body, before any of it is read.
// It returns the SHA-256 that the body must have, nil when none is given.
func checkContent(h http.Header) (sha256 []byte, err error) {
	if err := checkContentEncoding(h); err != nil {
		return nil, err
	}
	if h.Get("Content-Range") != "" {
		return nil, fmt.Errorf("%w: a PUT stores the whole, so Content-Range has no meaning; use a multipart upload", errHeader)
	}
	ofContent, err := parseDigest(h, wire.HeaderContentDigest)
	if err != nil {
		return nil, err
	}
	// Without a Content-Encoding the content is the representation.
	ofWhole, err := parseDigest(h, wire.HeaderReprDigest)
	if err != nil {
		return nil, err
	}
	switch {
	case ofContent == nil:
		return ofWhole, nil
	case ofWhole != nil && subtle.ConstantTimeCompare(ofContent, ofWhole) == 0:
		return nil, fmt.Errorf("%w: %s and %s contradict", errBadDigest, wire.HeaderContentDigest, wire.HeaderReprDigest)
	default:
		return ofContent, nil
	}
}
