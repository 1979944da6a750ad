package metatest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/access/keys"
	"sluice/database"
	"sluice/metastore"
	"sluice/metastore/metatest"
)

func TestBrokenKeysAreCaught(t *testing.T) {
	catch(t, []mutant{
		{"a second revoke moves the time", func(h metatest.Handle, path string) metatest.Handle { return revokesAgain{h, path} }, []string{"keys/revoke", "keys/racing-revokes"}},
		{"a second revoke revives", func(h metatest.Handle, path string) metatest.Handle { return revives{h, path} }, []string{"keys/revoke"}},
		{"forgets expired keys", func(h metatest.Handle, path string) metatest.Handle { return forgetsExpired{h, path} }, []string{"keys/stay"}},
		{"the last key sets the limits", func(h metatest.Handle, path string) metatest.Handle { return lastLimits{h, path} }, []string{"keys/groups", "keys/racing-creators"}},
		{"no accounts become all accounts", func(h metatest.Handle, _ string) metatest.Handle { return allAccounts{h} }, []string{"keys/accounts"}},
		{"replaces a key of the same id", func(h metatest.Handle, path string) metatest.Handle { return replacesKey{h, path} }, []string{"keys/create", "keys/racing-creators"}},
		{"omits revoked keys", func(h metatest.Handle, _ string) metatest.Handle { return listsValid{h} }, []string{"keys/list"}},
		{"skips a key at a page border", func(h metatest.Handle, _ string) metatest.Handle { return skipsKey{h} }, []string{"keys/list"}},
		{"the version does not change", func(h metatest.Handle, _ string) metatest.Handle { return stillVersion{h} }, []string{"keys/version"}},
		{"an update revives a revoked key", func(h metatest.Handle, path string) metatest.Handle { return updateRevives{h, path} }, []string{"keys/update"}},
		{"an update changes the group", func(h metatest.Handle, path string) metatest.Handle { return updateRegroups{h, path} }, []string{"keys/update"}},
		{"an update is not atomic", func(h metatest.Handle, _ string) metatest.Handle { return updatesLate{h} }, []string{"keys/racing-updates"}},
		{"an update does not change the version", func(h metatest.Handle, path string) metatest.Handle { return quietUpdate{h, path} }, []string{"keys/version"}},
		{"new limits do not change the version", func(h metatest.Handle, path string) metatest.Handle { return quietLimits{h, path} }, []string{"keys/version"}},
		{"new limits apply to all groups", func(h metatest.Handle, path string) metatest.Handle { return limitsForAll{h, path} }, []string{"keys/group-limits"}},
		{"limits of an unknown group are zero", func(h metatest.Handle, _ string) metatest.Handle { return zeroLimits{h} }, []string{"keys/group-limits"}},
		{"a revoke does not change the version", func(h metatest.Handle, path string) metatest.Handle { return quietRevoke{h, path} }, []string{"keys/version"}},
	})
}

func TestBrokenUsageIsCaught(t *testing.T) {
	catch(t, []mutant{
		{"an overwrite releases nothing", func(h metatest.Handle, path string) metatest.Handle { return keepsReplaced{h, path} }, []string{"usage/blobs", "usage/race-one-name", "model/history"}},
		{"an overwrite releases usage of the writer", func(h metatest.Handle, path string) metatest.Handle { return givesToWriter{h, path} }, []string{"usage/blobs"}},
		{"a delete releases nothing", func(h metatest.Handle, path string) metatest.Handle { return keepsDeleted{h, path} }, []string{"usage/blobs", "usage/race"}},
		{"an abort releases nothing", func(h metatest.Handle, path string) metatest.Handle { return keepsAborted{h, path} }, []string{"usage/uploads"}},
		{"a repeated abort releases twice", func(h metatest.Handle, path string) metatest.Handle { return abortsTwice{h, path} }, []string{"usage/uploads"}},
		{"a part sent again counts twice", func(h metatest.Handle, path string) metatest.Handle { return countsPartTwice{h, path} }, []string{"usage/uploads"}},
		{"a complete counts the parts again", func(h metatest.Handle, path string) metatest.Handle { return countsTwice{h, path} }, []string{"usage/complete"}},
		{"a complete leaves the upload open", func(h metatest.Handle, path string) metatest.Handle { return staysCounted{h, path} }, []string{"usage/complete"}},
		{"a complete loses the owner", func(h metatest.Handle, path string) metatest.Handle { return losesOwner{h, path} }, []string{"usage/owners"}},
		{"a refusal counts", func(h metatest.Handle, path string) metatest.Handle { return countsRefused{h, path} }, []string{"usage/refused"}},
		{"a purge releases nothing", func(h metatest.Handle, path string) metatest.Handle { return keepsPurged{h, path} }, []string{"usage/purge", "usage/complete"}},
		{"a purge loses a row", func(h metatest.Handle, path string) metatest.Handle { return losesRow{h, path} }, []string{"usage/many-rows", "usage/race", "model/history"}},
		{"a purge counts rows twice", func(h metatest.Handle, path string) metatest.Handle { return addsRow{h, path} }, []string{"usage/many-rows"}},
		{"counts outside the transaction", func(h metatest.Handle, path string) metatest.Handle { return countsLater{h, path} }, []string{"usage/race-one-name"}},
		{"metadata does not count", func(h metatest.Handle, path string) metatest.Handle { return freeMetadata{h, path} }, []string{"usage/metadata", "model/history"}},
		{"replaced metadata counts on", func(h metatest.Handle, path string) metatest.Handle { return keepsReplacedMetadata{h, path} }, []string{"usage/metadata", "model/history"}},
		{"purged metadata counts on", func(h metatest.Handle, path string) metatest.Handle { return keepsPurgedMetadata{h, path} }, []string{"usage/metadata"}},
	})
}

