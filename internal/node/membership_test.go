package node

import (
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/internal/storage"
	"sluice/internal/testenv"
	"sluice/paychan"
	"sluice/wire"
)

// TestSettingsOfNodes checks that a node cannot join while a node runs that differs
// from it in anything but the price, that a killed node's settings expire after
// settingsTTL, and that a node with expired settings detects that
// another has joined.
func TestSettingsOfNodes(t *testing.T) {
	meta, clock := openDatabase(t)
	var log strings.Builder
	base := settings{"--garbage-grace": "24h0m0s", "--receiver": "0x1", "--asset": "0x2", "--micropayment-module": "0x3", "--chain-id": "4", "--reads": "key", priceFlag: "1", schemaSetting: strconv.Itoa(database.OldestSchema), nodeName: "one"}
	node := func(flag, value string) *membership {
		own := maps.Clone(base)
		if flag != "" {
			own[flag] = value
		}
		return newMembership(meta, own, slog.New(slog.NewTextHandler(&log, nil)))
	}
	first := node("", "")
	for _, m := range []*membership{first, node("", ""), node("--of-a-newer-version", "1")} {
		testenv.OK(t, m.start(t.Context()))
	}
	if log.String() != "" {
		t.Errorf("nodes that agree log %s", log.String())
	}
	for flag := range base {
		err := node(flag, "9").start(t.Context())
		if flag == priceFlag {
			if err != nil || !strings.Contains(log.String(), "another price") || !strings.Contains(log.String(), "here=9 there=1") {
				t.Errorf("another price: %v, %s", err, log.String())
			}
			continue
		}
		if flag == schemaSetting || flag == nodeName { // versions and nodes differ in these
			if err != nil {
				t.Errorf("another %s: %v", flag, err)
			}
			continue
		}
		if !errors.Is(err, errSettingsDiffer) || !strings.Contains(err.Error(), flag+" is 9 here, and "+base[flag]+" at a node that runs") || strings.Contains(err.Error(), "\n") {
			t.Errorf("another %s: %v", flag, err)
		}
	}
	// A node that was killed.
	clock.Advance(settingsTTL - time.Microsecond)
	other := node("--reads", "paid")
	if err := other.start(t.Context()); !errors.Is(err, errSettingsDiffer) {
		t.Errorf("too early: %v", err)
	}
	clock.Advance(time.Microsecond)
	if err := other.start(t.Context()); err != nil {
		t.Errorf("after the settings have expired: %v", err)
	}
	if err := first.start(t.Context()); !errors.Is(err, errSettingsDiffer) {
		t.Errorf("a node whose settings have expired renews: %v", err)
	}
	// A node that was stopped.
	testenv.Check(t, other.leave())
	if err := first.start(t.Context()); err != nil {
		t.Errorf("after the other has left: %v", err)
	}
}

// TestOlderNodesSettleInTheLedger checks that a node with a chain does not run beside one without
// chains, of an earlier version, which would count what is accepted as collected.
func TestOlderNodesSettleInTheLedger(t *testing.T) {
	older := settings{"--chain-id": "4"}
	for own, wantErr := range map[string]bool{wire.SettlementLedger: false, wire.SettlementChain: true} {
		err := settings{"--chain-id": "4", settlementSetting: own}.compare(older, nil)
		if errors.Is(err, errSettingsDiffer) != wantErr {
			t.Errorf("with the settlement %s: %v", own, err)
		}
	}
}

// TestOlderNodesAreSeen checks that a node is not ready while a node runs that cannot work on the
// present schema, and says which, and that nodes of this version and of those that can run with it
// are none of these.
func TestOlderNodesAreSeen(t *testing.T) {
	meta, clock := openDatabase(t)
	log := slog.New(slog.DiscardHandler)
	channels, err := paychan.New(meta, paychan.Options{Receiver: "0x1", Asset: "0x2", Module: "0x3", Price: 1, SessionTTL: time.Hour, UnsettledLimit: 1})
	testenv.OK(t, err)
	own := (&Config{}).settings(channels, nil)
	before := maps.Clone(own)
	delete(before, schemaSetting)
	delete(before, nodeName)
	consecutive := maps.Clone(own)
	consecutive[schemaSetting] = strconv.Itoa(database.OldestSchema)
	named := maps.Clone(own)
	named[schemaSetting], named[nodeName] = strconv.Itoa(database.OldestSchema-1), "the old machine"
	older, first, second := newMembership(meta, before, log), newMembership(meta, own, log), newMembership(meta, own, log)
	joins := func(m *membership, want bool) {
		t.Helper()
		testenv.OK(t, m.start(t.Context()))
		if got := m.olderNodes(); got != want {
			t.Errorf("an older node is seen: %t, want %t", got, want)
		}
	}
	joins(first, false)
	joins(second, false)
	joins(older, false)
	joins(first, true)
	testenv.OK(t, older.leave())
	joins(first, false)
	joins(older, false)
	joins(second, true)
	clock.Advance(settingsTTL) // the older node was killed
	joins(second, false)
	previous := newMembership(meta, consecutive, log)
	joins(previous, false)
	joins(first, false)
	later := newMembership(meta, named, log)
	joins(later, false)
	joins(first, true)
	if err := (&Node{stores: &storage.Stores{Meta: meta}, members: first}).ready(t.Context()); !errors.Is(err, errOlderNode) || !strings.Contains(err.Error(), "the old machine: stop it") {
		t.Errorf("beside an older node: %v", err)
	}
	var alone *membership // a node on stores of its own
	if alone.olderNodes() {
		t.Error("a single node sees others")
	}
}

// TestNodesAgreeOnMasterKeys: nodes run side by side while a master key is added or removed, and
// not with other keys, or beside a node that has none.
func TestNodesAgreeOnMasterKeys(t *testing.T) {
	for _, test := range []struct {
		own, other string
		agree      bool
	}{
		{"none", "none", true}, {"a", "a", true}, {"a,b", "b,a", true}, {"b,a", "a", true}, {"a", "a,b", true},
		{"a", "b", false}, {"a", "none", false}, {"none", "a,b", false}, {"a,b", "b,c", false},
	} {
		err := settings{s3SecretKeyFlag: test.own}.compare(settings{s3SecretKeyFlag: test.other}, nil)
		testenv.Equal(t, err == nil, test.agree, "%s beside %s: %v", test.own, test.other, err)
	}
	testenv.OK(t, settings{s3SecretKeyFlag: "a"}.compare(settings{}, nil)) // an earlier version
}
