package keystest

import (
	"errors"
	"fmt"
	"time"

	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

// act returns an act that was decided by the keys as they are.
func (p *probe) act(name string) *actions.Act {
	return &actions.Act{Keys: p.version(p.Store), Action: actions.Action{
		By: actions.By{Key: "who", Group: "group", From: "192.0.2.1"}, Name: name, Subject: "subject of " + name,
		Accounts: []string{"a", "b"}, Before: []byte(`{"was":1}`), After: []byte(`{"is":2}`),
	}}
}

// acts are all calls that record an act, for a key "k" in the group "g" and an alias "old".
func (p *probe) acts() map[string]func(act *actions.Act) error {
	ctx, s := p.Ctx, p.Store
	return map[string]func(act *actions.Act) error{
		"create": func(act *actions.Act) error {
			return dbtest.Error(s.CreateKey(ctx, keys.Key{ID: "new", Group: "g"}, act, nil))
		},
		"update": func(act *actions.Act) error {
			return dbtest.Error(s.UpdateKey(ctx, "k", set(func(k *keys.Key) { k.Label = "new" }), act))
		},
		"limits": func(act *actions.Act) error {
			return dbtest.Error(s.SetGroupLimits(ctx, "g", func(l *keys.Limits) { l.Channels = 9 }, act))
		},
		"revoke": func(act *actions.Act) error { return dbtest.Error(s.RevokeKey(ctx, "k", act)) },
		"alias":  func(act *actions.Act) error { return s.SetAlias(ctx, metastore.Alias{Name: "new", Account: "x"}, act) },
		"unalias": func(act *actions.Act) error {
			return s.DeleteAlias(ctx, "old", func(string) (*actions.Act, error) { return act, nil })
		},
		"task": func(act *actions.Act) error {
			return dbtest.Error(s.ChangeTask(ctx, "sweep", func(time.Time, *database.Task) (*actions.Act, error) { return act, nil }))
		},
	}
}

func (p *probe) actions() []actions.Action {
	return dbtest.Value(p.Store.ListActions(p.Ctx, "", 1000))
}

// actionsRecorded: an act is recorded if and only if it has its effect.
func actionsRecorded(p *probe) {
	dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "k", Group: "g"}, nil, nil))
	p.OK(p.Store.SetAlias(p.Ctx, metastore.Alias{Name: "old", Account: "x"}, nil), "an alias")
	p.Equal(len(p.actions()), 0, "actions of nobody")
	want := map[string]bool{}
	for name, do := range p.acts() {
		p.Clock.Advance(time.Second)
		stale := p.act("stale " + name)
		stale.Keys++
		p.Is(do(stale), actions.ErrStale, "%s, decided by other keys", name)
		act := p.act(name)
		p.OK(do(act), "%s", name)
		want[name] = true
		made := p.actions()
		p.Equal(len(made), len(want), "actions after %s", name)
		act.ID, act.Time = made[0].ID, p.Clock.Now()
		p.Equal(made[0], act.Action, "the last action")
		if err := do(p.act("again")); err != nil && !errors.Is(err, database.ErrNotFound) && !errors.Is(err, database.ErrExists) {
			p.Fail("%s again: %v", name, err)
		}
		if name == "task" { // which has an effect again
			want["again "+name] = true
		}
	}
	before := p.actions()
	p.Reopen()
	p.Equal(p.actions(), before, "actions after a restart")
	p.Equal(p.getKey("k").Revoked.IsZero(), false, "the key is revoked")
	p.Clock.Advance(time.Second)
	plain := &actions.Act{Keys: p.version(p.Store), Action: actions.Action{Name: "plain"}}
	dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "plain", Group: "g"}, plain, nil))
	plain.ID, plain.Time = p.actions()[0].ID, p.Clock.Now()
	p.Equal(p.actions()[0], plain.Action, "an action with a name alone")
}

// actionsPaged: actions are listed newest first, and purged by their age alone.
func actionsPaged(p *probe) {
	const n = 25
	for i := range n {
		p.Clock.Advance(time.Minute)
		dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: fmt.Sprint("key", i), Group: "g"}, p.act(fmt.Sprint(i)), nil))
	}
	listed := func() (names []string) {
		for before := ""; ; {
			page := dbtest.Value(p.Store.ListActions(p.Ctx, before, 4))
			for _, a := range page {
				names = append(names, a.Name)
				before = a.ID
			}
			if len(page) < 4 {
				return names
			}
		}
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(n-1-i))
	}
	p.Equal(listed(), want, "the newest first")
	const keep = 10*time.Minute - time.Second
	for left := n; ; {
		purged := dbtest.Value(p.Store.PurgeActions(p.Ctx, keep, 4))
		p.Must(purged <= 4, "%d rows in a step of 4", purged)
		if left -= purged; purged == 0 {
			p.Equal(left, 10, "the actions that are kept")
			break
		}
	}
	p.Equal(listed(), want[:10], "what is kept")
	p.Clock.Advance(time.Microsecond)
	p.Equal(dbtest.Value(p.Store.PurgeActions(p.Ctx, 0, 100)), 10, "all")
	p.Equal(len(p.actions()), 0, "actions")
}

// keyOnce: a repeated creation has the first one's outcome, and no other effect.
func keyOnce(p *probe) {
	once := &database.Idempotency{Scope: "create", Key: "1", Hash: [32]byte{1}, Owner: "g"}
	first := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "first", Group: "g", Label: "one"}, p.act("create"), once))
	stale := p.act("again")
	stale.Keys++
	again := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "second", Group: "g", Label: "two"}, stale, once))
	p.Equal(again, first, "the key of a repeated creation")
	p.Is(dbtest.Error(p.Store.Key(p.Ctx, "second")), database.ErrNotFound, "the second key")
	p.Equal(len(p.actions()), 1, "actions")
	other := *once
	other.Hash[0]++
	p.Is(dbtest.Error(p.Store.CreateKey(p.Ctx, keys.Key{ID: "third", Group: "g"}, nil, &other)), database.ErrIdempotencyReuse, "another request")
	ids := make([]string, 8)
	handles := []whole.Database{p.Store, p.Open()}
	racing := *once
	racing.Key = "2"
	errs := dbtest.Race(len(ids), func(i int) error {
		k, err := handles[i%2].CreateKey(p.Ctx, keys.Key{ID: fmt.Sprint("racing", i), Group: "g"}, nil, &racing)
		ids[i] = k.ID
		return err
	})
	p.OK(errors.Join(errs...), "racing creations")
	for _, id := range ids {
		p.Equal(id, ids[0], "the key of racing creations")
	}
	dbtest.Value(p.Store.RevokeKey(p.Ctx, "first", nil))
	p.Equal(dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "second", Group: "g"}, nil, once)).Revoked.IsZero(), false, "a repeated creation returns the key as it is")
}

// groupList: groups are listed by name.
func groupList(p *probe) {
	for _, name := range []string{"b", "a\x00\xff", "c", "a"} {
		dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "of " + name, Group: name, Limits: someLimits}, nil, nil))
	}
	var got []string
	for after := ""; ; {
		page := dbtest.Value(p.Store.ListGroups(p.Ctx, after, 3))
		for _, g := range page {
			p.Equal(g.Limits, someLimits, "limits")
			got, after = append(got, g.Name), g.Name
		}
		if len(page) < 3 {
			break
		}
	}
	p.Equal(got, []string{"a", "a\x00\xff", "b", "c"}, "groups")
}
