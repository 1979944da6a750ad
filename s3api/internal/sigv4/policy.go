package sigv4

import (
	"crypto/subtle"
	"time"
)

// ParsePolicy returns the signature of a form's policy, from the form's fields with these names.
// It returns ErrUnsupported or ErrMalformed.
func ParsePolicy(algorithmName, credential, date, signature string) (*Signature, error) {
	if algorithmName != algorithm {
		return nil, ErrUnsupported
	}
	signed, err := parseTime(date)
	if err != nil {
		return nil, err
	}
	s := &Signature{Time: signed, Expires: MaxExpiry, Payload: Unsigned, presigned: true}
	return s, s.parse(credential, "host", signature)
}

// VerifyPolicy checks that the secret's owner has signed the policy, in base64 as it was sent, in
// the last 7 days ("Browser-Based Uploads Using POST" in the Amazon S3 API Reference). It compares
// in constant time, and returns ErrSkewed, ErrExpired or ErrMismatch. That the policy itself has
// not expired is for the caller to check.
func (s *Signature) VerifyPolicy(policy, secret string, now time.Time) error {
	if err := s.checkTime(now); err != nil {
		return err
	}
	k := deriveKey(secret, s.date, s.Region)
	want := mac(k[:], policy)
	if subtle.ConstantTimeCompare(want[:], s.sum[:]) != 1 {
		return ErrMismatch
	}
	return nil
}
