// Package webhook delivers changes to webhooks: in order for each, at least once, from a position
// that the database has. It is the only package that dials URLs that callers have named.
//
// The leader runs a Sender, and with it a follower for each webhook, so that a receiver that is
// slow, away or hostile holds up nothing but its own webhook. Of a receiver's response only the
// status is kept.
package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"sluice/access"
	"sluice/access/sealed"
	"sluice/database"
	"sluice/feed"
	"sluice/metastore"
)

// Store is the database, as far as a Sender uses it.
type Store interface {
	metastore.Webhooks
	database.Clock
}

// Options are a Sender's settings.
type Options struct {
	Feed   *feed.Hub
	Keys   *access.Authenticator // nil: webhooks need no key, on a local instance
	Places *access.Places
	// Secrets opens the webhooks' secrets. nil: there are none, and each delivery fails.
	Secrets *sealed.Box
	// Networks are the operator's, to which deliveries may go in addition to public addresses.
	Networks []netip.Prefix
	HTTPS    bool   // URLs with http are refused
	Source   string // the events'
	// Stopped is called when a webhook is off, and no administrator has turned it off.
	Stopped func(w *metastore.Webhook)

	// Resolver and TLS are for tests; nil: the system's resolver and certificates.
	Resolver *net.Resolver
	TLS      *tls.Config
	timeout  time.Duration                                                        // 0: timeout
	dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil: a real connection
}

// Stats count a Sender's webhooks and attempts.
type Stats struct {
	On, Failing, Disabled, Stopped int // webhooks, while this node delivers
	// Attempts, by their results: accepted, answered with another status, or without an answer.
	Accepted, Refused, Failed int64
	// Lag is for how long the oldest waiting change has waited.
	Lag time.Duration
}

// courier makes attempts to deliver.
type courier struct {
	store Store
	opt   Options

	mu    sync.Mutex
	stats Stats
}

// permitted reports whether a webhook's key still has the right to it.
func (c *courier) permitted(ctx context.Context, w *metastore.Webhook) (bool, error) {
	if c.opt.Keys == nil {
		return true, nil
	}
	caller, err := c.opt.Keys.Holder(ctx, w.Key)
	if errors.Is(err, access.ErrUnknownKey) {
		return false, nil
	}
	return err == nil && caller.Can(access.ScopeAdmin, w.Account, w.Prefix), err
}

// secrets returns the secrets that sign for a webhook now, the newest first.
func (c *courier) secrets(w *metastore.Webhook) (list []string, err error) {
	if c.opt.Secrets == nil {
		return nil, errors.New("webhook: there is no key for the secret")
	}
	sealed := [][]byte{w.Secret}
	if w.OldUntil.After(c.store.Now()) {
		sealed = append(sealed, w.Old)
	}
	for _, one := range sealed {
		secret, err := c.opt.Secrets.Open(access.WebhookOwner(w.ID), one)
		if err != nil {
			return nil, err
		}
		list = append(list, secret)
	}
	return list, nil
}
