package node

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
	"sluice/wire"
)

const (
	// settingsTTL is how long the settings of a node are valid after it last
	// renewed them.
	settingsTTL = 30 * time.Second
	// settingsInterval is the interval at which a node renews its settings.
	settingsInterval = 10 * time.Second
)

// settings are the values on which the nodes of a service must agree, by the flag
// that sets each. They are stored in the database as a JSON object.
type settings map[string]string

// priceFlag is the one flag in which nodes may differ while its value is being
// changed: the price does not affect chunksets already bought.
const priceFlag = "--chunkset-price"

// metadataMark is a setting that each version which knows the metadata of blobs
// publishes. An earlier version would lose metadata and not return its bytes to the
// quota of its owner.
const metadataMark = "metadata"

// settlementSetting is a setting by which all nodes settle on the chain, or none.
const settlementSetting = "the settlement (--chain-url)"

func (c *Config) settings(channels *paychan.Service) settings {
	receiver, asset, module := channels.Payee()
	return settings{
		"--garbage-grace":       c.GarbageGrace.String(),
		"--receiver":            receiver,
		"--asset":               asset,
		"--micropayment-module": module,
		"--chain-id":            strconv.Itoa(int(c.ChainID)),
		"--reads":               string(c.Reads),
		settlementSetting:       c.settlement(),
		metadataMark:            "known",
		priceFlag:               strconv.FormatInt(c.ChunksetPrice, 10),
	}
}

// errSettingsDiffer is returned when a running node has other settings.
var errSettingsDiffer = errors.New("the nodes of a service must agree on their settings")

// compare returns errSettingsDiffer if other, the settings of a running node, differ
// in anything but the price, and calls warn if the price differs. A flag that is in
// one of them only is ignored: the nodes may have different versions. A version
// without settlementSetting settles in the ledger.
func (s settings) compare(other settings, warn func(flag, own, others string)) error {
	var errs []error
	for _, flag := range slices.Sorted(maps.Keys(s)) {
		theirs, known := other[flag]
		if !known && flag == settlementSetting {
			theirs, known = wire.SettlementLedger, true
		}
		switch {
		case !known || theirs == s[flag]:
		case flag == priceFlag:
			warn(flag, s[flag], theirs)
		default:
			errs = append(errs, fmt.Errorf("%w: %s is %s here, and %s at a node that runs: start this node with the same value, or stop all others first (the settings of a node that was killed expire after %s)",
				errSettingsDiffer, flag, s[flag], theirs, settingsTTL))
		}
	}
	return errors.Join(errs...)
}

// membership publishes the settings of this node in the database, and compares them
// with those of the other nodes.
type membership struct {
	nodes   metastore.Nodes
	id      string
	own     settings
	log     *slog.Logger
	lastErr atomic.Pointer[error] // nil, or errSettingsDiffer of the latest renewal
	older   atomic.Bool           // a node without metadataMark ran at the latest renewal
}

func newMembership(nodes metastore.Nodes, own settings, log *slog.Logger) *membership {
	return &membership{nodes: nodes, id: rand.Text(), own: own, log: log}
}

// join publishes or renews the settings of this node. It returns errSettingsDiffer
// if a running node has other settings.
func (m *membership) join(ctx context.Context, warn func(flag, own, others string)) error {
	text, err := json.Marshal(m.own)
	if err != nil {
		return err
	}
	var older bool
	err = m.nodes.Join(ctx, m.id, string(text), settingsTTL, func(others []string) error {
		older = false
		for _, text := range others {
			var other settings
			if err := json.Unmarshal([]byte(text), &other); err != nil {
				return fmt.Errorf("the settings of a node that runs: %w", err)
			}
			if err := m.own.compare(other, warn); err != nil {
				return err // the other nodes agree with each other
			}
			if _, marked := other[metadataMark]; !marked {
				older = true
			}
		}
		return nil
	})
	if err == nil {
		m.older.Store(older)
	}
	return err
}

// olderNodes reports whether a node runs that does not know the metadata of blobs. Once
// the last one has ended there is none again, because it does not start on a database
// of this version.
func (m *membership) olderNodes() bool { return m != nil && m.older.Load() }

// start joins for the first time, and warns if another node has another price.
func (m *membership) start(ctx context.Context) error {
	return m.join(ctx, func(flag, own, others string) {
		m.log.Warn("another node has another price", "flag", flag, "here", own, "there", others)
	})
}

// watch renews the settings until ctx ends.
func (m *membership) watch(ctx context.Context) {
	tick := time.NewTicker(settingsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := m.join(ctx, func(string, string, string) {})
		switch {
		case errors.Is(err, errSettingsDiffer): // the other node joined after the settings of this one expired
			if m.lastErr.Swap(&err) == nil {
				m.log.Error("another node runs with other settings", "error", err)
			}
		case err == nil:
			m.lastErr.Store(nil)
		}
		// Otherwise the database is unavailable, which /readyz reports.
	}
}

// err returns errSettingsDiffer while a running node has other settings.
func (m *membership) err() error {
	if last := m.lastErr.Load(); last != nil {
		return *last
	}
	return nil
}

// leave removes the settings of this node. It logs an error and returns nil, because
// the settings expire.
func (m *membership) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), settingsInterval/2)
	defer cancel()
	if err := m.nodes.Leave(ctx, m.id); err != nil {
		m.log.Warn("cannot remove the settings of this node, which remain valid until they expire", "after_seconds", settingsTTL.Seconds(), "error", err)
	}
	return nil
}
