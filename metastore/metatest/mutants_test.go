package metatest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/testclock"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/metastore/metatest"
)

// TestMain prevents rapid from shortening and storing the histories that detect a broken store:
// stored ones would be played on the others.
func TestMain(m *testing.M) {
	if err := errors.Join(flag.Set("rapid.nofailfile", "true"), flag.Set("rapid.shrinktime", "1ms")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// harness returns a harness over SQLite whose handles are broken by breakIt.
func harness(tb testing.TB, breakIt func(h metatest.Handle, path string) metatest.Handle) *metatest.Harness {
	path := filepath.Join(tb.TempDir(), "meta.db")
	clock := testclock.New()
	return metatest.NewHarness(clock, func() (metatest.Handle, error) {
		s, err := sqlstore.OpenSQLite(path, sqlstore.Options{Now: clock.Now})
		if err != nil {
			return nil, err
		}
		return breakIt(s, path), nil
	})
}

// mutant is a store that is broken on purpose. path is that of its database.
type mutant struct {
	name    string
	breakIt func(h metatest.Handle, path string) metatest.Handle
	caught  []string // by each of these checks
}

// catch runs single checks on broken stores, and on the correct one.
func catch(t *testing.T, mutants []mutant) {
	checks := map[string]metatest.Check{}
	for _, c := range metatest.Checks() {
		if _, twice := checks[c.Name]; twice {
			t.Fatalf("two checks are called %s", c.Name)
		}
		checks[c.Name] = c
	}
	for _, m := range mutants {
		for _, name := range m.caught {
			t.Run(m.name+"/"+name, func(t *testing.T) {
				check, ok := checks[name]
				if !ok {
					t.Fatalf("there is no check %s", name)
				}
				h := harness(t, m.breakIt)
				err := check.Run(t.Context(), h)
				if cerr := h.Close(); cerr != nil {
					t.Fatal(cerr)
				}
				if err == nil {
					t.Fatal("the broken store passed")
				}
				t.Logf("detected: %v", err)

				honest := harness(t, func(h metatest.Handle, _ string) metatest.Handle { return h })
				if err := errors.Join(check.Run(t.Context(), honest), honest.Close()); err != nil {
					t.Fatalf("the correct store failed: %v", err)
				}
			})
		}
	}
}

func TestBrokenStoresAreCaught(t *testing.T) {
	catch(t, []mutant{
		{"charges twice", func(h metatest.Handle, _ string) metatest.Handle { return chargesTwice{h} }, []string{"sessions/use", "sessions/racing-uses"}},
		{"both get the last chunkset", func(h metatest.Handle, _ string) metatest.Handle { return losesCharge{h} }, []string{"sessions/last-chunkset", "sessions/racing-uses"}},
		{"two creators win", func(h metatest.Handle, _ string) metatest.Handle { return asksBefore{h} }, []string{"blobs/racing-creators"}},
		{"acknowledges before the commit", func(h metatest.Handle, _ string) metatest.Handle { return &writesLater{Handle: h} }, []string{"blobs/acknowledged"}},
		{"re-sent part wins over complete", func(h metatest.Handle, _ string) metatest.Handle { return partWins{h} }, []string{"uploads/ended"}},
		{"complete ignores the revision", func(h metatest.Handle, _ string) metatest.Handle { return anyRevision{h} }, []string{"uploads/revision"}},
		{"ignores the idempotency key", func(h metatest.Handle, _ string) metatest.Handle { return noIdempotency{h} }, []string{"idempotency/use", "idempotency/create", "idempotency/racing"}},
		{"forgets the hash of the request", func(h metatest.Handle, _ string) metatest.Handle { return noHash{h} }, []string{"idempotency/hash"}},
		{"complete ignores the precondition", func(h metatest.Handle, _ string) metatest.Handle { return noGuard{h} }, []string{"uploads/complete-precondition"}},
		{"listing has pages of any size", func(h metatest.Handle, _ string) metatest.Handle { return unbounded{h} }, []string{"list/pages", "list/random", "list/bytes"}},
		{"listing skips a name at a page border", func(h metatest.Handle, _ string) metatest.Handle { return skips{h} }, []string{"list/pages", "list/random", "names/long"}},
		{"overwrite loses the garbage", func(h metatest.Handle, _ string) metatest.Handle { return losesGarbage{h} }, []string{"blobs/overwrite", "garbage/life"}},
		{"returns garbage that is not due", func(h metatest.Handle, _ string) metatest.Handle { return dueAtOnce{h} }, []string{"garbage/paging"}},
		{"skips garbage of one time at a page border", func(h metatest.Handle, _ string) metatest.Handle { return pagesByTime{h} }, []string{"garbage/paging"}},
		{"counts garbage that is not due", func(h metatest.Handle, _ string) metatest.Handle { return countsAll{h} }, []string{"garbage/paging"}},
		{"drops what is not small", func(h metatest.Handle, _ string) metatest.Handle { return dropsLarge{h} }, []string{"garbage/contents"}},
		{"cuts long names", func(h metatest.Handle, _ string) metatest.Handle { return cutsNames{h} }, []string{"names/long", "blobs/oversize"}},
		{"keeps what was stored ahead", func(h metatest.Handle, path string) metatest.Handle { return keepsStaged{h, path} }, []string{"blobs/large-refused"}},
		{"commits what was stored ahead", func(h metatest.Handle, _ string) metatest.Handle { return commitsStaged{h} }, []string{"blobs/large-refused"}},
		{"accepts stale extents", func(h metatest.Handle, _ string) metatest.Handle { return takesStale{h} }, []string{"blobs/extent-age"}},
		{"grants a lease to every holder", func(h metatest.Handle, _ string) metatest.Handle { return leasesToAll{h} }, []string{"leases/life", "leases/racing", "leases/release"}},
		{"leases never expire", func(h metatest.Handle, _ string) metatest.Handle { return leasesForever{h} }, []string{"leases/life", "leases/racing"}},
		{"renews no lease", func(h metatest.Handle, _ string) metatest.Handle { return &renewsNoLease{Handle: h} }, []string{"leases/life"}},
		{"releases no lease", func(h metatest.Handle, _ string) metatest.Handle { return takesNoLeaseBack{h} }, []string{"leases/release"}},
		{"replaces any value", func(h metatest.Handle, _ string) metatest.Handle { return replacesAny{h} }, []string{"properties/replace", "properties/racing-replaces"}},
		{"calls every date unique", func(h metatest.Handle, _ string) metatest.Handle { return ownSecond{h} }, []string{"blobs/dates"}},
		{"has another time", func(h metatest.Handle, _ string) metatest.Handle { return ownTime{h} }, []string{"clock/one-time"}},
		{"waits without a limit", func(h metatest.Handle, _ string) metatest.Handle { return waitsForever{h} }, []string{"patience/over"}},
		{"forgets no node", func(h metatest.Handle, _ string) metatest.Handle { return joinsForever{h} }, []string{"nodes/life", "nodes/racing"}},
		{"admits a node with other settings", func(h metatest.Handle, _ string) metatest.Handle { return asksLater{h} }, []string{"nodes/life"}},
		{"removes no node", func(h metatest.Handle, _ string) metatest.Handle { return neverLeaves{h} }, []string{"nodes/life"}},
		{"charges for a cancelled call", func(h metatest.Handle, _ string) metatest.Handle { return ignoresContext{h} }, []string{"blobs/cancelled"}},
		{"keeps the metadata of a replaced blob", func(h metatest.Handle, _ string) metatest.Handle { return keepsMetadata{h} }, []string{"blobs/metadata", "model/history"}},
		{"loses the metadata of an upload", func(h metatest.Handle, _ string) metatest.Handle { return losesMetadata{h} }, []string{"blobs/metadata", "uploads/life", "model/history"}},
		{"lists metadata always", func(h metatest.Handle, _ string) metatest.Handle { return listsMetadata{h} }, []string{"blobs/metadata", "model/history"}},
		{"cuts metadata", func(h metatest.Handle, _ string) metatest.Handle { return cutsMetadata{h} }, []string{"blobs/metadata"}},
	})
}

// keepsMetadata stores a version without metadata with that of the version that it replaces.
type keepsMetadata struct{ metatest.Handle }

func (s keepsMetadata) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	if old, err := s.Blob(ctx, b.Account, b.Name); err == nil && b.Metadata == "" {
		b.Metadata = old.Metadata
	}
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

// losesMetadata begins every upload without metadata.
type losesMetadata struct{ metatest.Handle }

func (s losesMetadata) BeginUpload(ctx context.Context, u metastore.Upload) (metastore.Upload, error) {
	u.Metadata = ""
	return s.Handle.BeginUpload(ctx, u)
}

// listsMetadata ignores whether the query requests metadata.
type listsMetadata struct{ metatest.Handle }

func (s listsMetadata) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	q.Metadata = true
	return s.Handle.ListBlobs(ctx, q)
}

// cutsMetadata stores at most 2,000 bytes of it.
type cutsMetadata struct{ metatest.Handle }

func (s cutsMetadata) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	b.Metadata = cut(b.Metadata)
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

// waitsForever uses sessions regardless of the caller's patience.
type waitsForever struct{ metatest.Handle }

func (s waitsForever) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	return s.Handle.UseSession(database.WithPatience(ctx, time.Hour), id, n, idem)
}

