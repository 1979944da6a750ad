package s3api

import (
	"context"
	"fmt"

	"sluice/access"
	"sluice/exchange"
	"sluice/s3api/internal/sigv4"
)

// signed is a request's signature, or a form's. It implements exchange.Credential.
type signed struct {
	*sigv4.Signature
	check func(secret string) error // verifies it
	chain *sigv4.Chain              // for the body's chunks, once the signature is verified
	err   error                     // why the signature is not valid
}

// Remembered implements exchange.Credential. A signature that a key which has not been looked up
// again does not verify proves nothing: the key may have another secret now.
func (s *signed) Remembered(keys *access.Authenticator) (*access.Caller, bool) {
	caller, secret, current := keys.RememberedS3Secret(s.AccessKey)
	if caller == nil {
		return nil, current
	}
	if s.err = s.check(secret); s.err != nil {
		return nil, current
	}
	return caller, current
}

// Authenticate implements exchange.Credential.
func (s *signed) Authenticate(ctx context.Context, keys *access.Authenticator) (*access.Caller, error) {
	caller, secret, err := keys.S3Secret(ctx, s.AccessKey)
	if err != nil {
		return nil, err
	}
	if s.err = s.check(secret); s.err != nil {
		return nil, fmt.Errorf("%w: %w", exchange.ErrBadCredential, s.err)
	}
	return caller, nil
}
