package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"sluice/access"
	"sluice/blob"
	"sluice/checksum"
	"sluice/database"
	"sluice/httpapi/internal/headers"
	"sluice/metastore"
	"sluice/wire"
)

func (s *Server) beginUpload(x *exchange) error {
	var in wire.BeginUpload
	if _, err := x.readJSON(&in); err != nil {
		return err
	}
	begin := blob.BeginOptions{PartSize: wire.DefaultPartSize}
	if in.RawAccount == nil {
		return missingMember("rawAccount")
	}
	if in.RawBlobName == nil {
		return missingMember("rawBlobName")
	}
	var err error
	if begin.Account, err = blob.ParseAccount(*in.RawAccount); err != nil {
		return err
	}
	begin.Name = *in.RawBlobName
	if err := blob.CheckName(begin.Name); err != nil {
		return err
	}
	if in.RawPartSize != nil {
		begin.PartSize = *in.RawPartSize
	}
	if in.ContentType != "" {
		if begin.ContentType, err = contentType([]string{in.ContentType}); err != nil {
			return fmt.Errorf("%w: contentType %w", errParameter, err)
		}
	}
	if begin.Expires, err = parseTime("expires", in.Expires); err != nil {
		return err
	}
	metadata, err := headers.NewMetadata(in.CacheControl, in.ContentDisposition, in.ContentLanguage, in.Metadata)
	if err != nil {
		return fmt.Errorf("%w: %w", errParameter, err)
	}
	if begin.Metadata, err = s.admitMetadata(metadata); err != nil {
		return err
	}
	switch in.IfNoneMatch {
	case "":
	case "*":
		begin.CreateOnly = true
	default:
		return fmt.Errorf(`%w: ifNoneMatch can only be "*"`, errParameter)
	}
	if err := x.requireAccount(access.ScopeWrite, begin.Account); err != nil {
		return err
	}
	reservation, err := x.allowance.ReserveUpload(x.r.Context(), begin.Name, begin.Metadata)
	if err != nil {
		return err
	}
	begin.Owner = x.owner()
	u, err := s.blobs.Begin(x.r.Context(), begin)
	confirm(reservation, err)
	if err != nil { // a second upload without parts is harmless and expires
		return inDoubt(err, doubtError{uploadID: u.ID, retryable: true})
	}
	return writeJSON(x, http.StatusOK, wire.UploadBegun{UploadID: u.ID})
}

func (s *Server) putPart(x *exchange) error {
	index, err := partIndex(x.params.Get("partIdx"))
	if err != nil {
		return err
	}
	part := blob.PartOptions{UploadID: x.params.Get("uploadId"), Index: index, Permit: x.recheck}
	if part.SHA256, err = checkContent(x.r); err != nil {
		return err
	}
	body, err := x.storeBody("", "")
	if err != nil {
		return err
	}
	err = s.blobs.PutPart(x.storeContext(), part, body, x.r.ContentLength)
	if err = body.confirm(err); err != nil {
		return uploadError(err)
	}
	return writeJSON(x, http.StatusOK, wire.Success{Success: true})
}

// partIndex parses an index in decimal digits. Package blob checks its range.
func partIndex(s string) (int, error) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Errorf("%w: it must be 0 to %d", blob.ErrPartIndex, blob.MaxParts-1)
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return blob.MaxParts, nil
	}
	return n, nil
}

func (s *Server) completeUpload(x *exchange) error {
	if x.r.Header.Get(wire.HeaderReprDigest) != "" {
		return errNoDigestHere
	}
	var in wire.CompleteUpload
	if _, err := x.readJSON(&in); err != nil {
		return err
	}
	precondition, err := s.precondition(x.r.Header)
	if err != nil {
		return err
	}
	u, err := s.blobs.Complete(x.r.Context(), x.params.Get("uploadId"), blob.Totals{Bytes: in.TotalBytes, ETag: in.ETag}, precondition)
	if err != nil {
		return uploadError(err)
	}
	x.setValidators(headers.NewValidators(checksum.ETag(u.Size, u.CRC64), u.Modified, true, s.blobs.Now()))
	return writeJSON(x, http.StatusOK, wire.Success{Success: true})
}

func (s *Server) abortUpload(x *exchange) error {
	if err := s.blobs.Abort(x.r.Context(), x.params.Get("uploadId")); err != nil {
		return uploadError(err)
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) getUpload(x *exchange) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	after := -1
	if text := q.text("after"); text != "" {
		if after, err = partIndex(text); err != nil {
			return fmt.Errorf("%w: after must be the index of a part", errParameter)
		}
	}
	if err := x.holdPage(limit); err != nil {
		return err
	}
	u, parts, err := s.blobs.Upload(x.r.Context(), x.params.Get("uploadId"), after, limit+1)
	if err != nil {
		return uploadError(err)
	}
	out := wire.UploadStatus{Upload: uploadJSON(u)}
	if len(parts) > limit {
		parts = parts[:limit]
		out.Next = &parts[limit-1].Index
	}
	for _, part := range parts {
		out.Parts = append(out.Parts, wire.Part{Index: part.Index, Size: part.Size})
	}
	return writePage(x, out, len(out.Parts))
}

func uploadJSON(u metastore.Upload) wire.Upload {
	out := wire.Upload{
		UploadID: u.ID,
		Account:  u.Account,
		Name:     u.Name,
		PartSize: u.PartSize,
		State:    string(u.State),
		Bytes:    u.Bytes,
		Created:  u.Created,
	}
	switch u.State {
	case metastore.UploadOpen:
		out.Expires = u.Touched.Add(metastore.UploadIdleLimit)
	case metastore.UploadCommitted:
		out.ETag = checksum.ETag(u.Size, u.CRC64)
	}
	return out
}

func (s *Server) listUploads(x *exchange) error {
	q, err := readQuery(x.r)
	if err != nil {
		return err
	}
	account, err := blob.ParseAccount(q.text("account"))
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	if err := x.holdPage(limit); err != nil {
		return err
	}
	uploads, more, err := s.blobs.Uploads(x.r.Context(), account, q.text("after"), limit, pageBytes)
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("%w: after must be the id of an upload", errParameter)
	}
	if err != nil {
		return err
	}
	out := wire.UploadPage{Next: nextOf(uploads, more, func(u metastore.Upload) string { return u.ID })}
	for _, u := range uploads {
		out.Uploads = append(out.Uploads, uploadJSON(u))
	}
	return writePage(x, out, len(out.Uploads))
}
