package keystest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/access/keys"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
)

var someLimits = keys.Limits{
	RequestsPerSecond: 1, BytesInPerSecond: 2, BytesOutPerSecond: 1<<63 - 1, ConcurrentRequests: keys.Unlimited,
	StoredBytes: 5, OccupiedBytes: 9, StoredObjects: 7, OpenUploads: 6, Channels: 8,
}

func (p *probe) getKey(id string) keys.Key {
	k, err := p.Store.Key(p.Ctx, id)
	p.OK(err, "key %q", id)
	return k
}

func keyCreate(p *probe) {
	want := keys.Key{
		ID: "key\x00\xff", Label: "label\x00\xfe ä", Grants: []keys.Grant{{Scopes: []string{"write", "read"}, Accounts: []string{"0x1", "\xff\x00", ""}, Prefix: "p\x00\xff"}, {}},
		Group: "group\x00\xff", Limits: someLimits, S3Secret: []byte("\x00\xffsealed"), Expires: p.Clock.Now().Add(time.Hour + time.Nanosecond),
	}
	for i := range want.Hash {
		want.Hash[i] = byte(255 - i)
	}
	given := want
	given.Revoked = p.Clock.Now() // ignored
	got := dbtest.Value(p.Store.CreateKey(p.Ctx, given, nil, nil))
	want.Created, want.Expires = p.Clock.Now(), p.Clock.Now().Add(time.Hour)
	p.Equal(got, want, "key as created")
	plain := p.NewKey("plain")
	p.Equal(plain, keys.Key{ID: "plain", Group: "group of plain", Created: p.Clock.Now()}, "key with only an id and a group")
	p.Clock.Advance(time.Minute)
	p.Is(dbtest.Error(p.Store.CreateKey(p.Ctx, keys.Key{ID: want.ID, Group: "another"}, nil, nil)), database.ErrExists, "second key of an id")
	dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "later", Group: "another", Limits: someLimits}, nil, nil))
	for _, k := range []keys.Key{{ID: "id"}, {Group: "group"}} {
		_, err := p.Store.CreateKey(p.Ctx, k, nil, nil)
		p.Must(err != nil, "key %+v was created", k)
	}
	p.Reopen()
	p.Equal(p.getKey(want.ID), want, "key")
	p.Equal(p.getKey("plain"), plain, "key with only an id and a group")
	for _, id := range []string{"", "id", "key", "key\x00"} {
		p.Is(dbtest.Error(p.Store.Key(p.Ctx, id)), database.ErrNotFound, "key %q", id)
	}
}

// keyGrants distinguishes a grant for all accounts from one for none, and no grants from none that
// is set.
func keyGrants(p *probe) {
	for i, list := range [][]string{nil, {}, {""}, {"a"}} {
		id, want := fmt.Sprint(i), []keys.Grant{{Accounts: list, Scopes: list}}
		dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: id, Group: "g", Grants: want}, nil, nil))
		k := p.getKey(id)
		p.Must(len(k.Grants) == 1 && (k.Grants[0].Accounts == nil) == (list == nil), "accounts %#v were read as %+v", list, k.Grants)
		p.Equal(k.Grants, want, "grants")
	}
	for id, want := range map[string][]keys.Grant{"nil": nil, "none": {}} {
		dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: id, Group: "g", Grants: want}, nil, nil))
		p.Must(p.getKey(id).Grants == nil == (want == nil) && len(p.getKey(id).Grants) == 0, "grants %#v were read as %#v", want, p.getKey(id).Grants)
	}
}

