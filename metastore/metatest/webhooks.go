package metatest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var webhookChecks = []dbtest.Check{
	check("webhooks/life", webhookLife),
	check("webhooks/bounds", webhookBounds),
	check("webhooks/once", webhookOnce),
	check("webhooks/progress", webhookProgress),
	check("webhooks/race", webhookRace),
}

// webhook returns a webhook with every member.
func (p *probe) webhook(id string) metastore.Webhook {
	now := p.Clock.Now()
	return metastore.Webhook{
		ID: id, Group: "g",
		WebhookSettings: metastore.WebhookSettings{
			Key: "k", Label: "l", URL: "https://example.org/\"ü", Account: "a", Prefix: "p/", Kinds: metastore.ChangeKinds(0).Add(metastore.ChangeStored),
			Secret: []byte{0, 255}, Old: []byte{1}, OldUntil: now.Add(time.Hour), Revision: 9,
		},
		WebhookProgress: metastore.WebhookProgress{
			After: metastore.FeedPosition{Generation: 1, Number: 1 << 60}, Ahead: 1<<60 + 7, Gone: true, Off: metastore.WebhookFailed, Failures: 3, Failing: now, Due: now.Add(time.Second),
			Last: &metastore.WebhookResult{At: now, Took: time.Second + time.Nanosecond, Status: 500, Error: "status"},
		},
	}
}

// act returns an act that the keys permit now.
func (p *probe) act(name string, bounds actions.Bounds) *actions.Act {
	return &actions.Act{Action: actions.Action{Name: name, By: actions.By{Group: "g"}}, Keys: dbtest.Value(p.Store.KeysVersion(p.Ctx)), Bounds: bounds}
}

// acted ends the check unless these acts, sorted, are recorded: their time is the same.
func (p *probe) acted(want ...string) {
	var got []string
	for _, a := range dbtest.Value(p.Store.ListActions(p.Ctx, "", 100)) {
		got = append(got, a.Name)
	}
	slices.Sort(got)
	p.Equal(got, want, "recorded actions")
}

// webhookLife creates, lists, changes and deletes webhooks.
func webhookLife(p *probe) {
	first, second := p.webhook("1"), metastore.Webhook{ID: "2"}
	stored := dbtest.Value(p.Store.CreateWebhook(p.Ctx, first, p.act("create", actions.Bounds{}), nil))
	first.Created = p.Clock.Now()
	p.Equal(stored, first, "the created webhook")
	p.Is(dbtest.Error(p.Store.CreateWebhook(p.Ctx, metastore.Webhook{ID: "1"}, p.act("create", actions.Bounds{}), nil)), database.ErrExists, "an id twice")
	p.Must(dbtest.Error(p.Store.CreateWebhook(p.Ctx, metastore.Webhook{}, nil, nil)) != nil, "a webhook without an id was created")
	second = dbtest.Value(p.Store.CreateWebhook(p.Ctx, second, nil, nil))
	p.Reopen()
	p.Equal(dbtest.Value(p.Store.Webhook(p.Ctx, "1")), first, "the webhook")
	p.Equal(dbtest.Value(p.Store.ListWebhooks(p.Ctx, "", 9)), []metastore.Webhook{first, second}, "all webhooks")
	p.Equal(dbtest.Value(p.Store.ListWebhooks(p.Ctx, "", 1)), []metastore.Webhook{first}, "the first page")
	p.Equal(dbtest.Value(p.Store.ListWebhooks(p.Ctx, "1", 1)), []metastore.Webhook{second}, "the second page")

	p.Clock.Advance(time.Minute)
	changed := dbtest.Value(p.Store.ChangeWebhook(p.Ctx, "1", func(w *metastore.Webhook) (*actions.Act, error) {
		p.Equal(*w, first, "the webhook to be changed")
		w.ID, w.Created, w.URL, w.Group, w.Off = "2", p.Clock.Now(), "http://other", "h", metastore.WebhookOn
		return p.act("change", actions.Bounds{}), nil
	}))
	first.URL, first.Group, first.Off = "http://other", "h", metastore.WebhookOn
	p.Equal(changed, first, "the changed webhook")
	failed := errors.New("failed")
	p.Is(dbtest.Error(p.Store.ChangeWebhook(p.Ctx, "1", func(w *metastore.Webhook) (*actions.Act, error) {
		w.URL = ""
		return nil, failed
	})), failed, "a change that fails")
	p.Is(dbtest.Error(p.Store.ChangeWebhook(p.Ctx, "3", nil)), database.ErrNotFound, "a change of an unknown webhook")
	stale := func(metastore.Webhook) (*actions.Act, error) { return &actions.Act{Keys: -2}, nil }
	p.Is(p.Store.DeleteWebhook(p.Ctx, "1", stale), actions.ErrStale, "a deletion that was decided by other keys")
	p.Is(dbtest.Error(p.Store.ChangeWebhook(p.Ctx, "1", func(w *metastore.Webhook) (*actions.Act, error) {
		w.URL = ""
		return stale(*w)
	})), actions.ErrStale, "a change that was decided by other keys")
	p.Equal(dbtest.Value(p.Open().Webhook(p.Ctx, "1")), first, "the webhook after changes without effect")
	remove := func(w metastore.Webhook) (*actions.Act, error) {
		p.Equal(w, first, "the webhook to be deleted")
		return p.act("delete", actions.Bounds{}), nil
	}
	p.OK(p.Store.DeleteWebhook(p.Ctx, "1", remove), "delete")
	p.Is(p.Store.DeleteWebhook(p.Ctx, "1", remove), database.ErrNotFound, "a second deletion")
	p.Is(dbtest.Error(p.Store.Webhook(p.Ctx, "1")), database.ErrNotFound, "a deleted webhook")
	p.acted("change", "create", "delete")
}

