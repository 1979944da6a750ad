package metatest_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
	"sluice/metastore"
)

// TestBrokenMethodsAreCaught breaks how a store's methods answer.
func TestBrokenMethodsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "two creators win", Break: dbtest.Broken[asksBefore], Caught: []string{"blobs/racing-creators"}},
		{Name: "acknowledges before the commit", Break: func(c dbtest.Correct) dbtest.Handle { return &writesLater{Correct: c} }, Caught: []string{"blobs/acknowledged"}},
		{Name: "re-sent part wins over complete", Break: dbtest.Broken[partWins], Caught: []string{"uploads/ended"}},
		{Name: "complete ignores the revision", Break: dbtest.Broken[anyRevision], Caught: []string{"uploads/revision"}},
		{Name: "complete ignores the precondition", Break: dbtest.Broken[noGuard], Caught: []string{"uploads/complete-precondition"}},
		{Name: "listing has pages of any size", Break: dbtest.Broken[unbounded], Caught: []string{"list/pages", "list/random", "list/bytes"}},
		{Name: "listing skips a name at a page border", Break: dbtest.Broken[skips], Caught: []string{"list/pages", "list/random", "names/long"}},
		{Name: "lists metadata always", Break: dbtest.Broken[listsMetadata], Caught: []string{"blobs/metadata", "model/history"}},
		{Name: "returns garbage that is not due", Break: dbtest.Broken[dueAtOnce], Caught: []string{"garbage/paging"}},
		{Name: "holds garbage for ever", Break: dbtest.Broken[holdsForEver], Caught: []string{"garbage/holds"}},
		{Name: "does not extend a hold", Break: dbtest.Broken[extendsNoHold], Caught: []string{"garbage/holds"}},
		{Name: "releases every hold", Break: dbtest.Broken[releasesAll], Caught: []string{"garbage/holds"}},
		{Name: "skips garbage of one time at a page border", Break: dbtest.Broken[pagesByTime], Caught: []string{"garbage/paging"}},
		{Name: "counts garbage that is not due", Break: dbtest.Broken[countsAll], Caught: []string{"garbage/paging"}},
		{Name: "does not count the bytes of garbage", Break: dbtest.Broken[weightless], Caught: []string{"garbage/paging"}},
		{Name: "drops contents that are not small", Break: dbtest.Broken[dropsLarge], Caught: []string{"garbage/contents"}},
		{Name: "cuts long names", Break: dbtest.Broken[cutsNames], Caught: []string{"names/long", "blobs/oversize"}},
		{Name: "commits extents that were stored ahead", Break: dbtest.Broken[commitsStaged], Caught: []string{"blobs/large-refused"}},
		{Name: "accepts stale extents", Break: dbtest.Broken[takesStale], Caught: []string{"blobs/extent-age"}},
		{Name: "keeps the parts of ended uploads", Break: dbtest.Broken[keepsParts], Caught: []string{"uploads/outcome"}},
		{Name: "a repeated abort releases twice", Break: dbtest.Broken[abortsTwice], Caught: []string{"usage/uploads"}},
		{Name: "a refusal counts", Break: dbtest.Broken[countsRefused], Caught: []string{"usage/refused"}},
		{Name: "counts outside the transaction", Break: dbtest.Broken[countsLater], Caught: []string{"usage/race-one-name"}},
		{Name: "counts a repeated open", Break: dbtest.Broken[countsRepeats], Caught: []string{"usage/channels"}},
		{Name: "forgets an account in the total", Break: dbtest.Broken[totalsLess], Caught: []string{"accounts/changes", "accounts/pages", "accounts/folded"}},
		{Name: "includes the account after which the page begins", Break: dbtest.Broken[listsFrom], Caught: []string{"accounts/pages"}},
		{Name: "skips an account between pages", Break: dbtest.Broken[skipsAccounts], Caught: []string{"accounts/pages"}},
		{Name: "ignores the limit of accounts", Break: dbtest.Broken[listsAll], Caught: []string{"accounts/pages"}},
		{Name: "opens the row that it read first", Break: func(c dbtest.Correct) dbtest.Handle { return &keepsRows{Correct: c} }, Caught: []string{"blobs/open", "blobs/open-races"}},
		{Name: "opens a row that was read before a commit", Break: func(c dbtest.Correct) dbtest.Handle {
			return &invalidatesLate{keepsRows: keepsRows{Correct: c}, removed: make(chan struct{})}
		}, Caught: []string{"blobs/open-races"}},
		{Name: "opens an expired blob", Break: func(c dbtest.Correct) dbtest.Handle { return &keepsExpired{keepsRows{Correct: c}} }, Caught: []string{"blobs/open"}},
		{Name: "opens without the first extent", Break: dbtest.Broken[opensWithoutExtent], Caught: []string{"blobs/open"}},
		{Name: "opens with the second extent", Break: dbtest.Broken[opensSecondExtent], Caught: []string{"blobs/open"}},
	})
}

