package admin

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/database"
	"sluice/metastore"
	"sluice/wire"
)

const (
	// oldSecretSigns is for how long a replaced secret signs in addition to the new one.
	oldSecretSigns = 24 * time.Hour
	// secretBytes is a webhook's secret's length. Its text has it in base64.
	secretBytes = 32
	// maxWebhookLabel bounds a label, in bytes.
	maxWebhookLabel = 128
	// webhookRemedy is how a client that has lost a webhook's secret gets a new one.
	webhookRemedy = `the secret was in the response to the first request only: PATCH the webhook with {"newSecret": true}`
)

// Webhooks returns the webhooks that they administer, sorted by id.
func (s *Service) Webhooks(ctx context.Context, by By, after string, limit int) (out wire.WebhookPage, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return out, err
	}
	list, err := s.store.ListWebhooks(ctx, after, metastore.MaxWebhooks)
	if err != nil {
		return out, err
	}
	out.Webhooks = []wire.Webhook{}
	left := pageBytes
	for i := range list {
		w := &list[i]
		if !a.manages(w) {
			continue
		}
		if n := len(out.Webhooks); n == limit || left < 0 {
			out.Next = out.Webhooks[n-1].ID
			break
		}
		left -= len(w.URL) + len(w.Label) + len(w.Account) + len(w.Prefix)
		out.Webhooks = append(out.Webhooks, webhookOf(w))
	}
	return out, nil
}

// manages reports whether they administer all that a webhook gets.
func (a actor) manages(w *metastore.Webhook) bool {
	g := keys.Grant{Prefix: w.Prefix}
	if w.Account != "" {
		g.Accounts = []string{w.Account}
	}
	return a.includes([]keys.Grant{g})
}

// Webhook returns a webhook.
func (s *Service) Webhook(ctx context.Context, by By, id string) (wire.Webhook, error) {
	w, err := s.webhook(ctx, by, id)
	return webhookOf(&w), err
}

func (s *Service) webhook(ctx context.Context, by By, id string) (w metastore.Webhook, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return w, err
	}
	w, err = s.store.Webhook(ctx, id)
	if err == nil && !a.manages(&w) {
		err = database.ErrNotFound
	}
	return w, webhookError(err, id)
}

// webhookError translates the errors of stores.
func webhookError(err error, id string) error {
	switch {
	case errors.Is(err, database.ErrNotFound):
		return fmt.Errorf("%w: the webhook %.40q", ErrNotFound, id)
	case errors.Is(err, metastore.ErrTooManyWebhooks):
		return fmt.Errorf("%w: there are %d webhooks, the most that an instance can have", ErrConflict, metastore.MaxWebhooks)
	}
	return err
}

// CreateWebhook creates a webhook, which gets the changes behind this call. It has the
// administrator's rights, and ends with them. With once, a repeated request returns the first one's
// webhook, without its secret and with a remedy.
func (s *Service) CreateWebhook(ctx context.Context, by By, in wire.CreateWebhook, once *database.Idempotency) (out wire.IssuedWebhook, err error) {
	id, on := strings.ToLower(rand.Text()), true
	change := wire.UpdateWebhook{URL: &in.URL, Label: &in.Label, Account: &in.Account, Prefix: &in.Prefix, Kinds: &in.Kinds, On: &on, NewSecret: true}
	err = s.decide(ctx, by, func(a actor) error {
		w := metastore.Webhook{ID: id, WebhookSettings: metastore.WebhookSettings{Revision: 1}}
		secret, err := s.changeWebhook(&a, &w, change)
		if err != nil {
			return err
		}
		if w.After, err = s.store.FeedEnd(ctx); err != nil {
			return err
		}
		act, err := a.webhookAct("webhook.create", nil, &w, true)
		if err != nil {
			return err
		}
		created, err := s.store.CreateWebhook(ctx, w, act, once)
		if err != nil {
			return err
		}
		if out = (wire.IssuedWebhook{Webhook: webhookOf(&created), Secret: secret}); created.ID != id {
			out.Secret, out.Remedy = "", webhookRemedy
			if !a.manages(&created) {
				return database.ErrNotFound
			}
		}
		return nil
	})
	if err != nil {
		return wire.IssuedWebhook{}, webhookError(err, id)
	}
	return out, nil
}

