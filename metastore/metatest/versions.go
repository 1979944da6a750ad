package metatest

import (
	"fmt"
	"sync/atomic"
	"time"

	"sluice/access/actions"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var versionChecks = []dbtest.Check{
	check("versions/history", versionHistory),
	check("versions/set-while-written", versionsSetWhileWritten),
	check("versions/writers", versionWriters),
	check("versions/clock", versionsOfAClock),
	check("versions/former", versionsOfAFormerSetting),
	check("versions/restated", versionRestated),
	check("versions/selection", versionSelection),
	check("versions/null", versionNull),
	check("versions/marks", versionMarks),
	check("versions/spared", versionSpared),
	check("versions/again", versionAgain),
	check("versions/restored-twice", versionRestoredTwice),
}

// keep makes account a keep versions.
func (p *probe) keep() { p.setKeeping(metastore.KeepOn) }

func (p *probe) setKeeping(state metastore.KeepState, most ...int) {
	dbtest.Value(p.Store.SetKeeping(p.Ctx, "a", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State = state
		for _, n := range most {
			k.Most = n
		}
		return nil, nil
	}))
}

// versions returns a name's versions, the newest first. They must have strictly descending
// Modified.
func (p *probe) versions(name string) []metastore.Blob {
	list := dbtest.Value(p.Store.ListVersions(p.Ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: "a", Prefix: name, Limit: 1000, Metadata: true}})).Versions
	for i := range list[min(1, len(list)):] {
		p.Must(list[i].Modified.After(list[i+1].Modified), "a version at %v follows one at %v", list[i].Modified, list[i+1].Modified)
	}
	return list
}

// versionsSetWhileWritten replaces blobs while the account begins to keep versions. Each write that
// begins afterwards keeps the blob that it replaces.
func versionsSetWhileWritten(p *probe) {
	const writers, writes = 4, 25
	handles := []whole.Database{p.Store, p.Open()}
	var set atomic.Bool
	var after [writers]int
	contents := make([][]metastore.ContentID, writers)
	for i := range contents {
		for range writes {
			contents[i] = append(contents[i], p.Content())
		}
	}
	for i, err := range dbtest.Race(writers+1, func(i int) error {
		if i == writers {
			p.keep()
			set.Store(true)
			return nil
		}
		for n := 0; n < writes || !set.Load() || after[i] < 3; n++ {
			kept := set.Load()
			id := metastore.NewContentID(p.Clock.Now())
			if n < writes {
				id = contents[i][n]
			}
			b, err := handles[i%2].CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: fmt.Sprint(i), Content: id}, nil, nil)
			if err != nil {
				return err
			}
			if kept {
				if after[i]++; !b.Versioned {
					return fmt.Errorf("a write after the setting is not versioned: %+v", b)
				}
			}
		}
		return nil
	}) {
		p.OK(err, "writer %d", i)
	}
	for i, n := range after {
		p.Must(len(p.versions(fmt.Sprint(i))) >= n, "%d versions after %d writes", len(p.versions(fmt.Sprint(i))), n)
	}
	p.Audited()
}

