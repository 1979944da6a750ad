package metatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/ledger"
	"sluice/metastore"
)

// counts changes the rows of usage after each commit.
type counts struct {
	dbtest.Handle
	path, after string
}

func (s counts) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, s.after))
}

// countsChannels changes the rows of usage after each channel is opened.
type countsChannels struct {
	dbtest.Handle
	path, after string
}

func (s countsChannels) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	out, err := s.Handle.OpenChannel(ctx, c, idem)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, s.after))
}

// countsRepeats counts a channel again that was opened before.
type countsRepeats struct {
	dbtest.Handle
	path string
}

func (s countsRepeats) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	out, err := s.Handle.OpenChannel(ctx, c, idem)
	if err == nil && out.ID != c.ID {
		err = dbtest.Query(ctx, s.path, `UPDATE usage SET channels = channels + 1 WHERE owner = $1`, []byte(out.Owner))
	}
	return out, err
}

// dropsUncounted drops garbage, and continues to charge its owner.
type dropsUncounted struct {
	dbtest.Handle
	path string
}

func (s dropsUncounted) DropContents(ctx context.Context, contents []metastore.ContentID) error {
	return errors.Join(dbtest.Query(ctx, s.path, `UPDATE garbage SET charge = 0`), s.Handle.DropContents(ctx, contents))
}

func (s dropsUncounted) DropContent(ctx context.Context, content metastore.ContentID) error {
	return errors.Join(dbtest.Query(ctx, s.path, `UPDATE garbage SET owner = NULL`), s.Handle.DropContent(ctx, content))
}

// keepsParts returns an upload's parts also after its end.
type keepsParts struct {
	dbtest.Handle
	path string
}

func (s keepsParts) Parts(ctx context.Context, uploadID string, after, limit int) ([]metastore.Part, error) {
	u, err := s.Upload(ctx, uploadID)
	if err == nil && u.State != metastore.UploadOpen && after < 0 {
		return []metastore.Part{{Size: u.Bytes}}, nil
	}
	return s.Handle.Parts(ctx, uploadID, after, limit)
}

func TestBrokenUsageIsCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "an overwrite releases nothing", Break: func(h dbtest.Handle, path string) dbtest.Handle { return keepsReplaced{h, path} }, Caught: []string{"usage/blobs", "usage/race-one-name", "model/history"}},
		{Name: "an overwrite releases usage of the writer", Break: func(h dbtest.Handle, path string) dbtest.Handle { return givesToWriter{h, path} }, Caught: []string{"usage/blobs"}},
		{Name: "a delete releases nothing", Break: func(h dbtest.Handle, path string) dbtest.Handle { return keepsDeleted{h, path} }, Caught: []string{"usage/blobs", "usage/race"}},
		{Name: "an abort releases nothing", Break: func(h dbtest.Handle, path string) dbtest.Handle { return keepsAborted{h, path} }, Caught: []string{"usage/uploads"}},
		{Name: "a repeated abort releases twice", Break: func(h dbtest.Handle, path string) dbtest.Handle { return abortsTwice{h, path} }, Caught: []string{"usage/uploads"}},
		{Name: "a part sent again counts twice", Break: func(h dbtest.Handle, path string) dbtest.Handle { return countsPartTwice{h, path} }, Caught: []string{"usage/uploads"}},
		{Name: "a complete counts the parts again", Break: func(h dbtest.Handle, path string) dbtest.Handle { return countsTwice{h, path} }, Caught: []string{"usage/complete"}},
		{Name: "a complete leaves the upload open", Break: func(h dbtest.Handle, path string) dbtest.Handle { return staysCounted{h, path} }, Caught: []string{"usage/complete"}},
		{Name: "a complete loses the owner", Break: func(h dbtest.Handle, path string) dbtest.Handle { return losesOwner{h, path} }, Caught: []string{"usage/owners"}},
		{Name: "a refusal counts", Break: func(h dbtest.Handle, path string) dbtest.Handle { return countsRefused{h, path} }, Caught: []string{"usage/refused"}},
		{Name: "a purge releases nothing", Break: func(h dbtest.Handle, path string) dbtest.Handle { return keepsPurged{h, path} }, Caught: []string{"usage/purge", "usage/complete"}},
		{Name: "a purge loses a row", Break: func(h dbtest.Handle, path string) dbtest.Handle { return losesRow{h, path} }, Caught: []string{"usage/many-rows", "usage/race", "model/history"}},
		{Name: "a purge counts rows twice", Break: func(h dbtest.Handle, path string) dbtest.Handle { return addsRow{h, path} }, Caught: []string{"usage/many-rows"}},
		{Name: "counts outside the transaction", Break: func(h dbtest.Handle, path string) dbtest.Handle { return countsLater{h, path} }, Caught: []string{"usage/race-one-name"}},
		{Name: "metadata does not count", Break: func(h dbtest.Handle, path string) dbtest.Handle { return freeMetadata{h, path} }, Caught: []string{"usage/metadata", "model/history"}},
		{Name: "replaced metadata counts on", Break: func(h dbtest.Handle, path string) dbtest.Handle { return keepsReplacedMetadata{h, path} }, Caught: []string{"usage/metadata", "model/history"}},
		{Name: "purged metadata counts on", Break: func(h dbtest.Handle, path string) dbtest.Handle { return keepsPurgedMetadata{h, path} }, Caught: []string{"usage/metadata"}},
	})
}

