package meta

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// AccountCounts has each account's number and size of blobs. Triggers on the table blobs keep it,
// but on PostgreSQL whatever inserts a blob counts it.
var AccountCounts = usage.Counts{Deltas: "account_deltas", Sums: "account_sums", Key: "account", Columns: []string{"blobs", "bytes"}}

// ListAccounts implements metastore.Accounts.
func (s *Metastore) ListAccounts(ctx context.Context, after string, limit int) ([]metastore.Account, error) {
	return engine.ResultOf(ctx, s.in.SnapshotList, func(t tx) ([]metastore.Account, error) {
		list, err := t.accounts(after, limit)
		if err != nil || metastore.IsHidden(after) {
			return list, err
		}
		kept, err := t.accounts(metastore.KeptOf(after), limit)
		for _, k := range kept {
			of, _, ok := metastore.KeptBlob(k.Account, metastore.KeptName("", time.Time{}))
			if !ok || metastore.IsHidden(of.Account) {
				break // the rest is not kept for accounts
			}
			at, found := slices.BinarySearchFunc(list, of.Account, func(a metastore.Account, name string) int { return cmp.Compare(a.Account, name) })
			if !found {
				list = slices.Insert(list, at, metastore.Account{Account: of.Account})
			}
			list[at].Kept, list[at].KeptBytes = k.Blobs, k.Bytes
		}
		return list[:min(limit, len(list))], err
	})
}

// accounts returns up to limit accounts with blobs, greater than after.
func (t tx) accounts(after string, limit int) (list []metastore.Account, err error) {
	for more := true; more && len(list) < limit; {
		counted, rest, err := t.countedAccounts(after, limit)
		if err != nil {
			return nil, err
		}
		for _, a := range counted {
			if after = a.Account; a.Blobs != 0 {
				list = append(list, a)
			}
		}
		more = rest
	}
	return list[:min(limit, len(list))], nil
}

// TotalStored implements metastore.Accounts.
func (s *Metastore) TotalStored(ctx context.Context) (blobs, bytes int64, err error) {
	err = s.in.Read(ctx, func(t tx) error {
		_, err := t.Row(`SELECT CAST(COALESCE(SUM(blobs), 0) AS BIGINT), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM
			(SELECT blobs, bytes FROM account_sums UNION ALL SELECT blobs, bytes FROM account_deltas) counted`, nil,
			(*engine.Integer)(&blobs), (*engine.Integer)(&bytes))
		return err
	})
	return blobs, bytes, err
}

// countedAccounts returns counts for accounts greater than after, ordered by account. If more is
// set, they are for the first ones, at least limit; otherwise for all. Counts can be zero.
func (t tx) countedAccounts(after string, limit int) (list []metastore.Account, more bool, err error) {
	sums, err := t.readAccounts(`SELECT account, blobs, bytes FROM account_sums
		WHERE account > $1 ORDER BY account LIMIT ($2 + 0)`, after, limit)
	if err != nil {
		return nil, false, err
	}
	deltas, err := t.readAccounts(accountDeltas, after, limit)
	if err != nil {
		return nil, false, err
	}
	both := slices.Concat(sums, deltas)
	slices.SortFunc(both, func(a, b metastore.Account) int { return cmp.Compare(a.Account, b.Account) })
	for _, a := range both {
		if n := len(list); n > 0 && list[n-1].Account == a.Account {
			list[n-1].Blobs += a.Blobs
			list[n-1].Bytes += a.Bytes
			continue
		}
		list = append(list, a)
	}
	for _, read := range [][]metastore.Account{sums, deltas} {
		if len(read) < limit {
			continue
		}
		more = true // this table may have rows of later accounts
		list = slices.DeleteFunc(list, func(a metastore.Account) bool { return a.Account > read[limit-1].Account })
	}
	return list, more, nil
}

// accountDeltas reads a range in the table's primary key, and only as far as the limit needs.
const accountDeltas = `SELECT account, CAST(SUM(blobs) AS BIGINT), CAST(SUM(bytes) AS BIGINT) FROM account_deltas
	WHERE account > $1 GROUP BY account ORDER BY account LIMIT ($2 + 0)`

func (t tx) readAccounts(query, after string, limit int) ([]metastore.Account, error) {
	var a metastore.Account
	return engine.Collect(t.Tx, query, engine.Args{[]byte(after), int64(limit)}, engine.Args{&a.Account, (*engine.Integer)(&a.Blobs), (*engine.Integer)(&a.Bytes)}, &a)
}