// versionWriters replaces and removes one blob by several writers. Each call leaves one version.
func versionWriters(p *probe) {
	p.keep()
	p.Put("a", "n")
	handles := []whole.Database{p.Store, p.Open()}
	const writers, writes = 6, 5
	for i, err := range dbtest.Race(writers, func(i int) error {
		for range writes {
			var err error
			if i%3 == 0 {
				_, err = handles[i%2].RemoveBlob(p.Ctx, metastore.Removal{BlobName: named("n"), Mark: true})
			} else {
				_, err = handles[i%2].CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(p.Clock.Now())}, nil, nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		p.OK(err, "writer %d", i)
	}
	p.Must(len(p.versions("n")) == 1+writers*writes, "%d versions after %d commits and removals", len(p.versions("n")), 1+writers*writes)
	p.Audited()
}

// versionsOfAClock commits and removes while the clock stands still, and after it has gone back.
func versionsOfAClock(p *probe) {
	p.keep()
	for i := range 12 {
		if i == 6 {
			p.Clock.Advance(-time.Hour)
		}
		if i%3 == 2 {
			p.remove("a", "n")
		} else {
			p.Put("a", "n")
		}
	}
	p.Must(len(p.versions("n")) == 12, "%d versions of 12 commits and removals", len(p.versions("n")))
}

// versionRestated changes the metadata of a current version, and of one that is not, in place.
func versionRestated(p *probe) {
	p.keep()
	first := p.put(metastore.Blob{Account: "a", Name: "n", Metadata: "first"}, p.Extent(0, 0, 7))
	second := p.put(metastore.Blob{Account: "a", Name: "n", Metadata: "second"}, p.Extent(0, 0, 8))
	for i, b := range []metastore.Blob{first, second} {
		v := metastore.VersionName{BlobName: named("n"), Version: metastore.VersionOf(&b)}
		dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{
			FromVersion: &v, Restated: true, KeepDate: true, To: metastore.Blob{Account: "a", Name: "n", Metadata: fmt.Sprint("restated", i)},
		}))
		got, _, err := p.Store.OpenVersion(p.Ctx, v)
		p.OK(err, "the restated version")
		p.Must(got.Metadata == fmt.Sprint("restated", i) && got.Modified.Equal(b.Modified) && got.Size == b.Size, "restated: %+v", got)
	}
	p.Must(len(p.versions("n")) == 2, "%d versions", len(p.versions("n")))
	p.Equal(dbtest.Value(p.Store.BlobsWith(p.Ctx, []metastore.ContentID{first.Content})), []metastore.BlobContent{{BlobName: named("n"), Version: metastore.VersionOf(&first), Content: first.Content}}, "the version with a content")
	p.Audited()
}

// versionsOfAFormerSetting changes for how long versions are kept: the one that there is goes by
// the last setting, whether that is shorter, longer or has no end.
func versionsOfAFormerSetting(p *probe) {
	p.keep()
	p.Put("a", "n")
	p.Put("a", "n")
	for _, lasts := range []time.Duration{2 * time.Hour, time.Hour, 3 * time.Hour, 0, time.Hour} {
		p.setLocks(func(k *metastore.Keeping) { k.For = lasts })
		p.Clock.Advance(time.Minute) // the last writes by the former setting have ended
		p.applied()
		v, until := p.versions("n")[1], time.Time{}
		if lasts > 0 {
			until = v.Since.Add(lasts)
		}
		p.Must(v.Until.Equal(until), "kept for %v: %+v, want until %v", lasts, v, until)
	}
}

// versionSelection lists versions by queries that name other blobs, or U+0000, which no blob's name
// has: only versions of names with the prefix are listed, and no group ends within a stored name.
func versionSelection(p *probe) {
	p.keep()
	var last metastore.Version
	for _, name := range []string{"a/x", "a/x", "b/y", "b/y"} {
		b := p.put(metastore.Blob{Account: "a", Name: name})
		last = metastore.VersionOf(&b)
	}
	last[0] = 0x70 // of a later time, so that the current one follows
	for _, c := range []struct {
		q     metastore.ListQuery
		after metastore.Version
		want  int
	}{
		{metastore.ListQuery{Prefix: "a/", After: "b/y"}, last, 0},
		{metastore.ListQuery{Prefix: "a/", After: "b/y", Delimiter: "/"}, last, 0},
		{metastore.ListQuery{After: "b/y", Delimiter: "/"}, last, 0},
		{metastore.ListQuery{Prefix: "b/", After: "b/y", Delimiter: "/"}, last, 2},
		{metastore.ListQuery{After: "a/x\x00"}, metastore.Version{}, 2},
		{metastore.ListQuery{Prefix: "a/x\x00"}, metastore.Version{}, 0},
		{metastore.ListQuery{Delimiter: "\x00"}, metastore.Version{}, 4},
		{metastore.ListQuery{Delimiter: "y\x00"}, metastore.Version{}, 4},
	} {
		c.q.Account, c.q.Limit = "a", 100
		page := dbtest.Value(p.Store.ListVersions(p.Ctx, metastore.VersionQuery{ListQuery: c.q, AfterVersion: c.after}))
		for _, prefix := range page.Prefixes {
			p.Must(prefix[len(prefix)-1] == '/', "%+v: the group %q", c.q, prefix)
		}
		p.Must(len(page.Versions) == c.want, "%+v behind %v: %+v, want %d", c.q, c.after, page, c.want)
	}
}

