package metatest_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

func TestBrokenStoresAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "two creators win", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return asksBefore{h} }, Caught: []string{"blobs/racing-creators"}},
		{Name: "acknowledges before the commit", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return &writesLater{Handle: h} }, Caught: []string{"blobs/acknowledged"}},
		{Name: "re-sent part wins over complete", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return partWins{h} }, Caught: []string{"uploads/ended"}},
		{Name: "complete ignores the revision", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return anyRevision{h} }, Caught: []string{"uploads/revision"}},
		{Name: "complete ignores the precondition", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return noGuard{h} }, Caught: []string{"uploads/complete-precondition"}},
		{Name: "listing has pages of any size", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return unbounded{h} }, Caught: []string{"list/pages", "list/random", "list/bytes"}},
		{Name: "listing skips a name at a page border", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return skips{h} }, Caught: []string{"list/pages", "list/random", "names/long"}},
		{Name: "overwrite loses the garbage", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return losesGarbage{h} }, Caught: []string{"blobs/overwrite", "garbage/life"}},
		{Name: "returns garbage that is not due", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return dueAtOnce{h} }, Caught: []string{"garbage/paging"}},
		{Name: "skips garbage of one time at a page border", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return pagesByTime{h} }, Caught: []string{"garbage/paging"}},
		{Name: "counts garbage that is not due", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return countsAll{h} }, Caught: []string{"garbage/paging"}},
		{Name: "drops what is not small", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return dropsLarge{h} }, Caught: []string{"garbage/contents"}},
		{Name: "cuts long names", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return cutsNames{h} }, Caught: []string{"names/long", "blobs/oversize"}},
		{Name: "keeps what was stored ahead", Break: func(h dbtest.Handle, path string) dbtest.Handle { return keepsStaged{h, path} }, Caught: []string{"blobs/large-refused"}},
		{Name: "commits what was stored ahead", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return commitsStaged{h} }, Caught: []string{"blobs/large-refused"}},
		{Name: "accepts stale extents", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return takesStale{h} }, Caught: []string{"blobs/extent-age"}},
		{Name: "calls every date unique", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return ownSecond{h} }, Caught: []string{"blobs/dates"}},
		{Name: "keeps the metadata of a replaced blob", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return keepsMetadata{h} }, Caught: []string{"blobs/metadata", "model/history"}},
		{Name: "loses the metadata of an upload", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return losesMetadata{h} }, Caught: []string{"blobs/metadata", "uploads/life", "model/history"}},
		{Name: "lists metadata always", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return listsMetadata{h} }, Caught: []string{"blobs/metadata", "model/history"}},
		{Name: "cuts metadata", Break: func(h dbtest.Handle, _ string) dbtest.Handle { return cutsMetadata{h} }, Caught: []string{"blobs/metadata"}},
	})
}

// keepsMetadata stores a version without metadata with what the replaced version has.
type keepsMetadata struct{ dbtest.Handle }

func (s keepsMetadata) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	if old, err := s.Blob(ctx, b.Account, b.Name); err == nil && b.Metadata == "" {
		b.Metadata = old.Metadata
	}
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

// losesMetadata begins every upload without metadata.
type losesMetadata struct{ dbtest.Handle }

func (s losesMetadata) BeginUpload(ctx context.Context, u metastore.Upload) (metastore.Upload, error) {
	u.Metadata = ""
	return s.Handle.BeginUpload(ctx, u)
}

// listsMetadata ignores whether the query requests metadata.
type listsMetadata struct{ dbtest.Handle }

func (s listsMetadata) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	q.Metadata = true
	return s.Handle.ListBlobs(ctx, q)
}

// cutsMetadata stores at most 2,000 bytes of it.
type cutsMetadata struct{ dbtest.Handle }

func (s cutsMetadata) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	b.Metadata = cut(b.Metadata)
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

// asksBefore calls the precondition outside the transaction.
type asksBefore struct{ dbtest.Handle }

func (s asksBefore) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	if precondition != nil {
		var current *metastore.Blob
		if found, err := s.Blob(ctx, b.Account, b.Name); err == nil {
			current = &found
		}
		if err := precondition(current); err != nil {
			return metastore.Blob{}, err
		}
	}
	return s.Handle.CommitBlob(ctx, b, extents, nil)
}

// writesLater acknowledges a commit immediately and keeps it in memory, where its own reads find
// it, until the next one.
type writesLater struct {
	dbtest.Handle
	mu      sync.Mutex
	pending *metastore.Blob
	extents []metastore.Extent
}

func (s *writesLater) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, _ metastore.Precondition) (metastore.Blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		if _, err := s.Handle.CommitBlob(ctx, *s.pending, s.extents, nil); err != nil {
			return metastore.Blob{}, err
		}
	}
	s.pending, s.extents = &b, extents
	return b, nil
}

func (s *writesLater) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil && s.pending.Account == account && s.pending.Name == name {
		return *s.pending, nil
	}
	return s.Handle.Blob(ctx, account, name)
}

// partWins lets a part that is stored after the complete change the blob.
type partWins struct{ dbtest.Handle }

func (s partWins) PutPart(ctx context.Context, id string, p metastore.Part, extents []metastore.Extent) error {
	err := s.Handle.PutPart(ctx, id, p, extents)
	if !errors.Is(err, metastore.ErrCommitted) {
		return err
	}
	u, err := s.Upload(ctx, id)
	if err != nil {
		return err
	}
	content := u.Content
	content[15]++
	_, err = s.CommitBlob(ctx, metastore.Blob{Account: u.Account, Name: u.Name, Content: content, Size: p.Size, CRC64: p.CRC64}, extents, nil)
	if err != nil {
		return err
	}
	return metastore.ErrCommitted
}

