package metatest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/access/actions"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var changeChecks = []dbtest.Check{
	check("changes/kinds", changeKinds),
	check("changes/versions", changesOfVersions),
	check("changes/rules", changesByRules),
	check("changes/none", noChanges),
	check("changes/selection", changeSelection),
	check("changes/race", changeRace),
	check("changes/gone", changesGone),
	check("changes/age", changesAge),
	check("changes/bound", changesBound),
}

// feedEnd returns the feed's end.
func (p *probe) feedEnd() metastore.FeedPosition { return dbtest.Value(p.Store.FeedEnd(p.Ctx)) }

// feedStart returns the position before an account's oldest known change, or before the oldest for
// all accounts.
func (p *probe) feedStart(account string, all bool) metastore.FeedPosition {
	return dbtest.Value(p.Store.FeedStart(p.Ctx, account, all))
}

// follow returns the changes that a query selects, a page after another, and the end. Their
// positions must ascend, and be on the page.
func (p *probe) follow(s metastore.Changes, q metastore.ChangeQuery) (list []metastore.Change, end metastore.FeedPosition) {
	q.Limit = max(q.Limit, 1)
	for {
		page, err := s.ListChanges(p.Ctx, q)
		p.OK(err, "changes behind %v", q.After)
		p.Must(len(page.Changes) <= q.Limit, "a page has %d changes, and not at most %d", len(page.Changes), q.Limit)
		at := q.After
		for _, c := range page.Changes {
			p.Must(c.Position.Generation == at.Generation && c.Position.Number > at.Number, "%v follows %v", c.Position, at)
			at = c.Position
		}
		p.Must(page.Next.Number >= at.Number && (page.Next != q.After || !page.More), "the page behind %v ends with %v, and continues at %v", q.After, at, page.Next)
		list = append(list, page.Changes...)
		if q.After = page.Next; !page.More {
			return list, q.After
		}
	}
}

// wantChange is an expected change to a blob. The blob may be a mark.
type wantChange struct {
	kind metastore.ChangeKind
	metastore.Blob
}

// changed ends the check unless these are the changes behind a position, now. It returns the end.
func (p *probe) changed(after metastore.FeedPosition, want ...wantChange) metastore.FeedPosition {
	got, end := p.follow(p.Store, metastore.ChangeQuery{After: after, All: true, Limit: 3})
	for i := range max(len(got), len(want)) {
		p.Must(i < len(got), "there is no change %q of %+v", want[min(i, len(want)-1)].kind, want[min(i, len(want)-1)].Blob)
		p.Must(i < len(want), "there is a change %+v too many", got[i])
		w := &want[i]
		p.Equal(got[i], metastore.Change{
			Position: got[i].Position, Time: p.Clock.Now(), Kind: w.kind, Account: w.Account, Name: w.Name, Version: metastore.VersionOf(&w.Blob),
			Size: w.Size, CRC64: w.CRC64, ContentType: w.ContentType, Expires: w.Expires,
		}, "change %d", i)
	}
	p.Equal(end, p.feedEnd(), "the end")
	return end
}

