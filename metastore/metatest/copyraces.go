package metatest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var copyRaceChecks = []dbtest.Check{
	check("copies/race-delete", func(p *probe) { copyRace(p, "delete", "delete copy") }),
	check("copies/race-replace", func(p *probe) { copyRace(p, "commit", "complete", "copy over") }),
	check("copies/race-move", func(p *probe) { copyRace(p, "move", "move over", "move copy") }),
	check("copies/race-purge", func(p *probe) { copyRace(p, "purge", "delete", "delete copy") }),
	check("copies/race-all", func(p *probe) {
		copyRace(p, "delete", "swap", "move", "purge", "commit", "delete copy", "swap back", "move over", "complete", "copy over", "move copy")
	}),
	check("copies/race-one-name", copyRaceOneName),
}

// copyRace copies a blob and its copy to new names, concurrently with other verbs on both, over two
// handles. In the end each content is either of a blob or garbage, and counted exactly.
func copyRace(p *probe, verbs ...string) {
	handles := []whole.Database{p.Store, p.Open()}
	const callers = 14
	for round := range 8 {
		r := p.newCopyRace(round, callers)
		errs := dbtest.Race(callers, func(i int) error {
			s := handles[(i/2+round)%2]
			if i%2 == 0 {
				return r.copies(p, s, i)
			}
			return noSource(r.call(p, s, verbs[(i/2+round)%len(verbs)], i))
		})
		p.OK(errors.Join(errs...), "round %d", round)
		p.Audited()
		p.Purge() // until then a blob that has expired has the source's content
		r.settled(p)
		for _, owner := range []string{"x", "y"} {
			p.counted(owner)
		}
	}
}

// copyRacers has the arguments and results for a race's callers. A probe makes it before, because
// its methods must not be called concurrently.
type copyRacers struct {
	source, copy, other metastore.BlobName
	blobs               []metastore.Blob // each caller's own, which is not committed yet
	extents             []metastore.Extent
	uploads             []metastore.Upload
	contents            map[metastore.ContentID]metastore.Extent // the extents of committed contents
	copied              []metastore.Blob                         // each caller's result, if any
}

// newCopyRace stores a blob, a copy, an expired copy, another blob, and an upload for each caller.
func (p *probe) newCopyRace(round, callers int) *copyRacers {
	at := func(name string) metastore.BlobName { return named(fmt.Sprint(name, " ", round)) }
	r := &copyRacers{source: at("source"), copy: at("copy"), other: at("other"), contents: map[metastore.ContentID]metastore.Extent{}, copied: make([]metastore.Blob, callers)}
	put := func(n metastore.BlobName, owner string) metastore.Blob {
		e := p.Extent(0, 0, 50+p.Next()%50)
		b := p.put(metastore.Blob{Account: n.Account, Name: n.Name, Owner: owner}, e)
		r.contents[b.Content] = e
		return b
	}
	source := put(r.source, "x")
	p.copied(source, metastore.Blob{Account: "a", Name: at("gone").Name, Owner: "x", Expires: p.Clock.Now().Add(time.Minute)})
	p.Clock.Advance(metastore.ExpiredBlobGrace + time.Minute)
	p.copied(source, metastore.Blob{Account: "a", Name: r.copy.Name, Owner: "y"})
	put(r.other, "y")
	for i := range callers {
		r.extents = append(r.extents, p.Extent(0, 0, int64(1+i)))
		r.blobs = append(r.blobs, metastore.Blob{
			Account: "a", Name: fmt.Sprint("fresh ", round, i), Content: p.Content(), Size: int64(1 + i), Owner: []string{"x", "y"}[i%2],
		})
		id := fmt.Sprint("upload ", round, i)
		u := p.beginFor("x", id, r.source.Name)
		r.contents[u.Content] = p.part(id, 0, 9)
		r.uploads = append(r.uploads, p.Upload(id))
	}
	return r
}

// copies copies the source or its copy to a fresh name, and from there to a second one.
func (r *copyRacers) copies(p *probe, s whole.Database, i int) error {
	from := []metastore.BlobName{r.source, r.copy}[i/2%2]
	b, err := s.CopyBlob(p.Ctx, metastore.Copy{From: from, To: r.blobs[i], Precondition: createOnly})
	if err != nil {
		return noSource(err)
	}
	r.copied[i] = b
	again := r.blobs[i]
	again.Name += " again"
	_, err = s.CopyBlob(p.Ctx, metastore.Copy{From: blobName(b), To: again})
	return err
}

