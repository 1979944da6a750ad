package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"

	"sluice/wire"
)

// Webhooks returns the webhooks that the client's key administers, sorted by id.
func (a *Admin) Webhooks(ctx context.Context) iter.Seq2[wire.Webhook, error] {
	return adminList(ctx, a.c, "webhooks", orderedList[wire.WebhookPage, wire.Webhook]{
		of: func(p *wire.WebhookPage) ([]wire.Webhook, string) { return p.Webhooks, p.Next },
		at: func(w *wire.Webhook) string { return w.ID }, check: checkWebhook,
	})
}

// Webhook returns a webhook, or ErrNotFound.
func (a *Admin) Webhook(ctx context.Context, id string) (wire.Webhook, error) {
	return adminCall(ctx, a.c, "show a webhook", http.MethodGet, "webhooks/"+url.PathEscape(id), nil, nil, func(w *wire.Webhook) error { return checkSame(w.ID, id, checkWebhook(w)) })
}

// CreateWebhook creates a webhook. As CreateKey, it creates only one, and returns it with
// ErrSecretLost if the response with its secret was lost.
func (a *Admin) CreateWebhook(ctx context.Context, webhook wire.CreateWebhook, o CreateKeyOptions) (wire.IssuedWebhook, error) {
	set := func(r *request) { setIdempotencyKey(r, o.IdempotencyKey) }
	issued, err := adminCall(ctx, a.c, "create a webhook", http.MethodPost, "webhooks", webhook, set, checkIssuedWebhook)
	if err == nil && issued.Secret == "" {
		err = fmt.Errorf("client: create a webhook: %w: it has the id %s", ErrSecretLost, issued.ID)
	}
	return issued, err
}

// UpdateWebhook changes a webhook, and returns it with the secret that it was given. Force has no
// meaning.
func (a *Admin) UpdateWebhook(ctx context.Context, id string, change wire.UpdateWebhook, o UpdateOptions) (wire.IssuedWebhook, error) {
	return adminCall(ctx, a.c, "update a webhook", http.MethodPatch, "webhooks/"+url.PathEscape(id), change, o.set, func(w *wire.IssuedWebhook) error { return checkSame(w.ID, id, checkIssuedWebhook(w)) })
}

// DeleteWebhook removes a webhook. It returns ErrNotFound if there is no such webhook.
func (a *Admin) DeleteWebhook(ctx context.Context, id string) error {
	own := func(r *request) { r.ownEffect = func(err error) bool { return isMissing(err) } }
	_, err := adminCall[none](ctx, a.c, "delete a webhook", http.MethodDelete, "webhooks/"+url.PathEscape(id), nil, own, nil)
	if errors.Is(err, ErrOutcomeUnknown) && isMissing(err) { // an earlier attempt has removed it
		return nil
	}
	return err
}

// TestWebhook delivers a test event to a webhook, and returns the result. The request may be
// repeated.
func (a *Admin) TestWebhook(ctx context.Context, id string) (wire.WebhookResult, error) {
	return adminCall(ctx, a.c, "test a webhook", http.MethodPost, "webhooks/"+url.PathEscape(id)+"/test", nil, nil, checkWebhookResult)
}

func checkIssuedWebhook(w *wire.IssuedWebhook) error {
	return cmp.Or(checkWebhook(&w.Webhook), checkWord("secret", w.Secret, maxWord), checkLength("remedy", w.Remedy, maxSentence))
}

func checkWebhook(w *wire.Webhook) error {
	for _, kind := range w.Kinds {
		if err := checkWord("kinds", kind, maxWord); err != nil {
			return err
		}
	}
	last := wire.WebhookResult{}
	if w.Last != nil {
		last = *w.Last
	}
	return cmp.Or(checkID("id", w.ID), checkLength("url", w.URL, maxSubject), checkLength("label", w.Label, maxWord), checkWord("account", w.Account, maxWord), checkLength("prefix", w.Prefix, maxSubject),
		checkWord("key", w.Key, maxWord), checkWord("state", w.State, maxWord), checkWord("reason", w.Reason, maxWord), checkID("after", w.After),
		checkSize("failures", int64(w.Failed), math.MaxInt32), checkWebhookResult(&last), checkID("etag", w.ETag))
}

func checkWebhookResult(r *wire.WebhookResult) error {
	return cmp.Or(checkSize("status", int64(r.Status), 999), checkWord("error", r.Error, maxWord))
}
