package wire

import "time"

// Webhook is a URL to which the service delivers changes.
type Webhook struct {
	ID       string         `json:"id"`
	Label    string         `json:"label,omitempty"`
	URL      string         `json:"url"`
	Account  string         `json:"account,omitempty"` // empty: the changes of all accounts
	Prefix   string         `json:"prefix,omitempty"`  // that names have
	Kinds    []string       `json:"kinds,omitempty"`   // of changes; none: all
	Key      string         `json:"key,omitempty"`     // it has the key's rights
	State    string         `json:"state"`             // WebhookOn, WebhookFailing or WebhookOff
	Reason   string         `json:"reason,omitempty"`  // why it is off
	Created  time.Time      `json:"created"`
	After    string         `json:"after"`                   // the position up to which changes were delivered
	Last     *WebhookResult `json:"last,omitempty"`          // the last attempt's
	Failed   int            `json:"failures,omitzero"`       // attempts at the next delivery
	Failing  time.Time      `json:"failing,omitzero"`        // since when
	Next     time.Time      `json:"next,omitzero"`           // when it is tried again
	OldUntil time.Time      `json:"oldSecretUntil,omitzero"` // until when the secret before signs, too
	ETag     string         `json:"etag"`                    // the settings'
}

// The states.
const (
	WebhookOn      = "on"
	WebhookFailing = "failing" // a delivery has failed, and is tried again
	WebhookOff     = "off"
)

// WebhookResult is an attempt's result. It has nothing of the receiver's response
// but the status.
type WebhookResult struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Status  int       `json:"status,omitzero"` // the response's; 0: there was none
	Error   string    `json:"error,omitempty"` // a word, such as "timeout"; empty: it was accepted
}

// IssuedWebhook is a webhook with the secret that it was given.
type IssuedWebhook struct {
	Webhook

	Secret string `json:"secret,omitempty"` // shown once
	Remedy string `json:"remedy,omitempty"` // if the secret is not shown
}

// WebhookPage is a page in the list of webhooks.
type WebhookPage struct {
	Webhooks []Webhook `json:"webhooks"`
	Next     string    `json:"next,omitempty"`
}

// CreateWebhook is the request to create a webhook.
type CreateWebhook struct {
	URL     string   `json:"url"`
	Label   string   `json:"label,omitempty"`
	Account string   `json:"account,omitempty"`
	Prefix  string   `json:"prefix,omitempty"`
	Kinds   []string `json:"kinds,omitempty"`
}

// UpdateWebhook is the request to change a webhook. Members that are missing stay.
type UpdateWebhook struct {
	URL       *string   `json:"url,omitempty"`
	Label     *string   `json:"label,omitempty"`
	Account   *string   `json:"account,omitempty"`
	Prefix    *string   `json:"prefix,omitempty"`
	Kinds     *[]string `json:"kinds,omitempty"`
	On        *bool     `json:"on,omitempty"`
	NewSecret bool      `json:"newSecret,omitempty"`
}

// Event is an event in a delivery to a webhook, in CloudEvents' JSON format.
type Event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"` // a change's position
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"` // ACCOUNT/NAME
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data"` // a Change, ChangesGone, or an object
}

// ChangesGone is an event's data when changes were lost: list the blobs. The events that follow
// are for the changes behind Restart.
type ChangesGone struct {
	Restart string `json:"restart"`
}
