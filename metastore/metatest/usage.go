package metatest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var usageChecks = []dbtest.Check{
	check("usage/owners", usageOwners),
	check("usage/blobs", usageBlobs),
	check("usage/uploads", usageUploads),
	check("usage/complete", usageComplete),
	check("usage/refused", usageRefused),
	check("usage/purge", usagePurge),
	check("usage/many-rows", usageManyRows),
	check("usage/objects", usageObjects),
	check("usage/metadata", usageMetadata),
	check("usage/channels", usageChannels),
	check("usage/retained", usageRetained),
	check("usage/occupied", usageOccupied),
}

// uses ends the check unless the owner's usage is exactly this, over every handle.
func (p *probe) uses(owner string, bytes, uploads int64, format string, a ...any) {
	got, err := p.Store.Usage(p.Ctx, owner)
	p.OK(err, "usage of %q", owner)
	got.Objects, got.Names, got.Retained = 0, 0, 0 // see usageObjects, counted and usageRetained
	p.Equal(got, metastore.Used{Bytes: bytes, Uploads: uploads}, "usage of %q after %s", owner, fmt.Sprintf(format, a...))
}

// putFor commits a blob of one extent for an owner.
func (p *probe) putFor(owner, name string, size int64) metastore.Blob {
	b, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: name, Content: p.Content(), Size: size, Owner: owner},
		p.extents(0, size), nil)
	p.OK(err, "commit of %q for %q", name, owner)
	return b
}

func (p *probe) beginFor(owner, id, name string) metastore.Upload {
	u, err := p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: id, Account: "a", Name: name, Content: p.Content(), PartSize: 100, Owner: owner})
	p.OK(err, "begin of %q for %q", id, owner)
	return u
}

// usageOwners checks that every method returns the owner.
func usageOwners(p *probe) {
	const owner = "owner\x00\xff"
	blob, upload := p.putFor(owner, "blob", 10), p.beginFor(owner, "upload", "upload")
	p.Must(blob.Owner == owner && upload.Owner == owner, "owners of %+v and %+v", blob, upload)
	p.Reopen()
	got := dbtest.Value(p.Store.Blob(p.Ctx, "a", "blob"))
	p.Equal(got, blob, "blob")
	p.Equal(p.Upload("upload"), upload, "upload")
	uploads, _, err := p.Store.ListUploads(p.Ctx, "a", "", 10, 0)
	p.OK(err, "list uploads")
	p.Equal(uploads, []metastore.Upload{upload}, "open uploads")
	p.part("upload", 0, 5)
	done := p.Complete("upload")
	p.Must(done.Owner == owner, "a completed upload belongs to %q", done.Owner)
	page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: "a", Limit: 10}))
	p.Must(len(page.Blobs) == 2 && page.Blobs[0].Owner == owner && page.Blobs[1].Owner == owner, "listed %+v", page.Blobs)
	_, err = p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "blob", Content: p.Content(), Owner: owner}, nil,
		func(current *metastore.Blob) error {
			if current == nil || current.Owner != owner {
				return errRefused
			}
			return nil
		})
	p.OK(err, "commit whose precondition checks the owner")
	p.putFor("", "blob", 1)
	got = dbtest.Value(p.Store.Blob(p.Ctx, "a", "blob"))
	p.Must(got.Owner == "", "the blob without an owner belongs to %q", got.Owner)
}

func usageBlobs(p *probe) {
	p.uses("x", 0, 0, "nothing")
	p.putFor("x", "one", 100)
	p.uses("x", 100, 0, "a commit")
	p.putFor("x", "two", 70)
	p.putFor("y", "three", 5)
	p.uses("x", 170, 0, "another commit")
	p.putFor("x", "one", 30)
	p.uses("x", 100, 0, "an overwrite by a smaller one")
	p.putFor("x", "one", 30)
	p.uses("x", 100, 0, "an overwrite of the same size")
	p.putFor("y", "one", 31)
	p.uses("x", 70, 0, "an overwrite by another owner")
	p.uses("y", 36, 0, "an overwrite of another owner's blob")
	p.putFor("", "one", 1000)
	p.uses("y", 5, 0, "an overwrite without an owner")
	p.putFor("x", "one", 8)
	p.uses("x", 78, 0, "an overwrite of a blob without an owner")
	p.putFor("x", "empty", 0)
	p.uses("x", 78, 0, "an empty blob")
	p.putFor("x", "large", 3*metastore.MaxExtentSize)
	p.uses("x", 78+3*metastore.MaxExtentSize, 0, "a blob of several extents")
	p.uses("", 0, 0, "everything")
	p.Reopen()
	for _, name := range []string{"one", "two", "large", "empty", "none", "one"} {
		p.remove("a", name)
	}
	p.uses("x", 0, 0, "deleting everything")
	p.uses("y", 5, 0, "deleting everything of another owner")
	p.Must(len(p.Garbage()) > 0, "there is no garbage")
}