// changeKinds makes all changes in accounts without versions.
func changeKinds(p *probe) {
	at := p.feedEnd()
	p.Equal(p.changed(at), at, "the end of no changes")
	blob := metastore.Blob{Account: "a", Name: "n\xff", CRC64: 1 << 63, ContentType: "t/\x00", Metadata: "M: 1\n", Owner: "o", Expires: p.Clock.Now().Add(time.Hour)}
	stored := p.put(blob, p.Inline(0, 0, []byte("x")))
	at = p.changed(at, wantChange{metastore.ChangeStored, stored})
	p.Clock.Advance(time.Second)
	replaced := p.put(blob)
	at = p.changed(at, wantChange{metastore.ChangeReplaced, replaced})
	plain := p.copied(replaced, metastore.Blob{Account: "b", Name: ""})
	at = p.changed(at, wantChange{metastore.ChangeCopied, plain})
	restated := dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(plain), To: metastore.Blob{Account: "b", Name: "", ContentType: "other"}, Restated: true, KeepDate: true}))
	at = p.changed(at, wantChange{metastore.ChangeProperties, restated})
	moved := dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(restated), To: named("m")}))
	at = p.changed(at, wantChange{metastore.ChangeMovedFrom, restated}, wantChange{metastore.ChangeMovedTo, moved})
	dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("m"), To: named("m")}))
	at = p.changed(at)
	p.remove("a", "m")
	p.remove("a", "m")
	at = p.changed(at, wantChange{metastore.ChangeDeleted, moved})

	p.Begin("u", "a", "m")
	p.part("u", 0, 7)
	at = p.changed(at)
	p.Complete("u")
	completed := dbtest.Value(p.Store.Blob(p.Ctx, "a", "m"))
	at = p.changed(at, wantChange{metastore.ChangeStored, completed})
	p.Complete("u") // again
	removed := dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: metastore.VersionName{BlobName: named("m"), Null: true}}))
	at = p.changed(at, wantChange{metastore.ChangeDeleted, removed.Blob})

	p.Clock.Advance(time.Hour) // "n" has expired
	over := p.put(metastore.Blob{Account: "a", Name: "n\xff", Expires: p.Clock.Now().Add(time.Hour)})
	at = p.changed(at, wantChange{metastore.ChangeStored, over})
	p.Clock.Advance(time.Hour + metastore.ExpiredBlobGrace)
	at = p.changed(p.purgedUntil(at), wantChange{metastore.ChangeExpired, over})
	p.Purge()
	p.changed(at)
}

// purgedUntil purges and returns the position.
func (p *probe) purgedUntil(at metastore.FeedPosition) metastore.FeedPosition {
	p.Purge()
	return at
}

// changesOfVersions makes all changes of versions.
func changesOfVersions(p *probe) {
	p.lock()
	p.setKeeping(metastore.KeepOn, 3)
	at := p.feedEnd()
	put := func(name string) metastore.Blob {
		p.Clock.Advance(time.Second)
		return p.put(metastore.Blob{Account: "a", Name: name, Owner: "o"}, p.Extent(0, 0, 5))
	}
	first := put("n")
	at = p.changed(at, wantChange{metastore.ChangeStored, first})
	second := put("n")
	at = p.changed(at, wantChange{metastore.ChangeReplaced, second})
	mark := dbtest.Value(p.Store.RemoveBlob(p.Ctx, metastore.Removal{BlobName: named("n"), By: "x"})).Mark
	at = p.changed(at, wantChange{metastore.ChangeMarked, mark})
	lone := dbtest.Value(p.Store.RemoveBlob(p.Ctx, metastore.Removal{BlobName: named("none"), Mark: true})).Mark
	at = p.changed(at, wantChange{metastore.ChangeMarked, lone})
	from := versionOf(first)
	again := dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{FromVersion: &from, Restores: true, To: metastore.Blob{Account: "a", Name: "n", Owner: "o"}}))
	at = p.changed(at, wantChange{metastore.ChangeRestored, again})
	dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{FromVersion: &from, Restores: true, To: metastore.Blob{Account: "a", Name: "n", Owner: "o"}}))
	at = p.changed(at) // it is the same
	removed := dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: versionOf(again)})).Blob
	at = p.changed(at, wantChange{metastore.ChangeDeleted, removed})
	dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: versionOf(mark)}))
	at = p.changed(at, wantChange{metastore.ChangeVersionDeleted, mark}, wantChange{metastore.ChangeRestored, second})
	hold := true
	locked := dbtest.Value(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(first), Hold: &hold}))
	at = p.changed(at, wantChange{metastore.ChangeLocked, locked})
	hold = false
	dbtest.Value(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: metastore.VersionName{BlobName: named("n")}, Hold: &hold}))
	at = p.changed(at, wantChange{metastore.ChangeLocked, second})
	dbtest.Value(p.Store.SetLock(p.Ctx, metastore.LockChange{VersionName: versionOf(first), Hold: &hold}))
	at = p.changed(at, wantChange{metastore.ChangeLocked, first})
	restated := dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{FromVersion: &from, To: metastore.Blob{Account: "a", Name: "n", ContentType: "t"}, Restated: true, KeepDate: true}))
	at = p.changed(at, wantChange{metastore.ChangeProperties, restated})

	moved := dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("n"), To: metastore.BlobName{Account: "b", Name: "n"}}))
	at = p.changed(at, wantChange{metastore.ChangeMovedFrom, second}, wantChange{metastore.ChangeMovedTo, moved})

	var list []metastore.Blob
	for range 5 { // three are kept
		list = append(list, put("m"))
	}
	p.setKeeping(metastore.KeepOn, 1)
	p.Clock.Advance(time.Minute)
	p.applied()
	changes, end := p.follow(p.Store, metastore.ChangeQuery{After: at, Account: "a", Prefix: "m", Limit: 100})
	var gone []metastore.Version
	for _, c := range changes {
		if c.Kind == metastore.ChangeVersionDeleted {
			gone = append(gone, c.Version)
		}
	}
	want := []metastore.Version{metastore.VersionOf(&list[0]), metastore.VersionOf(&list[1]), metastore.VersionOf(&list[2])}
	slices.SortFunc(gone, compareVersions)
	p.Equal(gone, want, "the versions beyond the setting")

	dbtest.Value(p.Store.SetKeeping(p.Ctx, "a", func(k *metastore.Keeping) (*actions.Act, error) {
		k.For = time.Hour
		return nil, nil
	}))
	late := put("m")
	_, end = p.follow(p.Store, metastore.ChangeQuery{After: end, All: true, Limit: 100})
	p.Clock.Advance(time.Hour)
	for dbtest.Value(p.Store.PurgeVersions(p.Ctx, 10)) > 0 {
		continue
	}
	p.changed(end, wantChange{metastore.ChangeVersionDeleted, list[4]})
	p.Equal(late.Name, "m", "the version that is current")
}

