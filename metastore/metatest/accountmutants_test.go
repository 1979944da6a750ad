package metatest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"sluice/metastore"
	"sluice/metastore/metatest"
)

func TestBrokenAccountsAreCaught(t *testing.T) {
	every := []string{"accounts/changes", "accounts/folded", "accounts/race"}
	catch(t, []mutant{
		{"does not count commits", func(h metatest.Handle, path string) metatest.Handle {
			return counts{h, path, `UPDATE account_sums SET blobs = blobs - 1`}
		}, every},
		{"does not count bytes", func(h metatest.Handle, path string) metatest.Handle {
			return counts{h, path, `UPDATE account_sums SET bytes = 0`}
		}, append(every, "accounts/pages", "accounts/purge")},
		{"keeps an account without blobs", func(h metatest.Handle, path string) metatest.Handle {
			return countsDeletes{h, path}
		}, append(every, "model/history")},
		{"does not count a complete", func(h metatest.Handle, path string) metatest.Handle {
			return countsNoComplete{h, path}
		}, []string{"accounts/changes", "accounts/race"}},
		{"does not count what is purged", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `UPDATE account_sums SET blobs = blobs + (SELECT COUNT(*) FROM blobs b WHERE b.account = account_sums.account AND b.expires IS NOT NULL)`, `SELECT 1`}
		}, []string{"accounts/purge"}},
		{"forgets what was added up", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `SELECT 1`, `DELETE FROM account_sums`}
		}, []string{"accounts/pages", "accounts/purge", "accounts/folded", "accounts/race"}},
		{"includes the account after which the page begins", func(h metatest.Handle, _ string) metatest.Handle {
			return listsFrom{h}
		}, []string{"accounts/pages"}},
		{"skips an account between pages", func(h metatest.Handle, _ string) metatest.Handle {
			return skipsAccounts{h}
		}, []string{"accounts/pages"}},
		{"ignores the limit", func(h metatest.Handle, _ string) metatest.Handle {
			return listsAll{h}
		}, []string{"accounts/pages"}},
	})
}

// countsDeletes counts an empty blob for each blob that is deleted.
type countsDeletes struct {
	metatest.Handle
	path string
}

func (s countsDeletes) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	content, found, err := s.Handle.DeleteBlob(ctx, account, name, precondition)
	if found {
		err = errors.Join(err, query(ctx, s.path,
			`INSERT INTO account_sums (account, blobs, bytes) VALUES ($1, 1, 0) ON CONFLICT (account) DO UPDATE SET blobs = blobs + 1`, []byte(account)))
	}
	return content, found, err
}

// countsNoComplete does not count the bytes of a completed upload.
type countsNoComplete struct {
	metatest.Handle
	path string
}

func (s countsNoComplete) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (metastore.Upload, error) {
	u, err := s.Handle.CompleteUpload(ctx, id, revision, size, crc64, precondition)
	if err == nil {
		err = query(ctx, s.path, `UPDATE account_sums SET bytes = bytes - $2 WHERE account = $1`, []byte(u.Account), size)
	}
	return u, err
}

// listsFrom includes the account after itself.
type listsFrom struct{ metatest.Handle }

func (s listsFrom) ListAccounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	all, err := s.Handle.ListAccounts(ctx, "", 1000)
	all = slices.DeleteFunc(all, func(a metastore.Account) bool { return a.Account < after })
	return all[:min(limit, len(all))], err
}

// skipsAccounts leaves out the first account of each page but the first.
type skipsAccounts struct{ metatest.Handle }

func (s skipsAccounts) ListAccounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	page, err := s.Handle.ListAccounts(ctx, after, limit+1)
	if after != "" && len(page) > 0 {
		return page[1:], err
	}
	return page[:min(limit, len(page))], err
}

// listsAll returns all accounts.
type listsAll struct{ metatest.Handle }

func (s listsAll) ListAccounts(ctx context.Context, after string, _ int) ([]metastore.Account, error) {
	return s.Handle.ListAccounts(ctx, after, 1000)
}
