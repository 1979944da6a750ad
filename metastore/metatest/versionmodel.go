package metatest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

// versionHistory plays random histories on two handles in an account that keeps versions, or once
// did, and compares every list of versions with a simple model in memory.
func versionHistory(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	p.Play(func(t *rapid.T, round int) {
		m := &versionModel{history: history{p: p, handles: handles}, account: fmt.Sprint("versions", round), names: map[string][]metastore.Blob{}}
		m.set(p.Store, metastore.Keeping{State: metastore.KeepOn})
		for range rapid.IntRange(10, 40).Draw(t, "steps") {
			m.step(t)
			m.compare(m.handle(t), metastore.ListQuery{
				Prefix: rapid.SampledFrom([]string{"", "", "a", "a/", "n"}).Draw(t, "prefix"), Delimiter: rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "delimiter"),
				Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Metadata: true,
			})
		}
		p.Audited()
		m.leave()
	})
}

// versionModel has each name's versions, the newest first. The current one, if any, is the first
// and has no Since.
type versionModel struct {
	history
	account string
	keeping metastore.Keeping
	names   map[string][]metastore.Blob
}

var versionNames = []string{"a", "a/b", "a/c", "b", strings.Repeat("n", 1990), strings.Repeat("n", 2000), strings.Repeat("n", 2000) + "2"}

func (m *versionModel) handle(t *rapid.T) whole.Database {
	return m.handles[rapid.IntRange(0, len(m.handles)-1).Draw(t, "handle")]
}

func (m *versionModel) of(name string) metastore.BlobName {
	return metastore.BlobName{Account: m.account, Name: name}
}

// current returns the index behind the name's current blob: 1, or 0 if there is none.
func (m *versionModel) current(name string) int {
	if list := m.names[name]; len(list) > 0 && list[0].Since.IsZero() {
		return 1
	}
	return 0
}

// live returns the blob that a precondition gets.
func (m *versionModel) live(name string) *metastore.Blob {
	if m.current(name) == 0 || m.expired(m.names[name][0].Expires) {
		return nil
	}
	return &m.names[name][0]
}

// holds reports whether a version's lock has not ended.
func (m *versionModel) holds(b *metastore.Blob) bool { return b.Lock.Holds(m.p.Clock.Now()) }

// due reports whether a version that is not current is there no more. A lock that has ended is
// there until a purge.
func (m *versionModel) due(b *metastore.Blob) bool {
	return b.Lock == metastore.Lock{} && m.expired(b.Until)
}

// seen returns a version as the store does. In the model its Until does not depend on its lock.
func (m *versionModel) seen(b metastore.Blob) metastore.Blob {
	if b.Lock.Hold {
		b.Until = time.Time{}
	}
	if !b.Until.IsZero() && b.Lock.Until.After(b.Until) {
		b.Until = b.Lock.Until
	}
	return b
}

// anyLock draws a lock for a new version.
func (m *versionModel) anyLock(t *rapid.T) metastore.Lock {
	l := m.p.retention(rapid.SampledFrom([]metastore.LockMode{"", "", metastore.LockGovernance, metastore.LockCompliance}).Draw(t, "mode"), rapid.SampledFrom([]time.Duration{time.Hour, 30 * time.Hour}).Draw(t, "retained"))
	if l.Hold = rapid.IntRange(0, 3).Draw(t, "hold") == 0; l.Mode == metastore.LockNone {
		l.Until = time.Time{}
	}
	return l
}

