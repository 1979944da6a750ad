package metatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
)

func blobChecks() []Check {
	return []Check{
		check("blobs/round-trip", blobRoundTrip),
		check("blobs/not-found", blobNotFound),
		check("blobs/overwrite", blobOverwrite),
		check("blobs/acknowledged", blobAcknowledged),
		check("blobs/delete", blobDelete),
		check("blobs/precondition", blobPrecondition),
		check("blobs/dates", blobDates),
		check("blobs/racing-creators", blobRacingCreators),
		check("blobs/expiry", blobExpiry),
		check("blobs/expired-commit", blobExpiredCommit),
		check("blobs/extent-age", blobExtentAge),
		check("blobs/oversize", blobOversize),
		check("blobs/metadata", blobMetadata),
		check("blobs/cancelled", cancelled),
		check("blobs/largest", blobLargest),
		check("blobs/large-refused", blobLargeRefused),
		check("extents/paging", extentPaging),
	}
}

// blobRoundTrip stores every field at its limits and reads it back, with another handle and after a
// reopen.
func blobRoundTrip(p *probe) {
	now := p.clock.Now()
	body := []byte{0, 1, 2, 255}
	cases := []struct {
		blob    metastore.Blob
		extents []metastore.Extent
	}{
		{metastore.Blob{Name: "empty"}, nil},
		{metastore.Blob{Name: "inline", Size: 4, CRC64: math.MaxUint64}, []metastore.Extent{p.inline(0, 0, body)}},
		{
			metastore.Blob{
				Name: "all", Size: 3*mib + 1, CRC64: 1 << 63, SHA256: bytes.Repeat([]byte{0, 0xff}, 16),
				ContentType: "text/\xff; x=\"ü\"", Metadata: "\x00a: b\n\xff", Expires: now.Add(time.Hour + 999*time.Nanosecond),
			},
			[]metastore.Extent{p.extent(0, 0, 2*mib), p.inline(0, 2*mib, bytes.Repeat([]byte("x"), mib)), p.extent(0, 3*mib, 1)},
		},
		{metastore.Blob{Name: "huge", Size: 5<<30 + 1}, p.extents(0, 5<<30+1)},
	}
	want := map[string]metastore.Blob{}
	for _, c := range cases {
		b := c.blob
		b.Account, b.Content = "account", p.content()
		got, err := p.store.CommitBlob(p.ctx, b, c.extents, nil)
		p.ok(err, "commit of %s", b.Name)
		b.Modified = now
		b.Expires = b.Expires.Truncate(time.Microsecond)
		p.equal(got, b, "commit of %s", b.Name)
		want[b.Name] = b
	}
	verify := func() {
		for _, c := range cases {
			got, err := p.store.Blob(p.ctx, "account", c.blob.Name)
			p.ok(err, "blob %s", c.blob.Name)
			p.equal(got, want[c.blob.Name], "blob %s", c.blob.Name)
			p.equal(p.allExtents(got.Content), stored(c.extents...), "extents of %s", c.blob.Name)
		}
	}
	verify()
	first := p.store
	p.store = p.open()
	verify()
	p.store = first
	p.reopen()
	verify()
}

func blobNotFound(p *probe) {
	p.put("a", "name")
	for _, c := range [][2]string{{"a", "nam"}, {"a", "name1"}, {"b", "name"}, {"a", ""}, {"", "name"}, {"an", "ame"}, {"A", "name"}} {
		_, err := p.store.Blob(p.ctx, c[0], c[1])
		p.is(err, database.ErrNotFound, "blob %q of %q", c[1], c[0])
	}
}

func blobOverwrite(p *probe) {
	old, oldExtent := p.put("a", "name")
	p.clock.Advance(time.Second)
	b, e := p.put("a", "name")
	got, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(got, b, "blob after the overwrite")
	p.equal(p.allExtents(b.Content), stored(e), "its extents")
	p.equal(p.garbage(), []metastore.ContentID{old.Content}, "garbage after the overwrite")
	p.equal(p.allExtents(old.Content), stored(oldExtent), "extents of the content that is garbage")
	p.equal(b.Modified, old.Modified.Add(time.Second), "modified")
}