// asksBefore calls the precondition outside the transaction.
type asksBefore struct{ dbtest.Correct }

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
	return s.Correct.CommitBlob(ctx, b, extents, nil)
}

// writesLater acknowledges a commit immediately and keeps it in memory, where its own reads find
// it, until the next one.
type writesLater struct {
	dbtest.Correct
	mu      sync.Mutex
	pending *metastore.Blob
	extents []metastore.Extent
}

func (s *writesLater) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, _ metastore.Precondition) (metastore.Blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		if _, err := s.Correct.CommitBlob(ctx, *s.pending, s.extents, nil); err != nil {
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
	return s.Correct.Blob(ctx, account, name)
}

// partWins lets a part that is stored after the complete change the blob.
type partWins struct{ dbtest.Correct }

func (s partWins) PutPart(ctx context.Context, id string, p metastore.Part, extents []metastore.Extent) error {
	err := s.Correct.PutPart(ctx, id, p, extents)
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
type anyRevision struct{ dbtest.Correct }

func (s anyRevision) CompleteUpload(ctx context.Context, id string, _, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Upload(ctx, id)
	if err != nil {
		return u, err
	}
	return s.Correct.CompleteUpload(ctx, id, u.Revision, size, crc64, precondition)
}

type noGuard struct{ dbtest.Correct }

func (s noGuard) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, _ metastore.Precondition) (metastore.Upload, error) {
	return s.Correct.CompleteUpload(ctx, id, revision, size, crc64, nil)
}

// unbounded ignores the page's maximum size.
type unbounded struct{ dbtest.Correct }

func (s unbounded) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	q.Bytes = 0
	return s.Correct.ListBlobs(ctx, q)
}

// skips omits the first name of every page except the first.
type skips struct{ dbtest.Correct }

func (s skips) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	page, err := s.Correct.ListBlobs(ctx, q)
	if q.After != "" && len(page.Blobs) > 0 {
		page.Blobs = page.Blobs[1:]
	}
	return page, err
}

// dueAtOnce ignores the grace.
type dueAtOnce struct{ dbtest.Correct }

func (s dueAtOnce) GarbageContents(ctx context.Context, _ time.Duration, after metastore.GarbageContent, limit int) ([]metastore.GarbageContent, error) {
	return s.Correct.GarbageContents(ctx, 0, after, limit)
}

// holdsForEver ignores how long garbage is held.
type holdsForEver struct{ dbtest.Correct }

func (s holdsForEver) HoldGarbage(ctx context.Context, id string, _ time.Duration) (time.Time, error) {
	return s.Correct.HoldGarbage(ctx, id, 1000*time.Hour)
}

// extendsNoHold begins another hold and extends none.
type extendsNoHold struct{ dbtest.Correct }

func (s extendsNoHold) HoldGarbage(ctx context.Context, id string, d time.Duration) (time.Time, error) {
	if err := s.ReleaseGarbage(ctx, id); err != nil {
		return time.Time{}, err
	}
	return s.Correct.HoldGarbage(ctx, id, d)
}

// releasesAll ends the holds of all backups.
type releasesAll struct{ dbtest.Correct }

func (s releasesAll) ReleaseGarbage(ctx context.Context, id string) error {
	return errors.Join(s.Correct.ReleaseGarbage(ctx, id), s.Correct.ReleaseGarbage(ctx, "a"), s.Correct.ReleaseGarbage(ctx, "b"))
}

// pagesByTime continues after everything that became garbage at the same time as a page's last
// entry.
type pagesByTime struct{ dbtest.Correct }

func (s pagesByTime) GarbageContents(ctx context.Context, grace time.Duration, after metastore.GarbageContent, limit int) ([]metastore.GarbageContent, error) {
	if !after.Since.IsZero() {
		after.Content = metastore.ContentID(bytes.Repeat([]byte{0xff}, len(after.Content)))
	}
	return s.Correct.GarbageContents(ctx, grace, after, limit)
}

// countsAll ignores the grace.
type countsAll struct{ dbtest.Correct }