// lock changes the lock of one version.
func (m *versionModel) lock(s whole.Database, t *rapid.T, name string) {
	if len(m.names[name]) == 0 {
		return
	}
	b := &m.names[name][rapid.IntRange(0, len(m.names[name])-1).Draw(t, "version")]
	to := m.anyLock(t)
	c := metastore.LockChange{VersionName: m.named(*b), Retention: &to, Hold: &to.Hold}
	if rapid.Bool().Draw(t, "bypass") {
		c.Bypass = bypassing
	}
	held := b.Lock
	held.Hold = false
	weaker := to.Until.Before(held.Until) || held.Mode == metastore.LockCompliance && to.Mode != held.Mode
	got, err := s.SetLock(m.p.Ctx, c)
	switch {
	case b.Mark || !b.Since.IsZero() && m.due(b):
		m.p.Is(err, database.ErrNotFound, "the lock of a version that is not there")
	case !m.keeping.Locks:
		m.p.Is(err, metastore.ErrNoLocks, "a lock in an account without locks")
	case held.Holds(m.p.Clock.Now()) && weaker && (held.Mode == metastore.LockCompliance || c.Bypass == nil):
		m.p.Is(err, metastore.ErrLocked, "the change of the lock %+v to %+v", b.Lock, to)
	default:
		m.p.OK(err, "the change of the lock %+v to %+v", b.Lock, to)
		b.Lock = to
		m.p.Equal(got, m.seen(*b), "the version with a changed lock")
	}
}

func (m *versionModel) expired(at time.Time) bool { return !at.IsZero() && !m.p.Clock.Now().Before(at) }

func (m *versionModel) until(since time.Time) time.Time {
	if m.keeping.For == 0 {
		return time.Time{}
	}
	return since.Add(m.keeping.For)
}

// retire ends the current blob, as a commit, a removal or a purge does.
func (m *versionModel) retire(name string) {
	list, n := m.names[name], m.current(name)
	off := m.keeping.State == metastore.KeepOff
	if off && (n == 0 || list[0].Versioned) {
		if at := slices.IndexFunc(list[n:], func(b metastore.Blob) bool { return !b.Versioned }); at >= 0 {
			list = slices.Delete(list, n+at, n+at+1)
		}
	}
	switch {
	case n == 0:
	case off && !list[0].Versioned:
		list = list[1:]
	default:
		list[0].Again = time.Time{}
		if list[0].Since = m.p.Clock.Now(); m.expired(list[0].Expires) {
			list[0].Since = list[0].Expires
		}
		list[0].Until = m.until(list[0].Since)
		list = m.pruned(list)
	}
	m.names[name] = list
}

// pruned removes the versions and marks beyond Keeping.Most.
func (m *versionModel) pruned(list []metastore.Blob) []metastore.Blob {
	if m.keeping.Most == 0 {
		return list
	}
	var stay []metastore.Blob
	versions, marks := 0, 0
	for _, b := range list {
		goes := false
		switch {
		case b.Since.IsZero():
		case b.Mark:
			marks++
			goes = marks > m.keeping.Most || versions >= m.keeping.Most
		default:
			if versions++; versions > m.keeping.Most {
				goes, b.Until = !m.holds(&b), b.Since // it goes when its lock ends
			}
		}
		if !goes {
			stay = append(stay, b)
		}
	}
	return stay
}

// mark adds the mark of a removal. The store sets its Modified and Content, which compare takes
// over.
func (m *versionModel) mark(name, by, owner string, since time.Time) {
	if m.keeping.State == metastore.KeepOff && len(m.names[name]) == 0 {
		return
	}
	mark := metastore.Blob{
		Account: m.account, Name: name, Owner: owner, By: by, Mark: true, Versioned: m.keeping.State == metastore.KeepOn, Since: since, Until: m.until(since),
	}
	m.names[name] = m.pruned(slices.Insert(m.names[name], 0, mark))
}

// commit makes b the name's current blob, which a call has returned as got.
func (m *versionModel) commit(got, b metastore.Blob, err error) {
	m.p.OK(err, "a commit of %.20q", b.Name)
	m.retire(b.Name)
	least := m.p.Clock.Now()
	b.Again = time.Time{}
	if list := m.names[b.Name]; len(list) > 0 && !list[0].Modified.Before(least) {
		least = list[0].Modified.Add(time.Microsecond)
	}
	m.p.Must(!got.Modified.Before(least), "a commit at %v after a version at %v", got.Modified, least)
	if b.Lock.Mode == metastore.LockNone && m.keeping.LockMode != metastore.LockNone {
		b.Lock.Mode, b.Lock.Until = m.keeping.LockMode, m.p.Clock.Now().Add(m.keeping.LockFor+time.Second-1).Truncate(time.Second)
	}
	b.Modified, b.SharedSecond, b.Versioned, b.Account = got.Modified, got.SharedSecond, m.keeping.State == metastore.KeepOn, m.account
	if b.Size == 0 || m.made%2 == 0 { // an empty or inline content is not shared
		b.Content = got.Content
	}
	m.p.Equal(got, b, "a commit of %.20q", b.Name)
	m.names[b.Name] = slices.Insert(m.names[b.Name], 0, b)
}