// blobDates checks that a version is never older than the previous one, whether that was replaced
// or deleted, also if the clock is set back, and that it reports whether it may share its second.
func blobDates(p *probe) {
	var last time.Time
	put := func(what, name string, shared bool) {
		b, _ := p.put("a", name)
		p.must(!b.Modified.Before(last), "%s: modified at %v, the version before at %v", what, b.Modified, last)
		p.must(b.SharedSecond == shared, "%s: shares its second: %v, want %v", what, b.SharedSecond, shared)
		got, err := p.store.Blob(p.ctx, "a", name)
		p.ok(err, "blob")
		p.equal(got, b, "%s", what)
		last = b.Modified
	}
	remove := func(name string) {
		_, had, err := p.store.DeleteBlob(p.ctx, "a", name, nil)
		p.ok(err, "delete")
		p.must(had, "there was no blob to delete")
	}
	for _, name := range []string{"n", strings.Repeat("n", 3000)} {
		p.clock.Advance(time.Second - time.Duration(p.clock.Now().Nanosecond())) // a second begins
		last = time.Time{}
		put("a first version", name, false)
		p.clock.Advance(time.Second - time.Microsecond)
		put("a second one within the second", name, true)
		p.clock.Advance(time.Microsecond)
		put("one of the next second", name, false)
		p.clock.Advance(-time.Minute / 2)
		put("one with the clock set back", name, true)
		remove(name)
		put("one after a deletion, with the clock set back", name, true)
		p.clock.Advance(time.Minute)
		put("one when the clock has caught up", name, false)
		remove(name)
		put("one in the second of a deletion", name, true)
		remove(name)
		p.clock.Advance(time.Second)
		put("one in the second after a deletion", name, false)
		p.clock.Advance(time.Hour)
		remove(name)
		put("one after the deletion of an old version", name, false)
		_, err := p.store.Purge(p.ctx, 1000)
		p.ok(err, "purge")
	}
	u := p.begin("upload", "a", "n")
	done, err := p.store.CompleteUpload(p.ctx, "upload", u.Revision, 0, 0, nil)
	p.ok(err, "complete")
	b, err := p.store.Blob(p.ctx, "a", "n")
	p.ok(err, "blob")
	p.must(done.Modified.Equal(b.Modified) && !b.SharedSecond, "completed at %v as %+v", done.Modified, b)
	p.clock.Advance(-time.Second)
	u = p.begin("another", "a", "n")
	done, err = p.store.CompleteUpload(p.ctx, "another", u.Revision, 0, 0, nil)
	p.ok(err, "complete")
	got, err := p.store.Blob(p.ctx, "a", "n")
	p.ok(err, "blob")
	p.must(done.Modified.Equal(b.Modified) && got.Modified.Equal(b.Modified) && got.SharedSecond, "completed with the clock set back, at %v after %v: %+v", done.Modified, b.Modified, got)
	p.equal(p.upload("another").Modified, done.Modified, "the retained upload")
}

// blobMetadata checks that a version has exactly its own metadata, and that a page has metadata only
// if the query requests it.
func blobMetadata(p *probe) {
	large := strings.Repeat("m", 4<<10)
	for _, name := range []string{"name", strings.Repeat("n", 3000)} {
		for _, metadata := range []string{"first", large, "", "x", "", string(make([]byte, 16))} {
			for range 2 {
				b, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: name, Content: p.content(), Metadata: metadata}, nil, nil)
				p.ok(err, "commit")
				p.must(b.Metadata == metadata, "commit returns the metadata %.40q, want %.40q", b.Metadata, metadata)
				p.hasMetadata("a", name, metadata)
			}
		}
		u, err := p.store.BeginUpload(p.ctx, metastore.Upload{ID: "u" + name, Account: "a", Name: name, Content: p.content(), PartSize: 100, Metadata: large})
		p.ok(err, "begin")
		p.must(u.Metadata == large && p.upload(u.ID).Metadata == large, "an upload loses its metadata")
		list, _, err := p.store.ListUploads(p.ctx, "a", "", 10, 0)
		p.ok(err, "list uploads")
		p.must(len(list) == 1 && list[0].Metadata == large, "a listed upload loses its metadata")
		p.hasMetadata("a", name, string(make([]byte, 16)))
		p.complete(u.ID)
		p.hasMetadata("a", name, large)
		p.begin("v"+name, "a", name)
		p.complete("v" + name)
		p.hasMetadata("a", name, "")
		_, _, err = p.store.DeleteBlob(p.ctx, "a", name, nil)
		p.ok(err, "delete")
		p.put("a", name)
		p.hasMetadata("a", name, "")
		_, err = p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: name, Content: p.content(), Metadata: "last"}, nil, nil)
		p.ok(err, "commit")
		p.complete(u.ID) // repeated
		p.reopen()
		p.hasMetadata("a", name, "last")
	}
}

