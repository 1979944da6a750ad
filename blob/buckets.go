package blob

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"sluice/database"
	"sluice/metastore"
)

// bucketRecord is the name under which an account's markers have the record that its bucket was
// created. No key can have it.
const bucketRecord = "\x00"

// ErrNoBucket is returned by DeleteBucket if there is no bucket.
var ErrNoBucket = errors.New("the bucket does not exist")

// ErrBucketNotEmpty is returned by DeleteBucket if the bucket has blobs, markers or versions.
var ErrBucketNotEmpty = errors.New("the bucket is not empty")

// Place returns where the blob with a key is stored. Keys that end in "/" or have U+007F, which no
// blob's name can be, have an account of their own.
func Place(account, key string) metastore.BlobName {
	if isMarker(key) {
		account = metastore.MarkersOf(account)
	}
	return metastore.BlobName{Account: account, Name: key}
}

// RecordOf returns where the record is that an account's bucket was created. It is listed nowhere.
func RecordOf(account string) metastore.BlobName {
	return metastore.BlobName{Account: metastore.MarkersOf(account), Name: bucketRecord}
}

func isMarker(key string) bool { return strings.HasSuffix(key, "/") || strings.Contains(key, "\x7f") }

// ListKeys is List with the account's markers.
func (s *Service) ListKeys(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	of := q
	of.Account, of.After, of.Bytes = metastore.MarkersOf(q.Account), cmp.Or(q.After, bucketRecord), q.Bytes/4
	q.Bytes -= of.Bytes
	markers, err := s.meta.ListBlobs(ctx, of)
	if err != nil {
		return metastore.Page{}, err
	}
	page, err := s.meta.ListBlobs(ctx, q)
	if err != nil || len(markers.Blobs)+len(markers.Prefixes) == 0 {
		return page, err
	}
	nameOf := func(b *metastore.Blob) string { return b.Name }
	m := merge(nameOf, q.Limit,
		entries[metastore.Blob]{page.Blobs, page.Prefixes, page.Next}, entries[metastore.Blob]{markers.Blobs, markers.Prefixes, markers.Next})
	return metastore.Page{Blobs: m.items, Prefixes: m.groups, Next: m.next}, nil
}

// UploadsByKey is UploadsByName with the account's markers.
func (s *Service) UploadsByKey(ctx context.Context, n NamedUploads) (UploadPage, error) {
	of := n
	of.Account, of.Bytes = metastore.MarkersOf(n.Account), n.Bytes/4
	n.Bytes -= of.Bytes
	if isMarker(n.AfterName) {
		n.AfterID = "" // it is an upload of a marker
	} else {
		of.AfterID = ""
	}
	markers, err := s.UploadsByName(ctx, of)
	if err != nil {
		return UploadPage{}, err
	}
	page, err := s.UploadsByName(ctx, n)
	if err != nil || len(markers.Uploads)+len(markers.Groups) == 0 {
		return page, err
	}
	nameOf := func(u *metastore.Upload) string { return u.Name }
	m := merge(nameOf, n.Limit,
		entries[metastore.Upload]{page.Uploads, page.Groups, page.NextName}, entries[metastore.Upload]{markers.Uploads, markers.Groups, markers.NextName})
	page = UploadPage{Uploads: m.items, Groups: m.groups, NextName: m.next}
	if last := len(m.items) - 1; last >= 0 && m.items[last].Name == m.next {
		page.NextID = m.items[last].ID
	}
	return page, nil
}

// entries are a page's. items and groups are each sorted by name; next is the last one's name if
// others follow.
type entries[T any] struct {
	items  []T
	groups []string
	next   string
}