// webhookBounds: a group has a bounded number of webhooks, and so has the instance.
func webhookBounds(p *probe) {
	create := func(id, group string, most int) error {
		return dbtest.Error(p.Store.CreateWebhook(p.Ctx, metastore.Webhook{ID: id, Group: group}, p.act("create", actions.Bounds{Webhooks: most}), nil))
	}
	p.OK(create("1", "g", 2), "the first one")
	p.OK(create("2", "g", 2), "the second one")
	p.Is(create("3", "g", 2), actions.ErrTooMany, "one too many")
	p.OK(create("3", "h", 2), "one of another group")
	p.Is(dbtest.Error(p.Store.ChangeWebhook(p.Ctx, "3", func(w *metastore.Webhook) (*actions.Act, error) {
		w.Group = "g"
		return p.act("change", actions.Bounds{Webhooks: 2}), nil
	})), actions.ErrTooMany, "a change to a group that has enough")
	for i := range metastore.MaxWebhooks - 3 {
		p.OK(create(fmt.Sprintf("x%d", i), "", 0), "webhook %d", i)
	}
	p.Is(create("y", "", 0), metastore.ErrTooManyWebhooks, "one beyond all")
	p.Is(dbtest.Error(p.Store.Webhook(p.Ctx, "y")), database.ErrNotFound, "the refused webhook")
}

// webhookOnce: a repeated request creates one webhook.
func webhookOnce(p *probe) {
	once := &database.Idempotency{Scope: "s", Key: "k", Hash: [32]byte{1}}
	created := dbtest.Value(p.Store.CreateWebhook(p.Ctx, p.webhook("1"), p.act("create", actions.Bounds{}), once))
	p.Equal(dbtest.Value(p.Store.CreateWebhook(p.Ctx, p.webhook("2"), p.act("create", actions.Bounds{}), once)), created, "the repeated request's webhook")
	other := &database.Idempotency{Scope: "s", Key: "k", Hash: [32]byte{2}}
	p.Is(dbtest.Error(p.Store.CreateWebhook(p.Ctx, p.webhook("3"), nil, other)), database.ErrIdempotencyReuse, "another request")
	p.Must(len(dbtest.Value(p.Store.ListWebhooks(p.Ctx, "", 9))) == 1, "more than one was created")
	p.acted("create")
}

// webhookProgress: only who knows a webhook's progress advances it.
func webhookProgress(p *probe) {
	w := dbtest.Value(p.Store.CreateWebhook(p.Ctx, p.webhook("1"), nil, nil))
	next := metastore.WebhookProgress{After: metastore.FeedPosition{Generation: 2, Number: 1}}
	p.OK(p.Open().AdvanceWebhook(p.Ctx, "1", w.WebhookProgress, next), "a step")
	p.Is(p.Store.AdvanceWebhook(p.Ctx, "1", w.WebhookProgress, metastore.WebhookProgress{}), metastore.ErrWebhookChanged, "a step from earlier progress")
	w.WebhookProgress = next
	p.Equal(dbtest.Value(p.Store.Webhook(p.Ctx, "1")), w, "the webhook after a step")
	p.Is(p.Store.AdvanceWebhook(p.Ctx, "2", next, next), metastore.ErrWebhookChanged, "a step of an unknown webhook")
	w = dbtest.Value(p.Store.ChangeWebhook(p.Ctx, "1", func(w *metastore.Webhook) (*actions.Act, error) {
		w.Off = metastore.WebhookDisabled
		return nil, nil
	}))
	p.Is(p.Store.AdvanceWebhook(p.Ctx, "1", next, metastore.WebhookProgress{}), metastore.ErrWebhookChanged, "a step after an administrator's change")
	p.Equal(dbtest.Value(p.Store.Webhook(p.Ctx, "1")), w, "the webhook after a refused step")
}

// webhookRace: of two that advance a webhook from the same progress, one does, and no change of
// settings is lost.
func webhookRace(p *probe) {
	w := dbtest.Value(p.Store.CreateWebhook(p.Ctx, metastore.Webhook{ID: "1"}, nil, nil))
	const rounds = 20
	for i := range int64(rounds) {
		from, to := w.WebhookProgress, w.WebhookProgress
		to.After.Number++
		var steps sync.WaitGroup
		var advanced atomic.Int64
		for range 3 {
			steps.Go(func() {
				if p.Store.AdvanceWebhook(p.Ctx, "1", from, to) == nil {
					advanced.Add(1)
				}
			})
		}
		steps.Go(func() {
			_, _ = p.Store.ChangeWebhook(p.Ctx, "1", func(w *metastore.Webhook) (*actions.Act, error) {
				w.Label += "x"
				return nil, nil
			})
		})
		steps.Wait()
		w = dbtest.Value(p.Store.Webhook(p.Ctx, "1"))
		p.Must(advanced.Load() == 1 && w.After.Number == i+1 && len(w.Label) == int(i)+1, "%d steps of round %d have succeeded: %+v", advanced.Load(), i, w)
	}
}
