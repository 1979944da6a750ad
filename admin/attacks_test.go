package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/access/sealed"
	"sluice/admin"
	"sluice/database"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestRightsDoNotOutliveTheirGiver: an administrator with an expiry adds no right to a key without
// one, because its holder may have that key too. It may remove rights.
// Invariant 199.
func TestRightsDoNotOutliveTheirGiver(t *testing.T) {
	o := open(t)
	by := o.hire(t, "tenant", func(n *access.NewKey) { n.Expires = time.Now().Add(time.Hour) }, on("admin", "acca", "accb"))
	for name, c := range map[string]struct {
		grants []keys.Grant
		want   error
	}{
		"admin":           {[]keys.Grant{on("admin", "acca")}, admin.ErrBeyond},
		"another account": {[]keys.Grant{below(on("write", "acca", "accb"), "x/")}, admin.ErrBeyond},
		"a shorter name":  {[]keys.Grant{below(on("write", "acca"), "x")}, admin.ErrBeyond},
		"a second grant":  {[]keys.Grant{below(on("write", "acca"), "x/"), on("channels", "acca")}, admin.ErrBeyond},
		"the same":        {[]keys.Grant{below(on("write", "acca"), "x/")}, nil},
		"less":            {[]keys.Grant{below(on("write", "acca"), "x/y/")}, nil},
	} {
		held := testenv.Must(access.Create(t.Context(), o.store, access.NewKey{Grants: []keys.Grant{below(on("write", "acca"), "x/")}, Group: "tenant"}))(t).Key
		grants := wireGrants(c.grants...)
		_, err := o.UpdateKey(t.Context(), by, held.ID, admin.KeyUpdate{UpdateKey: wire.UpdateKey{Grants: &grants}})
		testenv.Is(t, err, c.want, "%s", name)
	}
}

// TestRepeatedCreationShowsNoOtherKey: the repeated creation of a key that was given to others
// since does not show it.
func TestRepeatedCreationShowsNoOtherKey(t *testing.T) {
	o := open(t)
	by := o.hire(t, "tenant", nil, on("admin", "acca"))
	once := &database.Idempotency{Scope: "create", Key: "1", Owner: "tenant"}
	create := func() (wire.IssuedKey, error) {
		return o.CreateKey(t.Context(), by, wire.CreateKey{Grants: wireGrants(on("read", "acca"))}, once)
	}
	first := testenv.Must(create())(t)
	testenv.Equal(t, testenv.Must(create())(t).ID, first.ID, "the key of a repeated creation")
	others := wireGrants(on("read", "accb"))
	testenv.Must(o.UpdateKey(t.Context(), operator, first.ID, admin.KeyUpdate{UpdateKey: wire.UpdateKey{Grants: &others}}))(t)
	testenv.Is(t, testenv.Error(create()), admin.ErrNotFound, "when it belongs to others")
}

// TestActsWithoutEffectAreNotRecorded repeats each act with the state that there is.
// Invariant 206.
func TestActsWithoutEffectAreNotRecorded(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		boss := o.hire(t, "ops", nil, on("admin"))
		label, expires, key, reason := "a label", "2031-01-02T03:04:05Z", "key", "a reason"
		id := testenv.Must(o.CreateKey(t.Context(), boss, wire.CreateKey{Grants: wireGrants(on("read", "acca"))}, nil))(t).ID
		grants := wireGrants(on("read", "acca"))
		for _, act := range []func() error{
			func() error {
				u := wire.UpdateKey{Label: &label, Expires: &expires, Grants: &grants}
				return testenv.Error(o.UpdateKey(t.Context(), boss, id, admin.KeyUpdate{UpdateKey: u}))
			},
			func() error {
				return testenv.Error(o.UpdateGroup(t.Context(), boss, "ops", nil, wire.UpdateGroup{Limits: map[string]int64{"channels": 1}}))
			},
			func() error {
				return testenv.Error(o.SetAlias(t.Context(), boss, "films", wire.SetAlias{Account: "acca"}))
			},
			func() error {
				return testenv.Error(o.ChangePlace(t.Context(), boss, "acca", "x/", "", wire.ChangePlace{Reads: &key, Block: &reason}))
			},
			func() error { return o.SetGuard(t.Context(), boss, "acca", places.RefuseLists) },
			func() error { return o.Reopen(t.Context(), boss, "acca", []admin.Opening{{Name: "y/"}, {Lists: true}}) },
			func() error {
				return testenv.Error(o.SetKeeping(t.Context(), boss, "acca", nil, wire.SetKeeping{Keep: wire.KeepOn}))
			},
			func() error { return testenv.Error(o.PauseTask(t.Context(), boss, "sweep")) },
			func() error { return testenv.Error(o.RevokeKey(t.Context(), boss, id, false)) },
		} {
			before := len(testenv.Must(o.store.ListActions(t.Context(), "", 1000))(t))
			for range 3 {
				testenv.OK(t, act())
			}
			list := testenv.Must(o.store.ListActions(t.Context(), "", 1000))(t)
			testenv.Equal(t, len(list)-before, 1, "recorded actions, the last one %s", list[0].Name)
		}
	})
}

