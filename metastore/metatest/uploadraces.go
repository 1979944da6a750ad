package metatest

import (
	"errors"
	"fmt"
	"sync"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var uploadRaceChecks = []dbtest.Check{
	check("uploads/race-parts-complete", func(p *probe) { uploadRace(p, false, false) }),
	check("uploads/race-abort", func(p *probe) { uploadRace(p, true, false) }),
	check("uploads/race-purge", func(p *probe) { uploadRace(p, false, true) }),
	check("uploads/race-all", func(p *probe) { uploadRace(p, true, true) }),
	check("uploads/race-completes", uploadRaceCompletes),
}

// ackedExtents records which parts were acknowledged.
type ackedExtents struct {
	sync.Mutex
	acked []metastore.Extent
}

// uploadRace repeats parts concurrently with a complete, an abort and a purge, over two handles,
// and checks that the result is consistent.
func uploadRace(p *probe, abort, idle bool) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 12 {
		id, name := fmt.Sprint("upload", round), fmt.Sprint("name", round)
		p.Begin(id, "a", name)
		var led ackedExtents
		for i := range 3 {
			led.acked = append(led.acked, p.part(id, i, 10))
		}
		if idle { // exactly at the limit: a part that is stored first keeps the upload
			p.Clock.Advance(metastore.UploadIdleLimit)
		}
		extents := make([]metastore.Extent, 12)
		for i := range extents {
			extents[i] = p.Extent(i%3, 0, int64(20+i))
		}
		errs := dbtest.Race(len(extents)+6, func(i int) error {
			s := handles[i%2]
			switch {
			case i < len(extents):
				return led.resend(p, s, id, extents[i])
			case i < len(extents)+3:
				return completeUnchanged(p, s, id)
			case abort && i == len(extents)+4:
				_, err := s.AbortUpload(p.Ctx, id)
				return ended(err)
			case idle && i == len(extents)+5:
				_, err := s.Purge(p.Ctx, 10)
				return err
			}
			return nil
		})
		p.OK(errors.Join(errs...), "round %d", round)
		p.consistent(id, "a", name, led.acked)
	}
}

// ended ignores the errors that a race's loser gets from an upload.
func ended(err error) error {
	if errors.Is(err, metastore.ErrAborted) || errors.Is(err, metastore.ErrCommitted) {
		return nil
	}
	return err
}

func (l *ackedExtents) resend(p *probe, s whole.Database, id string, e metastore.Extent) error {
	err := s.PutPart(p.Ctx, id, metastore.Part{Index: e.Part, Size: e.Size}, []metastore.Extent{e})
	if err == nil {
		l.Lock()
		defer l.Unlock()
		l.acked = append(l.acked, e)
	}
	return ended(err)
}

func completeUnchanged(p *probe, s whole.Database, id string) error {
	u, err := s.Upload(p.Ctx, id)
	if err != nil {
		return err
	}
	_, err = s.CompleteUpload(p.Ctx, id, u.Revision, u.Bytes, 1, nil)
	if errors.Is(err, metastore.ErrRevisionMismatch) {
		return nil
	}
	return ended(err)
}

// consistent checks that an upload, its blob, its parts and the garbage are consistent, and that
// every acknowledged extent is still known.
func (p *probe) consistent(id, account, name string, acked []metastore.Extent) {
	u := p.Upload(id)
	garbage := map[string]bool{} // keys
	for _, g := range p.Garbage() {
		for _, e := range p.allExtents(g) {
			p.Must(!garbage[e.Object], "extent %s is garbage twice", e.Object)
			garbage[e.Object] = true
		}
	}
	var keys []string
	for _, e := range acked {
		keys = append(keys, e.Object)
	}
	free := dbtest.Value(p.Store.Unreferenced(p.Ctx, keys))
	p.Must(len(free) == 0, "acknowledged extents %v are unknown", free)

	b, err := p.Store.Blob(p.Ctx, account, name)
	switch u.State {
	case metastore.UploadAborted:
		p.Is(err, database.ErrNotFound, "blob of an aborted upload")
		p.Must(p.isGarbage(u.Content), "the content of an aborted upload is not garbage")
		for _, k := range keys {
			p.Must(garbage[k], "extent %s of an aborted upload is not garbage", k)
		}
		return
	case metastore.UploadCommitted:
		p.OK(err, "blob of a committed upload")
		p.Must(b.Content == u.Content && b.Size == u.Bytes, "blob of %d bytes, upload of %d", b.Size, u.Bytes)
	default:
		p.Is(err, database.ErrNotFound, "blob of an open upload")
	}
	p.Must(!p.isGarbage(u.Content), "the content of an upload that is %s is garbage", u.State)
	parts := dbtest.Value(p.Store.Parts(p.Ctx, id, -1, 1000))
	live := p.allExtents(u.Content)
	if u.State == metastore.UploadCommitted { // its parts are not retained, but one extent of each is
		p.Must(len(parts) == 0, "a committed upload has %d parts", len(parts))
		for _, e := range live {
			for _, a := range acked {
				if a.Object == e.Object && (len(parts) == 0 || parts[len(parts)-1].Index < e.Part) {
					parts = append(parts, metastore.Part{Index: a.Part, Size: a.Size})
				}
			}
			b.Size -= e.Size
		}
		p.Must(b.Size == 0 && len(parts) == 3, "the extents of %d parts have %d bytes less than the blob", len(parts), b.Size)
	}
	p.Must(len(live) == len(parts), "%d extents of %d parts", len(live), len(parts))
	for i, e := range live {
		p.Must(e.Part == parts[i].Index && e.Size == parts[i].Size, "extent %+v of part %+v", e, parts[i])
		p.Must(!garbage[e.Object], "extent %s is live and garbage", e.Object)
		garbage[e.Object] = true
	}
	for _, k := range keys {
		p.Must(garbage[k], "acknowledged extent %s is neither live nor garbage", k)
	}
}

// uploadRaceCompletes has two uploads and a PUT compete for one name that must not exist: one wins.
func uploadRaceCompletes(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 10 {
		name := fmt.Sprint("name", round)
		var uploads []metastore.Upload
		for i := range 4 {
			id := fmt.Sprint(round, "-", i)
			p.Begin(id, "a", name)
			p.part(id, 0, int64(10+i))
			uploads = append(uploads, p.Upload(id))
		}
		put := metastore.Blob{Account: "a", Name: name, Content: p.Content(), Size: 3}
		e := p.Extent(0, 0, 3)
		errs := dbtest.Race(5, func(i int) error {
			if i == 4 {
				_, err := handles[0].CommitBlob(p.Ctx, put, []metastore.Extent{e}, createOnly)
				return err
			}
			u := uploads[i]
			_, err := handles[i%2].CompleteUpload(p.Ctx, u.ID, u.Revision, u.Bytes, 1, createOnly)
			return err
		})
		winner := -1
		for i, err := range errs {
			if err == nil {
				p.Must(winner < 0, "round %d: %d and %d both created the blob", round, winner, i)
				winner = i
				continue
			}
			p.Is(err, errRefused, "creator %d", i)
			if i < 4 {
				p.Equal(p.Upload(uploads[i].ID), uploads[i], "upload of a loser")
			}
		}
		p.Must(winner >= 0, "round %d: no creator succeeded", round)
		b := dbtest.Value(p.Store.Blob(p.Ctx, "a", name))
		want := put.Content
		if winner < 4 {
			want = uploads[winner].Content
		}
		p.Equal(b.Content, want, "content of the winner")
		p.Must(len(p.Garbage()) == 0, "losers left garbage")
	}
}