func (m *versionModel) step(t *rapid.T) {
	s, ctx, now := m.handle(t), m.p.Ctx, m.p.Clock.Now()
	name := rapid.SampledFrom(versionNames).Draw(t, "name")
	by, owner := rapid.SampledFrom([]string{"", "k", "key"}).Draw(t, "by"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "owner")
	expires := time.Time{}
	if rapid.IntRange(0, 4).Draw(t, "expiring") == 0 {
		expires = m.expiry()
	}
	m.made++
	switch rapid.SampledFrom([]string{"put", "put", "put", "remove", "remove", "delete", "delete", "copy", "restore", "move", "upload", "set", "lock", "lock", "apply", "purge", "advance", "reopen"}).Draw(t, "verb") {
	case "put":
		b := metastore.Blob{Account: m.account, Name: name, Content: m.p.Content(), Size: 1, CRC64: uint64(m.made), Owner: owner, By: by, Metadata: m.metadata(), Expires: expires}
		if m.keeping.Locks {
			b.Lock = m.anyLock(t)
		}
		e := m.p.Extent(0, 0, 1)
		if m.made%2 == 0 {
			e = m.p.Inline(0, 0, []byte("x"))
		}
		got, err := s.CommitBlob(ctx, b, []metastore.Extent{e}, nil)
		m.commit(got, b, err)
	case "remove":
		r := metastore.Removal{BlobName: m.of(name), By: by, Owner: owner, Mark: rapid.Bool().Draw(t, "mark missing")}
		n := m.current(name)
		want := metastore.Removed{Existed: n == 1}
		if n == 1 {
			want.Blob, owner = m.names[name][0], m.names[name][0].Owner
		}
		got := dbtest.Value(s.RemoveBlob(ctx, r))
		m.p.Equal(metastore.Removed{Existed: got.Existed, Blob: got.Blob}, want, "the removal of %.20q", name)
		if n == 0 && !r.Mark {
			m.p.Must(got.Mark.Modified.IsZero(), "a mark for nothing")
			return
		}
		m.retire(name)
		m.mark(name, by, owner, now)
	case "delete":
		m.delete(s, t, name)
	case "copy":
		m.copy(s, t, nil, name, by, owner, expires)
	case "restore":
		if list := m.names[name]; len(list) > 0 {
			v := m.named(list[rapid.IntRange(0, len(list)-1).Draw(t, "version")])
			m.copy(s, t, &v, name, by, owner, expires)
		}
	case "move":
		m.move(s, name, rapid.SampledFrom(versionNames).Draw(t, "to"), by, owner)
	case "upload":
		m.upload(s, name, by, owner)
	case "set":
		m.set(s, metastore.Keeping{
			State: rapid.SampledFrom([]metastore.KeepState{metastore.KeepOn, metastore.KeepOn, metastore.KeepOff}).Draw(t, "state"),
			Locks: m.keeping.Locks || rapid.IntRange(0, 2).Draw(t, "locks") == 0, LockMode: rapid.SampledFrom([]metastore.LockMode{"", "", metastore.LockGovernance}).Draw(t, "default"),
			For: rapid.SampledFrom([]time.Duration{0, 0, time.Hour, 48 * time.Hour}).Draw(t, "for"), Most: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "most"),
		})
	case "lock":
		m.lock(s, t, name)
	case "apply":
		m.p.Clock.Advance(time.Minute)
		m.apply(s, rapid.IntRange(1, 3).Draw(t, "limit"))
	case "purge":
		m.purge()
	case "advance":
		m.p.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Minute, time.Hour, 25 * time.Hour}).Draw(t, "time"))
	case "reopen":
		m.Reopen()
	}
}

