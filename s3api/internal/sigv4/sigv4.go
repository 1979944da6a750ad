// Package sigv4 verifies requests that are signed with AWS Signature Version 4, as Amazon S3 uses
// it: in the Authorization header, in a presigned URL, and in each chunk of a body.
// The rules are in "Authenticating Requests (AWS Signature Version 4)" in the Amazon S3 API
// Reference; its examples are among the tests.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Errors of Parse and Verify. Each wraps the error of one S3 error code.
var (
	// ErrUnsigned means that a request has no signature (AccessDenied, unless everyone may).
	ErrUnsigned = errors.New("the request is not signed")
	// ErrMalformed means that a signature has not the form of one (AuthorizationHeaderMalformed, or
	// AuthorizationQueryParametersError).
	ErrMalformed = errors.New("the signature is malformed")
	// ErrUnsupported means another kind of signature than Version 4 (InvalidRequest).
	ErrUnsupported = errors.New("only signatures of version 4, AWS4-HMAC-SHA256, are supported, as with the setting signature_version = s3v4")
	// ErrNotCovered means that the signature covers too little (AccessDenied).
	ErrNotCovered = errors.New("the signature does not cover a header that it must cover")
	// ErrSkewed means that the request's time and the clock differ by more than MaxSkew
	// (RequestTimeTooSkewed).
	ErrSkewed = errors.New("the time of the request is too far from the server's")
	// ErrExpired means that a presigned URL is no longer valid (AccessDenied).
	ErrExpired = errors.New("the presigned URL has expired")
	// ErrMismatch means that another secret or another request was signed (SignatureDoesNotMatch).
	ErrMismatch = errors.New("the signature does not match the request")
)

const (
	// MaxSkew is how far a signature's time may be from the clock, before and after it.
	MaxSkew = 15 * time.Minute
	// MaxExpiry is the longest time for which a URL can be presigned.
	MaxExpiry = 7 * 24 * time.Hour
)

// Service is the service in the scope of every signature.
const Service = "s3"

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	timeForm   = "20060102T150405Z"
	dateForm   = "20060102"
)

// Payload is a signature's statement about the request's body: a SHA-256 in hexadecimal digits, or
// a constant.
type Payload string

// The payloads that are no digests.
const (
	Unsigned                 Payload = "UNSIGNED-PAYLOAD"
	StreamingSigned          Payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	StreamingSignedTrailer   Payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	StreamingUnsignedTrailer Payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

// Digest returns the SHA-256 that the body must have, or false if the payload is not a digest.
func (p Payload) Digest() (sum [sha256.Size]byte, ok bool) {
	if len(p) != hex.EncodedLen(len(sum)) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(p))
	return sum, err == nil
}

// Chunked reports whether the body is in chunks (coding aws-chunked), and whether each chunk is
// signed.
func (p Payload) Chunked() (chunked, signed bool) {
	switch p {
	case StreamingSigned, StreamingSignedTrailer:
		return true, true
	case StreamingUnsignedTrailer:
		return true, false
	}
	return false, false
}

// valid reports whether a payload is one that this package knows.
func (p Payload) valid() bool {
	_, digest := p.Digest()
	chunked, _ := p.Chunked()
	return digest || chunked || p == Unsigned
}

// key is a key for signatures of one day, region and service.
type key [sha256.Size]byte

// deriveKey returns a secret's signing key.
func deriveKey(secret, date, region string) key {
	sum := mac([]byte("AWS4"+secret), date)
	for _, part := range []string{region, Service, terminator} {
		sum = mac(sum[:], part)
	}
	return sum
}

// mac returns a text's HMAC-SHA256.
func mac(key []byte, text string) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	h.Sum(sum[:0])
	return sum
}