// replacesAny replaces a property whatever its value.
type replacesAny struct{ metatest.Handle }

func (s replacesAny) ReplaceProperty(ctx context.Context, name, _, value string) error {
	for {
		old, err := s.Property(ctx, name)
		if err != nil {
			return err
		}
		if err := s.Handle.ReplaceProperty(ctx, name, old, value); !errors.Is(err, database.ErrNotFound) {
			return err
		}
	}
}

type chargesTwice struct{ metatest.Handle }

func (s chargesTwice) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	out, err := s.Handle.UseSession(ctx, id, n, idem)
	if err != nil {
		return out, err
	}
	again, err := s.Handle.UseSession(ctx, id, n, nil)
	if err != nil { // nothing left for the second charge
		return out, nil
	}
	return again, nil
}

// losesCharge reads, and writes a result computed from that, so a concurrent charge is lost.
type losesCharge struct{ metatest.Handle }

func (s losesCharge) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	before, err := s.Session(ctx, id)
	if err != nil {
		return before, err
	}
	out, err := s.Handle.UseSession(ctx, id, n, idem)
	if errors.Is(err, ledger.ErrExhausted) && before.Left > 0 {
		before.Left -= n
		return before, nil
	}
	return out, err
}

// asksBefore calls the precondition outside of the transaction.
type asksBefore struct{ metatest.Handle }

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
	metatest.Handle
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
type partWins struct{ metatest.Handle }

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
type anyRevision struct{ metatest.Handle }

