package checksums

import "errors"

// Errors of clients' fields, by the code that S3 answers with. Their texts name the field.
var (
	// ErrInvalidRequest means that a checksum is stated in a wrong form, or several are.
	ErrInvalidRequest = errors.New("invalid checksum")
	// ErrInvalidDigest means that Content-MD5 is not the base64 form of 16 bytes.
	ErrInvalidDigest = errors.New("the Content-MD5 is not valid")
	// ErrBadDigest means that the body has another checksum than was stated.
	ErrBadDigest = errors.New("the body has another checksum than the request states")
	// ErrMalformedTrailer means that a body's trailer lacks the checksum that was announced, has it
	// in a wrong form, or has another field.
	ErrMalformedTrailer = errors.New("the trailer is not the checksum that was announced")
)
