package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/access/keys"
	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
	"sluice/wire"
)

// onBothEngines runs a test with the flags that name an instance on SQLite, and one on PostgreSQL.
func onBothEngines(t *testing.T, test func(t *testing.T, instance []string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, []string{"--data", filepath.Join(testenv.MemoryDir(t), "data")}) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, []string{"--meta", testenv.Postgres(t)}) })
}

// on returns a command's arguments with those for an instance.
func on(instance []string, command string, args ...string) []string {
	return append(append(strings.Fields(command), instance...), args...)
}

func TestKeyUpdate(t *testing.T) {
	onBothEngines(t, func(t *testing.T, instance []string) {
		before := time.Now()
		key := shown(t, must(t, on(instance, "key create", "--scopes", "read", "--all-accounts", "--group", "team", "--json")...))[0]
		update := func(args ...string) wire.IssuedKey {
			t.Helper()
			updated := shown(t, must(t, on(instance, "key update", append(args, "--json", key.ID)...)...))[0]
			if stored := shown(t, must(t, on(instance, "key show", "--json", key.ID)...))[0]; !reflect.DeepEqual(stored, updated) {
				t.Errorf("%q: printed is %+v, stored %+v", args, updated, stored)
			}
			return updated
		}
		key.Secret = ""
		key.Grants, key.Label = []wire.Grant{{Scopes: []string{"read", "write"}, Accounts: []string{"bob", "eve"}}}, "CI"
		got := update("--scopes", "write,read", "--accounts", "eve,bob", "--label", "CI", "--expires", "30d")
		if life := got.Expires.Sub(before); life < 30*24*time.Hour-time.Second || life > 30*24*time.Hour+time.Minute {
			t.Errorf("it expires %v, want 30 days from now", got.Expires)
		}
		key.Expires, key.ETag = got.Expires, got.ETag
		if !reflect.DeepEqual(got, key) {
			t.Errorf("updated is %+v, want %+v", got, key)
		}
		key.Expires, key.Grants[0].Accounts, key.Label = time.Time{}, nil, ""
		got = update("--expires", "never", "--all-accounts", "--label=")
		if key.ETag = got.ETag; !reflect.DeepEqual(got, key) {
			t.Errorf("updated is %+v, want %+v", got, key)
		}
		must(t, on(instance, "key revoke", key.ID)...)
		if got := update("--expires", "1h"); got.State != "revoked" {
			t.Errorf("a revoked key was updated to %+v", got)
		}
		if r := sluice(on(instance, "key update", "--label", "x", "none")...); r.code != cli.ExitNotFound {
			t.Errorf("an unknown key: %+v", r)
		}
	})
}

func TestGroups(t *testing.T) {
	onBothEngines(t, func(t *testing.T, instance []string) {
		must(t, on(instance, "key create", "--scopes", "read", "--all-accounts", "--group", "team", "--stored-bytes", "5GiB", "--channels", "3")...)
		parse := func(args ...string) (g wire.Group) {
			t.Helper()
			testenv.OK(t, json.Unmarshal([]byte(must(t, args...).stdout), &g))
			return g
		}
		want := wire.Group{Group: "team", Limits: map[string]int64{"storedBytes": 10e9, "requestsPerSecond": 50, "openUploads": keys.Unlimited},
			Used: map[string]int64{"storedBytes": 0, "occupiedBytes": 0, "storedObjects": 0, "openUploads": 0, "channels": 0}}
		got := parse(on(instance, "group set", "team", "--stored-bytes", "10G", "--requests-per-second", "50", "--open-uploads", "unlimited", "--default", "channels", "--json")...)
		if got.Effective["storedBytes"] != 10e9 || got.Effective["concurrentRequests"] != 1024 {
			t.Errorf("in force are %v", got.Effective)
		}
		want.Effective, want.ETag = got.Effective, got.ETag
		if !reflect.DeepEqual(got, want) {
			t.Errorf("set: %+v, want %+v", got, want)
		}
		if got := parse(on(instance, "group show", "team", "--json")...); !reflect.DeepEqual(got, want) {
			t.Errorf("shown: %+v, want %+v", got, want)
		}
		text := strings.Join(strings.Fields(must(t, on(instance, "group show", "team")...).stdout), " ")
		for _, line := range []string{"requests-per-second 50 ", "stored-bytes 10G 0 B (0%)", "channels unlimited (default) 0", "open-uploads unlimited 0"} {
			if !strings.Contains(text, line) {
				t.Errorf("%s lacks %q", text, line)
			}
		}
		keys := shown(t, must(t, on(instance, "key list", "--json")...))
		if len(keys) != 1 || keys[0].Limits["storedBytes"] != 10e9 {
			t.Errorf("the keys are %+v", keys)
		}
		for _, command := range [][]string{on(instance, "group show", "none"), on(instance, "group set", "none", "--channels", "1")} {
			if r := sluice(command...); r.code != cli.ExitNotFound || r.stderr != "sluice: there is no group none: sluice group list shows all; the group of a single key has the key's id as its name\n" {
				t.Errorf("%q: %+v", command, r)
			}
		}
	})
}
