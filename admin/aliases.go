package admin

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/database"
	"sluice/metastore"
	"sluice/wire"
)

// Aliases returns the aliases of buckets, sorted by name.
func (s *Service) Aliases(ctx context.Context, by By, after string, limit int) (out wire.AliasPage, err error) {
	if _, err := s.everything(ctx, by); err != nil {
		return out, err
	}
	list, err := s.store.ListAliases(ctx)
	if err != nil {
		return out, err
	}
	list = list[sort.Search(len(list), func(i int) bool { return list[i].Name > after }):]
	if len(list) > limit {
		list = list[:limit]
		out.Next = list[limit-1].Name
	}
	out.Aliases = []wire.Alias{}
	for _, a := range list {
		out.Aliases = append(out.Aliases, wire.Alias{Bucket: a.Name, Account: a.Account})
	}
	return out, nil
}

// SetAlias makes a bucket's name an alias for an account. Repeated, it has no effect. It refuses a
// name under which an account has blobs: they would be hidden from S3's clients.
func (s *Service) SetAlias(ctx context.Context, by By, bucket string, in wire.SetAlias) (out wire.Alias, err error) {
	account, err := blob.ParseAccount(in.Account)
	if err != nil {
		return out, err
	}
	if err := blob.CheckBucket(bucket); err != nil {
		return out, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	out = wire.Alias{Bucket: bucket, Account: account}
	return out, s.decide(ctx, by, func(a actor) error {
		if !a.everything() {
			return ErrEverything
		}
		act, err := a.act("alias.set", bucket, []string{account}, nil, out)
		if err != nil {
			return err
		}
		switch err := s.store.SetAlias(ctx, metastore.Alias{Name: bucket, Account: account}, act); {
		case errors.Is(err, database.ErrExists):
			return fmt.Errorf("%w: the bucket is an alias for another account: remove it first", ErrConflict)
		case errors.Is(err, metastore.ErrNameHasBlobs):
			return fmt.Errorf("%w: an account of this name has blobs, which S3's clients reach by its name: choose another alias", ErrConflict)
		case errors.Is(err, metastore.ErrTooManyAliases):
			return fmt.Errorf("%w: there are %d aliases, the most that an instance can have", ErrConflict, metastore.MaxAliases)
		default:
			return err
		}
	})
}

// DeleteAlias removes an alias. The account's blobs remain.
func (s *Service) DeleteAlias(ctx context.Context, by By, bucket string) error {
	return s.decide(ctx, by, func(a actor) error {
		if !a.everything() {
			return ErrEverything
		}
		err := s.store.DeleteAlias(ctx, bucket, func(account string) (*actions.Act, error) {
			return a.act("alias.remove", bucket, []string{account}, wire.Alias{Bucket: bucket, Account: account}, nil)
		})
		if errors.Is(err, database.ErrNotFound) {
			return fmt.Errorf("%w: the alias", ErrNotFound)
		}
		return err
	})
}