// TestAdministratorsOfSomeAccountsAreBounded: they make as many keys, places and acts as the
// bounds let them, and whoever administers everything makes more.
// Invariant 206.
func TestAdministratorsOfSomeAccountsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		o.hire(t, "tenant", nil, on("read"))
		tenant := o.hire(t, "tenant", nil, on("admin", "acca", "accb")) // its group's second key
		key, label := "key", 0
		acts := map[string]func(by admin.By) error{
			"keys": func(by admin.By) error {
				return testenv.Error(o.CreateKey(t.Context(), by, wire.CreateKey{Grants: wireGrants(on("read", "acca")), Group: "tenant"}, nil))
			},
			"places": func(by admin.By) error {
				label++
				return testenv.Error(o.ChangePlace(t.Context(), by, "acca", fmt.Sprint(label), "", wire.ChangePlace{Reads: &key}))
			},
		}
		for _, c := range []struct {
			bounds actions.Bounds
			act    string
			most   int
		}{
			{actions.Bounds{Keys: 5}, "keys", 3},
			{actions.Bounds{Places: 4}, "places", 4},
			{actions.Bounds{AllPlaces: 8}, "places", 3}, // the operator has added one
			{actions.Bounds{Acts: 13}, "places", 3},     // by the tenant, and those above
		} {
			o.Service = admin.New(o.store, admin.Options{Bounds: c.bounds})
			for range c.most {
				testenv.OK(t, acts[c.act](tenant))
			}
			testenv.Is(t, acts[c.act](tenant), admin.ErrConflict, "%+v: one too many", c.bounds)
			testenv.OK(t, acts[c.act](operator))
		}
		testenv.Must(o.RevokeKey(t.Context(), tenant, tenant.Caller.ID(), false))(t)
		tenant = o.hire(t, "tenant", nil, on("admin", "acca"))
		o.Service = admin.New(o.store, admin.Options{})
		testenv.OK(t, acts["keys"](tenant))
	})
	if b := admin.DefaultBounds; b.Keys == 0 || b.Places == 0 || b.Acts == 0 || b.AllPlaces >= places.Most {
		t.Errorf("the bounds are %+v", b)
	}
}

