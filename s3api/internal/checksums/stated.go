package checksums

import (
	"crypto/md5"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Headers with checksums, besides each algorithm's.
const (
	contentMD5   = "content-md5"
	trailerField = "x-amz-trailer"
	sdkAlgorithm = "x-amz-sdk-checksum-algorithm"
)

// notSums are headers that begin like a checksum's and state none.
var notSums = []string{headerPrefix + "algorithm", headerPrefix + "type", headerPrefix + "mode"}

// Stated is the statement in a request's header about its body's checksum.
type Stated struct {
	Algorithm Algorithm // none if the request states no flexible checksum
	Sum       []byte    // nil with Trailer, without Algorithm, and if the checksum is only computed
	Trailer   bool      // whether the checksum follows the body
	MD5       []byte    // Content-MD5; nil if there is none
}

// Parse reads the statement in a request's header. The error wraps ErrInvalidRequest or
// ErrInvalidDigest.
func Parse(h http.Header) (Stated, error) {
	var s Stated
	err := errors.Join(s.parseMD5(h), s.parseSum(h))
	if err == nil {
		err = s.parseTrailer(h)
	}
	if err == nil {
		err = s.checkAnnounced(h)
	}
	if err != nil {
		return Stated{}, err
	}
	return s, nil
}

func (s *Stated) parseMD5(h http.Header) error {
	text, err := only(h, contentMD5)
	if err != nil || text == nil {
		return err
	}
	sum, ok := decode(*text, md5.Size)
	if !ok {
		return fmt.Errorf("%w: it must be the base64 form of 16 bytes", ErrInvalidDigest)
	}
	s.MD5 = sum
	return nil
}

// parseSum reads the header with a checksum. A request may have one at most.
func (s *Stated) parseSum(h http.Header) error {
	for name := range h {
		name = strings.ToLower(name)
		if !strings.HasPrefix(name, headerPrefix) || slices.Contains(notSums, name) {
			continue
		}
		a, known := algorithmOf(name)
		switch {
		case !known:
			return fmt.Errorf("%w: the header %s is not supported", ErrInvalidRequest, name)
		case s.Algorithm != "":
			return fmt.Errorf("%w: a request must have a single x-amz-checksum- header", ErrInvalidRequest)
		}
		text, err := only(h, name)
		if err != nil {
			return err
		}
		value, err := ParseValue(a, *text)
		if err != nil {
			return err
		}
		s.Algorithm, s.Sum = a, value.Sum
	}
	return nil
}

// parseTrailer reads which field follows the body.
func (s *Stated) parseTrailer(h http.Header) error {
	text, err := only(h, trailerField)
	if err != nil || text == nil {
		return err
	}
	a, known := algorithmOf(strings.ToLower(*text))
	switch {
	case !known:
		return fmt.Errorf("%w: x-amz-trailer must name one x-amz-checksum- field", ErrInvalidRequest)
	case s.Algorithm != "":
		return fmt.Errorf("%w: a request must state one checksum, in a header or in the trailer", ErrInvalidRequest)
	}
	s.Algorithm, s.Trailer = a, true
	return nil
}

// checkAnnounced compares the algorithm that an SDK was told to use with the one that it used.
func (s *Stated) checkAnnounced(h http.Header) error {
	text, err := only(h, sdkAlgorithm)
	if err != nil || text == nil {
		return err
	}
	a, err := ParseAlgorithm(*text)
	switch {
	case err != nil:
		return fmt.Errorf("%w (in %s)", err, sdkAlgorithm)
	case s.Algorithm == "":
		return fmt.Errorf("%w: the request has %s, but neither x-amz-checksum- header nor x-amz-trailer", ErrInvalidRequest, sdkAlgorithm)
	case a != s.Algorithm:
		return fmt.Errorf("%w: %s is %s, but the request has %s", ErrInvalidRequest, sdkAlgorithm, a, s.Algorithm.Header())
	}
	return nil
}

// only returns a header's value, or nil if there is none. Several values are an error.
func only(h http.Header, name string) (*string, error) {
	values := h[textproto.CanonicalMIMEHeaderKey(name)]
	if len(values) > 1 {
		return nil, fmt.Errorf("%w: the request has the header %s more than once", ErrInvalidRequest, name)
	}
	if len(values) == 0 {
		return nil, nil
	}
	value := strings.TrimSpace(values[0])
	return &value, nil
}
