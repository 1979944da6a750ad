package admin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestKeeping: whoever administers an account as a whole sees and sets which versions it keeps, and
// sees no other account. A change is recorded, and a request that changes nothing is not.
func TestKeeping(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		boss := o.hire(t, "ops", nil, on("admin"))
		tenant := o.hire(t, "tenant", nil, on("admin", "accc", "acca"), below(on("admin", "accb"), "x/"), on("read"))
		on30 := wire.SetKeeping{Keep: wire.KeepOn, For: "30d", Most: 2}
		set := func(by admin.By, account string, in wire.SetKeeping) error {
			return testenv.Error(o.SetKeeping(t.Context(), by, account, nil, in))
		}
		for _, account := range []string{"acca", "accb", "accc", "accd"} {
			testenv.OK(t, set(boss, account, on30))
		}
		for account, want := range map[string]error{"acca": nil, "accb": admin.ErrBeyond, "accd": admin.ErrBeyond} {
			testenv.Is(t, set(tenant, account, on30), want, "a setting of %s", account)
			testenv.Is(t, testenv.Error(o.Keeping(t.Context(), tenant, account)), want, "a look at %s", account)
		}
		pages := func(by admin.By) (accounts string) {
			for after := ""; ; {
				page := testenv.Must(o.Keepings(t.Context(), by, after, 1))(t)
				for _, k := range page.Accounts {
					accounts += " " + k.Account
				}
				if after = page.Next; after == "" {
					return accounts
				}
			}
		}
		testenv.Equal(t, pages(boss), " acca accb accc accd", "the operator's accounts")
		testenv.Equal(t, pages(tenant), " acca accc", "the tenant's accounts")
		testenv.Equal(t, pages(o.hire(t, "none", nil, on("admin", "acce"))), "", "an account without a setting")

		before := testenv.Must(o.Keeping(t.Context(), tenant, "acca"))(t)
		testenv.Equal(t, before.SetKeeping, wire.SetKeeping{Keep: wire.KeepOn, For: "720h", Most: 2}, "the setting")
		_, err := o.SetKeeping(t.Context(), tenant, "acca", func(tag string) bool { return tag != before.ETag }, wire.SetKeeping{Keep: wire.KeepOff})
		testenv.Is(t, err, admin.ErrChanged, "a change on condition")
		testenv.OK(t, set(tenant, "acca", on30))
		after := testenv.Must(o.SetKeeping(t.Context(), tenant, "acca", func(tag string) bool { return tag == before.ETag }, wire.SetKeeping{Keep: wire.KeepOff, For: "90m"}))(t)
		testenv.Equal(t, after.SetKeeping, wire.SetKeeping{Keep: wire.KeepOff, For: "1h30m0s"}, "the changed setting")
		if after.ETag == before.ETag {
			t.Error("another setting has the same ETag")
		}
		actions := testenv.Must(o.Actions(t.Context(), operator, "", 100))(t).Actions
		testenv.Equal(t, len(actions), 5, "recorded actions")
		testenv.Equal(t, fmt.Sprintf("%s %s %s %s", actions[0].Action, actions[0].Subject, actions[0].Before, actions[0].After),
			`versions.set acca {"keep":"on","for":"720h","most":2} {"keep":"off","for":"1h30m0s"}`, "the last action")

		testenv.Is(t, set(boss, "acce", wire.SetKeeping{Keep: wire.KeepOff, Most: 1}), admin.ErrInvalid, "a number for an account without versions")
		testenv.Is(t, set(boss, "acce", wire.SetKeeping{Keep: wire.KeepOff, Locks: &wire.LockSetting{}}), admin.ErrInvalid, "locks for an account without versions")
		testenv.OK(t, set(boss, "acce", wire.SetKeeping{Keep: wire.KeepOff}))
		if k := testenv.Must(o.store.Keeping(t.Context(), "acce"))(t); k.State != metastore.KeepNever {
			t.Errorf("an account that never kept versions has the state %d", k.State)
		}
		testenv.Equal(t, len(testenv.Must(o.Actions(t.Context(), operator, "", 100))(t).Actions), 5, "recorded actions afterwards")
	})
}