func keyGroups(p *probe) {
	create := func(id, group string, limits keys.Limits) (keys.Key, error) {
		return p.Store.CreateKey(p.Ctx, keys.Key{ID: id, Group: group, Limits: limits}, nil, nil)
	}
	first := dbtest.Value(create("first", "group", someLimits))
	for id, limits := range map[string]keys.Limits{"silent": {}, "same": someLimits} {
		k := dbtest.Value(create(id, "group", limits))
		p.Equal(k.Limits, someLimits, "limits of a further key")
	}
	before := p.version(p.Store)
	other := someLimits
	other.OpenUploads++
	_, err := create("other", "group", other)
	p.Is(err, keys.ErrGroupLimits, "key with other limits than its group")
	p.Is(dbtest.Error(p.Store.Key(p.Ctx, "other")), database.ErrNotFound, "key that was refused")
	p.Must(p.version(p.Store) == before, "the version changed by a refusal")
	k := dbtest.Value(create("other", "group2", other))
	p.Equal(k.Limits, other, "limits of another group")

	dbtest.Value(create("default", "group3", keys.Limits{}))
	p.Is(dbtest.Error(create("late", "group3", someLimits)), keys.ErrGroupLimits, "limits for a group without limits")

	dbtest.Value(p.Store.RevokeKey(p.Ctx, "first", nil))
	p.Reopen()
	for _, id := range []string{"first", "silent", "same"} {
		p.Equal(p.getKey(id).Limits, first.Limits, "limits of %s", id)
	}
	_, err = create("fourth", "group", other)
	p.Is(err, keys.ErrGroupLimits, "other limits after the first key was revoked")
}

func keyList(p *probe) {
	list := dbtest.Value(p.Store.ListKeys(p.Ctx, "", 10))
	p.Must(len(list) == 0, "%d keys before any was created", len(list))
	ids := []string{"\x00", "A", "B", "a", "a\x00", "ab", "b", "ä", "\xff", "\xff\x00"}
	for _, i := range []int{7, 1, 9, 3, 4, 0, 8, 2, 6, 5} {
		dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{
			ID: ids[i], Group: fmt.Sprint("group", i%3), Label: fmt.Sprint("label", i), Grants: []keys.Grant{{Accounts: []string{"a"}[:i%2]}}, S3Secret: []byte{byte(i)},
			Expires: p.Clock.Now().Add(time.Duration(i) * time.Hour),
		}, nil, nil))
	}
	dbtest.Value(p.Store.RevokeKey(p.Ctx, "a", nil))
	p.Clock.Advance(5 * time.Hour)
	for limit := 1; limit <= len(ids)+1; limit++ {
		var got []string
		for after := ""; ; {
			page := dbtest.Value(p.Store.ListKeys(p.Ctx, after, limit))
			p.Must(len(page) <= limit, "%d keys on a page of %d", len(page), limit)
			for _, k := range page {
				p.Equal(k, p.getKey(k.ID), "listed key")
				got = append(got, k.ID)
			}
			if len(page) < limit {
				break
			}
			after = got[len(got)-1]
		}
		p.Equal(got, ids, "keys in pages of %d", limit)
	}
	list = dbtest.Value(p.Store.ListKeys(p.Ctx, "aa", 2))
	p.Must(len(list) == 2 && list[0].ID == "ab" && list[1].ID == "b", "listed after aa: %+v", list)
}

func keyRevoke(p *probe) {
	want, other := p.NewKey("key"), p.NewKey("other")
	p.Clock.Advance(time.Minute)
	want.Revoked = p.Clock.Now()
	for range 2 {
		p.Equal(dbtest.Value(p.Store.RevokeKey(p.Ctx, "key", nil)), want, "revoked key")
		p.Clock.Advance(time.Hour)
	}
	p.Is(dbtest.Error(p.Store.RevokeKey(p.Ctx, "none", nil)), database.ErrNotFound, "revoke of an unknown key")
	p.Is(dbtest.Error(p.Store.CreateKey(p.Ctx, keys.Key{ID: "key", Group: want.Group}, nil, nil)), database.ErrExists, "key with the id of a revoked one")
	p.Reopen()
	p.Equal(p.getKey("key"), want, "revoked key")
	p.Equal(p.getKey("other"), other, "key that was not revoked")
}