// versionNull has the same name written before versions are kept, while they are, and afterwards:
// there is one version at most that is not Versioned.
func versionNull(p *probe) {
	null := metastore.VersionName{BlobName: named("n"), Null: true}
	for i, kept := range []int{1, 2, 2, 2, 3} { // versions after the write
		if states := []metastore.KeepState{metastore.KeepNever, metastore.KeepOn, metastore.KeepOff, metastore.KeepOff, metastore.KeepOn}; i > 0 {
			p.setKeeping(states[i])
		}
		b, _ := p.Put("a", "n")
		p.Must(len(p.versions("n")) == kept, "%d versions after write %d", len(p.versions("n")), i)
		got, _, err := p.Store.OpenVersion(p.Ctx, null)
		p.OK(err, "the null version")
		p.Must(got.Since.IsZero() == !b.Versioned, "the null version after write %d: %+v", i, got)
	}
	p.setKeeping(metastore.KeepOff)
	p.remove("a", "n")
	got, _, err := p.Store.OpenVersion(p.Ctx, null)
	p.OK(err, "the null version")
	p.Must(got.Mark && len(p.versions("n")) == 3, "after a removal the null version is %+v of %d", got, len(p.versions("n")))
	p.Audited()
}

// versionMarks removes a name twice. The blob becomes current when both marks are gone.
func versionMarks(p *probe) {
	p.keep()
	b, e := p.Put("a", "n")
	var marks []metastore.Blob
	for range 2 {
		marks = append(marks, dbtest.Value(p.Store.RemoveBlob(p.Ctx, metastore.Removal{BlobName: named("n"), Mark: true, Owner: "x"})).Mark)
	}
	for i := range marks {
		p.missing(named("n"), "a removed blob")
		v := metastore.VersionName{BlobName: named("n"), Version: metastore.VersionOf(&marks[1-i])}
		p.Equal(dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: v})).Blob, marks[1-i], "a deleted mark")
	}
	b.Again = marks[0].Modified
	p.reads(b, stored(e), "the deletion of its marks")
	p.Audited()
}

// spare is the precondition that no version goes.
func spare(current *metastore.Blob) error {
	if current == metastore.VersionGoes {
		return errRefused
	}
	return nil
}

// stores stores a blob by each kind of write, with the precondition spare. Each write must be
// refused, or the first one must not be.
func (p *probe) stores(name string, lasts time.Duration, refused bool, when string) {
	expires := time.Time{}
	if lasts > 0 {
		expires = p.Clock.Now().Add(lasts)
	}
	before := p.versions(name)
	to := metastore.Blob{Account: "a", Name: name, Content: p.Content(), Expires: expires}
	other := p.put(metastore.Blob{Account: "other", Name: "o", Expires: expires})
	id := fmt.Sprint("spared", to.Content)
	dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: id, Account: "a", Name: name, Content: p.Content(), PartSize: 1, Expires: expires}))
	for i, write := range []func() error{
		func() error { return dbtest.Error(p.Store.CommitBlob(p.Ctx, to, nil, spare)) },
		func() error {
			return dbtest.Error(p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(other), To: to, Precondition: spare}))
		},
		func() error {
			return dbtest.Error(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(other), To: blobName(to), Precondition: spare}))
		},
		func() error { return dbtest.Error(p.Store.CompleteUpload(p.Ctx, id, 0, 0, 0, spare)) },
	} {
		err := write()
		if !refused {
			p.OK(err, "%s", when)
			return
		}
		p.identical(err, errRefused, fmt.Sprintf("write %d %s", i, when))
	}
	p.Equal(p.versions(name), before, "the versions %s", when)
}

// versionSpared stores blobs where a version would go: at once, because there are as many as the
// account keeps or because only one may not be Versioned, or when the blob expires.
func versionSpared(p *probe) {
	p.setKeeping(metastore.KeepOn, 2)
	p.stores("n", time.Minute, false, "without versions")
	p.Clock.Advance(time.Minute)
	p.stores("n", time.Minute, false, "over one that has expired")
	p.Clock.Advance(time.Minute)
	p.stores("n", time.Minute, true, "with one version and one that has expired")
	p.stores("n", 0, false, "that does not expire")
	p.remove("a", "n")
	p.stores("n", time.Minute, true, "with two versions and a mark")
	p.stores("n", 0, false, "that does not expire, behind a mark")
	p.stores("n", 0, true, "over a blob, with two versions")
	p.setKeeping(metastore.KeepOn, 0)
	p.stores("n", time.Minute, false, "without a greatest number")

	p.setKeeping(metastore.KeepOff)
	p.Put("a", "m")
	p.setKeeping(metastore.KeepOn)
	p.remove("a", "m")
	p.setKeeping(metastore.KeepOff)
	p.stores("m", 0, true, "where the version is not Versioned")
	p.Put("a", "m")
	p.remove("a", "m")
	p.stores("m", 0, false, "where nothing but a mark is not Versioned")
	p.Audited()
}

