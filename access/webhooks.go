package access

import "context"

// WebhookSecretPrefix begins a webhook's secret as text.
const WebhookSecretPrefix = "whsec_"

// WebhookOwner returns the owner for whom a webhook's secrets are sealed. No key has this id.
func WebhookOwner(id string) string { return "webhook " + id }

// Holder returns a key's holder as they are now, for work that they have left to
// the service. It returns ErrUnknownKey if there is no such key, or it is no longer valid; any
// other error means that the store could not be queried.
func (a *Authenticator) Holder(ctx context.Context, id string) (*Caller, error) {
	if !isID(id) {
		return nil, ErrUnknownKey
	}
	caller, err := a.find(ctx, id)
	if err == nil && (caller == nil || !caller.valid(a.store.Now())) {
		err = ErrUnknownKey
	}
	if err != nil {
		return nil, err
	}
	return caller, nil
}
