package metatest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var blobChecks = []dbtest.Check{
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
	check("blobs/largest", blobLargest),
	check("blobs/large-refused", blobLargeRefused),
	check("extents/paging", extentPaging),
}

// blobRoundTrip stores every field at its limits and reads it back, with another handle and after a
// reopen.
func blobRoundTrip(p *probe) {
	now := p.Clock.Now()
	body := []byte{0, 1, 2, 255}
	cases := []struct {
		blob    metastore.Blob
		extents []metastore.Extent
	}{
		{metastore.Blob{Name: "empty"}, nil},
		{metastore.Blob{Name: "inline", Size: 4, CRC64: math.MaxUint64}, []metastore.Extent{p.Inline(0, 0, body)}},
		{
			metastore.Blob{
				Name: "all", Size: 3*dbtest.MiB + 1, CRC64: 1 << 63, SHA256: bytes.Repeat([]byte{0, 0xff}, 16),
				ContentType: "text/\xff; x=\"ü\"", Metadata: "\x00a: b\n\xff", Expires: now.Add(time.Hour + 999*time.Nanosecond),
			},
			[]metastore.Extent{p.Extent(0, 0, 2*dbtest.MiB), p.Inline(0, 2*dbtest.MiB, bytes.Repeat([]byte("x"), dbtest.MiB)), p.Extent(0, 3*dbtest.MiB, 1)},
		},
		{metastore.Blob{Name: "huge", Size: 5<<30 + 1}, p.extents(0, 5<<30+1)},
	}
	want := map[string]metastore.Blob{}
	for _, c := range cases {
		b := c.blob
		b.Account, b.Content = "account", p.Content()
		got, err := p.Store.CommitBlob(p.Ctx, b, c.extents, nil)
		p.OK(err, "commit of %s", b.Name)
		b.Modified = now
		b.Expires = b.Expires.Truncate(time.Microsecond)
		p.Equal(got, b, "commit of %s", b.Name)
		want[b.Name] = b
	}
	verify := func() {
		for _, c := range cases {
			got, err := p.Store.Blob(p.Ctx, "account", c.blob.Name)
			p.OK(err, "blob %s", c.blob.Name)
			p.Equal(got, want[c.blob.Name], "blob %s", c.blob.Name)
			p.Equal(p.allExtents(got.Content), stored(c.extents...), "extents of %s", c.blob.Name)
		}
	}
	verify()
	first := p.Store
	p.Store = p.Open()
	verify()
	p.Store = first
	p.Reopen()
	verify()
}

func blobNotFound(p *probe) {
	p.Put("a", "name")
	for _, c := range [][2]string{{"a", "nam"}, {"a", "name1"}, {"b", "name"}, {"a", ""}, {"", "name"}, {"an", "ame"}, {"A", "name"}} {
		p.Is(dbtest.Error(p.Store.Blob(p.Ctx, c[0], c[1])), database.ErrNotFound, "blob %q of %q", c[1], c[0])
	}
}

func blobOverwrite(p *probe) {
	old, oldExtent := p.Put("a", "name")
	p.Clock.Advance(time.Second)
	b, e := p.Put("a", "name")
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), b, "blob after the overwrite")
	p.Equal(p.allExtents(b.Content), stored(e), "its extents")
	p.Equal(p.Garbage(), []metastore.ContentID{old.Content}, "garbage after the overwrite")
	p.Equal(p.allExtents(old.Content), stored(oldExtent), "extents of the content that is garbage")
	p.Equal(b.Modified, old.Modified.Add(time.Second), "modified")
}

