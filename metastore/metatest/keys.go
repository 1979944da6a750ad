package metatest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/access/keys"
	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
)

func keyChecks() []Check {
	return []Check{
		check("keys/create", keyCreate),
		check("keys/accounts", keyAccounts),
		check("keys/groups", keyGroups),
		check("keys/list", keyList),
		check("keys/revoke", keyRevoke),
		check("keys/stay", keysStay),
		check("keys/version", keyVersion),
		check("keys/update", keyUpdate),
		check("keys/group-limits", keyGroupLimits),
		check("keys/racing-updates", keyRacingUpdates),
		check("keys/racing-creators", keyRacingCreators),
		check("keys/racing-revokes", keyRacingRevokes),
	}
}

var someLimits = keys.Limits{
	RequestsPerSecond: 1, BytesInPerSecond: 2, BytesOutPerSecond: 1<<63 - 1, ConcurrentRequests: keys.Unlimited,
	StoredBytes: 5, OccupiedBytes: 9, StoredObjects: 7, OpenUploads: 6, Channels: 8,
}

// newKey creates a key in a new group.
func (p *probe) newKey(id string) keys.Key {
	k, err := p.store.CreateKey(p.ctx, keys.Key{ID: id, Group: "group of " + id})
	p.ok(err, "create key %q", id)
	return k
}

func (p *probe) getKey(id string) keys.Key {
	k, err := p.store.Key(p.ctx, id)
	p.ok(err, "key %q", id)
	return k
}

func keyCreate(p *probe) {
	want := keys.Key{
		ID: "key\x00\xff", Label: "label\x00\xfe ä", Scopes: []string{"write", "read"}, Accounts: []string{"0x1", "\xff\x00", ""},
		Group: "group\x00\xff", Limits: someLimits, Expires: p.clock.Now().Add(time.Hour + time.Nanosecond),
	}
	for i := range want.Hash {
		want.Hash[i] = byte(255 - i)
	}
	given := want
	given.Revoked = p.clock.Now() // ignored
	got, err := p.store.CreateKey(p.ctx, given)
	p.ok(err, "create")
	want.Created, want.Expires = p.clock.Now(), p.clock.Now().Add(time.Hour)
	p.equal(got, want, "key as created")
	plain := p.newKey("plain")
	p.equal(plain, keys.Key{ID: "plain", Group: "group of plain", Created: p.clock.Now()}, "key with only an id and a group")
	p.clock.Advance(time.Minute)
	_, err = p.store.CreateKey(p.ctx, keys.Key{ID: want.ID, Group: "another"})
	p.is(err, database.ErrExists, "second key of an id")
	_, err = p.store.CreateKey(p.ctx, keys.Key{ID: "later", Group: "another", Limits: someLimits})
	p.ok(err, "key of the group of a refused one")
	for _, k := range []keys.Key{{ID: "id"}, {Group: "group"}} {
		_, err = p.store.CreateKey(p.ctx, k)
		p.must(err != nil, "key %+v was created", k)
	}
	p.reopen()
	p.equal(p.getKey(want.ID), want, "key")
	p.equal(p.getKey("plain"), plain, "key with only an id and a group")
	for _, id := range []string{"", "id", "key", "key\x00"} {
		_, err = p.store.Key(p.ctx, id)
		p.is(err, database.ErrNotFound, "key %q", id)
	}
}

// keyAccounts distinguishes a key for all accounts from one for none.
func keyAccounts(p *probe) {
	for i, list := range [][]string{nil, {}, {""}, {"a"}} {
		id := fmt.Sprint(i)
		_, err := p.store.CreateKey(p.ctx, keys.Key{ID: id, Group: "g", Accounts: list, Scopes: list})
		p.ok(err, "create")
		k := p.getKey(id)
		p.must((k.Accounts == nil) == (list == nil), "accounts %#v were read as %#v", list, k.Accounts)
		p.equal(k.Accounts, list, "accounts")
		p.equal(k.Scopes, list, "scopes")
	}
}