// hasMetadata ends the check unless every method returns this metadata of a blob.
func (p *probe) hasMetadata(account, name, want string) {
	b, err := p.store.Blob(p.ctx, account, name)
	p.ok(err, "blob")
	p.must(b.Metadata == want, "the blob has the metadata %.40q, want %.40q", b.Metadata, want)
	_, _, err = p.store.DeleteBlob(p.ctx, account, name, func(current *metastore.Blob) error {
		p.must(current != nil && current.Metadata == want, "the precondition is called with %+v", current)
		return errRefused
	})
	p.identical(err, errRefused, "delete")
	for _, asked := range []bool{false, true} {
		page, err := p.store.ListBlobs(p.ctx, metastore.ListQuery{Account: account, Prefix: name, Limit: 1, Metadata: asked})
		p.ok(err, "list")
		listed := b
		if !asked {
			listed.Metadata = ""
		}
		p.equal(page.Blobs, []metastore.Blob{listed}, "listed with metadata: %v", asked)
	}
}

// blobAcknowledged reads what was acknowledged with another handle, and after all handles were
// closed.
func blobAcknowledged(p *probe) {
	for i := range 20 {
		name := fmt.Sprint("name", i)
		b, _ := p.put("a", name)
		other := p.open()
		got, err := other.Blob(p.ctx, "a", name)
		p.ok(err, "acknowledged blob %s with another handle", name)
		p.equal(got, b, "blob with another handle")
		if i%5 != 0 {
			continue
		}
		p.reopen()
		got, err = p.store.Blob(p.ctx, "a", name)
		p.ok(err, "acknowledged blob %s after a reopen", name)
		p.equal(got, b, "blob after a reopen")
	}
}

func blobDelete(p *probe) {
	_, had, err := p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "delete of a missing blob")
	p.must(!had, "delete of a missing blob found a blob")
	b, _ := p.put("a", "name")
	other, _ := p.put("a", "name2")
	id, had, err := p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "delete")
	p.must(had && id == b.Content, "delete returned %v, %v", id, had)
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrNotFound, "deleted blob")
	p.equal(p.garbage(), []metastore.ContentID{b.Content}, "garbage")
	_, had, err = p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "second delete")
	p.must(!had, "second delete found a blob")
	got, err := p.store.Blob(p.ctx, "a", "name2")
	p.ok(err, "other blob")
	p.equal(got, other, "other blob")
}

var errRefused = errors.New("refused by the precondition")

// createOnly is the precondition of a writer that requires that there is no blob.
func createOnly(current *metastore.Blob) error {
	if current != nil {
		return errRefused
	}
	return nil
}

// identical ends the check unless err is target itself.
func (p *probe) identical(err, target error, what string) {
	p.must(err == target, "%s: got error %v, want the precondition's own", what, err) //nolint:errorlint // identity is the promise
}

