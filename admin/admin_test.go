package admin_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/sealed"
	"sluice/admin"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.KeepPostgres(m)) }

// office is an instance, and who administers it.
type office struct {
	*admin.Service
	store *sqlstore.Store
}

// operator is the operator at the database.
var operator = admin.By{From: "root@test"}

// onBoth runs a test on an office on each engine.
func onBoth(t *testing.T, test func(*testing.T, *office)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, open(t)) })
	t.Run("PostgreSQL", func(t *testing.T) {
		store := testenv.Must(sqlstore.OpenPostgres(t.Context(), testenv.Postgres(t), sqlstore.Options{}))(t)
		testenv.AtEnd(t, store.Close)
		test(t, officeOn(t, store))
	})
}

func open(t *testing.T) *office {
	t.Helper()
	store := testenv.Must(sqlstore.OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), sqlstore.Options{}))(t)
	testenv.AtEnd(t, store.Close)
	return officeOn(t, store)
}

func officeOn(t *testing.T, store *sqlstore.Store) *office {
	t.Helper()
	box := testenv.Must(sealed.Parse([]byte(strings.Repeat("ab", 32))))(t)
	webhooks := &admin.WebhookOptions{
		Secrets: box,
		CheckURL: func(url string) error {
			if !strings.HasPrefix(url, "https://") {
				return errors.New("no")
			}
			return nil
		},
		Test: func(_ context.Context, w metastore.Webhook) (metastore.WebhookResult, bool) {
			return metastore.WebhookResult{At: store.Now(), Took: time.Second, Status: 204}, w.Label != "busy"
		},
	}
	return &office{admin.New(store, admin.Options{S3: box, KeyLimits: keys.Limits{StoredBytes: 100}, Webhooks: webhooks}), store}
}

// hire creates a key with these grants, and returns its holder. change may be nil.
func (o *office) hire(t *testing.T, group string, change func(*access.NewKey), grants ...keys.Grant) admin.By {
	t.Helper()
	n := access.NewKey{Grants: grants, Group: group}
	if change != nil {
		change(&n)
	}
	issued := testenv.Must(access.Create(t.Context(), o.store, n))(t)
	caller := testenv.Must(access.NewAuthenticator(o.store, access.AuthenticatorOptions{}).Authenticate(t.Context(), issued.Credential))(t)
	return admin.By{Caller: caller, From: "192.0.2.1"}
}

// on returns a scope's grant for accounts; none: all.
func on(scope string, accounts ...string) keys.Grant {
	return keys.Grant{Scopes: []string{scope}, Accounts: accounts}
}

// below returns a grant with a prefix.
func below(g keys.Grant, prefix string) keys.Grant {
	g.Prefix = prefix
	return g
}

func wireGrants(grants ...keys.Grant) []wire.Grant {
	var list []wire.Grant
	for _, g := range grants {
		list = append(list, wire.Grant{Scopes: g.Scopes, Accounts: g.Accounts, Prefix: g.Prefix})
	}
	return list
}

