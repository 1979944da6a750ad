package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"sluice/access"
	"sluice/exchange"
	"sluice/feed"
	"sluice/internal/task"
	"sluice/metastore"
	"sluice/wire"
)

const (
	// maxEvents and maxBytes bound a delivery.
	maxEvents, maxBytes = 100, 64 << 10
	// firstPause is the longest pause after a delivery's first failure. It doubles with each, up to
	// longestPause.
	firstPause, longestPause = 2 * time.Second, time.Hour
	// Patience is for how long a delivery is tried again before its webhook is off.
	Patience = 72 * time.Hour
	// keepEvery is how often the position is stored while no change is for a webhook, so that it
	// does not become older than the changes that are kept.
	keepEvery = 10 * time.Minute
	// storePause is the pause after the database has failed.
	storePause = time.Second
	// owner is the webhooks' name among the readers of changes.
	owner = "webhooks"
)

// follower delivers to one webhook.
type follower struct {
	*courier
	webhook metastore.Webhook         // with the progress that the receiver has accepted
	stored  metastore.WebhookProgress // as the database has it
	client  *http.Client
	reader  *feed.Reader // nil: there is none yet

	cancel  context.CancelFunc
	done    chan struct{}
	waiting atomic.Pointer[time.Time] // the oldest change that is not delivered; nil: none is known
}

// follow returns a follower that delivers until ctx ends, or it is cancelled, or the webhook is off
// or was changed.
func (c *courier) follow(ctx context.Context, w *metastore.Webhook) *follower {
	f := &follower{courier: c, webhook: *w, stored: w.WebhookProgress, client: c.opt.client(), done: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer close(f.done)
		defer f.cancel()
		for ended := false; !ended; {
			ended = f.step(ctx) != nil
		}
		if f.reader != nil {
			f.reader.Leave()
		}
		f.client.CloseIdleConnections()
	}()
	return f
}

func (f *follower) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// errOff ends a follower.
var errOff = errors.New("webhook: it is off")

// step delivers the next message, or waits for changes. An error ends the follower; the next look
// begins a new one, if the webhook is still on.
func (f *follower) step(ctx context.Context) error {
	p := &f.webhook.WebhookProgress
	changes, next, err := f.next(ctx)
	var gone *metastore.ChangesGoneError
	switch {
	case errors.As(err, &gone):
		f.leave()
		p.After, p.Ahead, p.Gone = gone.Restart, 0, true
		return nil
	case err != nil:
		return errors.Join(err, task.Wait(ctx, storePause))
	case len(changes) == 0 && !p.Gone:
		return nil
	}
	m, err := f.message(ctx, changes)
	if err != nil {
		return errors.Join(err, task.Wait(ctx, storePause))
	}
	if !m.from.IsZero() {
		f.waiting.Store(&m.from)
	}
	if p.Ahead = next.Number; p.Gone {
		p.Ahead = 0
	}
	if err := f.save(ctx); err != nil { // a repeated delivery has the same events
		return err
	}
	if err := f.deliver(ctx, &m); err != nil {
		return err
	}
	p.After, p.Ahead, p.Gone = next, 0, false
	return nil
}

// leave makes next begin again at the webhook's position.
func (f *follower) leave() {
	if f.reader != nil {
		f.reader.Leave()
		f.reader = nil
	}
}

// next returns the next message's changes, if there are some, and the position behind them.
func (f *follower) next(ctx context.Context) (changes []metastore.Change, next metastore.FeedPosition, err error) {
	p := &f.webhook.WebhookProgress
	switch {
	case p.Gone:
		return nil, p.After, nil
	case p.Ahead > 0 && f.reader == nil:
		return f.again(ctx)
	case f.reader == nil:
		if f.reader, err = f.opt.Feed.Enter(owner, f.query(p.After)); err != nil {
			return nil, next, err
		}
	}
	page, err := f.reader.Next(ctx, 0)
	if err == nil && len(page.Changes) == 0 && !page.More {
		f.waiting.Store(nil)
		if f.stored.After != p.After || f.stored.Failures > 0 || f.stored.Ahead > 0 {
			err = f.save(ctx)
		}
		if err == nil {
			page, err = f.reader.Next(ctx, keepEvery)
		}
	}
	if err == nil && len(page.Changes) == 0 {
		p.After = page.Next
	}
	return page.Changes, page.Next, err
}