func blobPrecondition(p *probe) {
	var seen []*metastore.Blob
	refuse := func(b *metastore.Blob) error {
		seen = append(seen, b)
		return errRefused
	}
	e := p.extent(0, 0, 1)
	attempt := func() error {
		_, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: "name", Content: p.content(), Size: 1}, []metastore.Extent{e}, refuse)
		return err
	}
	p.identical(attempt(), errRefused, "commit")
	_, _, err := p.store.DeleteBlob(p.ctx, "a", "name", refuse)
	p.identical(err, errRefused, "delete of a missing blob")
	for _, b := range seen {
		p.must(b == nil, "the precondition got %+v although there is no blob", b)
	}
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrNotFound, "blob that the precondition refused")

	b, _ := p.put("a", "name")
	seen = nil
	p.identical(attempt(), errRefused, "commit over a blob")
	_, _, err = p.store.DeleteBlob(p.ctx, "a", "name", refuse)
	p.identical(err, errRefused, "delete")
	p.must(len(seen) >= 2, "the precondition was not called")
	for _, s := range seen {
		p.must(s != nil, "the precondition got nil although there is a blob")
		p.equal(*s, b, "passed to the precondition")
	}
	got, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob after refusals")
	p.equal(got, b, "blob after refusals")
	p.must(len(p.garbage()) == 0, "refusals created garbage")
	free, err := p.store.Unreferenced(p.ctx, []string{e.Key})
	p.ok(err, "unreferenced")
	p.equal(free, []string{e.Key}, "keys without an extent after refusals")
}

// blobRacingCreators creates one name concurrently on two handles.
func blobRacingCreators(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	for round := range 20 {
		name := fmt.Sprint("name", round)
		const n = 16
		blobs := make([]metastore.Blob, n)
		extents := make([]metastore.Extent, n)
		for i := range n {
			blobs[i] = metastore.Blob{Account: "a", Name: name, Content: p.content(), Size: 10}
			extents[i] = p.extent(0, 0, 10)
		}
		errs := race(n, func(i int) error {
			_, err := handles[i%2].CommitBlob(p.ctx, blobs[i], extents[i:i+1], createOnly)
			return err
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				p.fail("round %d: writers %d and %d both created the blob", round, winner, i)
			case err == nil:
				winner = i
			default:
				p.is(err, errRefused, "writer %d", i)
			}
		}
		p.must(winner >= 0, "round %d: no writer created the blob", round)
		got, err := p.store.Blob(p.ctx, "a", name)
		p.ok(err, "blob")
		p.equal(got.Content, blobs[winner].Content, "content of the winner")
		p.equal(p.allExtents(got.Content), stored(extents[winner]), "extents of the winner")
	}
	p.must(len(p.garbage()) == 0, "losers left garbage")
}

func blobExpiry(p *probe) {
	expires := p.clock.Now().Add(time.Hour)
	commit := func() metastore.Blob {
		e := p.extent(0, 0, 5)
		b, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: "name", Content: p.content(), Size: 5, Expires: expires},
			[]metastore.Extent{e}, createOnly)
		p.ok(err, "create-only commit")
		return b
	}
	first := commit()
	p.clock.Advance(time.Hour - time.Microsecond)
	_, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob just before its expiry")
	p.equal(p.names("a"), []string{"name"}, "names before the expiry")

	p.clock.Advance(time.Microsecond)
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrExpired, "blob at its expiry")
	p.equal(p.names("a"), []string(nil), "names after the expiry")
	_, _, err = p.store.DeleteBlob(p.ctx, "a", "name", func(b *metastore.Blob) error {
		if b != nil {
			return fmt.Errorf("the precondition of a delete got the expired %+v", b)
		}
		return errRefused
	})
	p.identical(err, errRefused, "delete of an expired blob")

	expires = p.clock.Now().Add(time.Hour)
	second := commit() // the precondition gets nil, and the old content becomes garbage
	p.equal(p.garbage(), []metastore.ContentID{first.Content}, "garbage")
	p.clock.Advance(time.Hour + metastore.ExpiredBlobGrace - time.Microsecond)
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrExpired, "blob at the end of its grace")
	p.clock.Advance(time.Microsecond)
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrNotFound, "blob after its grace")
	id, had, err := p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "delete after the grace")
	p.must(had && id == second.Content, "delete of an expired blob returned %v, %v", id, had)
	p.must(p.isGarbage(second.Content), "its content is not garbage")
}