func compareVersions(a, b metastore.Version) int { return slices.Compare(a[:], b[:]) }

// changesByRules lets rules remove blobs, versions and marks.
func changesByRules(p *probe) {
	p.keep()
	plain, _ := p.Put("b", "n")
	old, _ := p.Put("a", "n")
	p.Clock.Advance(time.Second)
	current, _ := p.Put("a", "n")
	expiring := p.put(metastore.Blob{Account: "a", Name: "x", Expires: p.Clock.Now().Add(time.Hour)})
	p.Clock.Advance(twoDays)
	at := p.purgedUntil(p.feedEnd())
	at = p.changed(at, wantChange{metastore.ChangeExpired, expiring})
	p.setRules("b", metastore.Rule{ID: "r", ExpireDays: 1})
	p.applyRules(10)
	at = p.changed(at, wantChange{metastore.ChangeRuleExpired, plain})
	p.setRules("a", metastore.Rule{ID: "r", Prefix: "n", DropDays: 1}, metastore.Rule{ID: "s", Prefix: "n", ExpireDays: 1})
	p.applyRules(10)
	got, end := p.follow(p.Store, metastore.ChangeQuery{After: at, All: true, Limit: 10})
	kinds := map[metastore.ChangeKind]metastore.Version{}
	for _, c := range got {
		kinds[c.Kind] = c.Version
	}
	p.Equal(kinds, map[metastore.ChangeKind]metastore.Version{
		metastore.ChangeVersionDeleted: metastore.VersionOf(&old), metastore.ChangeRuleExpired: metastore.VersionOf(&current),
	}, "changes by rules")
	p.Equal(end, p.feedEnd(), "the end")
}

