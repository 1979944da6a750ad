package metatest

import (
	"context"
	"slices"

	"sluice/database/whole"
	"sluice/metastore"
)

// Complete completes an upload: if its parts are uneven, with those that chosen, a set of bits,
// names, and otherwise with all.
func (h *history) Complete(ctx context.Context, s whole.Database, id string, stale, create bool, chosen int) {
	u, wantErr := h.Upload(id)
	if wantErr != nil {
		_, err := s.CompleteUpload(ctx, id, 0, 0, 0, nil)
		h.p.Agree("complete", nil, nil, err, wantErr)
		return
	}
	content := u.choose(chosen)
	if u.PartSize == 0 && len(content.parts) == 0 && u.State == metastore.UploadOpen {
		return
	}
	now := h.p.Clock.Now()
	got, err := h.complete(ctx, s, u, content, stale, create)
	switch {
	case u.State == metastore.UploadCommitted:
		h.p.Agree("repeated complete", got, u.Upload, err, nil)
		return
	case u.State == metastore.UploadAborted:
		h.p.Agree("complete", nil, nil, err, metastore.ErrAborted)
		return
	case stale:
		h.p.Agree("complete", nil, nil, err, metastore.ErrRevisionMismatch)
		return
	}
	if wantErr := createOnly(h.model.current(u.Name, now)); create && wantErr != nil {
		h.p.Agree("complete", nil, nil, err, wantErr)
		return
	}
	h.model.discardOthers(u, content)
	u.State, u.Ended, u.Modified, u.Size, u.CRC64 = metastore.UploadCommitted, now, now, content.size, 5
	h.model.replace(metastore.Blob{
		Account: u.Account, Name: u.Name, Content: u.Content, Size: content.size, CRC64: 5, PartSize: content.partSize, Owner: u.Owner, Metadata: content.metadata, Modified: now,
	})
	h.model.extents[u.Content] = content.extents
	u.end()
	h.p.Agree("complete", got, u.Upload, err, nil)
	h.ranges(ctx, s, u.Content, content)
}

// complete calls the method that completes the upload.
func (h *history) complete(ctx context.Context, s whole.Database, u *modelUpload, content modelContent, stale, create bool) (metastore.Upload, error) {
	revision := u.Revision
	if stale {
		revision--
	}
	var precondition metastore.Precondition
	if create {
		precondition = createOnly
	}
	if u.PartSize == 0 && len(content.parts) > 0 {
		return s.CompleteUneven(ctx, u.ID, revision, content.parts, 5, content.metadata, precondition)
	}
	return s.CompleteUpload(ctx, u.ID, revision, content.size, 5, precondition)
}

// ranges compares where a content's parts are.
func (h *history) ranges(ctx context.Context, s whole.Database, id metastore.ContentID, c modelContent) {
	var want []metastore.PartRange
	if c.partSize == metastore.UnevenParts {
		want = ranges(c.parts...)
	}
	got, total, err := s.PartRanges(ctx, id, -1, 10)
	h.p.Agree("parts of a content", got, want, err, nil)
	h.p.Must(total == len(want), "%d parts of a content, want %d", total, len(want))
}

// choose returns the content that has the chosen parts, or all if the upload has a PartSize.
func (u *modelUpload) choose(chosen int) modelContent {
	var c modelContent
	for i := range 3 {
		e, ok := u.parts[i]
		if !ok || u.PartSize == 0 && chosen>>i&1 == 0 {
			continue
		}
		c.parts = append(c.parts, metastore.Part{Index: i, Size: e.Size})
		c.extents = append(c.extents, stored(e)...)
		c.size += e.Size
	}
	c.partSize, c.metadata = u.PartSize, u.Metadata
	if u.PartSize == 0 && len(c.parts) > 0 {
		c.partSize, c.metadata = evenSize(c.parts), c.metadata+" again"
	}
	return c
}

// modelContent is a completed upload's content.
type modelContent struct {
	parts    []metastore.Part
	extents  []metastore.Extent
	size     int64
	partSize int64
	metadata string
}

// evenSize returns the PartSize that a blob has with these parts.
func evenSize(parts []metastore.Part) int64 {
	first, last := parts[0].Size, parts[len(parts)-1]
	even := last.Index == len(parts)-1 && last.Size <= first
	for _, p := range parts[:len(parts)-1] {
		even = even && p.Size == first
	}
	if !even {
		return metastore.UnevenParts
	}
	return first
}

// discardOthers makes an upload's parts garbage that are not in its content.
func (m *model) discardOthers(u *modelUpload, c modelContent) {
	others := int64(len(u.parts) - len(c.parts))
	if others == 0 {
		return
	}
	for _, e := range u.parts {
		if !slices.ContainsFunc(c.extents, func(chosen metastore.Extent) bool { return chosen.Object == e.Object }) {
			m.moved = append(m.moved, e.Object)
			m.charges[e.Object] = modelCharge{u.Owner, e.Size + 1024}
		}
	}
}