// countNames changes the counted bytes of names and metadata without the store.
func countNames(ctx context.Context, path, owner string, names int) error {
	if owner == "" || names == 0 {
		return nil
	}
	id := metastore.NewContentID(time.Now())
	return dbtest.Query(ctx, path, `INSERT INTO usage (owner, id, bytes, uploads, names) VALUES ($1, $2, 0, 0, $3)`, []byte(owner), id[:], int64(names))
}

type freeMetadata struct {
	dbtest.Handle
	path string
}

func (s freeMetadata) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		return out, err
	}
	return out, countNames(ctx, s.path, b.Owner, -len(b.Metadata))
}

type keepsReplacedMetadata struct {
	dbtest.Handle
	path string
}

func (s keepsReplacedMetadata) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	old, before := s.Blob(ctx, b.Account, b.Name)
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil || before != nil {
		return out, err
	}
	return out, countNames(ctx, s.path, old.Owner, len(old.Metadata))
}

// keepsPurgedMetadata counts the names of what it purges, and not the metadata.
type keepsPurgedMetadata struct {
	dbtest.Handle
	path string
}

func (s keepsPurgedMetadata) Purge(ctx context.Context, limit int) (int, error) {
	before, err := s.Usage(ctx, "x")
	n, perr := s.Handle.Purge(ctx, limit)
	after, aerr := s.Usage(ctx, "x")
	if err := errors.Join(err, perr, aerr); err != nil || before.Names == after.Names {
		return n, err
	}
	return n, countNames(ctx, s.path, "x", 110)
}

// count changes usage without the store.
func count(ctx context.Context, path, owner string, bytes, uploads int64) error {
	if owner == "" {
		return nil
	}
	id := metastore.NewContentID(time.Now())
	return dbtest.Query(ctx, path, `INSERT INTO usage (owner, id, bytes, uploads) VALUES ($1, $2, $3, $4)`, []byte(owner), id[:], bytes, uploads)
}

type keepsReplaced struct {
	dbtest.Handle
	path string
}

func (s keepsReplaced) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	old, before := s.Blob(ctx, b.Account, b.Name)
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil || before != nil {
		return out, err
	}
	return out, count(ctx, s.path, old.Owner, old.Size, 0)
}

type givesToWriter struct {
	dbtest.Handle
	path string
}

func (s givesToWriter) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	old, before := s.Blob(ctx, b.Account, b.Name)
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil || before != nil {
		return out, err
	}
	return out, errors.Join(count(ctx, s.path, old.Owner, old.Size, 0), count(ctx, s.path, b.Owner, -old.Size, 0))
}

type keepsDeleted struct {
	dbtest.Handle
	path string
}

func (s keepsDeleted) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	old, before := s.Blob(ctx, account, name)
	id, had, err := s.Handle.DeleteBlob(ctx, account, name, precondition)
	if err == nil && had && before == nil {
		err = count(ctx, s.path, old.Owner, old.Size, 0)
	}
	return id, had, err
}

type keepsAborted struct {
	dbtest.Handle
	path string
}

func (s keepsAborted) AbortUpload(ctx context.Context, id string) (metastore.ContentID, error) {
	u, before := s.Upload(ctx, id)
	content, err := s.Handle.AbortUpload(ctx, id)
	if err == nil && before == nil && u.State == metastore.UploadOpen {
		err = count(ctx, s.path, u.Owner, u.Bytes, 1)
	}
	return content, err
}