// noChanges makes calls that leave no change: those that fail, and those about markers.
func noChanges(p *probe) {
	b, _ := p.Put("a", "n")
	at := p.feedEnd()
	failed := errors.New("failed")
	refuse := func(*metastore.Blob) error { return failed }
	_, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "n", Content: p.Content()}, nil, refuse)
	p.Is(err, failed, "commit")
	p.Is(dbtest.Error(p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(b), To: metastore.Blob{Account: "a", Name: "m"}, Precondition: refuse})), failed, "copy")
	p.Is(dbtest.Error(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(b), To: named("m"), Precondition: refuse})), failed, "move")
	_, _, err = dbtest.Remove(p.Ctx, p.Store, "a", "n", refuse)
	p.Is(err, failed, "removal")
	p.Is(dbtest.Error(p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("none"), To: named("m")})), metastore.ErrNoSource, "move of nothing")
	p.Begin("u", "a", "n")
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "u"))

	p.keep()
	markers := metastore.MarkersOf("a")
	for range 2 {
		p.Clock.Advance(time.Second)
		marker, _ := p.Put(markers, "dir/")
		p.copied(marker, metastore.Blob{Account: markers, Name: "other/"})
	}
	dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: metastore.BlobName{Account: markers, Name: "dir/"}, To: metastore.BlobName{Account: markers, Name: "d/"}}))
	kept := dbtest.Value(p.Store.RemoveBlob(p.Ctx, metastore.Removal{BlobName: metastore.BlobName{Account: markers, Name: "other/"}}))
	dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: metastore.VersionName{BlobName: blobName(kept.Mark), Version: metastore.VersionOf(&kept.Mark)}}))
	p.Must(p.feedEnd() == at, "there are changes: %v", dbtest.Value(p.Store.ListChanges(p.Ctx, metastore.ChangeQuery{After: at, All: true, Limit: 9})).Changes)
}

// changeSelection reads changes by account, prefix and kind, in pages of all sizes.
func changeSelection(p *probe) {
	begin := p.feedEnd()
	var all []metastore.Change
	for i := range 40 {
		account, name := []string{"a", "a\x00", "b", ""}[i%4], fmt.Sprintf("%c/%d", 'a'+i%3, i)
		p.Put(account, name)
		if i%5 == 0 {
			p.remove(account, name)
		}
	}
	all, end := p.follow(p.Store, metastore.ChangeQuery{After: begin, All: true, Limit: 1000})
	p.Must(len(all) == 48 && end == p.feedEnd(), "there are %d changes up to %v", len(all), end)
	size := func(c *metastore.Change) int64 {
		return database.EntryCharge + int64(len(c.Account)+len(c.Name)+len(c.ContentType))
	}
	for _, q := range []metastore.ChangeQuery{
		{All: true}, {All: true, Account: "a"}, {Account: "a"}, {Account: ""}, {Account: "a", Prefix: "b/"}, {All: true, Prefix: "a/1"}, {Account: "none"},
		{All: true, Kinds: metastore.ChangeKinds(0).Add(metastore.ChangeDeleted)}, {Account: "b", Kinds: metastore.ChangeKinds(0).Add(metastore.ChangeStored).Add(metastore.ChangeLocked)},
		{All: true, Kinds: metastore.ChangeKinds(0).Add(metastore.ChangeLocked)},
	} {
		var want []metastore.Change
		for _, c := range all {
			if (q.All || c.Account == q.Account) && len(c.Name) >= len(q.Prefix) && c.Name[:len(q.Prefix)] == q.Prefix && (q.Kinds == 0 || q.Kinds>>c.Kind&1 == 1) {
				want = append(want, c)
			}
		}
		for _, q.Limit = range []int{1, 2, 7, 1000} {
			for _, q.Bytes = range []int64{0, 1, 600, 1 << 20} {
				q.After = begin
				got, end := p.follow(p.Store, q)
				p.Equal(got, want, "changes for %+v", q)
				p.Equal(end, p.feedEnd(), "the end for %+v", q)
				page := dbtest.Value(p.Store.ListChanges(p.Ctx, q))
				sum := int64(0)
				for i := range page.Changes {
					sum += size(&page.Changes[i])
				}
				p.Must(q.Bytes == 0 || len(page.Changes) <= 1 || sum <= q.Bytes, "a page for %+v has %d bytes", q, sum)
			}
		}
		q.Limit, q.Bytes = 1000, 0
		for i := range all { // from each change on
			q.After = all[i].Position
			got, _ := p.follow(p.Store, q)
			rest := slices.DeleteFunc(slices.Clone(want), func(c metastore.Change) bool { return c.Position.Number <= q.After.Number })
			p.Must(len(got) == len(rest), "%d changes for %+v, and not %d", len(got), q, len(rest))
		}
	}
}