// TestAdministratorsGiveNoMoreThanTheyHave tries to create keys, and to change one into the same,
// by administrators of some accounts.
// Invariant 199.
func TestAdministratorsGiveNoMoreThanTheyHave(t *testing.T) {
	o := open(t)
	soon := o.store.Now().Add(time.Hour).UTC().Truncate(time.Second)
	later := soon.Add(time.Hour).Format(time.RFC3339)
	a := o.hire(t, "tenant", nil, on("admin", "acca", "accb"))
	mixed := o.hire(t, "tenant", nil, on("admin", "acca"), on("read"), below(on("admin", "accc"), "x/"))
	ends := o.hire(t, "tenant", func(n *access.NewKey) { n.Expires = soon }, on("admin", "acca"))
	everything := o.hire(t, "ops", nil, on("admin"))
	temporary := o.hire(t, "ops", func(n *access.NewKey) { n.Expires = soon }, on("admin"))
	for name, c := range map[string]struct {
		by   admin.By
		ask  wire.CreateKey
		want error
	}{
		"one of its accounts":                     {a, wire.CreateKey{Grants: wireGrants(on("write", "acca"))}, nil},
		"all of its accounts, admin":              {a, wire.CreateKey{Grants: wireGrants(on("admin", "acca", "accb"))}, nil},
		"its group":                               {a, wire.CreateKey{Grants: wireGrants(on("read", "acca")), Group: "tenant"}, nil},
		"another account":                         {a, wire.CreateKey{Grants: wireGrants(on("read", "accc"))}, admin.ErrBeyond},
		"another account beside its own":          {a, wire.CreateKey{Grants: wireGrants(on("read", "acca", "accc"))}, admin.ErrBeyond},
		"another grant beside its own":            {a, wire.CreateKey{Grants: wireGrants(on("read", "acca"), on("read", "accc"))}, admin.ErrBeyond},
		"all accounts":                            {a, wire.CreateKey{Grants: wireGrants(on("read"))}, admin.ErrBeyond},
		"another group":                           {a, wire.CreateKey{Grants: wireGrants(on("read", "acca")), Group: "other"}, admin.ErrBeyond},
		"a limit":                                 {a, wire.CreateKey{Grants: wireGrants(on("read", "acca")), Limits: map[string]int64{"storedBytes": 5}}, admin.ErrBeyond},
		"a limit of none":                         {a, wire.CreateKey{Grants: wireGrants(on("read", "acca")), Limits: map[string]int64{"storedBytes": -1}}, admin.ErrBeyond},
		"where it only reads":                     {mixed, wire.CreateKey{Grants: wireGrants(on("read", "accb"))}, admin.ErrBeyond},
		"grants of several of its own":            {mixed, wire.CreateKey{Grants: wireGrants(on("write", "acca"), below(on("write", "accc"), "x/y/"))}, nil},
		"its prefix":                              {mixed, wire.CreateKey{Grants: wireGrants(below(on("admin", "accc"), "x/"))}, nil},
		"a shorter prefix":                        {mixed, wire.CreateKey{Grants: wireGrants(below(on("read", "accc"), "x"))}, admin.ErrBeyond},
		"no prefix":                               {mixed, wire.CreateKey{Grants: wireGrants(on("read", "accc"))}, admin.ErrBeyond},
		"channels with a prefix":                  {mixed, wire.CreateKey{Grants: wireGrants(below(on("channels", "accc"), "x/"))}, access.ErrInvalidKey},
		"no expiry by one that expires":           {ends, wire.CreateKey{Grants: wireGrants(on("read", "acca"))}, admin.ErrBeyond},
		"its expiry":                              {ends, wire.CreateKey{Grants: wireGrants(on("read", "acca")), Expires: soon.Format(time.RFC3339)}, nil},
		"a later expiry":                          {ends, wire.CreateKey{Grants: wireGrants(on("read", "acca")), Expires: later}, admin.ErrBeyond},
		"everything":                              {everything, wire.CreateKey{Grants: wireGrants(on("admin")), Limits: map[string]int64{"storedBytes": 5}}, nil},
		"everything for ever by one that expires": {temporary, wire.CreateKey{Grants: wireGrants(on("admin"))}, admin.ErrBeyond},
		"a name that is no scope":                 {everything, wire.CreateKey{Grants: wireGrants(on("root"))}, access.ErrInvalidKey},
		"no grant":                                {everything, wire.CreateKey{}, access.ErrInvalidKey},
		"a limit that is not known":               {everything, wire.CreateKey{Grants: wireGrants(on("read")), Limits: map[string]int64{"bytes": 5}}, admin.ErrInvalid},
		"the past":                                {everything, wire.CreateKey{Grants: wireGrants(on("read")), Expires: "2001-01-01T00:00:00Z"}, admin.ErrInvalid},
		"the operator at the database":            {operator, wire.CreateKey{Grants: wireGrants(on("admin")), Group: "any"}, nil},
	} {
		issued, err := o.CreateKey(t.Context(), c.by, c.ask, nil)
		testenv.Is(t, err, c.want, "create: %s", name)
		if err == nil && c.by == a {
			testenv.Equal(t, issued.Group, "tenant", "%s: the group", name)
		}
		if c.ask.Group != "" || c.ask.Limits != nil || errors.Is(c.want, admin.ErrInvalid) {
			continue
		}
		n := access.NewKey{Grants: []keys.Grant{on("read", "acca")}, Group: c.by.Caller.Group(), Expires: soon}
		existing := testenv.Must(access.Create(t.Context(), o.store, n))(t)
		grants := c.ask.Grants
		_, err = o.UpdateKey(t.Context(), c.by, existing.Key.ID, admin.KeyUpdate{UpdateKey: wire.UpdateKey{Grants: &grants, Expires: &c.ask.Expires}})
		testenv.Is(t, err, c.want, "update: %s", name)
	}
}