// named returns a version's name. Every other time it is by Null, if it is not Versioned.
func (m *versionModel) named(b metastore.Blob) metastore.VersionName {
	if m.made++; !b.Versioned && m.made%2 == 0 {
		return metastore.VersionName{BlobName: m.of(b.Name), Null: true}
	}
	return metastore.VersionName{BlobName: m.of(b.Name), Version: metastore.VersionOf(&b)}
}

func (m *versionModel) delete(s whole.Database, t *rapid.T, name string) {
	list := m.names[name]
	if len(list) == 0 {
		return
	}
	at := rapid.IntRange(0, len(list)-1).Draw(t, "version")
	b, n := list[at], m.current(name)
	d := metastore.Deletion{VersionName: m.named(b)}
	if rapid.Bool().Draw(t, "bypass") {
		d.Bypass = bypassing
	}
	got, err := s.DeleteVersion(m.p.Ctx, d)
	if m.holds(&b) && (b.Lock.Hold || b.Lock.Mode == metastore.LockCompliance || d.Bypass == nil) {
		m.p.Is(err, metastore.ErrLocked, "the deletion of a version with the lock %+v", b.Lock)
		return
	}
	m.p.OK(err, "the deletion of a version")
	if at >= n && m.due(&b) {
		m.p.Must(!got.Existed, "a version that is due was deleted")
		return
	}
	m.p.Must(got.Existed, "a version of %.20q is not there", name)
	m.p.Equal(got.Blob, m.seen(b), "the deleted version of %.20q", name)
	list = slices.Delete(list, at, at+1)
	if at == 0 && len(list) > 0 && !list[0].Mark && !m.expired(list[0].Expires) && !m.due(&list[0]) {
		list[0].Since, list[0].Until = time.Time{}, time.Time{}
		list[0].Again = m.p.Clock.Now()
		for _, last := range []time.Time{b.Modified, b.Again} {
			if last.After(list[0].Again) {
				list[0].Again = last
			}
		}
	}
	m.names[name] = list
}

// copy copies a version of a name, or its current blob, to a name.
func (m *versionModel) copy(s whole.Database, t *rapid.T, v *metastore.VersionName, name, by, owner string, expires time.Time) {
	var source *metastore.Blob
	if v == nil {
		source = m.live(name)
	} else if at := slices.IndexFunc(m.names[name], func(b metastore.Blob) bool { return v.Is(&b) }); !m.names[name][at].Mark && !m.due(&m.names[name][at]) {
		source = &m.names[name][at]
	}
	to := rapid.SampledFrom([]string{name, versionNames[m.made%len(versionNames)]}).Draw(t, "to")
	c := metastore.Copy{From: m.of(name), FromVersion: v, To: metastore.Blob{Account: m.account, Name: to, Owner: owner, By: by, Expires: expires}}
	got, err := s.CopyBlob(m.p.Ctx, c)
	if source == nil {
		m.p.Is(err, metastore.ErrNoSource, "a copy of nothing")
		return
	}
	b := *source
	b.Name, b.Owner, b.By, b.Expires, b.Since, b.Until, b.Content, b.Lock = to, owner, by, expires, time.Time{}, time.Time{}, got.Content, metastore.Lock{}
	m.commit(got, b, err)
}

func (m *versionModel) move(s whole.Database, from, to, by, owner string) {
	source := m.live(from)
	got, err := s.MoveBlob(m.p.Ctx, metastore.Move{From: m.of(from), To: m.of(to), Owner: owner, By: by})
	if source == nil {
		m.p.Is(err, metastore.ErrNoSource, "a move of nothing")
		return
	}
	if from == to {
		return
	}
	b := *source
	m.retire(from)
	m.mark(from, by, b.Owner, m.p.Clock.Now())
	b.Name, b.Owner, b.By, b.Content, b.Lock = to, owner, by, got.Content, metastore.Lock{}
	m.commit(got, b, err)
}