func usageUploads(p *probe) {
	p.beginFor("x", "one", "one")
	p.uses("x", 0, 1, "begin")
	p.beginFor("x", "two", "two")
	p.part("one", 0, 100)
	p.part("one", 1, 50)
	p.part("two", 0, 7)
	p.uses("x", 157, 2, "parts")
	p.part("one", 0, 90)
	p.uses("x", 147, 2, "a part again, smaller")
	p.part("one", 1, 60)
	p.part("one", 1, 60)
	p.uses("x", 157, 2, "a part again and again")
	p.beginFor("", "ownerless", "ownerless")
	p.part("ownerless", 0, 11)
	p.uses("", 0, 0, "an upload without an owner")
	for range 2 {
		dbtest.Value(p.Store.AbortUpload(p.Ctx, "one"))
		p.uses("x", 7, 1, "an abort")
	}
	p.Reopen()
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "ownerless"))
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "two"))
	p.uses("x", 0, 0, "aborting everything")
}

func usageComplete(p *probe) {
	p.beginFor("x", "one", "one")
	p.part("one", 0, 100)
	p.part("one", 1, 20)
	p.Complete("one")
	p.uses("x", 120, 0, "a complete")
	p.Complete("one")
	p.uses("x", 120, 0, "a repeated complete")

	p.putFor("x", "two", 50)
	p.beginFor("x", "two", "two")
	p.part("two", 0, 60)
	p.uses("x", 230, 1, "a part of an upload over the same owner's blob")
	p.Complete("two")
	p.uses("x", 180, 0, "a complete over the same owner's blob")

	p.putFor("y", "three", 9)
	p.beginFor("x", "three", "three")
	p.part("three", 0, 10)
	p.Complete("three")
	p.uses("x", 190, 0, "a complete over another owner's blob")
	p.uses("y", 0, 0, "a complete by another owner")

	p.beginFor("", "ownerless", "three")
	p.Complete("ownerless")
	p.uses("x", 180, 0, "a complete without an owner")
	p.beginFor("x", "four", "four")
	p.Complete("four")
	p.uses("x", 180, 0, "a complete without parts")
	p.beginFor("x", "late", "late")
	p.part("late", 0, 5)
	p.remove("a", "one")
	p.remove("a", "two")
	p.uses("x", 5, 1, "deleting the completed blobs")
	p.Clock.Advance(metastore.UploadRetention)
	p.Purge() // the idle upload, and the other uploads' outcomes
	p.uses("x", 0, 0, "purging the uploads")
}

// usageRefused checks that failed calls change nothing.
func usageRefused(p *probe) {
	p.putFor("x", "name", 100)
	p.beginFor("x", "name", "name")
	p.part("name", 0, 10)
	refuse := func(*metastore.Blob) error { return errRefused }
	b := metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: 3, Owner: "x"}
	p.Is(dbtest.Error(p.Store.CommitBlob(p.Ctx, b, p.extents(0, 3), refuse)), errRefused, "commit")
	old := p.Extent(0, 0, 3)
	old.Created = p.Clock.Now().Add(-metastore.MaxExtentAge - time.Second)
	p.Is(dbtest.Error(p.Store.CommitBlob(p.Ctx, b, []metastore.Extent{old}, nil)), metastore.ErrStaleExtent, "commit")
	b.Expires = p.Clock.Now()
	p.Is(dbtest.Error(p.Store.CommitBlob(p.Ctx, b, p.extents(0, 3), nil)), database.ErrExpired, "commit")
	_, _, err := dbtest.Remove(p.Ctx, p.Store, "a", "name", refuse)
	p.Is(err, errRefused, "delete")
	err = p.Store.PutPart(p.Ctx, "name", metastore.Part{Size: 3}, []metastore.Extent{old})
	p.Is(err, metastore.ErrStaleExtent, "part")
	u := p.Upload("name")
	p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "name", u.Revision, u.Bytes, 1, refuse)), errRefused, "complete")
	p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "name", u.Revision-1, u.Bytes, 1, nil)), metastore.ErrRevisionMismatch, "complete")
	p.Is(dbtest.Error(p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: "name", Account: "a", Name: "other", Content: p.Content(), PartSize: 1, Owner: "x"})), database.ErrExists, "begin")
	p.uses("x", 110, 1, "refusals")
	p.Complete("name")
	err = p.Store.PutPart(p.Ctx, "name", metastore.Part{Size: 3}, p.extents(0, 3))
	p.Is(err, metastore.ErrCommitted, "part")
	p.Is(dbtest.Error(p.Store.AbortUpload(p.Ctx, "name")), metastore.ErrCommitted, "abort")
	p.uses("x", 10, 0, "refusals of a committed upload")
	ctx, cancel := context.WithCancel(p.Ctx)
	cancel()
	b.Expires = time.Time{}
	p.Is(dbtest.Error(p.Store.CommitBlob(ctx, b, p.extents(0, 3), nil)), context.Canceled, "cancelled commit")
	p.uses("x", 10, 0, "a cancelled commit")
}

