package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/database"
	"sluice/metastore"
)

// BeginOptions describes a multipart upload.
type BeginOptions struct {
	Account     string // in the canonical form that ParseAccount returns
	Name        string // valid according to CheckName
	PartSize    int64  // in bytes, 1 to MaxPartSize; 0 if the parts are uneven
	Uneven      bool   // each part has 1 to MaxPartSize bytes; their number is less than metastore.MaxUnevenParts
	ContentType string
	Metadata    string         // of the blob, as in PutOptions
	Expires     time.Time      // of the blob; zero if it does not expire
	CreateOnly  bool           // Complete fails if the blob exists
	Owner       string         // the quota group charged for the parts and the blob, or ""
	By          string         // who begins it, see metastore.Blob
	Lock        metastore.Lock // the blob's, see metastore.Blob
}

// Begin begins an upload. Its id cannot be guessed. If Begin returns database.ErrUnknownOutcome,
// the returned upload has only the ID that it has if it was begun.
func (s *Service) Begin(ctx context.Context, b BeginOptions) (metastore.Upload, error) {
	if err := s.checkExpiry(b.Expires); err != nil {
		return metastore.Upload{}, err
	}
	if err := b.checkPartSize(); err != nil {
		return metastore.Upload{}, err
	}
	if err := s.checkSpace(0); err != nil {
		return metastore.Upload{}, err
	}
	id := s.opt.NewID()
	begun, err := s.meta.BeginUpload(ctx, metastore.Upload{
		ID:          id,
		Account:     b.Account,
		Name:        b.Name,
		Content:     metastore.NewContentID(s.meta.Now()),
		PartSize:    b.PartSize,
		ContentType: b.ContentType,
		Metadata:    b.Metadata,
		Expires:     b.Expires,
		CreateOnly:  b.CreateOnly,
		Owner:       b.Owner,
		By:          b.By,
		Lock:        b.Lock,
	})
	if errors.Is(err, database.ErrUnknownOutcome) {
		begun = metastore.Upload{ID: id}
	}
	return begun, err
}

func (b BeginOptions) checkPartSize() error {
	switch {
	case b.Uneven && b.PartSize != 0:
		return fmt.Errorf("%w: uneven parts have no common size", ErrPartSize)
	case !b.Uneven && (b.PartSize < 1 || b.PartSize > MaxPartSize):
		return fmt.Errorf("%w: a part size is 1 to %d bytes", ErrPartSize, MaxPartSize)
	}
	return nil
}

// PartOptions describes a part to be stored.
type PartOptions struct {
	UploadID string
	Index    int    // 0 to MaxParts - 1, or of uneven parts to metastore.MaxUnevenParts - 1
	SHA256   []byte // if set, the body must have this digest
	Permit   Permit // as in PutOptions
	// Checksum returns the part's metastore.Part.Checksum once the body was read; nil: none.
	Checksum func() string
}

// PutPart stores a part durably, replaces an earlier part with the same index, and returns it
// without the time at which it was stored. size is the exact length of body in bytes, or
// bytestore.UnknownSize. If PutPart returns an error, nothing has changed unless the error is
// database.ErrUnknownOutcome.
func (s *Service) PutPart(ctx context.Context, p PartOptions, body Body, size int64) (metastore.Part, error) {
	u, err := s.openUpload(ctx, p.UploadID)
	if err != nil {
		return metastore.Part{}, err
	}
	if err := checkPart(u, p.Index, size); err != nil {
		return metastore.Part{}, err
	}
	if err := s.checkSpace(max(size, 0)); err != nil {
		return metastore.Part{}, err
	}
	r := s.newBodyReader(body, size, p.SHA256 != nil)
	limit := partLimit(u)
	tooLong := fmt.Errorf("%w: a part of this upload has at most %d bytes", ErrPartSize, limit)
	extents, err := s.storeBody(ctx, r, size, limit, tooLong)
	if err != nil {
		return metastore.Part{}, err
	}
	for i := range extents {
		extents[i].Part = p.Index
	}
	err = checkPart(u, p.Index, r.size)
	if err == nil {
		err = r.checkDigest(p.SHA256)
	}
	if err == nil {
		err = p.Permit.check(ctx)
	}
	part := metastore.Part{Index: p.Index, Size: r.size, CRC64: r.crc64.Sum64()}
	if err == nil && p.Checksum != nil {
		part.Checksum = p.Checksum()
	}
	if err == nil {
		err = s.meta.PutPart(ctx, p.UploadID, part, extents)
	}
	if err != nil {
		return metastore.Part{}, s.discard(ctx, extents, err)
	}
	s.garbageArose()
	return part, nil
}

// openUpload returns an upload that still accepts parts. It returns metastore.ErrAborted or
// metastore.ErrCommitted, with the upload, if it does not.
func (s *Service) openUpload(ctx context.Context, id string) (metastore.Upload, error) {
	u, err := s.meta.Upload(ctx, id)
	if err != nil {
		return u, err
	}
	switch u.State {
	case metastore.UploadAborted:
		return u, metastore.ErrAborted
	case metastore.UploadCommitted:
		return u, metastore.ErrCommitted
	default:
		return u, nil
	}
}

// partLimit returns the greatest size that a part has in the upload.
func partLimit(u metastore.Upload) int64 { return cmp.Or(u.PartSize, MaxPartSize) }