// changeRace reads changes while writers on two handles change a few names, also in calls
// that fail. No change is missed, repeated, made up, or out of its name's order.
func changeRace(p *probe) {
	const writers, writes, names = 6, 40, 3
	p.keep() // a name's versions then ascend
	handles := []whole.Database{p.Store, p.Open()}
	begin := p.feedEnd()
	var done atomic.Bool
	var mu sync.Mutex
	made := map[string]map[metastore.Version]bool{}
	var contents [writers][writes]metastore.ContentID
	for i := range contents {
		for j := range contents[i] {
			contents[i][j] = p.Content()
		}
	}
	var running atomic.Int64
	running.Store(writers)
	failed := errors.New("failed")
	var read []metastore.Change
	for i, err := range dbtest.Race(writers+1, func(i int) error {
		store := handles[i%2]
		if i == writers {
			q := metastore.ChangeQuery{After: begin, Account: "a", Limit: 7}
			for {
				last := done.Load() // before the page is read
				page, err := store.ListChanges(p.Ctx, q)
				if err != nil {
					return err
				}
				read = append(read, page.Changes...)
				if q.After = page.Next; last && !page.More {
					return nil
				}
			}
		}
		defer func() {
			if running.Add(-1) == 0 {
				done.Store(true)
			}
		}()
		for j := range writes {
			name := fmt.Sprint(j % names)
			refuse := func(*metastore.Blob) error {
				if j%4 == 3 {
					return failed
				}
				return nil
			}
			b, err := store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: name, Content: contents[i][j]}, nil, refuse)
			if errors.Is(err, failed) {
				continue
			}
			if err != nil {
				return err
			}
			mu.Lock()
			if made[name] == nil {
				made[name] = map[metastore.Version]bool{}
			}
			made[name][metastore.VersionOf(&b)] = true
			mu.Unlock()
		}
		return nil
	}) {
		p.OK(err, "worker %d", i)
	}
	last := map[string]metastore.Version{}
	at := begin
	for _, c := range read {
		p.Must(c.Position.Number > at.Number, "%v follows %v", c.Position, at)
		p.Must(made[c.Name][c.Version], "a change of %s was made up, or repeated", c.Name)
		delete(made[c.Name], c.Version)
		p.Must(compareVersions(last[c.Name], c.Version) < 0, "a change of %s is out of order", c.Name)
		at, last[c.Name] = c.Position, c.Version
	}
	for name, left := range made {
		p.Must(len(left) == 0, "%d changes of %s were missed", len(left), name)
	}
}

// gone ends the check unless changes behind a position are gone, and those behind the error's are
// not.
func (p *probe) gone(q metastore.ChangeQuery, format string, a ...any) {
	call := fmt.Sprintf(format, a...)
	q.Limit = 1
	_, err := p.Store.ListChanges(p.Ctx, q)
	var gone *metastore.ChangesGoneError
	p.Must(errors.As(err, &gone), "changes behind %s: got error %v", call, err)
	p.Equal(gone.Restart, p.feedEnd(), "the new beginning after %s", call)
	q.After = gone.Restart
	_, err = p.Store.ListChanges(p.Ctx, q)
	p.OK(err, "changes from the new beginning after %s", call)
}

