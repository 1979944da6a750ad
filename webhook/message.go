package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/access"
	"sluice/wire"
)

// The types of events. A change's type is changeType with its kind.
const (
	changeType = "sluice.change."
	goneType   = "sluice.changes.gone"
	testType   = "sluice.webhook.test"
)

// contentType is CloudEvents' JSON batch format: an array of events.
const contentType = "application/cloudevents-batch+json; charset=utf-8"

// message is a delivery's content, which is the same at every attempt.
type message struct {
	id   string
	body []byte
	from time.Time // the first change's time; zero: there is none
}

// newMessage returns a message with events for a webhook. Its id depends on the ids and types of
// its events, so the same events have the same one.
func newMessage(webhook string, events []wire.Event) (m message, err error) {
	ids := fmt.Appendf(nil, "%q", webhook)
	for _, e := range events {
		ids = fmt.Appendf(ids, "%q%q", e.ID, e.Type)
	}
	sum := sha256.Sum256(ids)
	m.id = "msg_" + hex.EncodeToString(sum[:16])
	m.body, err = json.Marshal(events, json.Deterministic(true))
	return m, err
}

// event returns an event with these data.
func (o *Options) event(id, kind, subject string, at time.Time, data any) wire.Event {
	return wire.Event{SpecVersion: "1.0", ID: id, Source: o.Source, Type: kind, Subject: subject, Time: at.UTC(), DataContentType: "application/json", Data: data}
}

// sign returns the value of webhook-signature for an attempt, by each secret.
func (m *message) sign(at time.Time, secrets []string) (string, error) {
	var list []string
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, access.WebhookSecretPrefix))
		if err != nil {
			return "", fmt.Errorf("webhook: a secret is not in base64") // without its text
		}
		sum := hmac.New(sha256.New, key)
		sum.Write(fmt.Appendf(nil, "%s.%d.%s", m.id, at.Unix(), m.body))
		list = append(list, "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	}
	return strings.Join(list, " "), nil
}
