package metatest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"sluice/database/dbtest"
	"sluice/metastore"
)

func TestBrokenAccountsAreCaught(t *testing.T) {
	every := []string{"accounts/changes", "accounts/folded", "accounts/race"}
	catch(t, []dbtest.Mutant{
		{Name: "does not count commits", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return counts{h, path, `UPDATE account_sums SET blobs = blobs - 1`}
		}, Caught: every},
		{Name: "does not count bytes", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return counts{h, path, `UPDATE account_sums SET bytes = 0`}
		}, Caught: append(every, "accounts/pages", "accounts/purge")},
		{Name: "keeps an account without blobs", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return countsDeletes{h, path}
		}, Caught: append(every, "model/history")},
		{Name: "does not count a complete", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return countsNoComplete{h, path}
		}, Caught: []string{"accounts/changes", "accounts/race"}},
		{Name: "does not count what is purged", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `UPDATE account_sums SET blobs = blobs + (SELECT COUNT(*) FROM blobs b WHERE b.account = account_sums.account AND b.expires IS NOT NULL)`, `SELECT 1`)
		}, Caught: []string{"accounts/purge"}},
		{Name: "forgets what was added up", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `SELECT 1`, `DELETE FROM account_sums`)
		}, Caught: []string{"accounts/pages", "accounts/purge", "accounts/folded", "accounts/race"}},
		{Name: "includes the account after which the page begins", Break: func(h dbtest.Handle, _ string) dbtest.Handle {
			return listsFrom{h}
		}, Caught: []string{"accounts/pages"}},
		{Name: "skips an account between pages", Break: func(h dbtest.Handle, _ string) dbtest.Handle {
			return skipsAccounts{h}
		}, Caught: []string{"accounts/pages"}},
		{Name: "ignores the limit", Break: func(h dbtest.Handle, _ string) dbtest.Handle {
			return listsAll{h}
		}, Caught: []string{"accounts/pages"}},
	})
}

// countsDeletes counts an empty blob for each blob that is deleted.
type countsDeletes struct {
	dbtest.Handle
	path string
}

func (s countsDeletes) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	content, found, err := s.Handle.DeleteBlob(ctx, account, name, precondition)
	if found {
		err = errors.Join(err, dbtest.Query(ctx, s.path,
			`INSERT INTO account_sums (account, blobs, bytes) VALUES ($1, 1, 0) ON CONFLICT (account) DO UPDATE SET blobs = blobs + 1`, []byte(account)))
	}
	return content, found, err
}

// countsNoComplete does not count a completed upload's bytes.
type countsNoComplete struct {
	dbtest.Handle
	path string
}

func (s countsNoComplete) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Handle.CompleteUpload(ctx, id, revision, size, crc64, precondition)
	if err == nil {
		err = dbtest.Query(ctx, s.path, `UPDATE account_sums SET bytes = bytes - $2 WHERE account = $1`, []byte(u.Account), size)
	}
	return u, err
}

// listsFrom includes the account after itself.
type listsFrom struct{ dbtest.Handle }

func (s listsFrom) ListAccounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	all, err := s.Handle.ListAccounts(ctx, "", 1000)
	all = slices.DeleteFunc(all, func(a metastore.Account) bool { return a.Account < after })
	return all[:min(limit, len(all))], err
}

// skipsAccounts leaves out the first account of each page but the first.
type skipsAccounts struct{ dbtest.Handle }

func (s skipsAccounts) ListAccounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	page, err := s.Handle.ListAccounts(ctx, after, limit+1)
	if after != "" && len(page) > 0 {
		return page[1:], err
	}
	return page[:min(limit, len(page))], err
}

// listsAll returns all accounts.
type listsAll struct{ dbtest.Handle }

func (s listsAll) ListAccounts(ctx context.Context, after string, _ int) ([]metastore.Account, error) {
	return s.Handle.ListAccounts(ctx, after, 1000)
}