// changesGone reads from positions that are not of this record.
func changesGone(p *probe) {
	begin := p.feedEnd()
	all := func(generation, number int64) metastore.ChangeQuery {
		return metastore.ChangeQuery{After: metastore.FeedPosition{Generation: generation, Number: number}, All: true}
	}
	p.gone(metastore.ChangeQuery{All: true}, "no position")
	p.gone(all(begin.Generation, 1), "a position before the first change")
	for i := range 3 {
		p.Put("a", fmt.Sprint(i))
	}
	end := p.feedEnd()
	for i, c := range p.all(begin) {
		parsed, ok := metastore.ParseFeedPosition(c.Position.String())
		p.Must(ok && parsed == c.Position && len(p.all(parsed)) == 2-i, "position %v", c.Position)
	}
	p.gone(all(end.Generation, end.Number+1), "an unknown position")
	p.gone(all(end.Generation+1, end.Number), "a later generation")
	p.gone(all(end.Generation, -1), "a negative position")
	p.OK(p.Store.BeginGeneration(p.Ctx, end.Generation, end.Generation+5, 0, database.KeptObjects{}, "test"), "a new generation")
	p.gone(all(end.Generation, end.Number), "the earlier generation")
	p.gone(all(end.Generation, end.Number-1), "the earlier generation")
	next := p.feedEnd()
	p.Must(next.Generation == end.Generation+5 && next.Number == end.Number, "the end is %v, behind %v", next, end)
	b, _ := p.Put("a", "n")
	p.changed(next, wantChange{metastore.ChangeStored, b})
}

// all returns all changes behind a position.
func (p *probe) all(at metastore.FeedPosition) []metastore.Change {
	list, _ := p.follow(p.Store, metastore.ChangeQuery{After: at, All: true, Limit: 1000})
	return list
}

// purgeChanges purges in steps of this size, and returns how many changes were removed.
func (p *probe) purgeChanges(b metastore.ChangeBounds, limit int) (all int64) {
	for step := 0; ; step++ {
		p.Must(step < 1000, "a purge does not end")
		removed, more, err := p.Store.PurgeChanges(p.Ctx, b, limit)
		p.OK(err, "purge")
		if all += removed; !more {
			return all
		}
	}
}

// unbounded bounds only the age of changes.
var unbounded = metastore.ChangeBounds{Keep: time.Hour, Changes: 1 << 40, Bytes: 1 << 40}

// reopen returns a store without anything in memory.
func (p *probe) reopen() {
	p.OK(p.Harness.Close(), "close")
	p.Store = p.Open()
}

// changesAge purges changes by their age. The newest one stays, and no position is used again.
func changesAge(p *probe) {
	begin := p.feedEnd()
	p.Equal(p.purgeChanges(unbounded, 10), int64(0), "changes that a purge of nothing removes")
	for i := range 25 {
		p.Put("a", fmt.Sprint(i))
		p.feedEnd() // a change may get its time when it becomes visible
		p.Clock.Advance(time.Minute)
	}
	list := p.all(begin)
	p.Equal(p.purgeChanges(unbounded, 7), int64(0), "young changes that were removed")
	p.Clock.Advance(40 * time.Minute)
	p.Equal(p.purgeChanges(unbounded, 7), int64(6), "old changes that were removed")
	p.gone(metastore.ChangeQuery{After: list[4].Position, All: true}, "a position before an old change")
	p.gone(metastore.ChangeQuery{After: begin, Account: "b"}, "the beginning")
	p.Equal(p.all(list[5].Position), list[6:], "the changes that are left")
	p.Equal(p.feedStart("b", false), list[5].Position, "the start after a purge")
	totals := dbtest.Value(p.Store.ChangeTotals(p.Ctx))
	p.Must(totals.Changes == 19 && totals.Bytes > 19*30 && totals.Evicted == 0 && totals.Oldest.Equal(list[6].Time), "the totals are %+v", totals)

	p.Clock.Advance(100 * time.Hour)
	p.Equal(p.purgeChanges(unbounded, 7), int64(18), "old changes that were removed")
	end := p.feedEnd()
	p.Equal(end, list[24].Position, "the end after a purge of all")
	p.reopen()
	p.Equal(p.feedEnd(), end, "the end after a restart")
	b, _ := p.Put("a", "n")
	p.changed(end, wantChange{metastore.ChangeStored, b})
	p.Equal(p.purgeChanges(unbounded, 7), int64(1), "the change that was the newest")
	p.changed(end, wantChange{metastore.ChangeStored, b})
	p.gone(metastore.ChangeQuery{After: list[23].Position, All: true}, "a position before the purged one")
}