// UpdateWebhook changes a webhook, which then has the administrator's rights. match is a condition
// on the webhook before; nil: there is none.
func (s *Service) UpdateWebhook(ctx context.Context, by By, id string, match func(etag string) bool, in wire.UpdateWebhook) (out wire.IssuedWebhook, err error) {
	err = s.decide(ctx, by, func(a actor) error {
		var secret string
		w, err := s.store.ChangeWebhook(ctx, id, func(w *metastore.Webhook) (*actions.Act, error) {
			before := *w
			switch {
			case !a.manages(w):
				return nil, database.ErrNotFound
			case match != nil && !match(webhookOf(w).ETag):
				return nil, ErrChanged
			}
			var err error
			if secret, err = s.changeWebhook(&a, w, in); err != nil {
				return nil, err
			}
			if reflect.DeepEqual(before, *w) {
				return nil, nil
			}
			w.Revision++
			return a.webhookAct("webhook.update", &before, w, in.NewSecret)
		})
		out = wire.IssuedWebhook{Webhook: webhookOf(&w), Secret: secret}
		return err
	})
	if err != nil {
		return wire.IssuedWebhook{}, webhookError(err, id)
	}
	return out, nil
}

// DeleteWebhook removes a webhook. A delivery in progress may still arrive.
func (s *Service) DeleteWebhook(ctx context.Context, by By, id string) error {
	err := s.decide(ctx, by, func(a actor) error {
		a.bounds.Acts = 0 // nothing must keep a tenant from ending deliveries
		return s.store.DeleteWebhook(ctx, id, func(w metastore.Webhook) (*actions.Act, error) {
			if !a.manages(&w) {
				return nil, database.ErrNotFound
			}
			return a.webhookAct("webhook.delete", &w, nil, false)
		})
	})
	return webhookError(err, id)
}

// TestWebhook delivers an event to a webhook, and returns the result.
func (s *Service) TestWebhook(ctx context.Context, by By, id string) (wire.WebhookResult, error) {
	w, err := s.webhook(ctx, by, id)
	if err != nil {
		return wire.WebhookResult{}, err
	}
	if s.opt.Webhooks == nil {
		return wire.WebhookResult{}, fmt.Errorf("%w: only a server delivers", ErrConflict)
	}
	result, ok := s.opt.Webhooks.Test(ctx, w)
	if !ok {
		return wire.WebhookResult{}, fmt.Errorf("%w: a test of this webhook is in progress", ErrConflict)
	}
	return *resultOf(&result), nil
}

// changeWebhook changes a webhook as a request describes, and returns its new secret, if there is
// one.
func (s *Service) changeWebhook(a *actor, w *metastore.Webhook, in wire.UpdateWebhook) (secret string, err error) {
	filter := w.Query()
	if in.URL != nil && (*in.URL != w.URL || w.URL == "") {
		if err := s.checkWebhookURL(*in.URL); err != nil {
			return "", err
		}
		w.URL, w.Due = *in.URL, time.Time{}
	}
	if in.Label != nil {
		if w.Label = *in.Label; len(w.Label) > maxWebhookLabel || !utf8.ValidString(w.Label) || strings.ContainsFunc(w.Label, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return "", fmt.Errorf("%w: a label is printable text of at most %d bytes", ErrInvalid, maxWebhookLabel)
		}
	}
	if in.Account != nil {
		if w.Account = ""; *in.Account != "" {
			if w.Account, err = blob.ParseAccount(*in.Account); err != nil {
				return "", err
			}
		}
	}
	if in.Prefix != nil {
		if w.Prefix = *in.Prefix; checkPlaceName(w.Prefix) != nil {
			return "", fmt.Errorf("%w: a prefix is UTF-8 without control characters, of at most %d bytes", ErrInvalid, maxPlace)
		}
	}
	if in.Kinds != nil {
		if w.Kinds, err = kindsOf(*in.Kinds); err != nil {
			return "", err
		}
	}
	if w.Query() != filter {
		w.Ahead = 0 // another delivery begins
	}
	switch {
	case in.On == nil:
	case *in.On:
		w.Off, w.Failures, w.Failing, w.Due = metastore.WebhookOn, 0, time.Time{}, time.Time{}
	default:
		w.Off = metastore.WebhookDisabled
	}
	if !a.manages(w) {
		return "", fmt.Errorf("%w: the webhook must be for accounts and names that your key administers", ErrBeyond)
	}
	if w.Key, w.Group = "", ""; a.key != nil {
		w.Key, w.Group = a.key.ID, a.key.Group
	}
	if !in.NewSecret {
		return "", nil
	}
	return s.newWebhookSecret(w, a.now)
}