// versionAgain removes newer versions for good, so that an older one is current again: since the
// removal, and not before the newer one's time. Blobs that are stored later are newer than both.
func versionAgain(p *probe) {
	p.keep()
	start := p.Clock.Now()
	first, e := p.Put("a", "n")
	version := func(b metastore.Blob) metastore.VersionName {
		return metastore.VersionName{BlobName: named("n"), Version: metastore.VersionOf(&b)}
	}
	for _, back := range []time.Duration{0, time.Hour} {
		p.Clock.Advance(time.Minute)
		second, _ := p.Put("a", "n")
		p.Clock.Advance(time.Minute - back)
		if first.Again = p.Clock.Now(); back > 0 {
			first.Again = second.Modified
		}
		dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: version(second)}))
		p.reads(first, stored(e), "the deletion of a newer version")
	}
	p.Must(first.Modified.Equal(start), "the version has the date %v", first.Modified)
	third, _ := p.Put("a", "n")
	p.Must(third.Modified.After(first.Again) && third.SharedSecond && third.Again.IsZero(), "behind a version that is current again since %v: %+v", first.Again, third)
	p.Must(p.versions("n")[1].Again.IsZero(), "a version that is not current is current again")
	dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: version(third)}))
	p.setKeeping(metastore.KeepOff)
	dbtest.Value(p.Store.DeleteVersion(p.Ctx, metastore.Deletion{VersionName: version(first)}))
	again, _ := p.Put("a", "n")
	p.Must(!again.Modified.Before(third.Modified) && again.SharedSecond, "behind deleted versions: %+v after %v", again, third.Modified)
	p.Audited()
}

// versionRestoredTwice restores versions of every kind of content twice, and with other members: a
// restoration makes a version only if the current one differs.
func versionRestoredTwice(p *probe) {
	p.keep()
	for i, kinds := range [][2][]metastore.Extent{
		{{p.Extent(0, 0, 7)}, {p.Extent(0, 0, 7)}}, {{p.Inline(0, 0, []byte("7 bytes"))}, {p.Inline(0, 0, []byte("7 other"))}}, {nil, {p.Extent(0, 0, 7)}},
	} {
		name := fmt.Sprint("n", i)
		first := p.put(metastore.Blob{Account: "a", Name: name, ContentType: "t", Metadata: "m"}, kinds[0]...)
		other := p.put(metastore.Blob{Account: "a", Name: name, ContentType: "t", Metadata: "m"}, kinds[1]...)
		restore := func(b metastore.Blob, to metastore.Blob) metastore.Blob {
			v := metastore.VersionName{BlobName: blobName(b), Version: metastore.VersionOf(&b)}
			to.Account, to.Name = "a", name
			return dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{FromVersion: &v, Restores: true, To: to}))
		}
		restored := restore(first, metastore.Blob{By: "first"})
		p.Must(len(p.versions(name)) == 3 && restored.By == "first", "a restoration: %+v", restored)
		for _, again := range []metastore.Blob{first, restored} {
			p.Equal(restore(again, metastore.Blob{By: "second"}), restored, "a repeated restoration")
		}
		p.Must(len(p.versions(name)) == 3, "%d versions after a repeated restoration of content %d", len(p.versions(name)), i)
		restore(first, metastore.Blob{Owner: "x"})
		p.Must(len(p.versions(name)) == 4, "%d versions after a restoration for another owner", len(p.versions(name)))
		restore(other, metastore.Blob{})
		p.remove("a", name)
		restore(other, metastore.Blob{})
		p.Must(len(p.versions(name)) == 7, "%d versions after a restoration of another version and of a deleted blob", len(p.versions(name)))
	}
	p.Audited()
}