func (s anyRevision) CompleteUpload(ctx context.Context, id string, _, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Upload(ctx, id)
	if err != nil {
		return u, err
	}
	return s.Handle.CompleteUpload(ctx, id, u.Revision, size, crc64, precondition)
}

type noIdempotency struct{ metatest.Handle }

func (s noIdempotency) UseSession(ctx context.Context, id string, n int64, _ *ledger.Idempotency) (ledger.Session, error) {
	return s.Handle.UseSession(ctx, id, n, nil)
}

func (s noIdempotency) CreateSession(ctx context.Context, session ledger.Session, _ *ledger.Idempotency) (ledger.Session, error) {
	return s.Handle.CreateSession(ctx, session, nil)
}

// noHash replays an outcome to any request with the key.
type noHash struct{ metatest.Handle }

func (s noHash) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	if idem != nil {
		idem = &ledger.Idempotency{Scope: idem.Scope, Key: idem.Key}
	}
	return s.Handle.UseSession(ctx, id, n, idem)
}

type noGuard struct{ metatest.Handle }

func (s noGuard) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, _ metastore.Precondition) (metastore.Upload, error) {
	return s.Handle.CompleteUpload(ctx, id, revision, size, crc64, nil)
}

// skips omits the first name of every page except the first.
type unbounded struct{ metatest.Handle }

func (s unbounded) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	q.Bytes = 0
	return s.Handle.ListBlobs(ctx, q)
}

type skips struct{ metatest.Handle }

func (s skips) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	page, err := s.Handle.ListBlobs(ctx, q)
	if q.After != "" && len(page.Blobs) > 0 {
		page.Blobs = page.Blobs[1:]
	}
	return page, err
}

// dueAtOnce ignores the grace.
type dueAtOnce struct{ metatest.Handle }

func (s dueAtOnce) GarbageContents(ctx context.Context, _ time.Duration, after metastore.GarbageContent, limit int) ([]metastore.GarbageContent, error) {
	return s.Handle.GarbageContents(ctx, 0, after, limit)
}

// pagesByTime continues after everything of the time at which a page ended.
type pagesByTime struct{ metatest.Handle }

func (s pagesByTime) GarbageContents(ctx context.Context, grace time.Duration, after metastore.GarbageContent, limit int) ([]metastore.GarbageContent, error) {
	if !after.Since.IsZero() {
		after.Content = metastore.ContentID(bytes.Repeat([]byte{0xff}, len(after.Content)))
	}
	return s.Handle.GarbageContents(ctx, grace, after, limit)
}

// countsAll ignores the grace.
type countsAll struct{ metatest.Handle }

func (s countsAll) GarbageBacklog(ctx context.Context, _ time.Duration) (metastore.Backlog, error) {
	return s.Handle.GarbageBacklog(ctx, 0)
}

// dropsLarge drops contents of any size.
type dropsLarge struct{ metatest.Handle }

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
type losesGarbage struct{ metatest.Handle }

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

// keepsStaged never makes the extents of a refused commit due garbage.
type keepsStaged struct {
	metatest.Handle
	path string
}

func (s keepsStaged) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		err = errors.Join(err, query(ctx, s.path, `UPDATE garbage SET since = 1 << 62 WHERE content = $1`, b.Content[:]))
	}
	return out, err
}

// commitsStaged calls the precondition of a long list after the commit.
type commitsStaged struct{ metatest.Handle }

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

// cutsNames keeps the first 2,000 bytes of a name.
type cutsNames struct{ metatest.Handle }

func cut(name string) string { return name[:min(len(name), 2000)] }

func (s cutsNames) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	b.Name = cut(b.Name)
	return s.Handle.CommitBlob(ctx, b, extents, precondition)
}

func (s cutsNames) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	return s.Handle.Blob(ctx, account, cut(name))
}

// takesStale makes every extent appear new.
type takesStale struct{ metatest.Handle }

func (s takesStale) PutPart(ctx context.Context, id string, p metastore.Part, extents []metastore.Extent) error {
	for i := range extents {
		extents[i].Created = extents[0].Created
	}
	return s.Handle.PutPart(ctx, id, p, extents)
}

// ignoresContext uses a chunkset for a caller that was cancelled.
type ignoresContext struct{ metatest.Handle }

func (s ignoresContext) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (ledger.Session, error) {
	out, err := s.Handle.UseSession(context.WithoutCancel(ctx), id, n, idem)
	return out, errors.Join(err, ctx.Err())
}