func (s *Service) checkWebhookURL(url string) error {
	if s.opt.Webhooks == nil || s.opt.Webhooks.Secrets == nil {
		return fmt.Errorf("%w: webhooks need --s3-secret-key-file, with the keys that seal their secrets; only a local server with its database in the data folder needs none", ErrInvalid)
	}
	if err := s.opt.Webhooks.CheckURL(url); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// newWebhookSecret sets a webhook's secret to a new one. The previous one also signs for a time.
func (s *Service) newWebhookSecret(w *metastore.Webhook, now time.Time) (string, error) {
	if s.opt.Webhooks == nil || s.opt.Webhooks.Secrets == nil {
		return "", s.checkWebhookURL("")
	}
	random := make([]byte, secretBytes)
	rand.Read(random) // never returns an error
	secret := access.WebhookSecretPrefix + base64.StdEncoding.EncodeToString(random)
	if w.Secret != nil {
		w.Old, w.OldUntil = w.Secret, now.Add(oldSecretSigns)
	}
	w.Secret = s.opt.Webhooks.Secrets.Seal(access.WebhookOwner(w.ID), secret)
	return secret, nil
}

// resealWebhooks is ResealS3Secrets for the secrets of webhooks.
func (s *Service) resealWebhooks(ctx context.Context, by By) (n int, err error) {
	box := s.opt.S3
	list, err := s.store.ListWebhooks(ctx, "", metastore.MaxWebhooks)
	var failed []error
	for _, w := range list {
		if box.Current(w.Secret) && (w.Old == nil || box.Current(w.Old)) {
			continue
		}
		err := s.decide(ctx, by, func(a actor) error {
			_, err := s.store.ChangeWebhook(ctx, w.ID, func(w *metastore.Webhook) (*actions.Act, error) {
				for _, sealed := range []*[]byte{&w.Secret, &w.Old} {
					if *sealed != nil {
						secret, err := box.Open(access.WebhookOwner(w.ID), *sealed)
						if err != nil {
							return nil, err
						}
						*sealed = box.Seal(access.WebhookOwner(w.ID), secret)
					}
				}
				w.Revision++
				return a.act("webhook.reseal", w.ID, nil, nil, nil)
			})
			return err
		})
		switch {
		case errors.Is(err, database.ErrNotFound): // deleted meanwhile
		case err != nil:
			failed = append(failed, fmt.Errorf("the secret of the webhook %s: %w", w.ID, err))
		default:
			n++
		}
	}
	return n, errors.Join(append(failed, err)...)
}

// kindsOf returns a set of kinds of changes.
func kindsOf(names []string) (set metastore.ChangeKinds, err error) {
	for _, name := range names {
		kind, ok := metastore.ParseChangeKind(name)
		if !ok {
			return 0, fmt.Errorf("%w: %.40q is no kind of changes", ErrInvalid, name)
		}
		set = set.Add(kind)
	}
	return set, nil
}

// webhookAct returns a change's act. before or after may be nil.
func (a actor) webhookAct(name string, before, after *metastore.Webhook, secret bool) (*actions.Act, error) {
	recorded := func(w *metastore.Webhook) any {
		if w == nil {
			return nil
		}
		out := webhookOf(w)
		out.ETag, out.After, out.Last = "", "", nil
		return struct {
			wire.Webhook
			NewSecret bool `json:"newSecret,omitempty"`
		}{out, secret && w == after}
	}
	accounts, id := []string{}, ""
	for _, w := range []*metastore.Webhook{before, after} {
		if w != nil {
			id = w.ID
			if w.Account == "" {
				accounts = nil
			} else if accounts != nil && !slices.Contains(accounts, w.Account) {
				accounts = append(accounts, w.Account)
			}
		}
	}
	return a.act(name, id, accounts, recorded(before), recorded(after))
}

func webhookOf(w *metastore.Webhook) wire.Webhook {
	out := wire.Webhook{
		ID: w.ID, Label: w.Label, URL: w.URL, Account: w.Account, Prefix: w.Prefix, Key: w.Key, State: wire.WebhookOn, Reason: string(w.Off), Created: w.Created,
		After: w.After.String(), Last: resultOf(w.Last), Failed: w.Failures, Failing: w.Failing, Next: w.Due, OldUntil: w.OldUntil,
		ETag: fmt.Sprintf(`"%s-%d"`, w.ID, w.Revision),
	}
	for _, kind := range metastore.AllChangeKinds() {
		if w.Kinds != 0 && w.Kinds.Selects(kind) {
			out.Kinds = append(out.Kinds, kind.String())
		}
	}
	switch {
	case w.Off != metastore.WebhookOn:
		out.State = wire.WebhookOff
	case w.Failures > 0:
		out.State = wire.WebhookFailing
	}
	return out
}

func resultOf(r *metastore.WebhookResult) *wire.WebhookResult {
	if r == nil {
		return nil
	}
	return &wire.WebhookResult{At: r.At, Seconds: float64(r.Took.Milliseconds()) / 1000, Status: r.Status, Error: r.Error}
}