// TestReopenIsOneChange: everybody's permissions in an account are replaced at once. Neither a
// refusal nor a concurrent replacement leaves a part of them.
// Invariant 197.
func TestReopenIsOneChange(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		tenant := o.hire(t, "tenant", nil, on("admin", "acca"))
		o.Service = admin.New(o.store, admin.Options{Bounds: actions.Bounds{Places: 3}, Places: access.NewPlaces(o.store, access.ReadsKey, 0)})
		yes := true
		testenv.Must(o.ChangePlace(t.Context(), operator, "acca", "", "", wire.ChangePlace{MayOpen: &yes}))(t)
		opened := func() string {
			var names []string
			for _, row := range testenv.Must(o.store.ListPlaces(t.Context(), "acca", places.Place{}, 100))(t) {
				names = append(names, row.Name+row.Reads)
			}
			return strings.Join(names, " ")
		}
		open := func(names ...string) error {
			var wanted []admin.Opening
			for _, name := range names {
				wanted = append(wanted, admin.Opening{Name: name})
			}
			return o.Reopen(t.Context(), tenant, "acca", wanted)
		}
		testenv.OK(t, open("a", "b"))
		testenv.Is(t, open("c", "d", "e"), admin.ErrConflict, "one too many")
		testenv.Equal(t, opened(), " apublic bpublic", "after a refusal")
		testenv.OK(t, o.SetGuard(t.Context(), tenant, "acca", places.RefusePolicies))
		testenv.Is(t, open("a", "c"), admin.ErrGuarded, "under a guard")
		testenv.Equal(t, opened(), " apublic bpublic", "under a guard")
		folder := testenv.Must(o.Place(t.Context(), tenant, "acca", "folder/", ""))(t)
		testenv.Equal(t, folder.Guarded, true, "whether a folder of a guarded account is guarded")
		testenv.OK(t, o.SetGuard(t.Context(), tenant, "acca", 0))
		for range 5 {
			var racing sync.WaitGroup
			for _, names := range [][]string{{"a", "c"}, {"b", "d"}} {
				racing.Go(func() { testenv.OK(t, open(names...)) })
			}
			racing.Wait()
			if got := opened(); got != " apublic cpublic" && got != " bpublic dpublic" {
				t.Errorf("after racing changes everybody reads %q", got)
			}
		}
		testenv.Is(t, o.Reopen(t.Context(), o.hire(t, "tenant", nil, below(on("admin", "acca"), "x/")), "acca", nil), admin.ErrBeyond, "for a prefix's administrator")
	})
}

// TestPlacesHaveNamesOfText: a place's name has no control characters, which a terminal obeys.
func TestPlacesHaveNamesOfText(t *testing.T) {
	o := open(t)
	key := "key"
	for name, want := range map[string]error{
		"a/ä%00 \x7f": nil, "a\x00": admin.ErrInvalid, "\x1b[31m": admin.ErrInvalid, "a\u0085": admin.ErrInvalid, "\xff": admin.ErrInvalid, strings.Repeat("a", 1025): admin.ErrInvalid,
	} {
		testenv.Is(t, testenv.Error(o.ChangePlace(t.Context(), operator, "acca", name, "", wire.ChangePlace{Reads: &key})), want, "the prefix %q", name)
		testenv.Is(t, testenv.Error(o.ChangePlace(t.Context(), operator, "acca", "", name, wire.ChangePlace{Reads: &key})), want, "the blob %q", name)
		testenv.Is(t, o.Reopen(t.Context(), operator, "acca", []admin.Opening{{Name: name}}), want, "an opening of %q", name)
	}
}

// TestResealIsRecorded: each S3 secret that is sealed again is an action.
// Invariant 206.
func TestResealIsRecorded(t *testing.T) {
	o := open(t)
	var ids []string
	for range 2 {
		ids = append(ids, testenv.Must(o.CreateKey(t.Context(), operator, wire.CreateKey{Grants: wireGrants(on("read", "acca")), S3: true}, nil))(t).ID)
	}
	rotated := testenv.Must(sealed.Parse([]byte(strings.Repeat("cd", 32) + "\n" + strings.Repeat("ab", 32))))(t)
	s := admin.New(o.store, admin.Options{S3: rotated})
	for _, want := range []int{2, 0} {
		testenv.Equal(t, testenv.Must(s.ResealS3Secrets(t.Context(), operator))(t), want, "sealed again")
	}
	var resealed []string
	for _, a := range testenv.Must(o.store.ListActions(t.Context(), "", 10))(t) {
		if a.Name == "key.reseal" && a.From == operator.From && slices.Equal(a.Accounts, []string{"acca"}) {
			resealed = append(resealed, a.Subject)
		}
	}
	slices.Sort(ids)
	slices.Sort(resealed)
	testenv.Equal(t, strings.Join(resealed, " "), strings.Join(ids, " "), "the recorded keys")
}