// blobDates checks that a version is never older than the previous one, whether that was replaced
// or deleted, even if the clock is set back, and that it reports whether it may share its second.
func blobDates(p *probe) {
	var last time.Time
	put := func(when, name string, shared bool) {
		b, _ := p.Put("a", name)
		p.Must(!b.Modified.Before(last), "%s: modified at %v, the version before at %v", when, b.Modified, last)
		p.Must(b.SharedSecond == shared, "%s: shares its second: %v, want %v", when, b.SharedSecond, shared)
		got := dbtest.Value(p.Store.Blob(p.Ctx, "a", name))
		p.Equal(got, b, "%s", when)
		last = b.Modified
	}
	remove := func(name string) {
		_, had, err := dbtest.Remove(p.Ctx, p.Store, "a", name, nil)
		p.OK(err, "delete")
		p.Must(had, "there was no blob to delete")
	}
	for _, name := range []string{"n", strings.Repeat("n", 3000)} {
		p.Clock.Advance(time.Second - time.Duration(p.Clock.Now().Nanosecond())) // a second begins
		last = time.Time{}
		put("a first version", name, false)
		p.Clock.Advance(time.Second - time.Microsecond)
		put("a second one within the second", name, true)
		p.Clock.Advance(time.Microsecond)
		put("one of the next second", name, false)
		p.Clock.Advance(-time.Minute / 2)
		put("one with the clock set back", name, true)
		remove(name)
		put("one after a deletion, with the clock set back", name, true)
		p.Clock.Advance(time.Minute)
		put("one when the clock has caught up", name, false)
		remove(name)
		put("one in the second of a deletion", name, true)
		remove(name)
		p.Clock.Advance(time.Second)
		put("one in the second after a deletion", name, false)
		p.Clock.Advance(time.Hour)
		remove(name)
		put("one after the deletion of an old version", name, false)
		dbtest.Value(p.Store.Purge(p.Ctx, 1000))
	}
	u := p.Begin("upload", "a", "n")
	done := dbtest.Value(p.Store.CompleteUpload(p.Ctx, "upload", u.Revision, 0, 0, nil))
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a", "n"))
	p.Must(done.Modified.Equal(b.Modified) && !b.SharedSecond, "completed at %v as %+v", done.Modified, b)
	p.Clock.Advance(-time.Second)
	u = p.Begin("another", "a", "n")
	done = dbtest.Value(p.Store.CompleteUpload(p.Ctx, "another", u.Revision, 0, 0, nil))
	got := dbtest.Value(p.Store.Blob(p.Ctx, "a", "n"))
	p.Must(done.Modified.Equal(b.Modified) && got.Modified.Equal(b.Modified) && got.SharedSecond, "completed with the clock set back, at %v after %v: %+v", done.Modified, b.Modified, got)
	p.Equal(p.Upload("another").Modified, done.Modified, "the retained upload")
}

// blobMetadata checks that a version has exactly its own metadata, and that a page has metadata
// only if the query requests it.
func blobMetadata(p *probe) {
	large := strings.Repeat("m", 4<<10)
	for _, name := range []string{"name", strings.Repeat("n", 3000)} {
		for _, metadata := range []string{"first", large, "", "x", "", string(make([]byte, 16))} {
			for range 2 {
				b := dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: name, Content: p.Content(), Metadata: metadata}, nil, nil))
				p.Must(b.Metadata == metadata, "commit returns the metadata %.40q, want %.40q", b.Metadata, metadata)
				p.hasMetadata("a", name, metadata)
			}
		}
		u := dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: "u" + name, Account: "a", Name: name, Content: p.Content(), PartSize: 100, Metadata: large}))
		p.Must(u.Metadata == large && p.Upload(u.ID).Metadata == large, "an upload loses its metadata")
		list, _, err := p.Store.ListUploads(p.Ctx, "a", "", 10, 0)
		p.OK(err, "list uploads")
		p.Must(len(list) == 1 && list[0].Metadata == large, "a listed upload loses its metadata")
		p.hasMetadata("a", name, string(make([]byte, 16)))
		p.Complete(u.ID)
		p.hasMetadata("a", name, large)
		p.Begin("v"+name, "a", name)
		p.Complete("v" + name)
		p.hasMetadata("a", name, "")
		p.remove("a", name)
		p.Put("a", name)
		p.hasMetadata("a", name, "")
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: name, Content: p.Content(), Metadata: "last"}, nil, nil))
		p.Complete(u.ID) // repeated
		p.Reopen()
		p.hasMetadata("a", name, "last")
	}
}

