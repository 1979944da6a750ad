package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/requests"
	"sluice/metastore"
)

const webhookQuery = `SELECT id, key_group, created, settings, progress FROM webhooks `

// webhooks returns a query's rows.
func (t tx) webhooks(query string, in ...any) (list []metastore.Webhook, err error) {
	var w metastore.Webhook
	var settings, progress []byte
	err = t.Each(webhookQuery+query, in, engine.Args{&w.ID, &w.Group, (*engine.Instant)(&w.Created), &settings, &progress}, func() error {
		one := metastore.Webhook{ID: w.ID, Group: w.Group, Created: w.Created}
		err := errors.Join(json.Unmarshal(settings, &one.WebhookSettings), json.Unmarshal(progress, &one.WebhookProgress))
		if list = append(list, one); err != nil {
			err = fmt.Errorf("sqlstore: the webhook %q: %w", w.ID, err)
		}
		return err
	})
	return list, err
}

// webhook returns a webhook, or database.ErrNotFound. lock is the query's end.
func (t tx) webhook(id, lock string) (w metastore.Webhook, err error) {
	list, err := t.webhooks(`WHERE id = $1`+lock, []byte(id))
	switch {
	case err != nil:
		return w, err
	case len(list) == 0:
		return w, fmt.Errorf("webhook: %w", database.ErrNotFound)
	}
	return list[0], nil
}

// Webhook implements metastore.Webhooks.
func (s *Metastore) Webhook(ctx context.Context, id string) (metastore.Webhook, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (metastore.Webhook, error) { return t.webhook(id, "") })
}

// ListWebhooks implements metastore.Webhooks.
func (s *Metastore) ListWebhooks(ctx context.Context, after string, limit int) ([]metastore.Webhook, error) {
	return engine.ResultOf(ctx, s.in.ReadList, func(t tx) ([]metastore.Webhook, error) {
		return t.webhooks(`WHERE id > $1 ORDER BY id LIMIT ($2 + 0)`, []byte(after), int64(limit))
	})
}

// CreateWebhook implements metastore.Webhooks.
func (s *Metastore) CreateWebhook(ctx context.Context, w metastore.Webhook, act *actions.Act, once *database.Idempotency) (metastore.Webhook, error) {
	if w.ID == "" {
		return w, errors.New("sqlstore: a webhook needs an id")
	}
	return engine.ResultOf(ctx, s.in.WriteLocked, func(t tx) (metastore.Webhook, error) {
		if once != nil {
			id, found, err := requests.Find(t.Tx, once)
			if err != nil {
				return w, err
			}
			if found {
				return t.webhook(string(id), "")
			}
			if err := requests.Record(t.Tx, once, []byte(w.ID)); err != nil {
				return w, err
			}
		}
		if err := t.Lock("webhooks"); err != nil {
			return w, err
		}
		if _, err := t.webhook(w.ID, ""); !errors.Is(err, database.ErrNotFound) {
			return w, errors.Join(err, fmt.Errorf("webhook: %w", database.ErrExists))
		}
		w.Created = t.Now
		if err := t.storeWebhook(&w, act); err != nil {
			return w, err
		}
		var n engine.Integer
		_, err := t.Row(`SELECT COUNT(*) FROM webhooks`, nil, &n)
		if err == nil && n > metastore.MaxWebhooks {
			err = metastore.ErrTooManyWebhooks
		}
		return w, err
	})
}

// storeWebhook stores a webhook, and records the act.
func (t tx) storeWebhook(w *metastore.Webhook, act *actions.Act) error {
	w.OldUntil = engine.Truncate(w.OldUntil)
	if err := acts.Record(t.Tx, act); err != nil {
		return err
	}
	settings, err := json.Marshal(w.WebhookSettings)
	if err != nil {
		return err
	}
	progress, err := json.Marshal(w.WebhookProgress)
	if err != nil {
		return err
	}
	if err := t.Change(`INSERT INTO webhooks (id, key_group, created, settings, progress) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET key_group = $2, settings = $4, progress = $5`, []byte(w.ID), []byte(w.Group), w.Created.UnixMicro(), settings, progress); err != nil || act == nil {
		return err
	}
	return acts.CheckBound(t.Tx, act.Bounds.Webhooks, "webhooks of a group", `webhooks WHERE key_group = $1`, []byte(w.Group))
}

// ChangeWebhook implements metastore.Webhooks.
func (s *Metastore) ChangeWebhook(ctx context.Context, id string, change func(*metastore.Webhook) (*actions.Act, error)) (metastore.Webhook, error) {
	return engine.ResultOf(ctx, s.in.WriteLocked, func(t tx) (w metastore.Webhook, err error) {
		if err := t.Lock("webhooks"); err != nil {
			return w, err
		}
		if w, err = t.webhook(id, t.ForUpdate()); err != nil {
			return w, err
		}
		was := w
		act, err := change(&w)
		if err != nil {
			return was, err
		}
		w.ID, w.Created = was.ID, was.Created
		return w, t.storeWebhook(&w, act)
	})
}

// DeleteWebhook implements metastore.Webhooks.
func (s *Metastore) DeleteWebhook(ctx context.Context, id string, act func(metastore.Webhook) (*actions.Act, error)) error {
	return s.in.Write(ctx, func(t tx) error {
		w, err := t.webhook(id, t.ForUpdate())
		if err != nil {
			return err
		}
		made, err := act(w)
		if err == nil {
			err = acts.Record(t.Tx, made)
		}
		if err != nil {
			return err
		}
		return t.Change(`DELETE FROM webhooks WHERE id = $1`, []byte(id))
	})
}

// AdvanceWebhook implements metastore.Webhooks.
func (s *Metastore) AdvanceWebhook(ctx context.Context, id string, from, to metastore.WebhookProgress) error {
	was, err := json.Marshal(from)
	if err != nil {
		return err
	}
	is, err := json.Marshal(to)
	if err != nil {
		return err
	}
	return s.in.Write(ctx, func(t tx) error {
		n, err := t.Exec(`UPDATE webhooks SET progress = $3 WHERE id = $1 AND progress = $2`, []byte(id), was, is)
		if err == nil && n == 0 {
			err = metastore.ErrWebhookChanged
		}
		return err
	})
}
