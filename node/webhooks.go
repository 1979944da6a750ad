package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"sluice/access/sealed"
	"sluice/internal/datadir"
	"sluice/internal/metrics"
	"sluice/internal/secretfile"
	"sluice/metastore"
	"sluice/webhook"
)

// loopback are the networks of this machine, to which a local instance delivers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// newWebhooks returns the sender of webhooks.
func (n *Node) newWebhooks() (*webhook.Sender, error) {
	c := &n.config
	opt := webhook.Options{
		Feed: n.feed, Keys: n.keys, Secrets: n.secrets, Places: n.places, HTTPS: c.Profile == Hosted, Source: c.ExternalURL + "/v1/changes",
		Stopped: func(w *metastore.Webhook) {
			n.log.Warn("a webhook is off: sluice webhook show has its last result, and sluice webhook on turns it on again", "webhook", w.ID, "reason", string(w.Off))
		},
	}
	var err error
	if opt.Networks, err = parseProxies("--webhook-networks", c.WebhookNetworks); c.Profile == Local {
		opt.Networks = append(opt.Networks, loopback...)
	}
	return webhook.New(n.stores.Meta, opt), err
}

// openSecrets returns the box for webhooks' secrets, or nil. Without a setting, a local instance
// with its database in the data folder has the key there, in a file of its own; it is made once.
func (c *Config) openSecrets() (*sealed.Box, error) {
	if c.S3SecretKeys != "" || c.Profile != Local || c.Location.Shared() {
		return OpenS3Secrets(c.S3SecretKeys)
	}
	file := datadir.SecretKeyFile(c.Location.Data)
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		// A copy of the folder may have other modes, and nobody else made this file.
		if err := os.Chmod(file, 0o600); err != nil {
			return nil, fmt.Errorf("the key of webhooks' secrets: %w", err)
		}
	}
	text, err := secretfile.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, 32)
		rand.Read(key) // never returns an error
		text = fmt.Appendf(nil, "%x\n", key)
		err = secretfile.Create(file, text)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of webhooks' secrets: %w", err)
	}
	return sealed.Parse(text)
}

func registerWebhooks(set *metrics.Set, s *webhook.Sender) {
	states := []string{"disabled", "failing", "on", "stopped"}
	set.Gauges("sluice_webhooks", "Webhooks, as the leader sees them: on, failing (the delivery is tried again), disabled by an administrator, or stopped by the receiver, by the end of a key, or after failures for too long.", "state", states, func(state string) float64 {
		stats := s.Stats()
		return float64(map[string]int{"disabled": stats.Disabled, "failing": stats.Failing, "on": stats.On, "stopped": stats.Stopped}[state])
	})
	results := []string{"accepted", "failed", "refused"}
	set.Counters("sluice_webhook_attempts_total", "Attempts to deliver to webhooks: accepted with a status 2xx, refused with another one, or failed without a response.", "result", results, func(result string) int64 {
		stats := s.Stats()
		return map[string]int64{"accepted": stats.Accepted, "failed": stats.Failed, "refused": stats.Refused}[result]
	})
	set.Gauge("sluice_webhook_lag_seconds", "Age of the oldest change that waits to be delivered to a webhook that is on; 0 on nodes that do not lead.", func() float64 { return s.Stats().Lag.Seconds() })
}
