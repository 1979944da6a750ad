package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sluice/access/actions"
	"sluice/metastore"
)

// ErrKeeping is returned by SetKeeping for a setting that no account can have.
var ErrKeeping = errors.New("the setting of versions is not valid")

// Keeping returns which versions an account keeps.
func (s *Service) Keeping(ctx context.Context, account string) (metastore.Keeping, error) {
	return s.meta.Keeping(ctx, account)
}

// ListKeeping returns up to limit accounts that keep versions or did, sorted, beginning after
// after.
func (s *Service) ListKeeping(ctx context.Context, after string, limit int) ([]metastore.AccountKeeping, error) {
	return s.meta.ListKeeping(ctx, after, limit)
}

// SetKeeping changes which versions an account keeps; see metastore.Versions. A setting without
// versions has neither a time nor a number. Otherwise it returns an ErrKeeping with the reason.
func (s *Service) SetKeeping(ctx context.Context, account string, change func(*metastore.Keeping) (*actions.Act, error)) (metastore.Keeping, error) {
	defer s.unkept.forget()
	return s.meta.SetKeeping(ctx, account, func(k *metastore.Keeping) (*actions.Act, error) {
		act, err := change(k)
		switch {
		case err != nil:
		case k.State < metastore.KeepNever || k.State > metastore.KeepOff:
			err = fmt.Errorf("%w: there is no state %d", ErrKeeping, k.State)
		case k.For < 0:
			err = fmt.Errorf("%w: versions cannot be kept for %v", ErrKeeping, k.For)
		case k.Most < 0 || k.Most > metastore.MaxKept:
			err = fmt.Errorf("%w: a number of versions is 1 to %d", ErrKeeping, metastore.MaxKept)
		}
		return act, err
	})
}

// OpenVersion is Open for a version, current or not. A mark is a Content without bytes.
func (s *Service) OpenVersion(ctx context.Context, v metastore.VersionName) (*Content, error) {
	return s.open(func() (metastore.Blob, []metastore.Extent, error) { return s.meta.OpenVersion(ctx, v) })
}

// RemoveBlob is Delete, and returns the removed blob, and the mark if the account keeps versions.
func (s *Service) RemoveBlob(ctx context.Context, r metastore.Removal) (metastore.Removed, error) {
	return s.removed(ctx, func() (metastore.Removed, error) { return s.meta.RemoveBlob(ctx, r) })
}

// DeleteVersion removes a version for good, as Delete does a blob.
func (s *Service) DeleteVersion(ctx context.Context, d metastore.Deletion) (metastore.Removed, error) {
	return s.removed(ctx, func() (metastore.Removed, error) { return s.meta.DeleteVersion(ctx, d) })
}

// SetLock changes a version's lock, and returns the version; see metastore.Versions.
func (s *Service) SetLock(ctx context.Context, c metastore.LockChange) (metastore.Blob, error) {
	return s.meta.SetLock(ctx, c)
}

// removed calls remove, and frees the garbage.
func (s *Service) removed(ctx context.Context, remove func() (metastore.Removed, error)) (out metastore.Removed, err error) {
	err = s.withRelief(func() (err error) {
		out, err = remove()
		return err
	})
	if err == nil && out.Garbage != (metastore.ContentID{}) {
		s.freeNow(ctx, out.Garbage)
	}
	return out, err
}

// Deleted returns the mark that is the newest version of a name without a blob, or a zero Blob. If
// the account keeps no versions, it seldom asks the store: for unkeptFor it may not notice that the
// setting was changed by another node.
func (s *Service) Deleted(ctx context.Context, n metastore.BlobName) (metastore.Blob, error) {
	account := n.Account
	if of, ok := metastore.AccountOfMarkers(account); ok {
		account = of
	}
	now := s.Now()
	if s.unkept.remembered(account, now) {
		return metastore.Blob{}, nil
	}
	k, err := s.meta.Keeping(ctx, account)
	if err == nil && k.State == metastore.KeepNever {
		s.unkept.remember(account, now.Add(unkeptFor))
		return metastore.Blob{}, nil
	}
	if err != nil {
		return metastore.Blob{}, err
	}
	page, err := s.meta.ListVersions(ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: n.Account, Prefix: n.Name, Limit: 1}})
	if err != nil || len(page.Versions) == 0 || page.Versions[0].Name != n.Name || !page.Versions[0].Mark {
		return metastore.Blob{}, err
	}
	return page.Versions[0], nil
}

// ListVersions returns a page of an account's versions.
func (s *Service) ListVersions(ctx context.Context, q metastore.VersionQuery) (metastore.VersionPage, error) {
	return s.meta.ListVersions(ctx, q)
}

// ListKeyVersions is ListVersions with the account's markers' versions.
func (s *Service) ListKeyVersions(ctx context.Context, q metastore.VersionQuery) (metastore.VersionPage, error) {
	of := q
	of.Account, of.After, of.Bytes = metastore.MarkersOf(q.Account), cmp.Or(q.After, bucketRecord), q.Bytes/4
	q.Bytes -= of.Bytes
	if isMarker(q.After) {
		q.AfterVersion = metastore.Version{} // it is a marker's
	} else {
		of.AfterVersion = metastore.Version{}
	}
	markers, err := s.meta.ListVersions(ctx, of)
	if err != nil {
		return metastore.VersionPage{}, err
	}
	page, err := s.meta.ListVersions(ctx, q)
	if err != nil || len(markers.Versions)+len(markers.Prefixes) == 0 {
		return page, err
	}
	nameOf := func(b *metastore.Blob) string { return b.Name }
	m := merge(nameOf, q.Limit,
		entries[metastore.Blob]{page.Versions, page.Prefixes, page.Next}, entries[metastore.Blob]{markers.Versions, markers.Prefixes, markers.Next})
	page = metastore.VersionPage{Versions: m.items, Prefixes: m.groups, Next: m.next}
	if last := len(m.items) - 1; last >= 0 && m.items[last].Name == m.next {
		page.NextVersion = metastore.VersionOf(&m.items[last])
	}
	return page, nil
}

// purgeVersions applies changed settings to the versions that there were before, and deletes those
// that are due. It returns the number of versions that it handled.
func (s *Service) purgeVersions(ctx context.Context) (versions int64, err error) {
	return s.purgeBy(ctx, s.meta.ApplyKeeping, s.meta.PurgeVersions)
}