// TestAdministratorsManageTheirGroupsKeys lets an administrator of one account see, change, renew
// and revoke keys of all kinds.
// Invariant 199.
func TestAdministratorsManageTheirGroupsKeys(t *testing.T) {
	o := open(t)
	by := o.hire(t, "tenant", func(n *access.NewKey) { n.Expires = time.Now().Add(time.Hour) }, on("admin", "acca"))
	want := []string{by.Caller.ID()}
	for name, c := range map[string]struct {
		group         string
		grants        []keys.Grant
		expires       time.Duration
		manage, renew error
	}{
		"its group's":           {"tenant", []keys.Grant{on("write", "acca")}, time.Minute, nil, nil},
		"one that outlives it":  {"tenant", []keys.Grant{on("write", "acca")}, 2 * time.Hour, nil, admin.ErrBeyond},
		"another group's":       {"other", []keys.Grant{on("write", "acca")}, time.Minute, admin.ErrBeyond, admin.ErrBeyond},
		"for another account":   {"tenant", []keys.Grant{on("write", "accb")}, time.Minute, admin.ErrNotFound, admin.ErrNotFound},
		"for two accounts":      {"tenant", []keys.Grant{on("write", "acca", "accb")}, time.Minute, admin.ErrNotFound, admin.ErrNotFound},
		"for all accounts":      {"tenant", []keys.Grant{on("write")}, time.Minute, admin.ErrNotFound, admin.ErrNotFound},
		"with a further grant":  {"tenant", []keys.Grant{on("write", "acca"), on("read", "accb")}, time.Minute, admin.ErrNotFound, admin.ErrNotFound},
		"for names of its own":  {"tenant", []keys.Grant{below(on("write", "acca"), "x/")}, time.Minute, nil, nil},
		"with another's access": {"other", []keys.Grant{on("write")}, time.Minute, admin.ErrNotFound, admin.ErrNotFound},
	} {
		key := testenv.Must(access.Create(t.Context(), o.store, access.NewKey{Grants: c.grants, Group: c.group, Expires: time.Now().Add(c.expires)}))(t).Key
		seen := !errors.Is(c.manage, admin.ErrNotFound)
		_, err := o.Key(t.Context(), by, key.ID)
		testenv.Equal(t, err == nil, seen, "%s: whether it is shown", name)
		if seen {
			want = append(want, key.ID)
		}
		label := "new"
		_, err = o.UpdateKey(t.Context(), by, key.ID, admin.KeyUpdate{UpdateKey: wire.UpdateKey{Label: &label}})
		testenv.Is(t, err, c.manage, "%s: a new label", name)
		for _, u := range []wire.UpdateKey{{NewSecret: true}, {NewS3Secret: true}} {
			_, err = o.UpdateKey(t.Context(), by, key.ID, admin.KeyUpdate{UpdateKey: u})
			testenv.Is(t, err, c.renew, "%s: a new secret", name)
		}
		_, err = o.RevokeKey(t.Context(), by, key.ID, false)
		testenv.Is(t, err, c.manage, "%s: revoke", name)
	}
	var got []string
	for after := ""; ; {
		page := testenv.Must(o.Keys(t.Context(), by, after, 1))(t)
		for _, k := range page.Keys {
			got = append(got, k.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	slices.Sort(want)
	testenv.Equal(t, strings.Join(got, " "), strings.Join(want, " "), "the keys that it sees")
}

// TestTheLastAdministratorRemains lets the only two keys that administer all accounts revoke,
// narrow and expire each other at once, over two handles: one of them remains.
// Invariant 200.
func TestTheLastAdministratorRemains(t *testing.T) {
	label, soon := "narrow", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	narrow := wireGrants(on("admin", "acca"))
	changes := map[string]func(t *testing.T, o *office, by admin.By, id string) error{
		"revoke": func(t *testing.T, o *office, by admin.By, id string) error {
			return testenv.Error(o.RevokeKey(t.Context(), by, id, false))
		},
		"narrow": func(t *testing.T, o *office, by admin.By, id string) error {
			return testenv.Error(o.UpdateKey(t.Context(), by, id, admin.KeyUpdate{UpdateKey: wire.UpdateKey{Grants: &narrow, Label: &label}}))
		},
		"expire": func(t *testing.T, o *office, by admin.By, id string) error {
			return testenv.Error(o.UpdateKey(t.Context(), by, id, admin.KeyUpdate{UpdateKey: wire.UpdateKey{Expires: &soon}}))
		},
	}
	onBoth(t, func(t *testing.T, o *office) {
		for name, change := range changes {
			for range 5 {
				both := []admin.By{o.hire(t, "ops", nil, on("admin")), o.hire(t, "ops", nil, on("admin"))}
				var errs [2]error
				var racing sync.WaitGroup
				for i := range both {
					racing.Go(func() { errs[i] = change(t, o, both[i], both[1-i].Caller.ID()) })
				}
				racing.Wait()
				won := 0
				for i, err := range errs {
					switch {
					case err == nil:
						won++
						testenv.Is(t, change(t, o, both[i], both[i].Caller.ID()), admin.ErrLast, "%s: the last one itself", name)
					case !errors.Is(err, admin.ErrLast) && !errors.Is(err, access.ErrUnknownKey) && !errors.Is(err, access.ErrScope) && !errors.Is(err, admin.ErrNotFound):
						t.Errorf("%s: %v", name, err)
					}
				}
				testenv.Equal(t, won, 1, "%s: how many succeeded", name)
				for _, by := range both {
					testenv.Must(o.RevokeKey(t.Context(), operator, by.Caller.ID(), false))(t)
				}
			}
		}
	})
}

// changing is a store with keys that change between a decision and its effect.
type changing struct {
	*sqlstore.Store
	meanwhile func()
}

func (c *changing) between() {
	if then := c.meanwhile; then != nil {
		c.meanwhile = nil
		then()
	}
}

func (c *changing) CreateKey(ctx context.Context, k keys.Key, act *actions.Act, once *database.Idempotency) (keys.Key, error) {
	c.between()
	return c.Store.CreateKey(ctx, k, act, once)
}

func (c *changing) RevokeKey(ctx context.Context, id string, act *actions.Act) (keys.Key, error) {
	c.between()
	return c.Store.RevokeKey(ctx, id, act)
}

func (c *changing) SetGroupLimits(ctx context.Context, group string, change func(*keys.Limits), act *actions.Act) (keys.Limits, error) {
	c.between()
	return c.Store.SetGroupLimits(ctx, group, change, act)
}

func (c *changing) UpdateKey(ctx context.Context, id string, change func(*keys.Key) error, act *actions.Act) (keys.Key, error) {
	c.between()
	return c.Store.UpdateKey(ctx, id, change, act)
}

func (c *changing) SetAlias(ctx context.Context, a metastore.Alias, act *actions.Act) error {
	c.between()
	return c.Store.SetAlias(ctx, a, act)
}

func (c *changing) SetKeeping(ctx context.Context, account string, change func(*metastore.Keeping) (*actions.Act, error)) (metastore.Keeping, error) {
	c.between()
	return c.Store.SetKeeping(ctx, account, change)
}

func (c *changing) DeleteAlias(ctx context.Context, name string, act func(string) (*actions.Act, error)) error {
	c.between()
	return c.Store.DeleteAlias(ctx, name, act)
}

// TestLostRightsAreLostAtOnce narrows and revokes an administrator after each of its acts was
// decided and before it has an effect: it has none, and nothing is recorded.
// Invariant 200.
func TestLostRightsAreLostAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, o *office) {
		store := &changing{Store: o.store}
		s := admin.New(store, admin.Options{})
		victim := o.hire(t, "ops", nil, on("read", "acca")).Caller.ID()
		testenv.Must(o.SetAlias(t.Context(), operator, "photos", wire.SetAlias{Account: "acca"}))(t)
		label, kept := "changed", 0
		for name, act := range map[string]func(by admin.By) error{
			"key.create": func(by admin.By) error {
				return testenv.Error(s.CreateKey(t.Context(), by, wire.CreateKey{Grants: wireGrants(on("read", "accb"))}, nil))
			},
			"key.update": func(by admin.By) error {
				return testenv.Error(s.UpdateKey(t.Context(), by, victim, admin.KeyUpdate{UpdateKey: wire.UpdateKey{Label: &label}}))
			},
			"key.revoke": func(by admin.By) error { return testenv.Error(s.RevokeKey(t.Context(), by, victim, false)) },
			"group.update": func(by admin.By) error {
				return testenv.Error(s.UpdateGroup(t.Context(), by, "ops", nil, wire.UpdateGroup{Limits: map[string]int64{"channels": 1}}))
			},
			"alias.set": func(by admin.By) error {
				return testenv.Error(s.SetAlias(t.Context(), by, "films", wire.SetAlias{Account: "acca"}))
			},
			"versions.set": func(by admin.By) error {
				kept++
				return testenv.Error(s.SetKeeping(t.Context(), by, "acca", nil, wire.SetKeeping{Keep: wire.KeepOn, Most: kept}))
			},
			"alias.remove": func(by admin.By) error { return s.DeleteAlias(t.Context(), by, "photos") },
		} {
			for how, lose := range map[string]func(id string) error{
				"revoked": func(id string) error { return testenv.Error(o.store.RevokeKey(t.Context(), id, nil)) },
				"narrowed": func(id string) error {
					return testenv.Error(access.Update(t.Context(), o.store, id, access.KeyChange{Grants: []keys.Grant{on("admin", "accx")}}))
				},
			} {
				by := o.hire(t, "boss", nil, on("admin"))
				before := len(testenv.Must(o.store.ListActions(t.Context(), "", 1000))(t))
				store.meanwhile = func() { testenv.OK(t, lose(by.Caller.ID())) }
				if err := act(by); err == nil {
					t.Errorf("%s by a key that was %s has succeeded", name, how)
				}
				testenv.Equal(t, len(testenv.Must(o.store.ListActions(t.Context(), "", 1000))(t)), before, "%s, %s: recorded actions", name, how)
			}
			if name == "key.revoke" {
				continue // the victim is needed
			}
			by := o.hire(t, "boss", nil, on("admin"))
			store.meanwhile = func() { o.hire(t, "more", nil, on("read")) } // an unrelated change
			testenv.OK(t, act(by))
			last := testenv.Must(o.Actions(t.Context(), operator, "", 1))(t).Actions[0]
			testenv.Equal(t, last.Action, name, "the last action")
			testenv.Equal(t, last.Key, by.Caller.ID(), "%s: who", name)
			testenv.Equal(t, last.From, "192.0.2.1", "%s: from where", name)
		}
	})
}

