package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/test/testenv"
)

// TestSettingsOfNodes checks that a node cannot join while a node runs that differs
// from it in anything but the price, that a killed node's settings expire after
// settingsTTL, and that a node with expired settings detects that
// another has joined.
// Invariant 92.
func TestSettingsOfNodes(t *testing.T) {
	meta, clock := openDatabase(t)
	var log strings.Builder
	base := settings{"--garbage-grace": "24h0m0s", "--receiver": "0x1", "--chain": "localnet", "--reads": "key", priceFlag: "1"}
	node := func(flag, value string) *membership {
		own := maps.Clone(base)
		if flag != "" {
			own[flag] = value
		}
		return newMembership(meta, own, func(context.Context) database.Node { return database.Node{} }, slog.New(slog.NewTextHandler(&log, nil)))
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

// TestNodesPublishTheirState: operators see a change of a node's state at once, and a node that was
// killed for settingsTTL at most.
func TestNodesPublishTheirState(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes *sqlstore.Store) {
		var reason atomic.Value
		reason.Store("it is starting")
		self := func(context.Context) database.Node {
			return database.Node{Name: "a", Version: "1.2.3", Reason: reason.Load().(string)}
		}
		m := newMembership(nodes, settings{}, self, slog.New(slog.DiscardHandler))
		testenv.OK(t, m.start(t.Context()))
		ctx, kill := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { m.watch(ctx) })
		listed := func(want ...string) {
			t.Helper()
			var got []string
			for _, n := range testenv.Must(nodes.ListNodes(t.Context()))(t) {
				got = append(got, n.Name+" "+n.Version+" "+n.Reason)
			}
			if !slices.Equal(got, want) {
				t.Errorf("nodes %q, want %q", got, want)
			}
		}
		listed("a 1.2.3 it is starting")
		reason.Store("")
		time.Sleep(settingsInterval + time.Second)
		listed("a 1.2.3 ")
		reason.Store("the store is gone")
		m.stateChanged()
		synctest.Wait()
		listed("a 1.2.3 the store is gone")
		kill()
		work.Wait()
		time.Sleep(settingsTTL - time.Second)
		listed("a 1.2.3 the store is gone")
		time.Sleep(2 * time.Second)
		listed()
	})
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
}
