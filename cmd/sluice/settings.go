package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/metastore"
	"sluice/paychan"
)

// How long the settings of a node count after it was last heard of, and how often
// it renews them.
const (
	settingsTime = 30 * time.Second
	settingsBeat = 10 * time.Second
)

// settings are what the nodes of one service must agree on, by the flag that sets
// it.
type settings map[string]string

// mayDiffer is the one flag in which nodes may differ for a while: what was bought
// stays.
const mayDiffer = "--chunkset-price"

// settings are those of a node.
func (c *config) settings(channels *paychan.Service) settings {
	receiver, asset, module := channels.Payee()
	reads := c.Reads
	if reads == "" {
		reads = "public"
	}
	return settings{
		"--garbage-grace":       c.grace().String(),
		"--receiver":            receiver,
		"--asset":               asset,
		"--micropayment-module": module,
		"--chain-id":            strconv.Itoa(int(c.ChainID)),
		"--reads":               reads,
		mayDiffer:               strconv.FormatInt(c.ChunksetPrice, 10),
	}
}

// errSettings: a node that runs has other settings.
var errSettings = errors.New("the nodes of a service must agree on their settings")

// compare reports every setting that differs from those of a node that runs: what
// must agree as an error, the price to warn. A flag that either does not know is
// not compared: it may be of another version.
func (s settings) compare(other settings, warn func(flag, own, others string)) error {
	var errs []error
	for _, flag := range slices.Sorted(maps.Keys(s)) {
		theirs, known := other[flag]
		switch {
		case !known || theirs == s[flag]:
		case flag == mayDiffer:
			warn(flag, s[flag], theirs)
		default:
			errs = append(errs, fmt.Errorf("%w: %s is %s here, and %s at a node that runs: start this one with the same, or stop all others first (one that was killed counts for %s)",
				errSettings, flag, s[flag], theirs, settingsTime))
		}
	}
	return errors.Join(errs...)
}

// membership tells the other nodes of a database what this one runs with.
type membership struct {
	nodes metastore.Nodes
	id    string
	own   settings
	log   *slog.Logger
	last  atomic.Pointer[error] // that of the latest renewal which was refused
}

func newMembership(nodes metastore.Nodes, own settings, log *slog.Logger) *membership {
	return &membership{nodes: nodes, id: rand.Text(), own: own, log: log}
}

// join makes this node known, or known for longer. errSettings when one that runs
// has other settings.
func (m *membership) join(ctx context.Context, warn func(flag, own, others string)) error {
	text, err := json.Marshal(m.own)
	if err != nil {
		return err
	}
	return m.nodes.Join(ctx, m.id, string(text), settingsTime, func(others []string) error {
		for _, text := range others {
			var other settings
			if err := json.Unmarshal([]byte(text), &other); err != nil {
				return fmt.Errorf("the settings of a node that runs: %w", err)
			}
			if err := m.own.compare(other, warn); err != nil {
				return err // the others agree with each other
			}
		}
		return nil
	})
}

// start joins, and warns of what may differ.
func (m *membership) start(ctx context.Context) error {
	return m.join(ctx, func(flag, own, others string) {
		m.log.Warn("another node has another price", "flag", flag, "here", own, "there", others)
	})
}

// watch renews until ctx ends.
func (m *membership) watch(ctx context.Context) {
	tick := time.NewTicker(settingsBeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := m.join(ctx, func(string, string, string) {})
		switch {
		case errors.Is(err, errSettings): // a node that joined while this one was not heard of
			if m.last.Swap(&err) == nil {
				m.log.Error("another node runs with other settings", "error", err)
			}
		case err == nil:
			m.last.Store(nil)
		}
		// Else the database is away, which /readyz reports.
	}
}

// err is errSettings while a node that runs has other settings.
func (m *membership) err() error {
	if last := m.last.Load(); last != nil {
		return *last
	}
	return nil
}

// leave makes the node unknown.
func (m *membership) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), settingsBeat/2)
	defer cancel()
	if err := m.nodes.Leave(ctx, m.id); err != nil {
		m.log.Warn("cannot withdraw the settings of this node, which count until they run out", "after", settingsTime, "error", err)
	}
	return nil
}