// countNames changes the counted bytes of names and metadata without the store.
func countNames(ctx context.Context, path, owner string, names int) error {
	if owner == "" || names == 0 {
		return nil
	}
	id := metastore.NewContentID(time.Now())
	return query(ctx, path, `INSERT INTO usage (owner, id, bytes, uploads, names) VALUES ($1, $2, 0, 0, $3)`, []byte(owner), id[:], int64(names))
}

type freeMetadata struct {
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
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

type updateRevives struct {
	metatest.Handle
	path string
}

func (s updateRevives) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	k, err := s.Handle.UpdateKey(ctx, id, change)
	return k, errors.Join(err, query(ctx, s.path, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id)))
}

type updateRegroups struct {
	metatest.Handle
	path string
}

func (s updateRegroups) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	k, err := s.Handle.UpdateKey(ctx, id, change)
	if err != nil {
		return k, err
	}
	changed := k
	change(&changed)
	k.Group = changed.Group
	return k, nil
}

// updatesLate reads the key before the transaction that changes it.
type updatesLate struct{ metatest.Handle }

func (s updatesLate) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	changed, err := s.Key(ctx, id)
	if err != nil {
		return changed, err
	}
	change(&changed)
	return s.Handle.UpdateKey(ctx, id, func(k *keys.Key) { *k = changed })
}

type quietUpdate struct {
	metatest.Handle
	path string
}

func (s quietUpdate) UpdateKey(ctx context.Context, id string, change func(*keys.Key)) (keys.Key, error) {
	k, err := s.Handle.UpdateKey(ctx, id, change)
	if err == nil {
		err = query(ctx, s.path, `UPDATE keys_version SET version = version - 1`)
	}
	return k, err
}

type quietLimits struct {
	metatest.Handle
	path string
}

func (s quietLimits) SetGroupLimits(ctx context.Context, group string, change func(*keys.Limits)) (keys.Limits, error) {
	l, err := s.Handle.SetGroupLimits(ctx, group, change)
	if err == nil {
		err = query(ctx, s.path, `UPDATE keys_version SET version = version - 1`)
	}
	return l, err
}

type limitsForAll struct {
	metatest.Handle
	path string
}

func (s limitsForAll) SetGroupLimits(ctx context.Context, group string, change func(*keys.Limits)) (keys.Limits, error) {
	l, err := s.Handle.SetGroupLimits(ctx, group, change)
	if err == nil {
		err = query(ctx, s.path, `UPDATE key_groups SET channels = $1`, l.Channels)
	}
	return l, err
}

type zeroLimits struct{ metatest.Handle }

func (s zeroLimits) GroupLimits(ctx context.Context, group string) (keys.Limits, error) {
	l, err := s.Handle.GroupLimits(ctx, group)
	if errors.Is(err, database.ErrNotFound) {
		err = nil
	}
	return l, err
}

type revokesAgain struct {
	metatest.Handle
	path string
}

func (s revokesAgain) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	err := query(ctx, s.path, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id))
	out, rerr := s.Handle.RevokeKey(ctx, id)
	return out, errors.Join(err, rerr)
}

type revives struct {
	metatest.Handle
	path string
}

func (s revives) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	before, err := s.Key(ctx, id)
	if err != nil || before.Revoked.IsZero() {
		return s.Handle.RevokeKey(ctx, id)
	}
	return before, query(ctx, s.path, `UPDATE api_keys SET revoked = NULL WHERE id = $1`, []byte(id))
}

type forgetsExpired struct {
	metatest.Handle
	path string
}