// blobExpiredCommit commits a blob that has expired over a live one.
func blobExpiredCommit(p *probe) {
	current, _ := p.put("a", "name")
	never := func(*metastore.Blob) error { return errRefused }
	for _, late := range []time.Duration{0, time.Microsecond, time.Hour} {
		_, err := p.store.CommitBlob(p.ctx,
			metastore.Blob{Account: "a", Name: "name", Content: p.content(), Size: 5, Expires: p.clock.Now().Add(-late)},
			[]metastore.Extent{p.extent(0, 0, 5)}, never)
		p.is(err, database.ErrExpired, "commit %v after the expiry", late)
	}
	got, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(got, current, "blob after the refusals")
	p.must(len(p.garbage()) == 0, "the refusals created garbage")
	_, err = p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: "name", Content: p.content(), Expires: p.clock.Now().Add(time.Microsecond)}, nil, nil)
	p.ok(err, "commit just before the expiry")
}

// names lists all names of an account.
func (p *probe) names(account string) []string {
	page, err := p.store.ListBlobs(p.ctx, metastore.ListQuery{Account: account, Limit: 100_000})
	p.ok(err, "list")
	var names []string
	for _, b := range page.Blobs {
		names = append(names, b.Name)
	}
	return names
}

func blobExtentAge(p *probe) {
	p.begin("upload", "a", "by-parts")
	for _, c := range []struct {
		age   time.Duration
		stale bool
	}{
		{0, false}, {-time.Minute, false},
		{metastore.MaxExtentAge, false},
		{metastore.MaxExtentAge + time.Microsecond, true},
		{10 * metastore.MaxExtentAge, true},
	} {
		for _, verb := range []string{"commit", "part"} {
			extents := []metastore.Extent{p.extent(0, 0, 1), p.extent(0, 1, 1)}
			extents[1].Created = p.clock.Now().Add(-c.age)
			var err error
			if verb == "commit" {
				_, err = p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: c.age.String(), Content: p.content(), Size: 2}, extents, nil)
			} else {
				err = p.store.PutPart(p.ctx, "upload", metastore.Part{Size: 2}, extents)
			}
			if !c.stale {
				p.ok(err, "%s of an extent aged %v", verb, c.age)
				continue
			}
			p.is(err, metastore.ErrStaleExtent, "%s of an extent aged %v", verb, c.age)
			free, err := p.store.Unreferenced(p.ctx, []string{extents[0].Key, extents[1].Key})
			p.ok(err, "unreferenced")
			p.must(len(free) == 2, "a refused %s stored an extent", verb)
		}
	}
	e := p.inline(0, 0, []byte("x"))
	e.Created = p.clock.Now().Add(-100 * metastore.MaxExtentAge)
	_, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: "inline", Content: p.content(), Size: 1}, []metastore.Extent{e}, nil)
	p.ok(err, "commit of an old inline extent")
}

// blobOversize stores values larger than any caller passes: each is refused or stored completely,
// never truncated.
func blobOversize(p *probe) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	for i, b := range []metastore.Blob{
		{Account: "a", Name: long}, {Account: long, Name: "n"}, {Account: "b", Name: "n", ContentType: long},
	} {
		b.Content, b.Size = p.content(), int64(len(long))
		e := p.inline(0, 0, []byte(long))
		got, err := p.store.CommitBlob(p.ctx, b, []metastore.Extent{e}, nil)
		if err != nil {
			_, err = p.store.Blob(p.ctx, b.Account, b.Name)
			p.is(err, database.ErrNotFound, "blob %d that was refused", i)
			continue
		}
		again, err := p.store.Blob(p.ctx, b.Account, b.Name)
		p.ok(err, "blob %d", i)
		p.equal(again, got, "blob %d", i)
		p.must(again.ContentType == b.ContentType, "content type of blob %d was changed", i)
		p.equal(p.allExtents(b.Content), stored(e), "extents of blob %d", i)
	}
	for _, cut := range []int{100, 2000, 3072, 1 << 16} {
		_, err := p.store.Blob(p.ctx, "a", long[:cut])
		p.is(err, database.ErrNotFound, "name cut at %d", cut)
	}
}