func (s countsAll) GarbageBacklog(ctx context.Context, _ time.Duration) (metastore.Backlog, error) {
	return s.Correct.GarbageBacklog(ctx, 0)
}

// dropsLarge drops contents of any size.
type dropsLarge struct{ dbtest.Correct }

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

// commitsStaged calls the precondition after the commit, if the list is long.
type commitsStaged struct{ dbtest.Correct }

func (s commitsStaged) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	if precondition == nil || len(extents) < 1000 {
		return s.Correct.CommitBlob(ctx, b, extents, precondition)
	}
	out, err := s.Correct.CommitBlob(ctx, b, extents, nil)
	if err != nil {
		return out, err
	}
	return out, precondition(&out)
}

// cutsNames keeps a name's first 2,000 bytes.
type cutsNames struct{ dbtest.Correct }

func (s cutsNames) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	b.Name = cut(b.Name)
	return s.Correct.CommitBlob(ctx, b, extents, precondition)
}

func (s cutsNames) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	return s.Correct.Blob(ctx, account, cut(name))
}

// takesStale makes every extent appear new.
type takesStale struct{ dbtest.Correct }

func (s takesStale) PutPart(ctx context.Context, id string, p metastore.Part, extents []metastore.Extent) error {
	for i := range extents {
		extents[i].Created = extents[0].Created
	}
	return s.Correct.PutPart(ctx, id, p, extents)
}

// listsMetadata ignores whether the query requests metadata.
type listsMetadata struct{ dbtest.Correct }

func (s listsMetadata) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	q.Metadata = true
	return s.Correct.ListBlobs(ctx, q)
}

// listsFrom includes the account after itself.
type listsFrom struct{ dbtest.Correct }

func (s listsFrom) ListAccounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	all, err := s.Correct.ListAccounts(ctx, "", 1000)
	all = slices.DeleteFunc(all, func(a metastore.Account) bool { return a.Account < after })
	return all[:min(limit, len(all))], err
}

// skipsAccounts leaves out the first account of each page but the first.
type skipsAccounts struct{ dbtest.Correct }

func (s skipsAccounts) ListAccounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	page, err := s.Correct.ListAccounts(ctx, after, limit+1)
	if after != "" && len(page) > 0 {
		return page[1:], err
	}
	return page[:min(limit, len(page))], err
}

type listsAll struct{ dbtest.Correct }

func (s listsAll) ListAccounts(ctx context.Context, after string, _ int) ([]metastore.Account, error) {
	return s.Correct.ListAccounts(ctx, after, 1000)
}

// keepsRows returns the row that it read first.
type keepsRows struct {
	dbtest.Correct
	rows sync.Map
}

func (s *keepsRows) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	key := account + "/" + name
	if kept, ok := s.rows.Load(key); ok {
		row := kept.(keptRow)
		return row.blob, row.first, nil
	}
	b, first, err := s.Correct.OpenBlob(ctx, account, name)
	if err == nil {
		s.rows.Store(key, keptRow{b, first})
	}
	return b, first, err
}

type keptRow struct {
	blob  metastore.Blob
	first []metastore.Extent
}

// invalidatesLate removes rows after a commit. A query that began before it inserts the old row
// afterwards.
type invalidatesLate struct {
	keepsRows

	mu      sync.Mutex
	removed chan struct{} // closed when the rows are removed the next time
}

func (s *invalidatesLate) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	key := account + "/" + name
	if _, ok := s.rows.Load(key); ok {
		return s.keepsRows.OpenBlob(ctx, account, name)
	}
	b, first, err := s.Correct.OpenBlob(ctx, account, name)
	if err != nil {
		return b, first, err
	}
	s.mu.Lock()
	removed := s.removed
	s.mu.Unlock()
	select {
	case <-removed:
	case <-time.After(50 * time.Millisecond): // there is no other commit
	}
	s.rows.Store(key, keptRow{b, first})
	return b, first, nil
}

func (s *invalidatesLate) removeRows() {
	s.rows.Clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.removed)
	s.removed = make(chan struct{})
}

func (s *invalidatesLate) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	defer s.removeRows()
	return s.Correct.CommitBlob(ctx, b, extents, precondition)
}

func (s *invalidatesLate) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	defer s.removeRows()
	return s.Correct.DeleteBlob(ctx, account, name, precondition)
}

// keepsExpired returns rows that it has after they have expired.
type keepsExpired struct{ keepsRows }

