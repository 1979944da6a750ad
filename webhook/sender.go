package webhook

import (
	"context"
	"errors"
	"time"

	"sluice/internal/task"
	"sluice/metastore"
)

const (
	// poll is the time between two looks at the webhooks.
	poll = time.Second
	// listPage is how many webhooks are read at a time.
	listPage = 100
)

// Sender delivers to webhooks. Its methods may be called concurrently.
type Sender struct {
	courier

	followers map[string]*follower // guarded by mu, as is tests
	tests     map[string]bool      // the webhooks for which a test is in progress
}

// New returns a Sender.
func New(store Store, opt Options) *Sender {
	return &Sender{courier: courier{store: store, opt: opt}, followers: map[string]*follower{}, tests: map[string]bool{}}
}

// CheckURL returns an ErrURL if no webhook can have a URL.
func (s *Sender) CheckURL(url string) error { return s.opt.CheckURL(url) }

// Stats returns the counts.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats, now := s.stats, s.store.Now()
	for _, f := range s.followers {
		if from := f.waiting.Load(); from != nil {
			stats.Lag = max(stats.Lag, now.Sub(*from))
		}
	}
	return stats
}

// Run delivers until ctx ends, unless the task task.Webhooks is paused. It must not be called
// concurrently.
func (s *Sender) Run(ctx context.Context, control *task.Control) {
	control.Define(task.Webhooks, func(error) bool { return false }, func(context.Context) (int64, error) {
		before := s.Stats().Accepted
		err := s.look(ctx)
		return s.Stats().Accepted - before, err
	})
	defer s.end()
	control.Repeat(ctx, 0, poll, func() {
		if paused, _ := control.Paused(task.Webhooks); paused {
			s.end()
		}
		control.Do(ctx, task.Webhooks)
	}, task.Webhooks)
}

// end ends all followers.
func (s *Sender) end() {
	s.retain(nil)
	s.count(Stats{})
}

// count sets the numbers of webhooks.
func (s *Sender) count(now Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now.Accepted, now.Refused, now.Failed = s.stats.Accepted, s.stats.Refused, s.stats.Failed
	s.stats = now
}

// look begins to follow new webhooks, and ends followers of those that were deleted, changed or
// turned off, or have lost their key.
func (s *Sender) look(ctx context.Context) error {
	var failures task.Failures
	all, now := map[string]*metastore.Webhook{}, Stats{}
	for after, more := "", true; more; {
		list, err := s.store.ListWebhooks(ctx, after, listPage)
		if err != nil {
			return err
		}
		for i := range list {
			w := &list[i]
			after = w.ID
			if w.Off == metastore.WebhookOn {
				switch permitted, err := s.permitted(ctx, w); {
				case err != nil:
					failures.Add(err)
				case !permitted:
					if err := s.stop(ctx, w, metastore.WebhookKey); !errors.Is(err, metastore.ErrWebhookChanged) {
						failures.Add(err) // otherwise the next look tries it again
					}
				}
			}
			switch {
			case w.Off == metastore.WebhookOn && w.Failures > 0:
				now.Failing++
			case w.Off == metastore.WebhookOn:
				now.On++
			case w.Off == metastore.WebhookDisabled:
				now.Disabled++
			default:
				now.Stopped++
			}
			if w.Off == metastore.WebhookOn {
				all[w.ID] = w
			}
		}
		more = len(list) == listPage
	}
	s.retain(all)
	s.count(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range all {
		if s.followers[id] == nil && ctx.Err() == nil {
			s.followers[id] = s.follow(ctx, w)
		}
	}
	return failures.Err()
}

// retain ends the followers of webhooks that are not in a list or were changed, and forgets those
// that have ended.
func (s *Sender) retain(all map[string]*metastore.Webhook) {
	s.mu.Lock()
	var ending []*follower
	for id, f := range s.followers {
		if w := all[id]; w == nil || f.ended() || w.Revision != f.webhook.Revision {
			f.cancel()
			ending = append(ending, f)
			delete(s.followers, id)
		}
	}
	s.mu.Unlock()
	for _, f := range ending {
		<-f.done
	}
}

// stop turns a webhook off.
func (s *Sender) stop(ctx context.Context, w *metastore.Webhook, why metastore.WebhookOff) error {
	to := w.WebhookProgress
	to.Off = why
	if err := s.store.AdvanceWebhook(ctx, w.ID, w.WebhookProgress, to); err != nil {
		return err
	}
	w.WebhookProgress = to
	s.opt.Stopped(w)
	return nil
}

// Test delivers an event to a webhook once, whether it is on or not. It reports false if a test
// is in progress already.
func (s *Sender) Test(ctx context.Context, w metastore.Webhook) (result metastore.WebhookResult, ok bool) {
	s.mu.Lock()
	ok = !s.tests[w.ID]
	s.tests[w.ID] = true
	s.mu.Unlock()
	if !ok {
		return result, false
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tests, w.ID)
	}()
	m, err := s.testMessage(&w)
	if err != nil {
		return metastore.WebhookResult{At: s.store.Now(), Error: failedResponse}, true
	}
	client := s.opt.client()
	defer client.CloseIdleConnections()
	return s.attempt(ctx, client, &w, &m), true
}