// call calls a verb for the source, its copy or the other blob.
func (r *copyRacers) call(p *probe, s whole.Database, verb string, i int) (err error) {
	own := r.blobs[i]
	over := func(from, to metastore.BlobName) error {
		b := own
		b.Name = to.Name
		_, err := s.CopyBlob(p.Ctx, metastore.Copy{From: from, To: b})
		return err
	}
	move := func(from, to metastore.BlobName) error {
		_, err := s.MoveBlob(p.Ctx, metastore.Move{From: from, To: to, Owner: own.Owner})
		return err
	}
	switch verb {
	case "delete":
		_, _, err = dbtest.Remove(p.Ctx, s, "a", r.source.Name, nil)
	case "delete copy":
		_, _, err = dbtest.Remove(p.Ctx, s, "a", r.copy.Name, nil)
	case "commit":
		own.Name = r.source.Name
		_, err = s.CommitBlob(p.Ctx, own, r.extents[i:i+1], nil)
	case "complete":
		u := r.uploads[i]
		_, err = s.CompleteUpload(p.Ctx, u.ID, u.Revision, u.Bytes, 1, nil)
	case "copy over":
		err = over(r.other, r.copy)
	case "swap":
		err = over(r.source, r.other)
	case "swap back":
		err = over(r.other, r.source)
	case "move":
		err = move(r.source, blobName(own))
	case "move over":
		err = move(r.copy, r.source)
	case "move copy":
		err = move(r.copy, r.other)
	case "purge":
		_, err = s.Purge(p.Ctx, 100)
	default:
		err = fmt.Errorf("there is no verb %q", verb)
	}
	return err
}

// settled ends the check unless each content is either of a blob or an open upload, or garbage, and
// has its extent.
func (r *copyRacers) settled(p *probe) {
	p.Audited()
	garbage := p.Garbage()
	live := map[metastore.ContentID]int64{}
	names := map[string]metastore.ContentID{}
	page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: "a", Limit: 100_000}))
	for _, b := range page.Blobs {
		live[b.Content] = b.Size
		names[b.Name] = b.Content
	}
	for id, size := range live {
		extents := p.allExtents(id)
		p.Must(len(extents) == 1 && extents[0].Size == size, "a blob of %d bytes has the extents %+v", size, extents)
		p.Must(!slices.Contains(garbage, id), "content %v is of a blob and garbage", id)
	}
	for _, u := range r.uploads {
		if p.Upload(u.ID).State == metastore.UploadOpen {
			live[u.Content] = u.Bytes
		}
	}
	for i, b := range r.blobs {
		if b.Name != "" && len(p.allExtents(b.Content)) > 0 { // it was committed
			r.contents[b.Content] = r.extents[i]
		}
	}
	for id, e := range r.contents {
		_, has := live[id]
		p.Must(has != slices.Contains(garbage, id), "content %v is live and garbage, or neither: %v", id, has)
		p.Equal(p.allExtents(id), stored(e), "extents of content %v", id)
	}
	for _, b := range r.copied {
		if b.Name != "" {
			p.Must(names[b.Name] == b.Content, "the acknowledged copy %q has the content %v, want %v", b.Name, names[b.Name], b.Content)
		}
	}
}

// noSource ignores that a copy or a move has come too late.
func noSource(err error) error {
	if errors.Is(err, metastore.ErrNoSource) {
		return nil
	}
	return passing(err)
}

// copyRaceOneName copies and moves many blobs to one name that must not exist: one wins.
func copyRaceOneName(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 10 {
		to := named(fmt.Sprint("to", round))
		var sources []metastore.Blob
		for i := range 8 {
			b := p.put(metastore.Blob{Account: "a", Name: fmt.Sprint("source", round, i)}, p.Extent(0, 0, int64(1+i)))
			sources = append(sources, b)
		}
		errs := dbtest.Race(2*len(sources), func(i int) error {
			from := blobName(sources[i/2])
			if i%2 == 0 {
				return dbtest.Error(handles[i/2%2].CopyBlob(p.Ctx, metastore.Copy{From: from, To: metastore.Blob{Account: "a", Name: to.Name}, Precondition: createOnly}))
			}
			return dbtest.Error(handles[i/2%2].MoveBlob(p.Ctx, metastore.Move{From: from, To: to, Precondition: createOnly}))
		})
		for i, err := range errs { // the winner may have moved the source that a loser copies
			if errors.Is(err, metastore.ErrNoSource) && i%2 == 0 && errs[i+1] == nil {
				errs[i] = errRefused
			}
		}
		p.Won(errs, 1, errRefused)
		p.Must(len(p.Garbage()) == 0, "losers made garbage")
		p.Audited()
	}
}
