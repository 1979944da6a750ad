package httpapi

import (
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"

	"sluice/httpapi/internal/headers"
	"sluice/wire"
)

// discardBody reads off the body of a request whose method gives it no meaning.
// The server would do so before the reply, without a limit in time.
func discardBody(r *http.Request) error {
	switch r.Method {
	case http.MethodPut, http.MethodPost:
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxJSONBody+1))
	if err == nil && n > maxJSONBody {
		err = tooLarge()
	}
	return err
}

// checkContent looks at what a PUT says of its body, before any of it is read.
// It returns the SHA-256 that the body must have, nil when none is given.
func checkContent(r *http.Request) (sha256 []byte, err error) {
	h := r.Header
	if err := checkContentEncoding(h); err != nil {
		return nil, err
	}
	if r.ContentLength == 0 && h.Get("Content-Length") == "" {
		return nil, errNoLength
	}
	for _, name := range []string{wire.HeaderContentDigest, wire.HeaderReprDigest} {
		if _, announced := r.Trailer[name]; announced {
			return nil, fmt.Errorf("%w: %s must come before the body, not after it", headers.ErrMalformedDigest, name)
		}
	}
	if h.Get("Content-Range") != "" {
		return nil, fmt.Errorf("%w: a PUT stores the whole, so Content-Range has no meaning; use a multipart upload", errHeader)
	}
	ofContent, err := headers.ParseDigest(h, wire.HeaderContentDigest)
	if err != nil {
		return nil, err
	}
	// Without a Content-Encoding the content is the representation.
	ofWhole, err := headers.ParseDigest(h, wire.HeaderReprDigest)
	if err != nil {
		return nil, err
	}
	switch {
	case ofContent == nil:
		return ofWhole, nil
	case ofWhole != nil && subtle.ConstantTimeCompare(ofContent, ofWhole) == 0:
		return nil, fmt.Errorf("%w: %s and %s contradict", headers.ErrMalformedDigest, wire.HeaderContentDigest, wire.HeaderReprDigest)
	default:
		return ofContent, nil
	}
}