// keysStay lets keys expire. They must still be readable.
func keysStay(p *probe) {
	k := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "expired", Group: "g", Limits: someLimits, Expires: p.Clock.Now().Add(time.Minute)}, nil, nil))
	past := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "past", Group: "g", Expires: p.Clock.Now().Add(-time.Minute)}, nil, nil))
	p.NewKey("revoked")
	revoked := dbtest.Value(p.Store.RevokeKey(p.Ctx, "revoked", nil))
	p.Clock.Advance(365 * 24 * time.Hour)
	p.Purge()
	for _, want := range []keys.Key{k, past, revoked} {
		p.Equal(p.getKey(want.ID), want, "key after its time")
	}
	list := dbtest.Value(p.Store.ListKeys(p.Ctx, "", 10))
	p.Must(len(list) == 3, "%d keys after their time", len(list))
	k.Revoked = p.Clock.Now()
	p.Equal(dbtest.Value(p.Store.RevokeKey(p.Ctx, k.ID, nil)), k, "expired key, revoked")
}

func (p *probe) version(s whole.Database) int64 {
	v := dbtest.Value(s.KeysVersion(p.Ctx))
	return v
}

// keyVersion changes keys over one handle and reads them over three, one of them new.
func keyVersion(p *probe) {
	looking, last := p.Open(), int64(0)
	changed := func(want bool, label string) {
		for _, s := range []whole.Database{looking, p.Store, p.Open()} {
			v := p.version(s)
			p.Must((v != last) == want, "the version went from %d to %d by %s", last, v, label)
		}
		last = p.version(looking)
	}
	last = p.version(looking)
	changed(false, "nothing")
	for i := range 3 {
		p.NewKey(fmt.Sprint("key", i))
		changed(true, "a new key")
	}
	for i := range 3 {
		dbtest.Value(p.Store.RevokeKey(p.Ctx, fmt.Sprint("key", i), nil))
		changed(true, "a revoke")
	}
	k := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "more", Group: "group of key1"}, nil, nil))
	changed(true, "a new key of a group")
	dbtest.Value(p.Store.UpdateKey(p.Ctx, k.ID, set(func(k *keys.Key) { k.Label = "other" }), nil))
	changed(true, "an update")
	dbtest.Value(p.Store.SetGroupLimits(p.Ctx, k.Group, func(l *keys.Limits) { l.Channels = 1 }, nil))
	changed(true, "other limits")
	p.Is(dbtest.Error(p.Store.UpdateKey(p.Ctx, "none", set(func(*keys.Key) {}), nil)), database.ErrNotFound, "update of an unknown key")
	changed(false, "an update of an unknown key")
	dbtest.Value(looking.RevokeKey(p.Ctx, k.ID, nil))
	changed(true, "a revoke over the reading handle")
	p.Reopen()
	looking = p.Open()
	p.NewKey("after")
	changed(true, "a new key after a reopen")
}

var errRefused = errors.New("refused")

// set returns a change without an error.
func set(change func(k *keys.Key)) func(*keys.Key) error {
	return func(k *keys.Key) error {
		change(k)
		return nil
	}
}

