package metatest_test

import (
	"context"
	"errors"
	"testing"

	"sluice/database/dbtest"
	"sluice/metastore"
)

// TestBrokenUnevenPartsAreCaught breaks a store's rows of uneven parts, and how it completes their
// uploads.
func TestBrokenUnevenPartsAreCaught(t *testing.T) {
	const begun = `AFTER INSERT ON starts`
	start := func(value string) string {
		return dbtest.On(begun, `UPDATE starts SET `+value+` WHERE content = NEW.content AND part = NEW.part`)
	}
	completes := func(change func(c *unevenCompletion)) func(dbtest.Correct) dbtest.Handle {
		return func(c dbtest.Correct) dbtest.Handle { return changesCompletions{c, change} }
	}
	catch(t, []dbtest.Mutant{
		{Name: "does not date parts", Schema: dbtest.On(`AFTER INSERT ON parts`, `UPDATE parts SET stored = NULL WHERE content = NEW.content`), Caught: []string{"uploads/parts"}},
		{Name: "dates a part once", Schema: dbtest.On(resent, `UPDATE parts SET stored = OLD.stored WHERE content = NEW.content AND idx = NEW.idx`), Caught: []string{"uploads/parts"}},
		{Name: "keeps a part's first checksum", Schema: dbtest.On(resent, `UPDATE parts SET checksum = OLD.checksum WHERE content = NEW.content AND idx = NEW.idx`), Caught: []string{"uploads/parts"}},
		{Name: "forgets the checksums of chosen parts", Schema: start(`checksum = NULL`), Caught: []string{"uneven/complete", "uneven/even"}},
		{Name: "forgets where parts begin", Schema: dbtest.On(begun, `DELETE FROM starts WHERE content = NEW.content`), Caught: []string{"uneven/complete", "uneven/many", "model/history"}},
		{Name: "begins parts too late", Schema: start(`start = start + 1`), Caught: []string{"uneven/complete", "uneven/unchosen", "uneven/many", "model/history"}},
		{Name: "begins parts at the last one", Schema: start(`start = start - size`), Caught: []string{"uneven/complete", "uneven/race"}},
		{Name: "sizes parts wrongly", Schema: start(`size = size + 1`), Caught: []string{"uneven/complete", "uneven/repeated", "model/history"}},
		{Name: "keeps the starts of dropped contents", Schema: `DROP TRIGGER starts_dropped`, Caught: []string{"uneven/garbage"}},
		{Name: "drops the starts with the blob", Schema: dbtest.On(`AFTER INSERT ON garbage`, `DELETE FROM starts WHERE content = NEW.content`), Caught: []string{"uneven/garbage"}},
		{Name: "drops the starts with the first copy", Schema: dbtest.On(countedDown, `DELETE FROM starts WHERE content = NEW.content`), Caught: []string{"uneven/copies"}},
		{Name: "a part that is not chosen is free", Schema: dbtest.On(committed, charge("NEW.owner", "retained", "NEW.size - NEW.bytes")), Caught: []string{"uneven/usage", "model/history"}},
		{Name: "a part that is not chosen has no rows", Schema: dbtest.On(committed+" AND NEW.size < NEW.bytes", charge("NEW.owner", "retained", "-1024")), Caught: []string{"uneven/usage", "model/history"}},
		{Name: "chooses all parts", Break: dbtest.Broken[choosesAll], Caught: []string{"uneven/unchosen", "uneven/usage", "uneven/race", "model/history"}},
		{Name: "an uneven complete ignores the revision", Break: dbtest.Broken[choosesAtAnyRevision], Caught: []string{"uneven/refused", "uneven/race", "model/history"}},
		{Name: "an uneven complete ignores the precondition", Break: completes(func(c *unevenCompletion) { c.precondition = nil }), Caught: []string{"uneven/refused", "model/history"}},
		{Name: "an uneven complete takes any order", Break: dbtest.Broken[choosesInAnyOrder], Caught: []string{"uneven/refused"}},
		{Name: "forgets the CRC of uneven parts", Break: completes(func(c *unevenCompletion) { c.crc64 = 0 }), Caught: []string{"uneven/complete", "model/history"}},
		{Name: "an uneven complete describes nothing", Break: completes(func(c *unevenCompletion) { c.metadata = "" }), Caught: []string{"uneven/empty", "model/history"}},
		{Name: "an uneven complete cannot be repeated", Break: dbtest.Broken[choosesOnce], Caught: []string{"uneven/repeated"}},
		{Name: "no parts are even", Break: dbtest.Broken[neverEven], Caught: []string{"uneven/even", "uneven/unchosen", "model/history"}},
		{Name: "reads from the part's first extent", Break: dbtest.Broken[readsWholeParts], Caught: []string{"uneven/complete"}},
		{Name: "counts a page of parts", Break: dbtest.Broken[countsPages], Caught: []string{"uneven/complete", "uneven/unchosen"}},
		{Name: "repeats the part after which a page begins", Break: dbtest.Broken[pagesFrom], Caught: []string{"uneven/complete", "uneven/unchosen"}},
	})
}