// hasMetadata ends the check unless every method returns this blob's metadata.
func (p *probe) hasMetadata(account, name, want string) {
	b := dbtest.Value(p.Store.Blob(p.Ctx, account, name))
	p.Must(b.Metadata == want, "the blob has the metadata %.40q, want %.40q", b.Metadata, want)
	_, _, err := dbtest.Remove(p.Ctx, p.Store, account, name, func(current *metastore.Blob) error {
		p.Must(current != nil && current.Metadata == want, "the precondition is called with %+v", current)
		return errRefused
	})
	p.identical(err, errRefused, "delete")
	for _, asked := range []bool{false, true} {
		page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: account, Prefix: name, Limit: 1, Metadata: asked}))
		listed := b
		if !asked {
			listed.Metadata = ""
		}
		p.Equal(page.Blobs, []metastore.Blob{listed}, "listed with metadata: %v", asked)
	}
}

// blobAcknowledged reads acknowledged blobs with another handle, and after all handles were closed.
func blobAcknowledged(p *probe) {
	for i := range 20 {
		name := fmt.Sprint("name", i)
		b, _ := p.Put("a", name)
		other := p.Open()
		got, err := other.Blob(p.Ctx, "a", name)
		p.OK(err, "acknowledged blob %s with another handle", name)
		p.Equal(got, b, "blob with another handle")
		if i%5 != 0 {
			continue
		}
		p.Reopen()
		got, err = p.Store.Blob(p.Ctx, "a", name)
		p.OK(err, "acknowledged blob %s after a reopen", name)
		p.Equal(got, b, "blob after a reopen")
	}
}

func blobDelete(p *probe) {
	_, had, err := dbtest.Remove(p.Ctx, p.Store, "a", "name", nil)
	p.OK(err, "delete of a missing blob")
	p.Must(!had, "delete of a missing blob found a blob")
	b, _ := p.Put("a", "name")
	other, _ := p.Put("a", "name2")
	id, had, err := dbtest.Remove(p.Ctx, p.Store, "a", "name", nil)
	p.OK(err, "delete")
	p.Must(had && id == b.Content, "delete returned %v, %v", id, had)
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrNotFound, "deleted blob")
	p.Equal(p.Garbage(), []metastore.ContentID{b.Content}, "garbage")
	_, had, err = dbtest.Remove(p.Ctx, p.Store, "a", "name", nil)
	p.OK(err, "second delete")
	p.Must(!had, "second delete found a blob")
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name2")), other, "other blob")
}

var errRefused = errors.New("refused by the precondition")

// createOnly is the precondition that there is no blob.
func createOnly(current *metastore.Blob) error {
	if current != nil {
		return errRefused
	}
	return nil
}

// identical ends the check unless err is target itself.
func (p *probe) identical(err, target error, call string) {
	// Identity is the promise.
	p.Must(err == target, "%s: got error %v, want the precondition's own", call, err) //nolint:errorlint
}

func blobPrecondition(p *probe) {
	var seen []*metastore.Blob
	refuse := func(b *metastore.Blob) error {
		seen = append(seen, b)
		return errRefused
	}
	e := p.Extent(0, 0, 1)
	attempt := func() error {
		return dbtest.Error(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: 1}, []metastore.Extent{e}, refuse))
	}
	p.identical(attempt(), errRefused, "commit")
	_, _, err := dbtest.Remove(p.Ctx, p.Store, "a", "name", refuse)
	p.identical(err, errRefused, "delete of a missing blob")
	for _, b := range seen {
		p.Must(b == nil, "the precondition got %+v although there is no blob", b)
	}
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrNotFound, "blob that the precondition refused")

	b, _ := p.Put("a", "name")
	seen = nil
	p.identical(attempt(), errRefused, "commit over a blob")
	_, _, err = dbtest.Remove(p.Ctx, p.Store, "a", "name", refuse)
	p.identical(err, errRefused, "delete")
	p.Must(len(seen) >= 2, "the precondition was not called")
	for _, s := range seen {
		p.Must(s != nil, "the precondition got nil although there is a blob")
		p.Equal(*s, b, "passed to the precondition")
	}
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), b, "blob after refusals")
	p.Must(len(p.Garbage()) == 0, "refusals created garbage")
	p.Equal(dbtest.Value(p.Store.Unreferenced(p.Ctx, []string{e.Object})), []string{e.Object}, "keys without an extent after refusals")
}