// merge returns the page of at most limit entries that two pages have together. No item of one has
// a name that the other has.
func merge[T any](nameOf func(*T) string, limit int, a, b entries[T]) (out entries[T]) {
	items := slices.Concat(a.items, b.items)
	slices.SortStableFunc(items, func(x, y T) int { return cmp.Compare(nameOf(&x), nameOf(&y)) })
	groups := slices.Concat(a.groups, b.groups)
	slices.Sort(groups)
	groups = slices.Compact(groups)
	// Behind a page that others follow, the two do not have all.
	end := a.next
	if b.next != "" && (end == "" || b.next < end) {
		end = b.next
	}
	last := ""
	for i, g := 0, 0; i < len(items) || g < len(groups); limit-- {
		group := i == len(items) || g < len(groups) && groups[g] < nameOf(&items[i])
		name := ""
		if group {
			name = groups[g]
		} else {
			name = nameOf(&items[i])
		}
		if limit == 0 || end != "" && name > end {
			end = last
			break
		}
		if last = name; group {
			g++
			out.groups = groups[:g]
		} else {
			i++
			out.items = items[:i]
		}
	}
	if end != "" {
		out.next = last
	}
	return out
}

// Buckets returns up to limit accounts that have buckets, sorted by name (bytewise), beginning
// after the account after, and whether there are more.
func (s *Service) Buckets(ctx context.Context, after string, limit int) (accounts []string, more bool, err error) {
	own, err := s.Accounts(ctx, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	marked, err := s.meta.ListAccounts(ctx, metastore.MarkersOf(after), limit+1)
	for _, a := range slices.Concat(own, marked) {
		if account, ok := metastore.AccountOfMarkers(a.Account); ok {
			accounts = append(accounts, account)
		} else if !metastore.IsHidden(a.Account) {
			accounts = append(accounts, a.Account)
		}
	}
	slices.Sort(accounts)
	accounts = slices.Compact(accounts)
	return accounts[:min(limit, len(accounts))], len(accounts) > limit, err
}

// HasBucket reports whether an account's bucket was created, or has a blob, a marker or a version.
func (s *Service) HasBucket(ctx context.Context, account string) (bool, error) {
	created, err := s.IsBucketCreated(ctx, account)
	if err != nil || created {
		return created, err
	}
	return s.hasKeys(ctx, account)
}

// IsBucketCreated reports whether there is a record that an account's bucket was created.
func (s *Service) IsBucketCreated(ctx context.Context, account string) (bool, error) {
	at := RecordOf(account)
	record, err := s.current(ctx, at.Account, at.Name)
	return record != nil, err
}

func (s *Service) hasKeys(ctx context.Context, account string) (bool, error) {
	page, err := s.ListKeyVersions(ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: account, Limit: 1}})
	return len(page.Versions) > 0, err
}

// CreateBucket records durably that an account's bucket was created, and charges owner. It has
// no effect if there is a record.
func (s *Service) CreateBucket(ctx context.Context, account, owner string) error {
	exists := errors.New("the bucket was created before")
	_, err := s.Put(ctx, PutOptions{
		Account: metastore.MarkersOf(account), Name: bucketRecord, Owner: owner,
		Precondition: func(current *metastore.Blob) error {
			if current != nil {
				return exists
			}
			return nil
		},
	}, strings.NewReader(""), 0)
	if errors.Is(err, exists) {
		return nil
	}
	return err
}

// DeleteBucket removes the record that an account's bucket was created. Blobs that are stored in it
// meanwhile stay, and the bucket with them.
func (s *Service) DeleteBucket(ctx context.Context, account string) error {
	used, err := s.hasKeys(ctx, account)
	switch {
	case err != nil:
		return err
	case used:
		return ErrBucketNotEmpty
	}
	record := RecordOf(account)
	if _, err := s.meta.Blob(ctx, record.Account, record.Name); errors.Is(err, database.ErrNotFound) {
		return ErrNoBucket
	} else if err != nil {
		return err
	}
	if err := s.removeRules(ctx, account); err != nil {
		return err
	}
	existed, err := s.Remove(ctx, record.Account, record.Name, nil)
	if err == nil && !existed {
		err = ErrNoBucket
	}
	return err
}