type abortsTwice struct {
	dbtest.Handle
	path string
}

func (s abortsTwice) AbortUpload(ctx context.Context, id string) (metastore.ContentID, error) {
	u, before := s.Upload(ctx, id)
	content, err := s.Handle.AbortUpload(ctx, id)
	if err == nil && before == nil && u.State == metastore.UploadAborted {
		err = count(ctx, s.path, u.Owner, -u.Bytes, -1)
	}
	return content, err
}

type countsPartTwice struct {
	dbtest.Handle
	path string
}

func (s countsPartTwice) PutPart(ctx context.Context, id string, p metastore.Part, extents []metastore.Extent) error {
	u, before := s.Upload(ctx, id)
	parts, lerr := s.Parts(ctx, id, p.Index-1, 1)
	err := s.Handle.PutPart(ctx, id, p, extents)
	if err == nil && errors.Join(before, lerr) == nil && len(parts) == 1 && parts[0].Index == p.Index {
		err = count(ctx, s.path, u.Owner, parts[0].Size, 0)
	}
	return err
}

type countsTwice struct {
	dbtest.Handle
	path string
}

func (s countsTwice) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Handle.CompleteUpload(ctx, id, revision, size, crc64, precondition)
	if err != nil {
		return u, err
	}
	return u, count(ctx, s.path, u.Owner, u.Bytes, 0)
}

type staysCounted struct {
	dbtest.Handle
	path string
}

func (s staysCounted) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Handle.CompleteUpload(ctx, id, revision, size, crc64, precondition)
	if err != nil {
		return u, err
	}
	return u, count(ctx, s.path, u.Owner, 0, 1)
}

type losesOwner struct {
	dbtest.Handle
	path string
}

func (s losesOwner) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Handle.CompleteUpload(ctx, id, revision, size, crc64, precondition)
	if err != nil {
		return u, err
	}
	return u, dbtest.Query(ctx, s.path, `UPDATE blobs SET owner = NULL WHERE content = $1`, u.Content[:])
}

type countsRefused struct {
	dbtest.Handle
	path string
}

func (s countsRefused) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		err = errors.Join(err, count(context.WithoutCancel(ctx), s.path, b.Owner, b.Size, 0))
	}
	return out, err
}

// keepsPurged releases none of owner x's usage in a purge.
type keepsPurged struct {
	dbtest.Handle
	path string
}

func (s keepsPurged) Purge(ctx context.Context, limit int) (int, error) {
	// Once, because the last call finds nothing left to do.
	before, err := s.Usage(ctx, "x")
	n, perr := s.Handle.Purge(ctx, limit)
	after, aerr := s.Usage(ctx, "x")
	if err := errors.Join(err, perr, aerr); err != nil {
		return n, err
	}
	return n, count(ctx, s.path, "x", before.Bytes-after.Bytes, before.Uploads-after.Uploads)
}

type losesRow struct {
	dbtest.Handle
	path string
}

func (s losesRow) Purge(ctx context.Context, limit int) (int, error) {
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, dbtest.Query(ctx, s.path, `DELETE FROM usage WHERE (owner, id) IN (SELECT owner, id FROM usage WHERE bytes > 0 LIMIT 1)`))
}

type addsRow struct {
	dbtest.Handle
	path string
}

func (s addsRow) Purge(ctx context.Context, limit int) (int, error) {
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, dbtest.Query(ctx, s.path, `INSERT INTO usage (owner, id, bytes, uploads)
		SELECT owner, randomblob(16), bytes, uploads FROM usage LIMIT 1`))
}

// countsLater counts what a commit replaces as it was before the commit.
type countsLater struct {
	dbtest.Handle
	path string
}

func (s countsLater) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	owner := b.Owner
	b.Owner = ""
	old, before := s.Blob(ctx, b.Account, b.Name)
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		return out, err
	}
	err = dbtest.Query(ctx, s.path, `UPDATE blobs SET owner = $1 WHERE content = $2`, []byte(owner), b.Content[:])
	if before == nil {
		err = errors.Join(err, count(ctx, s.path, old.Owner, -old.Size, 0))
	}
	out.Owner = owner
	return out, errors.Join(err, count(ctx, s.path, owner, b.Size, 0))
}