func (s forgetsExpired) Purge(ctx context.Context, limit int) (int, error) {
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, query(ctx, s.path, `DELETE FROM api_keys WHERE expires IS NOT NULL`))
}

type lastLimits struct {
	metatest.Handle
	path string
}

func (s lastLimits) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	out, err := s.Handle.CreateKey(ctx, k)
	if !errors.Is(err, keys.ErrGroupLimits) {
		return out, err
	}
	limits := k.Limits
	k.Limits = keys.Limits{}
	if out, err = s.Handle.CreateKey(ctx, k); err != nil {
		return out, err
	}
	out.Limits = limits
	return out, query(ctx, s.path, `UPDATE key_groups SET stored_bytes = $2, open_uploads = $3 WHERE name = $1`,
		[]byte(k.Group), limits.StoredBytes, limits.OpenUploads)
}

type allAccounts struct{ metatest.Handle }

func (s allAccounts) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	if len(k.Accounts) == 0 {
		k.Accounts = nil
	}
	return s.Handle.CreateKey(ctx, k)
}

type replacesKey struct {
	metatest.Handle
	path string
}

func (s replacesKey) CreateKey(ctx context.Context, k keys.Key) (keys.Key, error) {
	err := query(ctx, s.path, `DELETE FROM api_keys WHERE id = $1`, []byte(k.ID))
	out, cerr := s.Handle.CreateKey(ctx, k)
	return out, errors.Join(err, cerr)
}

type listsValid struct{ metatest.Handle }

func (s listsValid) ListKeys(ctx context.Context, after string, limit int) ([]keys.Key, error) {
	list, err := s.Handle.ListKeys(ctx, after, limit)
	return slices.DeleteFunc(list, func(k keys.Key) bool { return !k.Revoked.IsZero() }), err
}

type skipsKey struct{ metatest.Handle }

func (s skipsKey) ListKeys(ctx context.Context, after string, limit int) ([]keys.Key, error) {
	list, err := s.Handle.ListKeys(ctx, after, limit)
	if after != "" && len(list) > 0 {
		list = list[1:]
	}
	return list, err
}

type stillVersion struct{ metatest.Handle }

func (s stillVersion) KeysVersion(context.Context) (int64, error) { return 7, nil }

type quietRevoke struct {
	metatest.Handle
	path string
}

func (s quietRevoke) RevokeKey(ctx context.Context, id string) (keys.Key, error) {
	out, err := s.Handle.RevokeKey(ctx, id)
	if err != nil {
		return out, err
	}
	return out, query(ctx, s.path, `UPDATE keys_version SET version = version - 1`)
}

// count changes usage without the store.
func count(ctx context.Context, path, owner string, bytes, uploads int64) error {
	if owner == "" {
		return nil
	}
	id := metastore.NewContentID(time.Now())
	return query(ctx, path, `INSERT INTO usage (owner, id, bytes, uploads) VALUES ($1, $2, $3, $4)`, []byte(owner), id[:], bytes, uploads)
}

type keepsReplaced struct {
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
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
	metatest.Handle
	path string
}

func (s losesOwner) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Handle.CompleteUpload(ctx, id, revision, size, crc64, precondition)
	if err != nil {
		return u, err
	}
	return u, query(ctx, s.path, `UPDATE blobs SET owner = NULL WHERE content = $1`, u.Content[:])
}

type countsRefused struct {
	metatest.Handle
	path string
}

func (s countsRefused) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	if err != nil {
		err = errors.Join(err, count(context.WithoutCancel(ctx), s.path, b.Owner, b.Size, 0))
	}
	return out, err
}

// keepsPurged forgets in a purge whose usage to release.
type keepsPurged struct {
	metatest.Handle
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
	metatest.Handle
	path string
}

func (s losesRow) Purge(ctx context.Context, limit int) (int, error) {
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, query(ctx, s.path, `DELETE FROM usage WHERE (owner, id) IN (SELECT owner, id FROM usage WHERE bytes > 0 LIMIT 1)`))
}

type addsRow struct {
	metatest.Handle
	path string
}

func (s addsRow) Purge(ctx context.Context, limit int) (int, error) {
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, query(ctx, s.path, `INSERT INTO usage (owner, id, bytes, uploads)
		SELECT owner, randomblob(16), bytes, uploads FROM usage LIMIT 1`))
}

// countsLater counts what a commit replaces as it was before the commit.
type countsLater struct {
	metatest.Handle
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
	err = query(ctx, s.path, `UPDATE blobs SET owner = $1 WHERE content = $2`, []byte(owner), b.Content[:])
	if before == nil {
		err = errors.Join(err, count(ctx, s.path, old.Owner, -old.Size, 0))
	}
	out.Owner = owner
	return out, errors.Join(err, count(ctx, s.path, owner, b.Size, 0))
}