// TestKeepingIsParsed refuses settings that an account cannot have, and changes nothing.
func TestKeepingIsParsed(t *testing.T) {
	o := open(t)
	for text, want := range map[string]time.Duration{"": 0, "1s": time.Second, "36500d": 36500 * 24 * time.Hour, "1h30m": 90 * time.Minute, "1.0000001s": time.Second} {
		testenv.Must(o.SetKeeping(t.Context(), operator, "acca", nil, wire.SetKeeping{Keep: wire.KeepOn, For: text}))(t)
		testenv.Equal(t, testenv.Must(o.store.Keeping(t.Context(), "acca"))(t).For, want, "for %q", text)
	}
	kept := testenv.Must(o.Keeping(t.Context(), operator, "acca"))(t)
	for _, in := range []wire.SetKeeping{
		{}, {Keep: "ON"}, {Keep: "never"}, {Keep: wire.KeepOn, Most: -1}, {Keep: wire.KeepOn, Most: 101},
		{Keep: wire.KeepOn, For: "0s"}, {Keep: wire.KeepOn, For: "999ms"}, {Keep: wire.KeepOff, For: "-720h"}, {Keep: wire.KeepOn, For: "36501d"}, {Keep: wire.KeepOn, For: strings.Repeat("9", 30) + "h"},
	} {
		testenv.Is(t, testenv.Error(o.SetKeeping(t.Context(), operator, "acca", nil, in)), admin.ErrInvalid, "%+v", in)
	}
	testenv.Equal(t, testenv.Must(o.Keeping(t.Context(), operator, "acca"))(t).ETag, kept.ETag, "the setting after refused requests")
}

// TestLockSetting: an account's administrators permit locks for ever, and set new versions' locks.
// Only the operator sets how long locks may last.
func TestLockSetting(t *testing.T) {
	o := open(t)
	boss, tenant := o.hire(t, "ops", nil, on("admin")), o.hire(t, "tenant", nil, on("admin", "acca"))
	set := func(by admin.By, l *wire.LockSetting) error {
		return testenv.Error(o.SetKeeping(t.Context(), by, "acca", nil, wire.SetKeeping{Keep: wire.KeepOn, Locks: l}))
	}
	wants := func(l wire.LockSetting) (etag string) {
		t.Helper()
		k := testenv.Must(o.Keeping(t.Context(), tenant, "acca"))(t)
		if k.Locks == nil || *k.Locks != l {
			t.Errorf("the setting has %+v, want %+v", k.Locks, l)
		}
		return k.ETag
	}
	testenv.OK(t, set(tenant, nil))
	before := testenv.Must(o.Keeping(t.Context(), tenant, "acca"))(t)
	if before.Locks != nil {
		t.Errorf("locks that nobody set: %+v", before.Locks)
	}
	testenv.Is(t, set(tenant, &wire.LockSetting{Most: "72h"}), admin.ErrEverything, "the longest lock, by a tenant")
	testenv.OK(t, set(tenant, &wire.LockSetting{}))
	if empty := wants(wire.LockSetting{}); empty == before.ETag {
		t.Error("locks do not change the ETag")
	}
	testenv.OK(t, set(boss, &wire.LockSetting{Most: "3d"}))
	testenv.OK(t, set(tenant, &wire.LockSetting{Mode: "governance", For: "2d"}))
	wants(wire.LockSetting{Mode: "governance", For: "48h", Most: "72h"})
	for _, l := range []wire.LockSetting{{Mode: "governance"}, {For: "1h"}, {Mode: "other", For: "1h"}, {Mode: "compliance", For: "73h"}, {Mode: "compliance", For: "-1h"}, {For: "soon"}} {
		if err := set(tenant, &l); !errors.Is(err, admin.ErrInvalid) && !errors.Is(err, metastore.ErrLock) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	testenv.OK(t, set(tenant, nil))
	wants(wire.LockSetting{Mode: "governance", For: "48h", Most: "72h"})
	_, err := o.SetKeeping(t.Context(), boss, "acca", nil, wire.SetKeeping{Keep: wire.KeepOff})
	testenv.Is(t, err, metastore.ErrLocksStay, "the end of versions with locks")
	actions := testenv.Must(o.Actions(t.Context(), operator, "", 100))(t).Actions
	testenv.Equal(t, fmt.Sprintf("%s %s", actions[0].Before, actions[0].After),
		`{"keep":"on","locks":{"most":"72h"}} {"keep":"on","locks":{"mode":"governance","for":"48h","most":"72h"}}`, "the last action")
}