// usagePurge checks that an expired blob counts until it is purged.
func usagePurge(p *probe) {
	for i, owner := range []string{"x", "y", "x", ""} {
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{
			Account: "a", Name: fmt.Sprint(i), Content: p.Content(), Size: 10, Owner: owner, Expires: p.Clock.Now().Add(time.Minute),
		}, p.extents(0, 10), nil))
	}
	p.putFor("x", "lasting", 3)
	for _, id := range []string{"idle0", "idle1"} {
		p.beginFor("x", id, id)
		p.part(id, 0, 50)
	}
	p.beginFor("", "idle2", "idle2")
	p.part("idle2", 0, 50)
	p.Clock.Advance(time.Minute)
	p.Purge()
	p.uses("x", 123, 2, "an expiry within its grace")
	p.Clock.Advance(metastore.ExpiredBlobGrace - time.Minute)
	p.uses("x", 123, 2, "the idle limit of the uploads")
	p.Purge()
	p.uses("x", 23, 0, "purging the uploads")
	p.uses("y", 10, 0, "purging uploads of another owner")
	p.Clock.Advance(time.Minute)
	p.uses("x", 23, 0, "the grace of the blobs")
	p.Purge()
	p.uses("x", 3, 0, "purging the blobs")
	p.uses("y", 0, 0, "purging the blobs")

	// An expired blob that is replaced or deleted before a purge counts once.
	for _, name := range []string{"replaced", "deleted"} {
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{
			Account: "a", Name: name, Content: p.Content(), Size: 10, Owner: "y", Expires: p.Clock.Now().Add(time.Minute),
		}, p.extents(0, 10), nil))
	}
	p.Clock.Advance(time.Minute)
	p.putFor("x", "replaced", 4)
	p.remove("a", "deleted")
	p.uses("x", 7, 0, "replacing an expired blob")
	p.uses("y", 0, 0, "the replacing and deleting of expired blobs")
	p.Clock.Advance(metastore.ExpiredBlobGrace)
	p.Purge()
	p.uses("y", 0, 0, "a purge after that")
}

// usageManyRows writes much more often than it purges, with purges that are limited, and with many
// that find nothing to do.
func usageManyRows(p *probe) {
	var x, y int64
	for round := range 4 {
		for i := range 60 {
			size := int64(1 + (i*7+round)%13)
			p.putFor("x", fmt.Sprint(round, "-", i), size)
			x += size
			if i%3 == 0 {
				p.putFor("y", fmt.Sprint("y", round, "-", i), size)
				y += size
			}
			if i%4 == 0 {
				p.remove("a", fmt.Sprint(round, "-", i))
				x -= size
			}
		}
		p.uses("x", x, 0, "writing in round %d", round)
		for calls := 0; ; calls++ {
			p.Must(calls < 500, "the purge does not end")
			n := dbtest.Value(p.Store.Purge(p.Ctx, []int{1, 2, 7, 1000}[round]))
			p.uses("x", x, 0, "call %d of the purge in round %d", calls, round)
			p.uses("y", y, 0, "call %d of the purge in round %d", calls, round)
			if n == 0 {
				break
			}
		}
	}
	p.Reopen()
	p.uses("x", x, 0, "all")
	p.uses("y", y, 0, "all")
	for i := range 40 { // back to zero: the sum of many rows may be zero
		name := fmt.Sprint("passing", i)
		p.putFor("z", name, 5)
		p.remove("a", name)
	}
	p.Purge()
	p.uses("z", 0, 0, "as many deletes as commits")
	p.putFor("z", "last", 6)
	p.Purge()
	p.uses("z", 6, 0, "a commit after that")
}