// cancelled calls methods with a context that has ended. They must return its error and have no
// effect.
func cancelled(p *probe) {
	b, _ := p.put("a", "name")
	u := p.begin("upload", "a", "by-parts")
	s, err := p.store.CreateSession(p.ctx, ledger.Session{ID: "session", Total: 5, Left: 5, Expires: p.clock.Now().Add(time.Hour)}, nil)
	p.ok(err, "create")
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	e := p.extent(0, 0, 1)
	idem := &ledger.Idempotency{Scope: "s", Key: "k"}
	for name, verb := range map[string]func() error{
		"commit": func() error {
			_, err := p.store.CommitBlob(ctx, metastore.Blob{Account: "a", Name: "name", Content: p.content(), Size: 1}, []metastore.Extent{e}, nil)
			return err
		},
		"delete": func() error { _, _, err := p.store.DeleteBlob(ctx, "a", "name", nil); return err },
		"blob":   func() error { _, err := p.store.Blob(ctx, "a", "name"); return err },
		"list": func() error {
			_, err := p.store.ListBlobs(ctx, metastore.ListQuery{Account: "a", Limit: 1})
			return err
		},
		"begin":    func() error { _, err := p.store.BeginUpload(ctx, metastore.Upload{ID: "other"}); return err },
		"part":     func() error { return p.store.PutPart(ctx, "upload", metastore.Part{Size: 1}, []metastore.Extent{e}) },
		"complete": func() error { _, err := p.store.CompleteUpload(ctx, "upload", u.Revision, 0, 0, nil); return err },
		"abort":    func() error { _, err := p.store.AbortUpload(ctx, "upload"); return err },
		"create":   func() error { _, err := p.store.CreateSession(ctx, ledger.Session{ID: "other"}, nil); return err },
		"use":      func() error { _, err := p.store.UseSession(ctx, "session", 1, nil); return err },
		"use once": func() error { _, err := p.store.UseSession(ctx, "session", 1, idem); return err },
		"channel":  func() error { _, err := p.store.OpenChannel(ctx, ledger.Channel{ID: "c"}, nil); return err },
		"purge":    func() error { _, err := p.store.Purge(ctx, 1); return err },
		"property": func() error { return p.store.SetProperty(ctx, "property", "value") },
	} {
		p.is(verb(), context.Canceled, "%s with a context that has ended", name)
	}
	got, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(got, b, "blob")
	p.equal(p.upload("upload"), u, "upload")
	left, err := p.store.Session(p.ctx, "session")
	p.ok(err, "session")
	p.equal(left, s, "session")
	for _, id := range []string{"other"} {
		_, err := p.store.Session(p.ctx, id)
		p.is(err, database.ErrNotFound, "session of a cancelled create")
		_, err = p.store.Upload(p.ctx, id)
		p.is(err, database.ErrNotFound, "upload of a cancelled begin")
	}
	_, err = p.store.Channel(p.ctx, "c")
	p.is(err, database.ErrNotFound, "channel of a cancelled open")
	_, err = p.store.Property(p.ctx, "property")
	p.is(err, database.ErrNotFound, "property of a cancelled set")
}

// extentPaging reads the extents of a content from every position.
func extentPaging(p *probe) {
	p.begin("upload", "a", "name")
	var all []metastore.Extent
	for _, part := range []int{0, 1, 2, 5} {
		extents := []metastore.Extent{p.extent(part, 0, 3), p.inline(part, 3, []byte("abcd")), p.extent(part, 7, 1), p.extent(part, 8, 12)}
		p.ok(p.store.PutPart(p.ctx, "upload", metastore.Part{Index: part, Size: 20}, extents), "part")
		all = append(all, stored(extents...)...)
	}
	content := p.complete("upload").Content
	for part := range 8 {
		for off := range int64(23) {
			first := 0
			for first < len(all) && (all[first].Part < part || all[first].Part == part && all[first].Offset+all[first].Size <= off) {
				first++
			}
			for _, limit := range []int{1, 2, 3, 5, 100} {
				got, err := p.store.Extents(p.ctx, content, metastore.Position{Part: part, Offset: off}, limit)
				p.ok(err, "extents")
				want := all[first:min(first+limit, len(all))]
				p.must(len(got) == len(want), "%d extents from part %d offset %d by %d, want %d", len(got), part, off, limit, len(want))
				if len(want) > 0 {
					p.equal(got, want, "extents from part %d offset %d by %d", part, off, limit)
				}
			}
		}
	}
	got, err := p.store.Extents(p.ctx, p.content(), metastore.Position{}, 10)
	p.ok(err, "extents of an unknown content")
	p.must(len(got) == 0, "an unknown content has extents")
}