// changesBound bounds owners' changes. An owner with too many loses its oldest, and readers of its
// accounts learn it. Other owners and readers of other accounts notice nothing.
func changesBound(p *probe) {
	begin := p.feedEnd()
	put := func(owner, account string, n int) (list []metastore.Blob) {
		for range n {
			list = append(list, p.put(metastore.Blob{Account: account, Name: fmt.Sprint(p.Next()), Owner: owner}))
			p.Clock.Advance(time.Second)
		}
		p.feedEnd()
		return list
	}
	put("", "none", 3)
	put("quiet", "quiet", 4)
	put("loud", "shared", 2)
	put("loud", "loud", 10)
	put("quiet", "shared", 3)
	put("loud", "late", 9)
	put("quiet", "last", 1)
	all := p.all(begin)
	of := func(account string) metastore.ChangeQuery {
		return metastore.ChangeQuery{After: begin, Account: account, Limit: 100}
	}
	bounds := metastore.ChangeBounds{Keep: time.Hour, Changes: 11, Bytes: 1 << 40}
	p.Equal(p.purgeChanges(bounds, 5), int64(10), "changes beyond an owner's bound")
	p.Equal(dbtest.Value(p.Store.ChangeTotals(p.Ctx)).Evicted, int64(10), "evicted changes")
	p.Equal(dbtest.Value(p.Store.ChangeTotals(p.Ctx)).Changes, int64(22), "changes that are left")
	for _, account := range []string{"quiet", "none", "late", "last", "other"} {
		got, end := p.follow(p.Store, of(account))
		want := slices.DeleteFunc(slices.Clone(all), func(c metastore.Change) bool { return c.Account != account })
		p.Must(len(got) == len(want) && end == p.feedEnd(), "account %s has %d changes, and not %d", account, len(got), len(want))
	}
	p.gone(of("loud"), "an account that lost changes")
	p.gone(of("shared"), "an account that lost another owner's changes")
	p.gone(metastore.ChangeQuery{After: begin, All: true}, "changes of all accounts")
	last := all[3+4+2+7].Position // the last one that was removed
	for _, q := range []metastore.ChangeQuery{{After: last, Account: "loud", Limit: 100}, {After: all[9].Position, Account: "shared", Limit: 100}, {After: last, All: true, Limit: 100}} {
		got, _ := p.follow(p.Store, q)
		want := slices.DeleteFunc(slices.Clone(all), func(c metastore.Change) bool {
			return c.Position.Number <= q.After.Number || !q.All && c.Account != q.Account
		})
		p.Equal(got, want, "changes behind the floor of %q", q.Account)
	}
	p.Equal(p.feedStart("loud", false), last, "the start for the account that lost changes")
	p.Equal(p.feedStart("", true), last, "the start for all accounts")
	got, _ := p.follow(p.Store, metastore.ChangeQuery{After: p.feedStart("quiet", false), Account: "quiet", Limit: 100})
	p.Equal(len(got), 4, "changes from the start for an account that lost none")
	p.Equal(p.purgeChanges(bounds, 5), int64(0), "changes beyond the bound after a purge")
	before := metastore.FeedPosition{Generation: last.Generation, Number: last.Number - 1}
	p.gone(metastore.ChangeQuery{After: before, Account: "loud"}, "the position before the floor")
	p.gone(metastore.ChangeQuery{After: before, All: true}, "the position before the greatest floor")

	bounds.Changes, bounds.Bytes = 1<<40, 200
	p.Must(p.purgeChanges(bounds, 5) > 5, "a bound of bytes removes nothing")
	totals := dbtest.Value(p.Store.ChangeTotals(p.Ctx))
	p.Must(totals.Bytes <= 3*200, "the totals are %+v", totals)
	p.Equal(p.feedEnd(), all[len(all)-1].Position, "the end")

	p.Clock.Advance(100 * time.Hour)
	p.purgeChanges(bounds, 5)
	fresh := put("loud", "loud", 2)
	got, _ = p.follow(p.Store, metastore.ChangeQuery{After: all[len(all)-1].Position, Account: "loud", Limit: 9})
	p.Must(len(got) == len(fresh), "there are %d changes behind the purged ones", len(got))
}