// keyUpdate changes keys, including a revoked and an expired one. Fields that are not changed
// remain.
func keyUpdate(p *probe) {
	want := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{
		ID: "key", Hash: [32]byte{1}, Label: "label", Grants: []keys.Grant{{Scopes: []string{"read"}, Accounts: []string{"a"}}}, Group: "group", Limits: someLimits,
		Expires: p.Clock.Now().Add(time.Minute),
	}, nil, nil))
	other := p.NewKey("other")
	p.Clock.Advance(time.Hour) // it has expired
	expires := p.Clock.Now().Add(time.Hour)
	update := func(label string, change func(k *keys.Key)) {
		change(&want)
		got, err := p.Store.UpdateKey(p.Ctx, "key", set(change), nil)
		p.OK(err, "update %s", label)
		p.Equal(got, want, "key as returned by an update of %s", label)
		p.Reopen()
		p.Equal(p.getKey("key"), want, "key after an update of %s", label)
	}
	update("nothing", func(*keys.Key) {})
	update("the label", func(k *keys.Key) { k.Label = "\x00\xff" })
	update("the scopes", func(k *keys.Key) {
		k.Grants = []keys.Grant{{Scopes: []string{"write", "\xff"}, Accounts: []string{"a"}}}
	})
	update("the S3 secret to one", func(k *keys.Key) { k.S3Secret = []byte{0, 255} })
	update("the S3 secret to another", func(k *keys.Key) { k.S3Secret = []byte("sealed") })
	update("the label beside an S3 secret", func(k *keys.Key) { k.Label = "other" })
	update("the S3 secret to none", func(k *keys.Key) { k.S3Secret = nil })
	update("the accounts to all", func(k *keys.Key) { k.Grants = []keys.Grant{{Scopes: []string{"write"}}} })
	update("the accounts to none", func(k *keys.Key) { k.Grants = []keys.Grant{{Accounts: []string{}}} })
	update("the prefix", func(k *keys.Key) { k.Grants = []keys.Grant{{Accounts: []string{"b", ""}, Prefix: "locks/"}} })
	update("the grants to several", func(k *keys.Key) { k.Grants = []keys.Grant{{Prefix: "\xff"}, {Scopes: []string{"read"}}, {}} })
	update("the secret", func(k *keys.Key) { k.Hash = [32]byte{7} })
	update("the expiry", func(k *keys.Key) { k.Expires = expires })
	update("the expiry to never", func(k *keys.Key) { k.Expires = time.Time{} })
	got := dbtest.Value(p.Store.UpdateKey(p.Ctx, "key", set(func(k *keys.Key) {
		k.ID, k.Group, k.Limits, k.Created, k.Revoked = "x", "x", keys.Limits{}, time.Time{}, p.Clock.Now()
	}), nil))
	p.Equal(got, want, "key after an update of fields that cannot be changed")
	p.Equal(p.getKey("key"), want, "key after an update of fields that cannot be changed")
	before := p.version(p.Store)
	_, err := p.Store.UpdateKey(p.Ctx, "key", func(k *keys.Key) error {
		k.Label = "refused"
		return errRefused
	}, nil)
	p.Is(err, errRefused, "update with a change that is refused")
	p.Equal(p.getKey("key"), want, "key after an update that was refused")
	p.Must(p.version(p.Store) == before, "the version changed by a refusal")
	want = dbtest.Value(p.Store.RevokeKey(p.Ctx, "key", nil))
	update("a revoked key", func(k *keys.Key) { k.Label, k.Expires = "revoked", expires })
	p.Must(!p.getKey("key").Revoked.IsZero(), "an update has revived a revoked key")
	p.Equal(p.getKey("other"), other, "key that was not updated")
}

// keyGroupLimits changes a group's limits. The group has several keys.
func keyGroupLimits(p *probe) {
	for _, id := range []string{"a", "b"} {
		dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: id, Group: "group"}, nil, nil))
	}
	other := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "c", Group: "other", Limits: someLimits}, nil, nil))
	want := keys.Limits{}
	for _, k := range keys.LimitKinds {
		*k.Of(&want) = int64(100 + len(k.Name))
		got, err := p.Store.SetGroupLimits(p.Ctx, "group", func(l *keys.Limits) { *k.Of(l) = int64(100 + len(k.Name)) }, nil)
		p.OK(err, "set %s", k.Name)
		p.Equal(got, want, "limits after %s was set", k.Name)
	}
	p.Reopen()
	for _, id := range []string{"a", "b"} {
		p.Equal(p.getKey(id).Limits, want, "limits of key %s", id)
	}
	p.Equal(dbtest.Value(p.Store.GroupLimits(p.Ctx, "group")), want, "limits of the group")
	p.Equal(p.getKey("c"), other, "key of another group")
	k := dbtest.Value(p.Store.CreateKey(p.Ctx, keys.Key{ID: "d", Group: "group"}, nil, nil))
	p.Equal(k.Limits, want, "limits of a further key")
	p.Is(dbtest.Error(p.Store.CreateKey(p.Ctx, keys.Key{ID: "e", Group: "group", Limits: someLimits}, nil, nil)), keys.ErrGroupLimits, "key with other limits than its group has now")
	dbtest.Value(p.Store.SetGroupLimits(p.Ctx, "group", func(l *keys.Limits) { *l = keys.Limits{StoredBytes: keys.Unlimited} }, nil))
	p.Equal(p.getKey("a").Limits, keys.Limits{StoredBytes: keys.Unlimited}, "limits")
	p.Is(dbtest.Error(p.Store.GroupLimits(p.Ctx, "none")), database.ErrNotFound, "limits of an unknown group")
	p.Is(dbtest.Error(p.Store.SetGroupLimits(p.Ctx, "none", func(*keys.Limits) {}, nil)), database.ErrNotFound, "set limits of an unknown group")
}

