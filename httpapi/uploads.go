package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sluice/access"
	"sluice/admin"
	"sluice/blob"
	"sluice/checksum"
	"sluice/database"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/internal/auditlog"
	"sluice/metastore"
	"sluice/wire"
)

func (s *Server) beginUpload(x *call) error {
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
		if begin.ContentType, err = exchange.ContentType([]string{in.ContentType}); err != nil {
			return fmt.Errorf("%w: contentType %w", exchange.ErrParameter, err)
		}
	}
	if begin.Expires, err = parseTime("expires", in.Expires); err != nil {
		return err
	}
	metadata, err := headers.NewMetadata(in.CacheControl, in.ContentDisposition, in.ContentLanguage, in.Metadata)
	if err != nil {
		return fmt.Errorf("%w: %w", exchange.ErrParameter, err)
	}
	begin.Metadata = string(metadata)
	switch in.IfNoneMatch {
	case "":
	case "*":
		begin.CreateOnly = true
	default:
		return fmt.Errorf(`%w: ifNoneMatch can only be "*"`, exchange.ErrParameter)
	}
	if err := x.Require(access.ScopeCreate, begin.Account, begin.Name); err != nil {
		return err
	}
	if begin.Lock, err = x.newLock(in.Lock, begin.Account, begin.Name); err != nil {
		return err
	}
	reservation, err := x.Allowance.ReserveUpload(x.Request.Context(), begin.Name, begin.Metadata)
	if err != nil {
		return err
	}
	begin.Owner, begin.By = x.Owner(), x.By()
	u, err := s.blobs.Begin(x.Request.Context(), begin)
	exchange.Confirm(reservation, err)
	if err != nil { // a second upload without parts is harmless and expires
		return inDoubt(err, doubtError{uploadID: u.ID, retryable: true})
	}
	return writeJSON(x, http.StatusOK, wire.UploadBegun{UploadID: u.ID})
}

func (s *Server) putPart(x *call) error {
	index, err := partIndex(x.params.Get("partIdx"))
	if err != nil {
		return err
	}
	part := blob.PartOptions{UploadID: x.params.Get("uploadId"), Index: index, Permit: x.Recheck}
	if part.SHA256, err = checkContent(x.Request); err != nil {
		return err
	}
	body, err := x.StoreBody(x.Request.Body, x.Request.ContentLength, "", "")
	if err != nil {
		return err
	}
	stored, err := s.blobs.PutPart(x.StoreContext(), part, body, x.Request.ContentLength)
	if err = body.Confirm(err); err != nil {
		return exchange.UploadError(err)
	}
	x.Fields.Set("Etag", checksum.ETag(stored.Size, stored.CRC64))
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

func (s *Server) completeUpload(x *call) error {
	if x.Request.Header.Get(wire.HeaderReprDigest) != "" {
		return errNoDigestHere
	}
	var in wire.CompleteUpload
	if _, err := x.readJSON(&in); err != nil {
		return err
	}
	precondition, err := s.precondition(x.Request.Header)
	if err != nil {
		return err
	}
	if s.Audits(auditlog.Write) {
		if u, err := s.blobs.FindUpload(x.Request.Context(), x.params.Get("uploadId")); err == nil {
			x.Access = auditlog.Access{Action: auditlog.Write, Account: u.Account, Name: u.Name}
		}
	}
	u, err := s.blobs.Complete(x.Request.Context(), x.params.Get("uploadId"), blob.Totals{Bytes: in.TotalBytes, ETag: in.ETag}, x.Creating(precondition))
	if err != nil {
		return exchange.UploadError(err)
	}
	x.Access.Bytes = u.Size
	x.SetValidators(headers.NewValidators(checksum.ETag(u.Size, u.CRC64), u.Modified, true, s.blobs.Now()))
	setVersion(x, &metastore.Blob{Content: u.Content, Modified: u.Modified, Versioned: u.Versioned})
	return writeJSON(x, http.StatusOK, wire.Success{Success: true})
}

func (s *Server) abortUpload(x *call) error {
	if err := s.blobs.Abort(x.Request.Context(), x.params.Get("uploadId")); err != nil {
		return exchange.UploadError(err)
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) getUpload(x *call) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	after := -1
	if text := q.text("after"); text != "" {
		if after, err = partIndex(text); err != nil {
			return fmt.Errorf("%w: after must be the index of a part", exchange.ErrParameter)
		}
	}
	u, parts, err := s.blobs.Upload(x.Request.Context(), x.params.Get("uploadId"), after, limit+1)
	if err != nil {
		return exchange.UploadError(err)
	}
	out := wire.UploadStatus{Upload: admin.UploadOf(u)}
	if len(parts) > limit {
		parts = parts[:limit]
		out.Next = &parts[limit-1].Index
	}
	for _, part := range parts {
		out.Parts = append(out.Parts, wire.Part{Index: part.Index, Size: part.Size})
	}
	return writePage(x, out, len(out.Parts))
}

func (s *Server) listUploads(x *call) error {
	at, err := listInQuery(x)
	if err != nil {
		return err
	}
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	list := s.oldestUploads
	if at.name != "" {
		list = s.uploadsBelow
	}
	uploads, more, err := list(x, at, q.text("after"), limit)
	if errors.Is(err, database.ErrNotFound) {
		return fmt.Errorf("%w: after must be the id of an upload", exchange.ErrParameter)
	}
	if err != nil {
		return err
	}
	out := wire.UploadPage{Next: nextOf(uploads, more, func(u metastore.Upload) string { return u.ID })}
	for _, u := range uploads {
		out.Uploads = append(out.Uploads, admin.UploadOf(u))
	}
	return writePage(x, out, len(out.Uploads))
}

func (s *Server) oldestUploads(x *call, at place, after string, limit int) ([]metastore.Upload, bool, error) {
	return s.blobs.Uploads(x.Request.Context(), at.account, after, limit, exchange.PageBytes)
}

// uploadsBelow returns uploads to names with a prefix, by name.
func (s *Server) uploadsBelow(x *call, at place, after string, limit int) ([]metastore.Upload, bool, error) {
	q := blob.NamedUploads{Account: at.account, Prefix: at.name, AfterID: after, Limit: limit, Bytes: exchange.PageBytes}
	if after != "" {
		u, err := s.blobs.FindUpload(x.Request.Context(), after)
		if err == nil && (u.Account != at.account || !strings.HasPrefix(u.Name, at.name)) {
			err = database.ErrNotFound
		}
		if err != nil {
			return nil, false, err
		}
		q.AfterName = u.Name
	}
	page, err := s.blobs.UploadsByName(x.Request.Context(), q)
	return page.Uploads, page.NextID != "", err
}