// TestPagesAreBounded: pages of long keys and of their actions have at most about 512 KiB of texts,
// and together all entries, once.
func TestPagesAreBounded(t *testing.T) {
	o := open(t)
	var accounts []string
	for i := range 800 {
		accounts = append(accounts, fmt.Sprintf("0x%064x", i))
	}
	const n = 25
	for range n {
		testenv.Must(o.CreateKey(t.Context(), operator, wire.CreateKey{Grants: wireGrants(on("read", accounts...))}, nil))(t)
	}
	pages, seen := 0, map[string]bool{}
	for after := ""; pages == 0 || after != ""; pages++ {
		page := testenv.Must(o.Keys(t.Context(), operator, after, 1000))(t)
		for _, k := range page.Keys {
			seen[k.ID] = true
		}
		after = page.Next
	}
	testenv.Equal(t, len(seen), n, "keys")
	testenv.Equal(t, pages, 3, "pages of keys, of 50 KiB each")
	pages, seen = 0, map[string]bool{}
	for before := ""; pages == 0 || before != ""; pages++ {
		page := testenv.Must(o.Actions(t.Context(), operator, before, 1000))(t)
		for _, a := range page.Actions {
			seen[a.ID] = true
		}
		before = page.Next
	}
	testenv.Equal(t, len(seen), n, "actions")
	testenv.Equal(t, pages, 3, "pages of actions")
}