// keyRacingUpdates changes one key and one group concurrently, each call something else. No change
// may be lost.
func keyRacingUpdates(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.NewKey("key")
	errs := dbtest.Race(len(keys.LimitKinds), func(i int) error {
		_, err := handles[i%2].UpdateKey(p.Ctx, "key", set(func(k *keys.Key) { k.Grants = append(slices.Clone(k.Grants), keys.Grant{Prefix: fmt.Sprint(i)}) }), nil)
		if err != nil {
			return err
		}
		_, err = handles[i%2].SetGroupLimits(p.Ctx, "group of key", func(l *keys.Limits) { *keys.LimitKinds[i].Of(l) = int64(i + 1) }, nil)
		return err
	})
	p.OK(errors.Join(errs...), "racing updates")
	k := p.getKey("key")
	slices.SortFunc(k.Grants, func(a, b keys.Grant) int { return strings.Compare(a.Prefix, b.Prefix) })
	for i := range keys.LimitKinds {
		p.Equal(k.Grants[i].Prefix, fmt.Sprint(i), "grant after racing updates")
	}
	p.Equal(len(k.Grants), len(keys.LimitKinds), "grants after racing updates")
	for i, kind := range keys.LimitKinds {
		p.Equal(*kind.Of(&k.Limits), int64(i+1), "limit of %s after racing updates", kind.Name)
	}
}

// keyRacingCreators creates one key concurrently, and one group with different limits concurrently.
func keyRacingCreators(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 10 {
		id, group := fmt.Sprint("key", round), fmt.Sprint("group", round)
		errs := dbtest.Race(8, func(i int) error {
			return dbtest.Error(handles[i%2].CreateKey(p.Ctx, keys.Key{ID: id, Group: group, Label: fmt.Sprint(i)}, nil, nil))
		})
		p.Won(errs, 1, database.ErrExists)
		label := p.getKey(id).Label
		for i, err := range errs {
			p.Must((err == nil) == (label == fmt.Sprint(i)), "creator %d: %v, but the key has the label %s", i, err, label)
		}

		var created [8]keys.Key
		errs = dbtest.Race(8, func(i int) (err error) {
			k := keys.Key{ID: fmt.Sprint(id, "-", i), Group: "racing " + group, Limits: keys.Limits{StoredBytes: int64(1 + i%4)}}
			created[i], err = handles[i%2].CreateKey(p.Ctx, k, nil, nil)
			return err
		})
		p.Won(errs, 2, keys.ErrGroupLimits) // those who request the same
		list := dbtest.Value(p.Store.ListKeys(p.Ctx, id+"-", 10))
		for i, err := range errs {
			if err == nil {
				p.Must(slices.ContainsFunc(list, func(k keys.Key) bool { return dbtest.Same(k, created[i]) }),
					"%+v was created, but %+v is stored", created[i], list)
			}
		}
	}
}

// keyRacingRevokes revokes a key concurrently, and again later. All calls must return the same
// time.
func keyRacingRevokes(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.NewKey("key")
	before := p.version(p.Store)
	var got [8][2]keys.Key
	errs := dbtest.Race(len(got), func(i int) (err error) {
		for k := range got[i] {
			p.Clock.Advance(time.Second)
			if got[i][k], err = handles[i%2].RevokeKey(p.Ctx, "key", nil); err != nil {
				return err
			}
		}
		return nil
	})
	p.OK(errors.Join(errs...), "racing revokes")
	want := p.getKey("key")
	p.Must(!want.Revoked.IsZero(), "the key is not revoked")
	for i := range got {
		p.Equal(got[i], [2]keys.Key{want, want}, "key as revoked by %d", i)
	}
	p.Must(p.version(p.Store) != before, "the version did not change")
}