func (m *versionModel) upload(s whole.Database, name, by, owner string) {
	id := fmt.Sprint(m.account, "-", m.made)
	dbtest.Value(s.BeginUpload(m.p.Ctx, metastore.Upload{ID: id, Account: m.account, Name: name, Content: m.p.Content(), PartSize: 10, Owner: owner, By: by}))
	m.p.OK(s.PutPart(m.p.Ctx, id, metastore.Part{Size: 5}, []metastore.Extent{m.p.Extent(0, 0, 5)}), "a part")
	u, err := s.CompleteUpload(m.p.Ctx, id, dbtest.Value(s.Upload(m.p.Ctx, id)).Revision, 5, 9, nil)
	m.p.OK(err, "a completion")
	b := metastore.Blob{Account: m.account, Name: name, Content: u.Content, Size: 5, CRC64: 9, PartSize: 10, Owner: owner, By: u.By, Modified: u.Modified, Versioned: u.Versioned, Lock: u.Lock}
	b.SharedSecond = dbtest.Value(s.Blob(m.p.Ctx, m.account, name)).SharedSecond
	want := b
	want.By, want.Lock = by, metastore.Lock{}
	m.commit(b, want, nil)
	again := dbtest.Value(s.CompleteUpload(m.p.Ctx, id, 0, 0, 0, nil))
	m.p.Equal(again, u, "a repeated completion")
}

func (m *versionModel) set(s whole.Database, k metastore.Keeping) {
	if k.LockFor = 26 * time.Hour; !k.Locks || k.LockMode == metastore.LockNone {
		k.LockMode, k.LockFor = metastore.LockNone, 0
	}
	got, err := s.SetKeeping(m.p.Ctx, m.account, func(was *metastore.Keeping) (*actions.Act, error) {
		was.State, was.For, was.Most, was.Locks, was.LockMode, was.LockFor = k.State, k.For, k.Most, k.Locks, k.LockMode, k.LockFor
		return nil, nil
	})
	if k.Locks && k.State != metastore.KeepOn {
		m.p.Is(err, metastore.ErrLocksStay, "an account with locks that keeps nothing")
		return
	}
	m.p.OK(err, "a setting")
	m.p.Must(got.State == k.State && got.For == k.For && got.Most == k.Most, "the setting is %+v, not %+v", got, k)
	m.p.Equal(dbtest.Value(s.Keeping(m.p.Ctx, m.account)), got, "the setting")
	m.keeping = got
}

// apply treats all versions by the setting. They differ from the model's only if it has changed.
func (m *versionModel) apply(s whole.Database, limit int) {
	for more := true; more; {
		more = dbtest.Value(s.ApplyKeeping(m.p.Ctx, limit)) > 0
	}
	got := dbtest.Value(s.Keeping(m.p.Ctx, m.account))
	m.p.Must(!got.Pending, "the setting is not applied a minute after its change: %+v", got)
	if !m.keeping.Pending {
		return
	}
	m.keeping = got
	for name, list := range m.names {
		for i := range list {
			if !list[i].Since.IsZero() {
				list[i].Until = m.until(list[i].Since)
			}
		}
		m.names[name] = m.pruned(list)
	}
}

// purge removes what is due and retires what has expired. By then a further purge finds what the
// first has retired.
func (m *versionModel) purge() {
	m.p.Purge()
	for name := range m.names {
		if n := m.current(name); n == 1 && m.expired(m.names[name][0].Expires.Add(metastore.ExpiredBlobGrace)) && !m.names[name][0].Expires.IsZero() {
			b := m.names[name][0]
			m.retire(name)
			m.mark(name, "", b.Owner, b.Expires)
		}
		for i := range m.names[name] {
			if b := &m.names[name][i]; !b.Since.IsZero() && m.expired(b.Lock.Until) {
				b.Lock = metastore.Lock{Hold: b.Lock.Hold}
			}
		}
		m.names[name] = slices.DeleteFunc(m.names[name], func(b metastore.Blob) bool { return !b.Since.IsZero() && m.due(&b) })
	}
}

// shown returns the model's list of all versions.
func (m *versionModel) shown() (list []*metastore.Blob) {
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		for i := range m.names[name] {
			if b := &m.names[name][i]; b.Since.IsZero() || !m.due(b) {
				list = append(list, b)
			}
		}
	}
	return list
}

