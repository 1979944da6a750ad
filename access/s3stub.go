package access

import "context"

// S3Secret returns ErrUnknownKey: keys have no S3 secrets yet, so a hosted service refuses every
// signature.
func (a *Authenticator) S3Secret(_ context.Context, _ string) (caller *Caller, secret string, err error) {
	return nil, "", ErrUnknownKey
}

// RememberedS3Secret is S3Secret for keys that were looked up before: there is none.
func (a *Authenticator) RememberedS3Secret(_ string) (caller *Caller, secret string, current bool) {
	return nil, "", true
}
