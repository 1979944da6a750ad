package metatest

import (
	"errors"
	"fmt"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var usageRaceChecks = []dbtest.Check{
	check("usage/race", usageRace),
	check("usage/race-one-name", usageRaceOneName),
}

// counted ends the check unless an owner's usage is exactly the sum over their blobs and open
// uploads in account a. None of them may expire.
func (p *probe) counted(owner string) {
	var want metastore.Used
	page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: "a", Limit: 100_000}))
	for _, b := range page.Blobs {
		if b.Owner == owner {
			want.Bytes += b.Size
			want.Objects++
			want.Names += int64(len(b.Name))
		}
	}
	uploads, _, err := p.Store.ListUploads(p.Ctx, "a", "", 100_000, 0)
	p.OK(err, "list uploads")
	for _, u := range uploads {
		if u.Owner == owner {
			want.Bytes += u.Bytes
			want.Uploads++
			want.Objects += u.Parts
			want.Names += int64(len(u.Name))
		}
	}
	got := dbtest.Value(p.Store.Usage(p.Ctx, owner))
	got.Retained = 0 // see allRetained
	p.Equal(got, want, "usage of %q compared with the stored blobs", owner)
}

// allRetained ends the check unless exactly this is retained of the owners: all garbage, with an
// extent in each part, and the outcomes of those uploads that still exist.
func (p *probe) allRetained(owners, uploads []string) {
	var want, got int64
	for _, id := range p.Garbage() {
		parts := map[int]bool{}
		for _, e := range p.allExtents(id) {
			want += e.Size
			parts[e.Part] = true
		}
		want += metastore.RowCharge * max(1, int64(len(parts)))
	}
	for _, id := range uploads {
		u, err := p.Store.Upload(p.Ctx, id)
		if errors.Is(err, database.ErrNotFound) {
			continue
		}
		p.OK(err, "upload")
		want += metastore.OutcomeCharge(u.Name)
	}
	for _, owner := range owners {
		used := dbtest.Value(p.Store.Usage(p.Ctx, owner))
		got += used.Retained
	}
	p.Must(got == want, "%d bytes are retained of all owners, want %d", got, want)
}

// usageRace performs everything that counts concurrently, for two owners over two handles and
// during purges.
func usageRace(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	const callers, steps = 16, 30
	owners := []string{"x", "y"}
	// Everything needed is created here, because a probe's methods must not be called
	// concurrently.
	extents := make([][]metastore.Extent, callers)
	contents := make([][]metastore.ContentID, callers)
	for i := range callers {
		for k := range steps {
			extents[i] = append(extents[i], p.Extent(0, 0, int64(1+(i*steps+k)%97)))
			contents[i] = append(contents[i], p.Content())
		}
	}
	step := func(i, k int) error {
		s, owner := handles[(i+k)%2], owners[(i/2+k)%2]
		name, id := fmt.Sprint("name", (i*5+k*3)%7), fmt.Sprint("upload", (i*3+k)%5)
		e := extents[i][k]
		switch (i + k*5) % 8 {
		case 0, 1, 2:
			_, err := s.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: name, Content: contents[i][k], Size: e.Size, Owner: owner},
				[]metastore.Extent{e}, nil)
			return err
		case 3:
			_, _, err := dbtest.Remove(p.Ctx, s, "a", name, nil)
			return err
		case 4:
			_, err := s.BeginUpload(p.Ctx, metastore.Upload{ID: fmt.Sprint(id, k/10), Account: "a", Name: name, Content: contents[i][k], PartSize: 100, Owner: owner})
			return passing(err)
		case 5:
			return passing(s.PutPart(p.Ctx, fmt.Sprint(id, k/10), metastore.Part{Size: e.Size}, []metastore.Extent{e}))
		case 6:
			return passing(completeUnchanged(p, s, fmt.Sprint(id, k/10)))
		}
		if k%3 == 0 {
			_, err := s.AbortUpload(p.Ctx, fmt.Sprint(id, k/10))
			return passing(err)
		}
		_, err := s.Purge(p.Ctx, 50)
		return err
	}
	errs := dbtest.Race(callers, func(i int) error {
		for k := range steps {
			if err := step(i, k); err != nil {
				return fmt.Errorf("caller %d, step %d: %w", i, k, err)
			}
		}
		return nil
	})
	p.OK(errors.Join(errs...), "racing writers")
	var uploads []string
	for i := range 5 {
		for k := range 1 + steps/10 {
			uploads = append(uploads, fmt.Sprintf("upload%d%d", i, k))
		}
	}
	for _, owner := range owners {
		p.counted(owner)
	}
	p.allRetained(owners, uploads)
	p.Purge()
	p.Reopen()
	for _, owner := range owners {
		p.counted(owner)
	}
	p.allRetained(owners, uploads)
	garbage := p.Garbage()
	errs = dbtest.Race(len(garbage), func(i int) error { // while more garbage is purged
		_, purged := p.Store.Purge(p.Ctx, 10)
		return errors.Join(purged, p.Store.DropContents(p.Ctx, garbage[i:min(i+3, len(garbage))]))
	})
	p.OK(errors.Join(errs...), "racing drops")
	p.allRetained(owners, uploads)
}

// passing ignores the errors that a race's loser gets.
func passing(err error) error {
	for _, target := range []error{database.ErrNotFound, database.ErrExists, metastore.ErrAborted, metastore.ErrCommitted} {
		if errors.Is(err, target) {
			return nil
		}
	}
	return err
}

// usageRaceOneName has many owners replace and delete one blob: it counts for its last owner.
func usageRaceOneName(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 10 {
		var blobs [12]metastore.Blob
		var extents [12]metastore.Extent
		for i := range blobs {
			extents[i] = p.Extent(0, 0, int64(1+i))
			blobs[i] = metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: int64(1 + i), Owner: fmt.Sprint("owner", i%3)}
		}
		errs := dbtest.Race(len(blobs), func(i int) error {
			if i%4 == 3 {
				_, _, err := dbtest.Remove(p.Ctx, handles[i%2], "a", "name", nil)
				return err
			}
			_, err := handles[i%2].CommitBlob(p.Ctx, blobs[i], []metastore.Extent{extents[i]}, nil)
			return err
		})
		p.OK(errors.Join(errs...), "round %d", round)
		for i := range 3 {
			p.counted(fmt.Sprint("owner", i))
		}
		p.allRetained([]string{"owner0", "owner1", "owner2"}, nil)
	}
}