// usageObjects counts blobs and parts, and the bytes of names, which may be longer than an index
// key.
func usageObjects(p *probe) {
	uses := func(objects, names int64, format string, a ...any) {
		got := dbtest.Value(p.Store.Usage(p.Ctx, "x"))
		p.Must(got.Objects == objects && got.Names == names, "%d objects with %d bytes of names after %s; want %d and %d",
			got.Objects, got.Names, fmt.Sprintf(format, a...), objects, names)
		p.Must(got.Stored() == got.Bytes+names+metastore.RowCharge*(objects+got.Uploads), "%+v are %d", got, got.Stored())
	}
	long := strings.Repeat("n", 3000)
	p.putFor("x", "empty", 0)
	uses(1, 5, "an empty blob")
	p.putFor("x", long, 0)
	p.putFor("", long+"1", 0)
	uses(2, 3005, "one with a long name")
	p.putFor("x", long, 7)
	uses(2, 3005, "an overwrite")
	p.putFor("y", "empty", 0)
	uses(1, 3000, "an overwrite by another owner")
	p.beginFor("x", "u", "upload")
	uses(1, 3006, "begin")
	p.part("u", 0, 5)
	p.part("u", 1, 5)
	p.part("u", 1, 6)
	uses(3, 3006, "two parts, one of them again")
	p.Must(p.Upload("u").Parts == 2, "the upload has %d parts", p.Upload("u").Parts)
	p.Complete("u")
	uses(2, 3006, "complete")
	p.beginFor("x", "over", "upload")
	p.part("over", 0, 1)
	uses(3, 3012, "an upload over the same owner's blob")
	p.Complete("over")
	uses(2, 3006, "its complete")
	p.beginFor("x", "gone", "gone")
	p.part("gone", 0, 5)
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "gone"))
	uses(2, 3006, "an abort")
	p.beginFor("x", "idle", "idle")
	p.part("idle", 0, 5)
	dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{
		Account: "a", Name: long + "2", Content: p.Content(), Owner: "x", Expires: p.Clock.Now().Add(time.Minute),
	}, nil, nil))
	uses(4, 6011, "an upload and a blob that expires")
	p.Clock.Advance(metastore.ExpiredBlobGrace + time.Hour)
	p.Purge()
	uses(2, 3006, "a purge")
	for _, name := range []string{long, "upload"} {
		p.remove("a", name)
	}
	uses(0, 0, "deleting everything")
}

// usageMetadata checks that metadata counts like a name, to the owner of its blob or upload.
func usageMetadata(p *probe) {
	uses := func(owner string, names int64, format string, a ...any) {
		got := dbtest.Value(p.Store.Usage(p.Ctx, owner))
		p.Must(got.Names == names, "%q has %d bytes of names and metadata after %s, want %d", owner, got.Names, fmt.Sprintf(format, a...), names)
	}
	put := func(owner, name string, metadata int, expires time.Time) {
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{
			Account: "a", Name: name, Content: p.Content(), Owner: owner, Metadata: strings.Repeat("m", metadata), Expires: expires,
		}, nil, nil))
	}
	begin := func(id string, metadata int) {
		dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{
			ID: id, Account: "a", Name: "n", Content: p.Content(), PartSize: 100, Owner: "x", Metadata: strings.Repeat("m", metadata),
		}))
	}
	put("x", "n", 100, time.Time{})
	uses("x", 101, "a commit")
	put("x", "n", 2000, time.Time{})
	uses("x", 2001, "an overwrite")
	put("x", "n", 0, time.Time{})
	uses("x", 1, "an overwrite without metadata")
	put("y", "n", 7, time.Time{})
	uses("x", 0, "an overwrite by another owner")
	uses("y", 8, "an overwrite of another's")
	begin("u", 30)
	uses("x", 31, "begin")
	p.part("u", 0, 5)
	p.Complete("u")
	p.Complete("u")
	uses("x", 31, "complete, twice")
	uses("y", 0, "a complete over another's")
	begin("v", 40)
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "v"))
	uses("x", 31, "abort")
	p.remove("a", "n")
	uses("x", 0, "delete")
	begin("idle", 50)
	put("x", strings.Repeat("n", 3000), 60, p.Clock.Now().Add(time.Minute))
	put("x", "plain", 0, p.Clock.Now().Add(time.Minute))
	uses("x", 51+3060+5, "an upload and blobs that expire")
	p.Clock.Advance(metastore.ExpiredBlobGrace + time.Hour)
	p.Purge()
	uses("x", 0, "a purge")
}