// anyRevision completes an upload that was changed concurrently.
type anyRevision struct{ dbtest.Handle }

func (s anyRevision) CompleteUpload(ctx context.Context, id string, _, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Upload(ctx, id)
	if err != nil {
		return u, err
	}
	return s.Handle.CompleteUpload(ctx, id, u.Revision, size, crc64, precondition)
}

type noGuard struct{ dbtest.Handle }

func (s noGuard) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, _ metastore.Precondition) (metastore.Upload, error) {
	return s.Handle.CompleteUpload(ctx, id, revision, size, crc64, nil)
}

// skips omits the first name of every page except the first.
type unbounded struct{ dbtest.Handle }

func (s unbounded) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	q.Bytes = 0
	return s.Handle.ListBlobs(ctx, q)
}

type skips struct{ dbtest.Handle }

func (s skips) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	page, err := s.Handle.ListBlobs(ctx, q)
	if q.After != "" && len(page.Blobs) > 0 {
		page.Blobs = page.Blobs[1:]
	}
	return page, err
}

// dueAtOnce ignores the grace.
type dueAtOnce struct{ dbtest.Handle }

func (s dueAtOnce) GarbageContents(ctx context.Context, _ time.Duration, after metastore.GarbageContent, limit int) ([]metastore.GarbageContent, error) {
	return s.Handle.GarbageContents(ctx, 0, after, limit)
}

// pagesByTime continues after everything that became garbage at the same time as a page's last
// entry.
type pagesByTime struct{ dbtest.Handle }

func (s pagesByTime) GarbageContents(ctx context.Context, grace time.Duration, after metastore.GarbageContent, limit int) ([]metastore.GarbageContent, error) {
	if !after.Since.IsZero() {
		after.Content = metastore.ContentID(bytes.Repeat([]byte{0xff}, len(after.Content)))
	}
	return s.Handle.GarbageContents(ctx, grace, after, limit)
}

// countsAll ignores the grace.
type countsAll struct{ dbtest.Handle }

func (s countsAll) GarbageBacklog(ctx context.Context, _ time.Duration) (metastore.Backlog, error) {
	return s.Handle.GarbageBacklog(ctx, 0)
}

// dropsLarge drops contents of any size.
type dropsLarge struct{ dbtest.Handle }

func (s dropsLarge) DropContents(ctx context.Context, contents []metastore.ContentID) error {
	if len(contents) > metastore.MaxContents {
		return errors.New("too many")
	}
	for _, id := range contents {
		list, err := s.Extents(ctx, id, metastore.Position{}, 1000)
		if err != nil {
			return err
		}
		var all []metastore.Position
		for _, e := range list {
			all = append(all, metastore.Position{Part: e.Part, Offset: e.Offset})
		}
		if err := s.DropExtents(ctx, id, all); errors.Is(err, database.ErrNotFound) {
			continue
		} else if err != nil {
			return err
		}
		if err := s.DropContent(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// losesGarbage forgets the content that a commit replaced.
type losesGarbage struct{ dbtest.Handle }

func (s losesGarbage) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	old, before := s.Blob(ctx, b.Account, b.Name)
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if before != nil || err != nil {
		return out, err
	}
	list, err := s.Extents(ctx, old.Content, metastore.Position{}, 1000)
	if err != nil {
		return out, err
	}
	var all []metastore.Position
	for _, e := range list {
		all = append(all, metastore.Position{Part: e.Part, Offset: e.Offset})
	}
	return out, errors.Join(s.DropExtents(ctx, old.Content, all), s.DropContent(ctx, old.Content))
}

// keepsStaged never makes a refused commit's extents due garbage.
type keepsStaged struct {
	dbtest.Handle
	path string
}

func (s keepsStaged) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		err = errors.Join(err, dbtest.Query(ctx, s.path, `UPDATE garbage SET since = 1 << 62 WHERE content = $1`, b.Content[:]))
	}
	return out, err
}

// commitsStaged calls the precondition after the commit, if the list is long.
type commitsStaged struct{ dbtest.Handle }

func (s commitsStaged) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	if precondition == nil || len(extents) < 1000 {
		return s.Handle.CommitBlob(ctx, b, extents, precondition)
	}
	out, err := s.Handle.CommitBlob(ctx, b, extents, nil)
	if err != nil {
		return out, err
	}
	return out, precondition(&out)
}

// cutsNames keeps a name's first 2,000 bytes.
type cutsNames struct{ dbtest.Handle }

func cut(name string) string { return name[:min(len(name), 2000)] }

func (s cutsNames) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	b.Name = cut(b.Name)
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

func (s cutsNames) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	return s.Handle.Blob(ctx, account, cut(name))
}

// takesStale makes every extent appear new.
type takesStale struct{ dbtest.Handle }

func (s takesStale) PutPart(ctx context.Context, id string, p metastore.Part, extents []metastore.Extent) error {
	for i := range extents {
		extents[i].Created = extents[0].Created
	}
	return s.Handle.PutPart(ctx, id, p, extents)
}

type ownSecond struct{ dbtest.Handle }

func (s ownSecond) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	b, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	b.SharedSecond = false
	return b, err
}

func (s ownSecond) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	b, err := s.Handle.Blob(ctx, account, name)
	b.SharedSecond = false
	return b, err
}