func keyGroups(p *probe) {
	create := func(id, group string, limits keys.Limits) (keys.Key, error) {
		return p.store.CreateKey(p.ctx, keys.Key{ID: id, Group: group, Limits: limits})
	}
	first, err := create("first", "group", someLimits)
	p.ok(err, "first key")
	for id, limits := range map[string]keys.Limits{"silent": {}, "same": someLimits} {
		k, err := create(id, "group", limits)
		p.ok(err, "further key")
		p.equal(k.Limits, someLimits, "limits of a further key")
	}
	before := p.version(p.store)
	other := someLimits
	other.OpenUploads++
	_, err = create("other", "group", other)
	p.is(err, keys.ErrGroupLimits, "key with other limits than its group")
	_, err = p.store.Key(p.ctx, "other")
	p.is(err, database.ErrNotFound, "key that was refused")
	p.must(p.version(p.store) == before, "the version changed by a refusal")
	k, err := create("other", "group2", other)
	p.ok(err, "key of another group")
	p.equal(k.Limits, other, "limits of another group")

	_, err = create("default", "group3", keys.Limits{})
	p.ok(err, "key of a group without limits")
	_, err = create("late", "group3", someLimits)
	p.is(err, keys.ErrGroupLimits, "limits for a group without limits")

	_, err = p.store.RevokeKey(p.ctx, "first")
	p.ok(err, "revoke")
	p.reopen()
	for _, id := range []string{"first", "silent", "same"} {
		p.equal(p.getKey(id).Limits, first.Limits, "limits of %s", id)
	}
	_, err = create("fourth", "group", other)
	p.is(err, keys.ErrGroupLimits, "other limits after the first key was revoked")
}

func keyList(p *probe) {
	list, err := p.store.ListKeys(p.ctx, "", 10)
	p.ok(err, "list")
	p.must(len(list) == 0, "%d keys before any was created", len(list))
	ids := []string{"\x00", "A", "B", "a", "a\x00", "ab", "b", "ä", "\xff", "\xff\x00"}
	for _, i := range []int{7, 1, 9, 3, 4, 0, 8, 2, 6, 5} {
		_, err := p.store.CreateKey(p.ctx, keys.Key{
			ID: ids[i], Group: fmt.Sprint("group", i%3), Label: fmt.Sprint("label", i), Accounts: []string{"a"}[:i%2],
			Expires: p.clock.Now().Add(time.Duration(i) * time.Hour),
		})
		p.ok(err, "create")
	}
	_, err = p.store.RevokeKey(p.ctx, "a")
	p.ok(err, "revoke")
	p.clock.Advance(5 * time.Hour)
	for limit := 1; limit <= len(ids)+1; limit++ {
		var got []string
		for after := ""; ; {
			page, err := p.store.ListKeys(p.ctx, after, limit)
			p.ok(err, "list")
			p.must(len(page) <= limit, "%d keys on a page of %d", len(page), limit)
			for _, k := range page {
				p.equal(k, p.getKey(k.ID), "listed key")
				got = append(got, k.ID)
			}
			if len(page) < limit {
				break
			}
			after = got[len(got)-1]
		}
		p.equal(got, ids, "keys in pages of %d", limit)
	}
	list, err = p.store.ListKeys(p.ctx, "aa", 2)
	p.ok(err, "list after an unknown id")
	p.must(len(list) == 2 && list[0].ID == "ab" && list[1].ID == "b", "listed after aa: %+v", list)
}