func (s *keepsExpired) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	s.rows.Clear()
	return s.Correct.CommitBlob(ctx, b, extents, precondition)
}

func (s *keepsExpired) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	s.rows.Clear()
	return s.Correct.DeleteBlob(ctx, account, name, precondition)
}

type opensWithoutExtent struct{ dbtest.Correct }

func (s opensWithoutExtent) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	b, _, err := s.Correct.OpenBlob(ctx, account, name)
	return b, nil, err
}

// opensSecondExtent returns the second extent, if there are two.
type opensSecondExtent struct{ dbtest.Correct }

func (s opensSecondExtent) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	b, first, err := s.Correct.OpenBlob(ctx, account, name)
	if err != nil {
		return b, first, err
	}
	list, err := s.Extents(ctx, b.Content, metastore.Position{}, 2)
	return b, list[max(0, len(list)-1):], errors.Join(err)
}

// weightless returns backlogs without bytes.
type weightless struct{ dbtest.Correct }

func (s weightless) GarbageBacklog(ctx context.Context, grace time.Duration) (metastore.Backlog, error) {
	b, err := s.Correct.GarbageBacklog(ctx, grace)
	b.Bytes = 0
	return b, err
}

// totalsLess omits an account from the total.
type totalsLess struct{ dbtest.Correct }

func (s totalsLess) TotalStored(ctx context.Context) (blobs, bytes int64, err error) {
	blobs, bytes, err = s.Correct.TotalStored(ctx)
	list, lerr := s.ListAccounts(ctx, "", 1)
	if err == nil && lerr == nil && len(list) > 0 {
		blobs, bytes = blobs-list[0].Blobs, bytes-list[0].Bytes
	}
	return blobs, bytes, err
}

type abortsTwice struct{ dbtest.Correct }

func (s abortsTwice) AbortUpload(ctx context.Context, id string) (metastore.ContentID, error) {
	u, before := s.Upload(ctx, id)
	content, err := s.Correct.AbortUpload(ctx, id)
	if err == nil && before == nil && u.State == metastore.UploadAborted {
		err = count(ctx, s.Correct, u.Owner, -u.Bytes, -1)
	}
	return content, err
}

type countsRefused struct{ dbtest.Correct }

func (s countsRefused) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Correct.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		err = errors.Join(err, count(context.WithoutCancel(ctx), s.Correct, b.Owner, b.Size, 0))
	}
	return out, err
}

// countsLater counts the blob that a commit replaces as it was before the commit.
type countsLater struct{ dbtest.Correct }

func (s countsLater) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	owner := b.Owner
	b.Owner = ""
	old, before := s.Blob(ctx, b.Account, b.Name)
	out, err := s.Correct.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		return out, err
	}
	err = s.Exec(ctx, `UPDATE blobs SET owner = $1 WHERE content = $2`, []byte(owner), b.Content[:])
	if before == nil {
		err = errors.Join(err, count(ctx, s.Correct, old.Owner, -old.Size, 0))
	}
	out.Owner = owner
	return out, errors.Join(err, count(ctx, s.Correct, owner, b.Size, 0))
}

// countsRepeats counts a channel again that was opened before.
type countsRepeats struct{ dbtest.Correct }

func (s countsRepeats) OpenChannel(ctx context.Context, c ledger.Channel, idem *database.Idempotency) (ledger.Channel, error) {
	out, err := s.Correct.OpenChannel(ctx, c, idem)
	if err == nil && out.ID != c.ID {
		err = s.Exec(ctx, `UPDATE usage SET channels = channels + 1 WHERE owner = $1`, []byte(out.Owner))
	}
	return out, err
}

// keepsParts returns an upload's parts even after its end.
type keepsParts struct{ dbtest.Correct }

func (s keepsParts) Parts(ctx context.Context, uploadID string, after, limit int) ([]metastore.Part, error) {
	u, err := s.Upload(ctx, uploadID)
	if err == nil && u.State != metastore.UploadOpen && after < 0 {
		return []metastore.Part{{Size: u.Bytes}}, nil
	}
	return s.Correct.Parts(ctx, uploadID, after, limit)
}

func cut(name string) string { return name[:min(len(name), 2000)] }

// count changes an owner's usage without the store.
func count(ctx context.Context, c dbtest.Correct, owner string, bytes, uploads int64) error {
	if owner == "" {
		return nil
	}
	return c.Exec(ctx, `INSERT INTO usage (owner, id, bytes, uploads) VALUES ($1, randomblob(16), $2, $3)`, []byte(owner), bytes, uploads)
}