// TestActionsSeenByAdministrators: an administrator of some accounts sees the actions of its
// group's keys, and those about its accounts alone. Invariant 199.
func TestActionsSeenByAdministrators(t *testing.T) {
	o := open(t)
	boss, tenant := o.hire(t, "ops", nil, on("admin")), o.hire(t, "tenant", nil, on("admin", "acca"))
	prefixed := o.hire(t, "other", nil, below(on("admin", "acca"), "x/"))
	create := func(by admin.By, grants ...keys.Grant) string {
		return testenv.Must(o.CreateKey(t.Context(), by, wire.CreateKey{Grants: wireGrants(grants...)}, nil))(t).ID
	}
	own, its := create(tenant, on("read", "acca")), create(boss, on("read", "acca"))
	for _, grants := range [][]keys.Grant{{on("read", "accb")}, {on("read")}, {on("read", "acca"), on("read", "accb")}} {
		create(boss, grants...)
	}
	subjects := func(by admin.By) (list []string) {
		for _, made := range testenv.Must(o.Actions(t.Context(), by, "", 100))(t).Actions {
			list = append(list, made.Subject)
		}
		return list
	}
	testenv.Equal(t, strings.Join(subjects(tenant), " "), its+" "+own, "the tenant's actions")
	testenv.Equal(t, len(subjects(prefixed)), 0, "an administrator of a prefix sees")
	testenv.Equal(t, len(subjects(boss)), 5, "all actions")
}

// TestPlacesOfAnAccountAreBounded: an account's own administrators set at most 1,000 places.
func TestPlacesOfAnAccountAreBounded(t *testing.T) {
	o := open(t)
	s := admin.New(o.store, admin.Options{Places: access.NewPlaces(o.store, access.ReadsPublic, 0)})
	tenant := o.hire(t, "tenant", nil, on("admin", "acca", "accb"))
	key, none := "key", ""
	set := func(by admin.By, account, prefix string, reads *string) error {
		return testenv.Error(s.ChangePlace(t.Context(), by, account, prefix, "", wire.ChangePlace{Reads: reads}))
	}
	for i := range 1000 {
		testenv.OK(t, set(operator, "acca", fmt.Sprint(i), &key))
	}
	testenv.Is(t, set(tenant, "acca", "more", &key), admin.ErrConflict, "one too many")
	testenv.OK(t, set(tenant, "accb", "more", &key))
	testenv.OK(t, set(operator, "acca", "more", &key))
	for _, prefix := range []string{"1", "2"} {
		testenv.OK(t, set(tenant, "acca", prefix, &none))
	}
	testenv.OK(t, set(tenant, "acca", "again", &key))
}