// unevenCompletion has the arguments of CompleteUneven.
type unevenCompletion struct {
	revision     int64
	parts        []metastore.Part
	crc64        uint64
	metadata     string
	precondition metastore.Precondition
}

// changesCompletions changes a completion before it is made.
type changesCompletions struct {
	dbtest.Correct
	change func(*unevenCompletion)
}

func (s changesCompletions) CompleteUneven(
	ctx context.Context, id string, revision int64, parts []metastore.Part, crc64 uint64, metadata string, precondition metastore.Precondition,
) (metastore.Upload, error) {
	c := unevenCompletion{revision, parts, crc64, metadata, precondition}
	s.change(&c)
	return s.Correct.CompleteUneven(ctx, id, c.revision, c.parts, c.crc64, c.metadata, c.precondition)
}

// choosesAll completes an upload with all its parts.
type choosesAll struct{ dbtest.Correct }

func (s choosesAll) CompleteUneven(
	ctx context.Context, id string, revision int64, parts []metastore.Part, crc64 uint64, metadata string, precondition metastore.Precondition,
) (metastore.Upload, error) {
	if all, err := s.Parts(ctx, id, -1, 1000); err == nil && len(all) > 0 {
		parts = all
	}
	return s.Correct.CompleteUneven(ctx, id, revision, parts, crc64, metadata, precondition)
}

// choosesAtAnyRevision completes an upload at its present revision.
type choosesAtAnyRevision struct{ dbtest.Correct }

func (s choosesAtAnyRevision) CompleteUneven(
	ctx context.Context, id string, revision int64, parts []metastore.Part, crc64 uint64, metadata string, precondition metastore.Precondition,
) (metastore.Upload, error) {
	u, err := s.Correct.CompleteUneven(ctx, id, revision, parts, crc64, metadata, precondition)
	for errors.Is(err, metastore.ErrRevisionMismatch) {
		if u, err = s.Upload(ctx, id); err == nil {
			u, err = s.Correct.CompleteUneven(ctx, id, u.Revision, parts, crc64, metadata, precondition)
		}
	}
	return u, err
}

// choosesInAnyOrder sorts two parts that are in descending order.
type choosesInAnyOrder struct{ dbtest.Correct }

func (s choosesInAnyOrder) CompleteUneven(
	ctx context.Context, id string, revision int64, parts []metastore.Part, crc64 uint64, metadata string, precondition metastore.Precondition,
) (metastore.Upload, error) {
	if len(parts) == 2 && parts[0].Index > parts[1].Index {
		parts = []metastore.Part{parts[1], parts[0]}
	}
	return s.Correct.CompleteUneven(ctx, id, revision, parts, crc64, metadata, precondition)
}

// choosesOnce refuses to complete an upload that was completed.
type choosesOnce struct{ dbtest.Correct }

func (s choosesOnce) CompleteUneven(
	ctx context.Context, id string, revision int64, parts []metastore.Part, crc64 uint64, metadata string, precondition metastore.Precondition,
) (metastore.Upload, error) {
	if u, err := s.Upload(ctx, id); err == nil && u.State == metastore.UploadCommitted {
		return metastore.Upload{}, metastore.ErrCommitted
	}
	return s.Correct.CompleteUneven(ctx, id, revision, parts, crc64, metadata, precondition)
}

// neverEven gives every completed upload of uneven parts uneven parts.
type neverEven struct{ dbtest.Correct }

func (s neverEven) CompleteUneven(
	ctx context.Context, id string, revision int64, parts []metastore.Part, crc64 uint64, metadata string, precondition metastore.Precondition,
) (metastore.Upload, error) {
	u, err := s.Correct.CompleteUneven(ctx, id, revision, parts, crc64, metadata, precondition)
	if err == nil {
		err = s.Exec(ctx, `UPDATE blobs SET part_size = $2 WHERE content = $1`, u.Content[:], int64(metastore.UnevenParts))
	}
	return u, err
}

// readsWholeParts begins every page of extents with the part's first one.
type readsWholeParts struct{ dbtest.Correct }

func (s readsWholeParts) ExtentsAt(ctx context.Context, content metastore.ContentID, offset int64, limit int) ([]metastore.Extent, error) {
	list, err := s.Correct.ExtentsAt(ctx, content, offset, limit)
	if err != nil || len(list) == 0 {
		return list, err
	}
	return s.Correct.ExtentsAt(ctx, content, list[0].Start, limit)
}

// countsPages returns a page's length as the number of all parts.
type countsPages struct{ dbtest.Correct }

func (s countsPages) PartRanges(ctx context.Context, content metastore.ContentID, after, limit int) ([]metastore.PartRange, int, error) {
	list, _, err := s.Correct.PartRanges(ctx, content, after, limit)
	return list, len(list), err
}

// pagesFrom begins a page with the part after which it was to begin.
type pagesFrom struct{ dbtest.Correct }

func (s pagesFrom) PartRanges(ctx context.Context, content metastore.ContentID, after, limit int) ([]metastore.PartRange, int, error) {
	return s.Correct.PartRanges(ctx, content, after-1, limit)
}