func keyRevoke(p *probe) {
	want, other := p.newKey("key"), p.newKey("other")
	p.clock.Advance(time.Minute)
	want.Revoked = p.clock.Now()
	for range 2 {
		got, err := p.store.RevokeKey(p.ctx, "key")
		p.ok(err, "revoke")
		p.equal(got, want, "revoked key")
		p.clock.Advance(time.Hour)
	}
	_, err := p.store.RevokeKey(p.ctx, "none")
	p.is(err, database.ErrNotFound, "revoke of an unknown key")
	_, err = p.store.CreateKey(p.ctx, keys.Key{ID: "key", Group: want.Group})
	p.is(err, database.ErrExists, "key with the id of a revoked one")
	p.reopen()
	p.equal(p.getKey("key"), want, "revoked key")
	p.equal(p.getKey("other"), other, "key that was not revoked")
}

// keysStay lets keys expire. They must still be readable.
func keysStay(p *probe) {
	k, err := p.store.CreateKey(p.ctx, keys.Key{ID: "expired", Group: "g", Limits: someLimits, Expires: p.clock.Now().Add(time.Minute)})
	p.ok(err, "create")
	past, err := p.store.CreateKey(p.ctx, keys.Key{ID: "past", Group: "g", Expires: p.clock.Now().Add(-time.Minute)})
	p.ok(err, "create")
	p.newKey("revoked")
	revoked, err := p.store.RevokeKey(p.ctx, "revoked")
	p.ok(err, "revoke")
	p.clock.Advance(10 * ledger.SessionRetention)
	p.purge()
	for _, want := range []keys.Key{k, past, revoked} {
		p.equal(p.getKey(want.ID), want, "key after its time")
	}
	list, err := p.store.ListKeys(p.ctx, "", 10)
	p.ok(err, "list")
	p.must(len(list) == 3, "%d keys after their time", len(list))
	k.Revoked = p.clock.Now()
	got, err := p.store.RevokeKey(p.ctx, k.ID)
	p.ok(err, "revoke of an expired key")
	p.equal(got, k, "expired key, revoked")
}

func (p *probe) version(s whole.Database) int64 {
	v, err := s.KeysVersion(p.ctx)
	p.ok(err, "version of the keys")
	return v
}

// keyVersion changes keys over one handle and reads them over others, one of which has read nothing
// yet.
func keyVersion(p *probe) {
	looking, last := p.open(), int64(0)
	changed := func(want bool, what string) {
		for _, s := range []whole.Database{looking, p.store, p.open()} {
			v := p.version(s)
			p.must((v != last) == want, "the version went from %d to %d by %s", last, v, what)
		}
		last = p.version(looking)
	}
	last = p.version(looking)
	changed(false, "nothing")
	for i := range 3 {
		p.newKey(fmt.Sprint("key", i))
		changed(true, "a new key")
	}
	for i := range 3 {
		_, err := p.store.RevokeKey(p.ctx, fmt.Sprint("key", i))
		p.ok(err, "revoke")
		changed(true, "a revoke")
	}
	k, err := p.store.CreateKey(p.ctx, keys.Key{ID: "more", Group: "group of key1"})
	p.ok(err, "create")
	changed(true, "a new key of a group")
	_, err = p.store.UpdateKey(p.ctx, k.ID, func(k *keys.Key) { k.Label = "other" })
	p.ok(err, "update")
	changed(true, "an update")
	_, err = p.store.SetGroupLimits(p.ctx, k.Group, func(l *keys.Limits) { l.Channels = 1 })
	p.ok(err, "set limits")
	changed(true, "other limits")
	_, err = p.store.UpdateKey(p.ctx, "none", func(*keys.Key) {})
	p.is(err, database.ErrNotFound, "update of an unknown key")
	changed(false, "an update of an unknown key")
	_, err = looking.RevokeKey(p.ctx, k.ID)
	p.ok(err, "revoke")
	changed(true, "a revoke over the reading handle")
	p.reopen()
	looking = p.open()
	p.newKey("after")
	changed(true, "a new key after a reopen")
}