// checkPart checks a part's index and size; the size may be unknown.
func checkPart(u metastore.Upload, index int, size int64) error {
	parts, end := MaxParts, int64(index)*u.PartSize+max(size, 1)
	if u.PartSize == 0 {
		// One part more than a blob can have, because this part may replace another.
		parts, end = metastore.MaxUnevenParts, u.Bytes+max(size, 1)-MaxPartSize
	}
	switch {
	case index < 0 || index >= parts:
		return fmt.Errorf("%w: it must be 0 to %d", ErrPartIndex, parts-1)
	case end > MaxSize:
		return ErrTooLarge
	case size == 0 && u.PartSize != 0:
		return fmt.Errorf("%w: a part has at least 1 byte", ErrPartSize)
	case size > partLimit(u):
		return fmt.Errorf("%w: a part of this upload has at most %d bytes", ErrPartSize, partLimit(u))
	default:
		return nil
	}
}

// Abort ends an open upload durably and frees its parts. It is idempotent. It returns
// metastore.ErrCommitted if the upload was completed.
func (s *Service) Abort(ctx context.Context, id string) error {
	var content metastore.ContentID
	err := s.withRelief(func() (err error) {
		content, err = s.meta.AbortUpload(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	s.freeNow(ctx, content)
	return nil
}

// FindUpload returns an upload in any state. It returns database.ErrNotFound if there is none.
func (s *Service) FindUpload(ctx context.Context, id string) (metastore.Upload, error) {
	return s.meta.Upload(ctx, id)
}

// Upload returns an upload in any state, with up to limit of its parts with an index greater than
// after.
func (s *Service) Upload(ctx context.Context, id string, after, limit int) (metastore.Upload, []metastore.Part, error) {
	u, err := s.meta.Upload(ctx, id)
	if err != nil {
		return u, nil, err
	}
	parts, err := s.meta.Parts(ctx, id, after, limit)
	return u, parts, err
}

// Uploads returns up to limit open uploads of the account, oldest first, after the upload with the
// id after, and whether there are more. bytes bounds them as in metastore.Uploads.
func (s *Service) Uploads(ctx context.Context, account, after string, limit int, bytes int64) (list []metastore.Upload, more bool, err error) {
	return s.meta.ListUploads(ctx, account, after, limit, bytes)
}

// NamedUploads are what UploadsByName lists.
type NamedUploads struct {
	Account, Prefix string
	// Delimiter groups names: uploads with a name that contains it after the prefix are represented
	// by the name up to it. "": there are no groups.
	Delimiter string
	// AfterName and AfterID are where the page before ended: its NextName and NextID. AfterName may
	// be any name.
	AfterName, AfterID string
	Limit              int   // of uploads and groups together; at least 1
	Bytes              int64 // the page's greatest size, as in metastore.Uploads; 0: no bound
}

// UploadPage is a page of open uploads.
type UploadPage struct {
	Uploads []metastore.Upload
	Groups  []string
	bytes   int64
	// NextName and NextID are where the next page begins; both are empty on the last page.
	NextName, NextID string
}

// UploadsByName returns a page of open uploads, sorted by name and then by when they began. It
// makes at most one query for each group and two more.
func (s *Service) UploadsByName(ctx context.Context, n NamedUploads) (page UploadPage, err error) {
	q := metastore.UploadsQuery{Account: n.Account, From: n.Prefix, AfterName: n.AfterName, AfterID: n.AfterID, Bytes: n.Bytes}
	if group, ok := n.groupOf(n.AfterName); ok && group == n.AfterName && n.AfterID == "" {
		q.AfterName = behind(group)
	}
	for {
		left := n.Limit - len(page.Uploads) - len(page.Groups)
		q.Limit = max(1, left) // one, to see whether something follows
		if n.Bytes > 0 {
			q.Bytes = max(1, n.Bytes-page.bytes)
		}
		list, more, err := s.meta.UploadsByName(ctx, q)
		if err != nil {
			return UploadPage{}, err
		}
		for _, u := range list {
			if !strings.HasPrefix(u.Name, n.Prefix) {
				more = false
				break
			}
			group, ok := n.groupOf(u.Name)
			size := int64(len(group)) + database.EntryCharge
			if !ok {
				size = int64(len(u.Name)+len(u.ContentType)+len(u.Metadata)) + database.EntryCharge
			}
			if left == 0 || n.Bytes > 0 && page.bytes > 0 && page.bytes+size > n.Bytes {
				return page, nil
			}
			page.bytes += size
			if ok {
				page.Groups = append(page.Groups, group)
				page.NextName, page.NextID = group, ""
				q.AfterName, q.AfterID = behind(group), "" // the group's others are skipped
				more = true
				break
			}
			page.Uploads = append(page.Uploads, u)
			page.NextName, page.NextID = u.Name, u.ID
			q.AfterName, q.AfterID = u.Name, u.ID
		}
		if !more {
			page.NextName, page.NextID = "", ""
			return page, nil
		}
	}
}

// groupOf returns the group that a name belongs to, if it does.
func (n *NamedUploads) groupOf(name string) (group string, ok bool) {
	rest, selected := strings.CutPrefix(name, n.Prefix)
	if i := strings.Index(rest, n.Delimiter); selected && n.Delimiter != "" && i >= 0 {
		return n.Prefix + rest[:i+len(n.Delimiter)], true
	}
	return "", false
}

// behind returns what is greater than all names with a prefix, and less than all others that are
// greater: no name has the byte.
func behind(prefix string) string { return prefix + "\xff" }