// compare reads all pages of a list, and each listed version.
func (m *versionModel) compare(s whole.Database, q metastore.ListQuery) {
	q.Account = m.account
	m.takeMarks(dbtest.Value(s.ListVersions(m.p.Ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: m.account, Limit: 1000}})).Versions)
	var got, want []metastore.Blob
	var groups, wantGroups []string
	for page := (metastore.VersionPage{}); ; {
		page = dbtest.Value(s.ListVersions(m.p.Ctx, metastore.VersionQuery{ListQuery: q, AfterVersion: page.NextVersion}))
		got, groups = append(got, page.Versions...), append(groups, page.Prefixes...)
		n := len(page.Versions) + len(page.Prefixes)
		m.p.Must(n <= q.Limit && (n == q.Limit || page.Next == ""), "a page of %d, next %q", n, page.Next)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	for _, b := range m.shown() {
		if rest, ok := strings.CutPrefix(b.Name, q.Prefix); !ok {
			continue
		} else if before, _, found := strings.Cut(rest, q.Delimiter); found && q.Delimiter != "" {
			wantGroups = append(wantGroups, q.Prefix+before+q.Delimiter)
			continue
		}
		listed := m.seen(*b)
		if b.Since.IsZero() && m.expired(b.Expires) {
			listed.Since = b.Expires
		}
		want = append(want, listed)
	}
	slices.Sort(wantGroups)
	m.p.Equal(groups, slices.Compact(wantGroups), "groups")
	m.p.Must(len(got) == len(want), "%d versions, not %d:\n got %+v\nwant %+v", len(got), len(want), got, want)
	for i, w := range want {
		m.p.Equal(got[i], w, "version %d of %.20q", i, w.Name)
		opened, extents, err := s.OpenVersion(m.p.Ctx, m.named(w))
		m.p.OK(err, "version %d", i)
		m.p.Equal(opened, w, "opened version %d", i)
		m.p.Must(len(extents) == min(1, int(w.Size)), "version %d has the extents %v", i, extents)
	}
}

// takeMarks takes over the Modified and the Content of new marks.
func (m *versionModel) takeMarks(got []metastore.Blob) {
	want := m.shown()
	for i, w := range want {
		if i < len(got) && w.Mark && w.Modified.IsZero() {
			m.p.Must(got[i].Mark && got[i].Name == w.Name, "no mark, but %+v", got[i])
			m.p.Must(i+1 >= min(len(got), len(want)) || want[i+1].Name != w.Name || got[i].Modified.After(got[min(i+1, len(got)-1)].Modified), "a mark is older than what it marks")
			w.Modified, w.Content, w.SharedSecond = got[i].Modified, got[i].Content, got[i].SharedSecond
		}
	}
}

// leave deletes all versions. Then nothing counts, and every content is garbage.
func (m *versionModel) leave() {
	m.set(m.handles[0], metastore.Keeping{State: metastore.KeepOn, Locks: m.keeping.Locks})
	for _, list := range m.names {
		for i := range list {
			if b := &list[i]; b.Lock.Hold {
				b.Lock.Hold = false
				dbtest.Value(m.handles[0].SetLock(m.p.Ctx, metastore.LockChange{VersionName: m.named(*b), Hold: &b.Lock.Hold}))
			}
		}
	}
	m.p.Clock.Advance(31 * time.Hour)
	m.apply(m.handles[0], 100)
	m.purge()
	m.compare(m.handles[0], metastore.ListQuery{Limit: 1000, Metadata: true})
	for _, b := range m.shown() {
		v := metastore.VersionName{BlobName: m.of(b.Name), Version: metastore.VersionOf(b)}
		m.p.Must(dbtest.Value(m.handles[0].DeleteVersion(m.p.Ctx, metastore.Deletion{VersionName: v})).Existed, "%+v is not there", b)
		_, _, err := m.handles[0].OpenVersion(m.p.Ctx, v)
		m.p.Must(errors.Is(err, database.ErrNotFound), "a deleted version: %v", err)
	}
	page := dbtest.Value(m.handles[0].ListVersions(m.p.Ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: m.account, Limit: 10}}))
	m.p.Equal(page, metastore.VersionPage{}, "the versions after all were deleted")
	m.p.Audited()
}