// keyUpdate changes keys, including a revoked and an expired one. What is not changed remains.
func keyUpdate(p *probe) {
	want, err := p.store.CreateKey(p.ctx, keys.Key{
		ID: "key", Hash: [32]byte{1}, Label: "label", Scopes: []string{"read"}, Accounts: []string{"a"}, Group: "group", Limits: someLimits,
		Expires: p.clock.Now().Add(time.Minute),
	})
	p.ok(err, "create")
	other := p.newKey("other")
	p.clock.Advance(time.Hour) // it has expired
	expires := p.clock.Now().Add(time.Hour)
	update := func(what string, change func(k *keys.Key)) {
		change(&want)
		got, err := p.store.UpdateKey(p.ctx, "key", change)
		p.ok(err, "update %s", what)
		p.equal(got, want, "key as returned by an update of %s", what)
		p.reopen()
		p.equal(p.getKey("key"), want, "key after an update of %s", what)
	}
	update("nothing", func(*keys.Key) {})
	update("the label", func(k *keys.Key) { k.Label = "\x00\xff" })
	update("the scopes", func(k *keys.Key) { k.Scopes = []string{"write", "\xff"} })
	update("the accounts to all", func(k *keys.Key) { k.Accounts = nil })
	update("the accounts to none", func(k *keys.Key) { k.Accounts = []string{} })
	update("the accounts to some", func(k *keys.Key) { k.Accounts = []string{"b", ""} })
	update("the expiry", func(k *keys.Key) { k.Expires = expires })
	update("the expiry to never", func(k *keys.Key) { k.Expires = time.Time{} })
	got, err := p.store.UpdateKey(p.ctx, "key", func(k *keys.Key) {
		k.ID, k.Group, k.Hash, k.Limits, k.Created, k.Revoked = "x", "x", [32]byte{2}, keys.Limits{}, time.Time{}, p.clock.Now()
	})
	p.ok(err, "update what cannot be changed")
	p.equal(got, want, "key after an update of what cannot be changed")
	p.equal(p.getKey("key"), want, "key after an update of what cannot be changed")
	want, err = p.store.RevokeKey(p.ctx, "key")
	p.ok(err, "revoke")
	update("a revoked key", func(k *keys.Key) { k.Label, k.Expires = "revoked", expires })
	p.must(!p.getKey("key").Revoked.IsZero(), "an update has revived a revoked key")
	p.equal(p.getKey("other"), other, "key that was not updated")
}

// keyGroupLimits changes the limits of a group with several keys.
func keyGroupLimits(p *probe) {
	for _, id := range []string{"a", "b"} {
		_, err := p.store.CreateKey(p.ctx, keys.Key{ID: id, Group: "group"})
		p.ok(err, "create")
	}
	other, err := p.store.CreateKey(p.ctx, keys.Key{ID: "c", Group: "other", Limits: someLimits})
	p.ok(err, "create")
	want := keys.Limits{}
	for _, k := range keys.LimitKinds {
		*k.Of(&want) = int64(100 + len(k.Name))
		got, err := p.store.SetGroupLimits(p.ctx, "group", func(l *keys.Limits) { *k.Of(l) = int64(100 + len(k.Name)) })
		p.ok(err, "set %s", k.Name)
		p.equal(got, want, "limits after %s was set", k.Name)
	}
	p.reopen()
	for _, id := range []string{"a", "b"} {
		p.equal(p.getKey(id).Limits, want, "limits of key %s", id)
	}
	got, err := p.store.GroupLimits(p.ctx, "group")
	p.ok(err, "limits of the group")
	p.equal(got, want, "limits of the group")
	p.equal(p.getKey("c"), other, "key of another group")
	k, err := p.store.CreateKey(p.ctx, keys.Key{ID: "d", Group: "group"})
	p.ok(err, "a further key")
	p.equal(k.Limits, want, "limits of a further key")
	_, err = p.store.CreateKey(p.ctx, keys.Key{ID: "e", Group: "group", Limits: someLimits})
	p.is(err, keys.ErrGroupLimits, "key with other limits than its group has now")
	_, err = p.store.SetGroupLimits(p.ctx, "group", func(l *keys.Limits) { *l = keys.Limits{StoredBytes: keys.Unlimited} })
	p.ok(err, "set the limits to the defaults")
	p.equal(p.getKey("a").Limits, keys.Limits{StoredBytes: keys.Unlimited}, "limits")
	_, err = p.store.GroupLimits(p.ctx, "none")
	p.is(err, database.ErrNotFound, "limits of an unknown group")
	_, err = p.store.SetGroupLimits(p.ctx, "none", func(*keys.Limits) {})
	p.is(err, database.ErrNotFound, "set limits of an unknown group")
}