// blobRacingCreators creates one name concurrently on two handles.
func blobRacingCreators(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 20 {
		name := fmt.Sprint("name", round)
		const n = 16
		blobs := make([]metastore.Blob, n)
		extents := make([]metastore.Extent, n)
		for i := range n {
			blobs[i] = metastore.Blob{Account: "a", Name: name, Content: p.Content(), Size: 10}
			extents[i] = p.Extent(0, 0, 10)
		}
		errs := dbtest.Race(n, func(i int) error {
			return dbtest.Error(handles[i%2].CommitBlob(p.Ctx, blobs[i], extents[i:i+1], createOnly))
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				p.Fail("round %d: writers %d and %d both created the blob", round, winner, i)
			case err == nil:
				winner = i
			default:
				p.Is(err, errRefused, "writer %d", i)
			}
		}
		p.Must(winner >= 0, "round %d: no writer created the blob", round)
		got := dbtest.Value(p.Store.Blob(p.Ctx, "a", name))
		p.Equal(got.Content, blobs[winner].Content, "content of the winner")
		p.Equal(p.allExtents(got.Content), stored(extents[winner]), "extents of the winner")
	}
	p.Must(len(p.Garbage()) == 0, "losers left garbage")
}

func blobExpiry(p *probe) {
	expires := p.Clock.Now().Add(time.Hour)
	commit := func() metastore.Blob {
		e := p.Extent(0, 0, 5)
		b := dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: 5, Expires: expires},
			[]metastore.Extent{e}, createOnly))
		return b
	}
	first := commit()
	p.Clock.Advance(time.Hour - time.Microsecond)
	dbtest.Value(p.Store.Blob(p.Ctx, "a", "name"))
	p.Equal(p.names("a"), []string{"name"}, "names before the expiry")

	p.Clock.Advance(time.Microsecond)
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrExpired, "blob at its expiry")
	p.Equal(p.names("a"), []string(nil), "names after the expiry")
	_, _, err := dbtest.Remove(p.Ctx, p.Store, "a", "name", func(b *metastore.Blob) error {
		if b != nil {
			return fmt.Errorf("the precondition of a delete got the expired %+v", b)
		}
		return errRefused
	})
	p.identical(err, errRefused, "delete of an expired blob")

	expires = p.Clock.Now().Add(time.Hour)
	second := commit() // the precondition gets nil, and the old content becomes garbage
	p.Equal(p.Garbage(), []metastore.ContentID{first.Content}, "garbage")
	p.Clock.Advance(time.Hour + metastore.ExpiredBlobGrace - time.Microsecond)
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrExpired, "blob at the end of its grace")
	p.Clock.Advance(time.Microsecond)
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrNotFound, "blob after its grace")
	id, had, err := dbtest.Remove(p.Ctx, p.Store, "a", "name", nil)
	p.OK(err, "delete after the grace")
	p.Must(had && id == second.Content, "delete of an expired blob returned %v, %v", id, had)
	p.Must(p.isGarbage(second.Content), "its content is not garbage")
}

// blobExpiredCommit commits a blob that has expired over a live one.
func blobExpiredCommit(p *probe) {
	current, _ := p.Put("a", "name")
	never := func(*metastore.Blob) error { return errRefused }
	for _, late := range []time.Duration{0, time.Microsecond, time.Hour} {
		_, err := p.Store.CommitBlob(p.Ctx,
			metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: 5, Expires: p.Clock.Now().Add(-late)},
			[]metastore.Extent{p.Extent(0, 0, 5)}, never)
		p.Is(err, database.ErrExpired, "commit %v after the expiry", late)
	}
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), current, "blob after the refusals")
	p.Must(len(p.Garbage()) == 0, "the refusals created garbage")
	dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Expires: p.Clock.Now().Add(time.Microsecond)}, nil, nil))
}

func (p *probe) names(account string) []string {
	page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: account, Limit: 100_000}))
	var names []string
	for _, b := range page.Blobs {
		names = append(names, b.Name)
	}
	return names
}

// largeExtents returns n extents of MaxExtentSize, with a checksum for each MiB.
func (p *probe) largeExtents(n int) []metastore.Extent {
	blocks := make([]uint32, metastore.MaxExtentSize>>20)
	for i := range blocks {
		blocks[i] = uint32(i)
	}
	list := make([]metastore.Extent, n)
	for i := range list {
		list[i] = p.Extent(0, int64(i)*metastore.MaxExtentSize, metastore.MaxExtentSize)
		list[i].Blocks = blocks
	}
	return list
}