func (f *follower) query(after metastore.FeedPosition) metastore.ChangeQuery {
	q := f.webhook.Query()
	q.After, q.Limit, q.Bytes = after, maxEvents, maxBytes
	return q
}

// again returns a begun delivery's changes.
func (f *follower) again(ctx context.Context) (changes []metastore.Change, next metastore.FeedPosition, err error) {
	p := &f.webhook.WebhookProgress
	end := metastore.FeedPosition{Generation: p.After.Generation, Number: p.Ahead}
	for at := p.After; at.Number < end.Number; {
		page, err := f.opt.Feed.Read(ctx, f.query(at))
		if err != nil {
			return nil, end, err
		}
		if page.Next == at {
			break
		}
		changes, at = append(changes, page.Changes...), page.Next
	}
	changes = slices.DeleteFunc(changes, func(c metastore.Change) bool { return c.Position.Number > end.Number })
	if len(changes) == 0 { // none was to be delivered
		p.After, p.Ahead = end, 0
	}
	return changes, end, nil
}

// message returns the message with some changes, or with the loss of changes.
func (f *follower) message(ctx context.Context, changes []metastore.Change) (m message, err error) {
	var events []wire.Event
	if at := f.webhook.After; f.webhook.Gone {
		events = append(events, f.opt.event("gone_"+at.String(), goneType, "", f.store.Now(), wire.ChangesGone{Restart: at.String()}))
	}
	for i := range changes {
		c := &changes[i]
		rules, err := f.opt.Places.Account(ctx, c.Account)
		if err != nil {
			return m, err
		}
		rule := rules.At(c.Name)
		holds := f.opt.Keys != nil || rule.Reads != access.ReadsPaid // its key administers the name, or none is needed
		shown, _ := exchange.ShownChange(c, rule, holds, true)
		events = append(events, f.opt.event(shown.Position, changeType+shown.Kind, c.Account+"/"+c.Name, c.Time, shown))
	}
	if m, err = newMessage(f.webhook.ID, events); err == nil && len(changes) > 0 {
		m.from = changes[0].Time
	}
	return m, err
}

// deliver sends a message until the receiver accepts it. It returns an error if ctx ends or the
// webhook is off.
func (f *follower) deliver(ctx context.Context, m *message) error {
	p := &f.webhook.WebhookProgress
	for {
		if err := task.Wait(ctx, p.Due.Sub(f.store.Now())); err != nil && !p.Due.IsZero() {
			return err
		}
		if permitted, err := f.permitted(ctx, &f.webhook); err != nil || !permitted {
			return errors.Join(errOff, err, task.Wait(ctx, storePause)) // look turns it off
		}
		result := f.attempt(ctx, f.client, &f.webhook, m)
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Last = &result
		if result.Error == "" {
			p.Failures, p.Failing, p.Due = 0, time.Time{}, time.Time{}
			return nil
		}
		now := f.store.Now().UTC()
		if p.Failures++; p.Failing.IsZero() {
			p.Failing = now
		}
		ends := p.Failing.Add(Patience)
		p.Due = now.Add(pauseAfter(p.Failures))
		if p.Due.After(ends) {
			p.Due = ends
		}
		switch {
		case result.Status == http.StatusGone:
			p.Off = metastore.WebhookRefused
		case !now.Before(ends):
			p.Off = metastore.WebhookFailed
		}
		if err := f.save(ctx); err != nil {
			return err
		}
		if p.Off != metastore.WebhookOn {
			f.opt.Stopped(&f.webhook)
			return errOff
		}
	}
}

// pauseAfter returns the pause after a number of failures: the second half of it is random.
func pauseAfter(failures int) time.Duration {
	pause := min(longestPause, firstPause<<min(failures-1, 20))
	return pause/2 + rand.N(pause/2)
}

// save stores the progress. While the database is away it tries again, until ctx ends.
func (f *follower) save(ctx context.Context) error {
	for {
		err := f.store.AdvanceWebhook(ctx, f.webhook.ID, f.stored, f.webhook.WebhookProgress)
		switch {
		case err == nil:
			f.stored = f.webhook.WebhookProgress
			return nil
		case errors.Is(err, metastore.ErrWebhookChanged):
			return err
		}
		if ended := task.Wait(ctx, storePause); ended != nil {
			return ended
		}
	}
}