// largeExtents returns n extents of the greatest size, with a checksum for each MiB.
func (p *probe) largeExtents(n int) []metastore.Extent {
	blocks := make([]uint32, metastore.MaxExtentSize>>20)
	for i := range blocks {
		blocks[i] = uint32(i)
	}
	list := make([]metastore.Extent, n)
	for i := range list {
		list[i] = p.extent(0, int64(i)*metastore.MaxExtentSize, metastore.MaxExtentSize)
		list[i].Blocks = blocks
	}
	return list
}

// blobLargest commits the largest possible blob, of 5 TiB, over another one, and checks its
// beginning, middle, end and all its keys. Then it is overwritten.
func blobLargest(p *probe) {
	const size = 5 << 40
	old, _ := p.put("a", "name")
	extents := p.largeExtents(size / metastore.MaxExtentSize)
	b, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: "name", Content: p.content(), Size: size, Owner: "o"}, extents, nil)
	p.ok(err, "commit of %d extents", len(extents))
	got, err := p.open().Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(got, b, "blob")
	p.equal(p.garbage(), []metastore.ContentID{old.Content}, "garbage")
	for _, at := range []int{0, 1, 2047, 2048, len(extents) / 2, len(extents) - 1} {
		end := min(at+3, len(extents))
		part, err := p.store.Extents(p.ctx, b.Content, metastore.Position{Offset: extents[at].Offset}, 3)
		p.ok(err, "extents")
		p.equal(part, stored(extents[at:end]...), "extents from the %dth", at)
	}
	for some := range slices.Chunk(extents, 1000) {
		keys := make([]string, 0, len(some))
		for _, e := range some {
			keys = append(keys, e.Key)
		}
		free, err := p.store.Unreferenced(p.ctx, keys)
		p.ok(err, "unreferenced")
		p.must(len(free) == 0, "%d of the objects are not referenced", len(free))
	}
	used, err := p.store.Usage(p.ctx, "o")
	p.ok(err, "usage")
	p.must(used.Bytes == size, "%d bytes are used", used.Bytes)
	p.put("a", "name")
	p.must(p.isGarbage(b.Content), "the overwritten content is not garbage")
}

// blobLargeRefused has a blob of many extents refused by its precondition, and because of the age
// of the last extent. Nothing may be visible or count as used, and the extents stored ahead must be
// due garbage.
func blobLargeRefused(p *probe) {
	const n = 5000
	old, _ := p.put("a", "name")
	refused := errors.New("refused")
	for _, want := range []error{refused, metastore.ErrStaleExtent} {
		extents := p.largeExtents(n)
		var precondition metastore.Precondition
		if errors.Is(want, refused) {
			precondition = func(*metastore.Blob) error { return refused }
		} else {
			extents[n-1].Created = p.clock.Now().Add(-metastore.MaxExtentAge - time.Second)
		}
		content := p.content()
		_, err := p.store.CommitBlob(p.ctx,
			metastore.Blob{Account: "a", Name: "name", Content: content, Size: n * metastore.MaxExtentSize, Owner: "o"}, extents, precondition)
		p.is(err, want, "commit of %d extents", n)
		got, err := p.store.Blob(p.ctx, "a", "name")
		p.ok(err, "blob")
		p.equal(got, old, "blob after a refused commit")
		p.must(p.isGarbage(content) || len(p.allExtents(content)) == 0, "the extents stored ahead of a refused commit are not due garbage")
		used, err := p.store.Usage(p.ctx, "o")
		p.ok(err, "usage")
		p.must(used.Bytes == 0, "%d bytes of a refused commit are used", used.Bytes)
	}
}
