package httpapi

import (
	"context"
	"fmt"
	"time"

	"sluice/access"
	"sluice/exchange"
	"sluice/wire/link"
)

// linked is a request by a signed link. It implements exchange.Credential.
type linked struct {
	token         *link.Token
	account, name string           // as in the request; for a listing, name is its prefix
	now           func() time.Time // by the database's clock
	err           error            // why the link is not valid
}

// check verifies the link with a key's S3 secret.
func (l *linked) check(secret string) error {
	if err := l.token.Verify(secret, l.account, l.name, l.now()); err != nil {
		l.err = fmt.Errorf("%w: %w", exchange.ErrBadCredential, err)
		return l.err
	}
	l.err = nil
	return nil
}

// Remembered implements exchange.Credential. A key that must be looked up again may have another
// secret by now, so a link that it does not verify is not refused yet.
func (l *linked) Remembered(keys *access.Authenticator) (*access.Caller, bool) {
	caller, secret, current := keys.RememberedS3Secret(l.token.KeyID())
	if caller == nil || l.check(secret) != nil {
		return nil, current
	}
	return caller, current
}

// Authenticate implements exchange.Credential.
func (l *linked) Authenticate(ctx context.Context, keys *access.Authenticator) (*access.Caller, error) {
	caller, secret, err := keys.S3Secret(ctx, l.token.KeyID())
	if err != nil {
		l.err = nil // it was about a secret that the key no longer has
		return nil, err
	}
	if err := l.check(secret); err != nil {
		return nil, err
	}
	return caller, nil
}
