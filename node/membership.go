package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/access/sealed"
	"sluice/database"
	"sluice/paychan"
)

const (
	// settingsTTL is how long a node's settings are valid after it last
	// renewed them.
	settingsTTL = 30 * time.Second
	// settingsInterval is the interval at which a node renews its settings.
	settingsInterval = 10 * time.Second
)

// settings are the values on which a service's nodes must agree, by the flag
// that sets each. They are stored in the database as a JSON object.
type settings map[string]string

// priceFlag is the one flag in which nodes may differ while its value is being
// changed: the price does not affect chunksets already bought.
const priceFlag = "--chunkset-price"

// settlementSetting is a setting by which all nodes settle on the chain, or none.
const settlementSetting = "the settlement (--chain-url)"

func (c *Config) settings(channels *paychan.Service, secrets *sealed.Box) settings {
	receiver, asset, module := channels.Payee()
	paidOn := paychan.Chain{ID: c.PaidOn.ID, Asset: asset, Module: module}
	return settings{
		"--garbage-grace": c.GarbageGrace.String(),
		"--receiver":      receiver,
		"--chain":         paidOn.String(),
		"--reads":         string(c.Reads),
		settlementSetting: c.settlement(),
		s3SecretKeyFlag:   marksOf(secrets),
		priceFlag:         strconv.FormatInt(c.ChunksetPrice, 10),
	}
}

// nodeName returns this node's name, for the operators of other nodes.
func (c *Config) nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s (--addr %s)", host, c.Addr)
}

// errSettingsDiffer is returned when a running node has other settings.
var errSettingsDiffer = errors.New("the nodes of a service must agree on their settings")

// compare returns errSettingsDiffer if other, a running node's settings, differ
// in anything but the price, and calls warn if the price differs. A flag that is in
// one of them only is ignored: the nodes may have different versions.
func (s settings) compare(other settings, warn func(flag, own, others string)) error {
	var errs []error
	for _, flag := range slices.Sorted(maps.Keys(s)) {
		theirs, known := other[flag]
		switch {
		case !known || theirs == s[flag]:
		case flag == s3SecretKeyFlag && agreeOnMarks(s[flag], theirs):
		case flag == priceFlag:
			warn(flag, s[flag], theirs)
		default:
			errs = append(errs, fmt.Errorf("%w: %s is %s here, and %s at a node that runs: start this node with the same value, or stop all others first (the settings of a node that was killed expire after %s)",
				errSettingsDiffer, flag, s[flag], theirs, settingsTTL))
		}
	}
	return errors.Join(errs...)
}

// membership publishes this node's settings and state in the database, and compares the settings
// with the other nodes'.
type membership struct {
	nodes   database.Nodes
	id      string
	own     settings
	self    func(context.Context) database.Node
	changed chan struct{} // of capacity 1: self may have changed
	log     *slog.Logger
	lastErr atomic.Pointer[error] // nil, or errSettingsDiffer if the latest renewal returned it
}

// nodeState is the node's readiness, as it was published last.
type nodeState struct {
	mu    sync.Mutex
	ready bool
	since time.Time // zero: it was never published
}

// published returns an error's text as it is published: its first 1,000 bytes at most.
func published(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), 1000)], "")
}

func newMembership(nodes database.Nodes, own settings, self func(context.Context) database.Node, log *slog.Logger) *membership {
	return &membership{nodes: nodes, id: rand.Text(), own: own, self: self, changed: make(chan struct{}, 1), log: log}
}

// join publishes or renews this node's settings. It returns errSettingsDiffer
// if a running node has other settings.
func (m *membership) join(ctx context.Context, warn func(flag, own, others string)) error {
	text, err := json.Marshal(m.own)
	if err != nil {
		return err
	}
	return m.nodes.Join(ctx, m.id, string(text), m.self(ctx), settingsTTL, func(others []string) error {
		for _, text := range others {
			var other settings
			if err := json.Unmarshal([]byte(text), &other); err != nil {
				return fmt.Errorf("the settings of a node that runs: %w", err)
			}
			if err := m.own.compare(other, warn); err != nil {
				return err // the other nodes agree with each other
			}
		}
		return nil
	})
}

// start joins the first time, and warns if another node has another price.
func (m *membership) start(ctx context.Context) error {
	return m.join(ctx, func(flag, own, others string) {
		m.log.Warn("another node has another price", "flag", flag, "here", own, "there", others)
	})
}

// watch renews the settings, also when the state has changed, until ctx ends.
func (m *membership) watch(ctx context.Context) {
	tick := time.NewTicker(settingsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.changed:
		}
		err := m.join(ctx, func(string, string, string) {})
		switch {
		case errors.Is(err, errSettingsDiffer): // the other node joined after this one's settings expired
			if m.lastErr.Swap(&err) == nil {
				m.log.Error("another node runs with other settings", "error", err)
			}
		case err == nil:
			m.lastErr.Store(nil)
		}
		// Otherwise the database is unavailable, which /readyz reports.
	}
}

// stateChanged lets watch publish the state now. m may be nil.
func (m *membership) stateChanged() {
	if m == nil {
		return
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// err returns errSettingsDiffer while a running node has other settings.
func (m *membership) err() error {
	if last := m.lastErr.Load(); last != nil {
		return *last
	}
	return nil
}

// leave removes this node's settings. It logs an error and returns nil, because
// the settings expire.
func (m *membership) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), settingsInterval/2)
	defer cancel()
	if err := m.nodes.Leave(ctx, m.id); err != nil {
		m.log.Warn("cannot remove the settings of this node, which remain valid until they expire", "after_seconds", settingsTTL.Seconds(), "error", err)
	}
	return nil
}