// keyRacingUpdates changes one key and one group concurrently, each call something else. No change may
// be lost.
func keyRacingUpdates(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	p.newKey("key")
	errs := race(len(keys.LimitKinds), func(i int) error {
		_, err := handles[i%2].UpdateKey(p.ctx, "key", func(k *keys.Key) { k.Scopes = append(slices.Clone(k.Scopes), fmt.Sprint(i)) })
		if err != nil {
			return err
		}
		_, err = handles[i%2].SetGroupLimits(p.ctx, "group of key", func(l *keys.Limits) { *keys.LimitKinds[i].Of(l) = int64(i + 1) })
		return err
	})
	p.ok(errors.Join(errs...), "racing updates")
	k := p.getKey("key")
	slices.Sort(k.Scopes)
	p.equal(k.Scopes, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"}, "scopes after racing updates")
	for i, kind := range keys.LimitKinds {
		p.equal(*kind.Of(&k.Limits), int64(i+1), "limit of %s after racing updates", kind.Name)
	}
}

// keyRacingCreators creates one key concurrently, and one group with different limits concurrently.
func keyRacingCreators(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	for round := range 10 {
		id, group := fmt.Sprint("key", round), fmt.Sprint("group", round)
		errs := race(8, func(i int) error {
			_, err := handles[i%2].CreateKey(p.ctx, keys.Key{ID: id, Group: group, Label: fmt.Sprint(i)})
			return err
		})
		p.won(errs, 1, database.ErrExists)
		label := p.getKey(id).Label
		for i, err := range errs {
			p.must((err == nil) == (label == fmt.Sprint(i)), "creator %d: %v, but the key is that of %s", i, err, label)
		}

		var created [8]keys.Key
		errs = race(8, func(i int) (err error) {
			k := keys.Key{ID: fmt.Sprint(id, "-", i), Group: "racing " + group, Limits: keys.Limits{StoredBytes: int64(1 + i%4)}}
			created[i], err = handles[i%2].CreateKey(p.ctx, k)
			return err
		})
		p.won(errs, 2, keys.ErrGroupLimits) // those who request the same
		list, err := p.store.ListKeys(p.ctx, id+"-", 10)
		p.ok(err, "list")
		for i, err := range errs {
			if err == nil {
				p.must(slices.ContainsFunc(list, func(k keys.Key) bool { return same(k, created[i]) }),
					"%+v was created, but %+v is stored", created[i], list)
			}
		}
	}
}

// keyRacingRevokes revokes a key concurrently, and again later. All calls must return the same
// time.
func keyRacingRevokes(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	p.newKey("key")
	before := p.version(p.store)
	var got [8][2]keys.Key
	errs := race(len(got), func(i int) (err error) {
		for k := range got[i] {
			p.clock.Advance(time.Second)
			if got[i][k], err = handles[i%2].RevokeKey(p.ctx, "key"); err != nil {
				return err
			}
		}
		return nil
	})
	p.ok(errors.Join(errs...), "racing revokes")
	want := p.getKey("key")
	p.must(!want.Revoked.IsZero(), "the key is not revoked")
	for i := range got {
		p.equal(got[i], [2]keys.Key{want, want}, "key as revoked by %d", i)
	}
	p.must(p.version(p.store) != before, "the version did not change")
}
