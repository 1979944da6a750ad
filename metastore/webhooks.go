package metastore

import (
	"context"
	"errors"
	"time"

	"sluice/access/actions"
	"sluice/database"
)

// MaxWebhooks is the greatest number of webhooks that an instance has: its leader delivers to all
// at once.
const MaxWebhooks = 500

var (
	// ErrTooManyWebhooks means that there are MaxWebhooks.
	ErrTooManyWebhooks = errors.New("metastore: there are too many webhooks")
	// ErrWebhookChanged means that a webhook's progress is not as the caller knew it.
	ErrWebhookChanged = errors.New("metastore: the webhook was changed meanwhile")
)

// Webhook is a URL to which the instance delivers changes. Its texts are UTF-8.
type Webhook struct {
	ID      string    // created by the caller; not empty
	Group   string    // the group of Key; "": none
	Created time.Time // set by the store
	WebhookSettings
	WebhookProgress
}

// WebhookSettings are set by administrators.
type WebhookSettings struct {
	Key      string      `json:"key,omitempty"` // it has the key's rights; "": it was made without one
	Label    string      `json:"label,omitempty"`
	URL      string      `json:"url"`
	Account  string      `json:"account,omitempty"` // it gets this one's changes; "": all accounts'
	Prefix   string      `json:"prefix,omitempty"`  // that names have
	Kinds    ChangeKinds `json:"kinds,omitempty"`
	Secret   []byte      `json:"secret"`        // sealed; the store does not interpret it
	Old      []byte      `json:"old,omitempty"` // the secret before, which signs, too, until OldUntil
	OldUntil time.Time   `json:"oldUntil,omitzero"`
	Revision int64       `json:"revision"` // counts the changes by administrators
}

// Query selects the changes that a webhook gets.
func (s *WebhookSettings) Query() ChangeQuery {
	return ChangeQuery{Account: s.Account, All: s.Account == "", Prefix: s.Prefix, Kinds: s.Kinds}
}

// WebhookOff is why nothing is delivered.
type WebhookOff string

// The reasons.
const (
	WebhookOn       WebhookOff = ""         // it is delivered
	WebhookDisabled WebhookOff = "disabled" // an administrator has turned it off
	WebhookKey      WebhookOff = "key"      // its key has ended, or no longer administers the names
	WebhookFailed   WebhookOff = "failed"   // deliveries have failed for too long
	WebhookRefused  WebhookOff = "refused"  // the receiver has answered 410
)

// WebhookProgress is how far a webhook was delivered.
type WebhookProgress struct {
	After FeedPosition `json:"after"` // all changes before it were delivered
	// Ahead is the number up to which a delivery has begun that was not accepted yet: it is tried
	// again with the same changes. 0: none has begun.
	Ahead int64 `json:"ahead,omitempty"`
	// Gone means that the receiver is to be told that changes before After were lost.
	Gone     bool           `json:"gone,omitempty"`
	Off      WebhookOff     `json:"off,omitempty"`
	Failures int            `json:"failures,omitempty"` // since a delivery has begun
	Failing  time.Time      `json:"failing,omitzero"`   // since when
	Due      time.Time      `json:"due,omitzero"`       // when it is tried again
	Last     *WebhookResult `json:"last,omitempty"`     // the last attempt's; nil: there was none
}

// WebhookResult is an attempt's result.
type WebhookResult struct {
	At     time.Time     `json:"at"`
	Took   time.Duration `json:"took"`
	Status int           `json:"status,omitempty"` // the receiver's; 0: there was no response
	Error  string        `json:"error,omitempty"`  // a class of errors; "": the delivery was accepted
}

// Webhooks stores the webhooks, and how far each was delivered.
type Webhooks interface {
	// CreateWebhook stores a new webhook, records the act, and returns it as stored. With once, a
	// repeated call returns the first one's webhook, as it is now. It returns ErrExists if the
	// id is in use, ErrTooManyWebhooks, database.ErrIdempotencyReuse, actions.ErrTooMany or
	// actions.ErrStale.
	CreateWebhook(ctx context.Context, w Webhook, act *actions.Act, once *database.Idempotency) (Webhook, error)

	// Webhook returns a webhook, or ErrNotFound.
	Webhook(ctx context.Context, id string) (Webhook, error)

	// ListWebhooks returns up to limit webhooks, sorted by id (bytewise), with ids greater than
	// after.
	ListWebhooks(ctx context.Context, after string, limit int) ([]Webhook, error)

	// ChangeWebhook changes a webhook, and returns it as stored. It calls change within the
	// transaction, possibly several times; change returns the act to be recorded, which may be nil,
	// and must have no other effect. ID and Created do not change. If change returns an error,
	// ChangeWebhook has no effect and returns it. It returns ErrNotFound, actions.ErrTooMany or
	// actions.ErrStale.
	ChangeWebhook(ctx context.Context, id string, change func(*Webhook) (*actions.Act, error)) (Webhook, error)

	// DeleteWebhook removes a webhook, and records the act, which act returns as ChangeWebhook's
	// change. It returns ErrNotFound, act's error or actions.ErrStale.
	DeleteWebhook(ctx context.Context, id string, act func(Webhook) (*actions.Act, error)) error

	// AdvanceWebhook stores a webhook's progress if it is still from, with times as they were
	// stored. Otherwise, and if there is no such webhook, it returns ErrWebhookChanged.
	AdvanceWebhook(ctx context.Context, id string, from, to WebhookProgress) error
}
