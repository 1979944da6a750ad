package s3api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/checksum"
	"sluice/database"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/internal/auditlog"
	"sluice/metastore"
	"sluice/s3api/internal/checksums"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

const (
	// minPart is the least size that a part but the last has, in bytes.
	minPart = 5 << 20
	// mostParts is the greatest and the default number of parts in a page.
	mostParts = 1000
	// mostComplete bounds the body that names parts: 10,000 with every checksum.
	mostComplete = 8 << 20
)

// partNumber parses a part's number.
func partNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n < 1 || n > metastore.MaxUnevenParts {
		return 0, parameterError("partNumber", "must be a number from 1 to "+strconv.Itoa(metastore.MaxUnevenParts))
	}
	return int(n), nil
}

// createUpload begins an upload.
func (s *Server) createUpload(x *call) error {
	d, err := s.describe(x, x.key, x.header)
	if err != nil {
		return err
	}
	kind, algorithm, err := checksumOfUpload(x.header)
	if err != nil {
		return err
	}
	if algorithm != "" {
		d.metadata = string(headers.Metadata(d.metadata).WithProperty(fieldUploadChecksum, string(algorithm)+" "+string(kind)))
	}
	if _, err := x.readDocument(wire.MaxJSONBody); err != nil {
		return err
	}
	if err := s.ensureBucket(x); err != nil {
		return err
	}
	reservation, err := x.Allowance.ReserveUpload(x.Request.Context(), x.key, d.metadata)
	if err != nil {
		return err
	}
	at := blob.Place(x.account, x.key)
	u, err := s.blobs.Begin(x.Request.Context(), blob.BeginOptions{
		Account: at.Account, Name: at.Name, Uneven: true, ContentType: d.contentType, Metadata: d.metadata, Expires: d.expires, Owner: x.Owner(), By: x.By(), Lock: d.lock,
	})
	exchange.Confirm(reservation, err)
	if err != nil {
		return err
	}
	if algorithm != "" {
		x.Fields.Set(fieldUploadChecksum, string(algorithm))
		x.Fields.Set(fieldChecksumType, string(kind))
	}
	return x.writeXML(http.StatusOK, document.InitiateMultipartUploadResult{Bucket: x.bucket, Key: document.Name(x.key), UploadID: u.ID})
}

// checksumOfUpload returns the checksum that the client will send with each part, or none. Each
// part's is verified.
func checksumOfUpload(h http.Header) (checksums.Type, checksums.Algorithm, error) {
	name := h.Get(fieldUploadChecksum)
	if name == "" && h.Get(fieldChecksumType) == "" {
		return "", "", nil
	}
	algorithm, err := checksums.ParseAlgorithm(name)
	if err != nil {
		return "", "", err
	}
	kind, err := checksums.ParseType(algorithm, h.Get(fieldChecksumType))
	return kind, algorithm, err
}

// findUpload returns the upload that the request names. It must be the bucket's and the key's.
func (s *Server) findUpload(x *call) (metastore.Upload, error) {
	u, err := s.blobs.FindUpload(x.Request.Context(), x.query.get("uploadId"))
	switch {
	case err != nil:
		return u, exchange.UploadError(err)
	case blob.Place(x.account, x.key) != metastore.BlobName{Account: u.Account, Name: u.Name} || u.PartSize != 0:
		return u, exchange.ErrNoUpload
	case x.OnlyCreates() && u.Owner != x.Owner():
		return u, exchange.ErrOtherGroup
	}
	return u, nil
}

// openPart returns how the part that the request names is stored, and the algorithm that the upload
// was begun for, or none.
func (s *Server) openPart(x *call) (o blob.PartOptions, a checksums.Algorithm, err error) {
	number, err := partNumber(x.query.get("partNumber"))
	if err != nil {
		return o, "", err
	}
	u, err := s.findUpload(x)
	switch {
	case err != nil:
		return o, "", err
	case u.Owner != "" && u.Owner != x.Owner() && !x.Local:
		return o, "", exchange.ErrOtherGroup
	}
	a, _ = uploadChecksum(&u)
	return blob.PartOptions{UploadID: u.ID, Index: number - 1, Permit: x.Recheck}, a, nil
}

// uploadPart stores a part.
func (s *Server) uploadPart(x *call) error {
	options, algorithm, err := s.openPart(x)
	if err != nil {
		return err
	}
	stated, err := x.statedChecksum()
	if err == nil {
		stated, err = statedForUpload(stated, algorithm)
	}
	if err != nil {
		return err
	}
	b, err := x.openStated(stated)
	if err != nil {
		return err
	}
	options.SHA256, options.Checksum = b.sha256, b.keptByPart
	body, err := x.store(b, "", "")
	if err != nil {
		return err
	}
	part, err := s.blobs.PutPart(x.StoreContext(), options, body, b.size)
	if err = body.Confirm(err); err != nil {
		return exchange.UploadError(err)
	}
	x.Fields.Set("Etag", checksum.ETag(part.Size, part.CRC64))
	own, text := checksumOfPart(&part)
	x.Fields.Set(fieldOf(own), text)
	return x.writeEmpty(http.StatusOK)
}

// copyPart stores a part with the bytes of another blob, or a range of them. They are read and
// written inside this service, and count like a body.
func (s *Server) copyPart(x *call) error {
	options, algorithm, err := s.openPart(x)
	if err != nil {
		return err
	}
	from, err := s.copySource(x)
	if err != nil {
		return err
	}
	x.Access = auditlog.Access{Action: auditlog.Read, Account: from.Account, Name: from.Name, Version: from.version.String()}
	condition, err := s.sourcePrecondition(x.header)
	if err != nil {
		return err
	}
	c, err := s.openNamed(x, from.Account, from.Name, from.version)
	if err != nil {
		return s.missing(x.Request.Context(), from.Account, err)
	}
	defer c.Close()
	x.setSource(from.version, &c.Blob)
	if condition != nil {
		if err := condition(&c.Blob); err != nil {
			return err
		}
	}
	selected, err := copyRange(x.header.Get("X-Amz-Copy-Source-Range"), c.Size)
	if err != nil {
		return err
	}
	source := c.Body(x.Request.Context(), selected)
	defer func() { _ = source.Close() }() // it only releases memory
	b := &body{size: selected.N, Reader: paced{x.Request.Context(), source, x.Allowance}}
	computed, err := statedForUpload(checksums.Stated{}, algorithm)
	if err == nil {
		err = b.verify(computed)
	}
	if err != nil {
		return err
	}
	options.Checksum = b.keptByPart
	body, err := x.store(b, "", "")
	if err != nil {
		return err
	}
	part, err := s.blobs.PutPart(x.StoreContext(), options, body, selected.N)
	if err = body.Confirm(err); err != nil {
		return exchange.UploadError(err)
	}
	x.Access.Bytes = selected.N
	return x.writeXML(http.StatusOK, document.Copied("CopyPartResult", s.blobs.Now(), checksum.ETag(part.Size, part.CRC64), checksumsOfPart(&part)))
}

// paced delays reads of bytes that are copied inside the service, as if they were sent.
type paced struct {
	ctx    context.Context
	source io.Reader
	caller *access.Allowance
}

// Read implements io.Reader.
func (p paced) Read(b []byte) (int, error) {
	n, err := p.source.Read(b[:min(int64(len(b)), p.caller.ChunkIn())])
	if n > 0 {
		if paceErr := p.caller.PaceIn(p.ctx, n); paceErr != nil {
			return n, paceErr
		}
	}
	return n, err
}

// copyRange parses the range of a part's source: bytes=FIRST-LAST, which must lie within it.
func copyRange(text string, size int64) (blob.Range, error) {
	if text == "" {
		return blob.Range{N: size}, nil
	}
	bad := refuseWith("InvalidArgument", wire.CodeBadHeader, "x-amz-copy-source-range must be bytes=FIRST-LAST within the source, which has %d bytes", size)
	first, last, found := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	from, fromErr := strconv.ParseUint(first, 10, 62)
	to, toErr := strconv.ParseUint(last, 10, 62)
	if !found || !strings.HasPrefix(text, "bytes=") || fromErr != nil || toErr != nil || from > to || int64(to) >= size {
		return blob.Range{}, bad
	}
	return blob.Range{Off: int64(from), N: int64(to-from) + 1}, nil
}

// completeUpload makes the named parts an object. Repeated, it has the same answer.
func (s *Server) completeUpload(x *call) error {
	if x.Request.ContentLength > mostComplete {
		return exchange.BodyTooLarge(mostComplete)
	}
	u, err := s.findUpload(x)
	if err != nil {
		return err
	}
	var parts []document.CompletedPart
	// The checksum in the header is the object's, not the body's.
	if err := x.decode(mostComplete, checksums.Stated{}, func(body io.Reader) (err error) {
		parts, err = document.DecodeComplete(body, x.HoldDocument)
		return err
	}); err != nil {
		return err
	}
	named, err := namedParts(parts, x.header)
	if err != nil {
		return err
	}
	final, err := checksums.ParseFinal(x.header)
	if err != nil {
		return err
	}
	metadata := ""
	named.Metadata = func(stored []metastore.Part) (string, error) {
		if err := compareParts(parts, stored); err != nil {
			return "", err
		}
		algorithm, sum, err := finalChecksum(stored, final, &u)
		metadata = keeping(u.Metadata, algorithm, sum)
		return metadata, err
	}
	precondition, err := s.writeConditions(destinationConditions(x.header))
	if err != nil {
		return err
	}
	done, err := s.blobs.CompleteNamed(x.Request.Context(), u.ID, named, x.Creating(precondition))
	if err != nil {
		return exchange.UploadError(err)
	}
	x.Access.Bytes = done.Size
	result := metastore.Blob{CRC64: done.CRC64, Metadata: metadata}
	if u.State != metastore.UploadOpen { // it no longer has its checksum's type
		if b, err := s.lookUp(x); err == nil && b.Modified.Equal(done.Modified) {
			result = b
		}
	}
	x.setVersion(&metastore.Blob{Content: done.Content, Modified: done.Modified, Versioned: done.Versioned})
	x.setExpiration(&metastore.Blob{Name: u.Name, Size: done.Size, Modified: done.Modified, Metadata: metadata, Expires: done.Expires})
	x.SetValidators(headers.NewValidators(checksum.ETag(done.Size, done.CRC64), done.Modified, true, s.blobs.Now()))
	x.Fields.Remove("Etag")
	x.Fields.Remove("Last-Modified")
	return x.writeXML(http.StatusOK, document.CompleteMultipartUploadResult{
		Location: x.Scheme() + "://" + x.Request.Host + escapedPath(x.Request.URL), Bucket: x.bucket, Key: document.Name(x.key),
		ETag: checksum.ETag(done.Size, done.CRC64), Checksums: checksumsOf(&result),
	})
}

// namedParts returns the parts that a body names, and the header's statements about the object.
func namedParts(list []document.CompletedPart, h http.Header) (blob.Named, error) {
	named := blob.Named{MinSize: minPart}
	if text := h.Get("X-Amz-Mp-Object-Size"); text != "" {
		size, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return named, refuseWith("InvalidRequest", wire.CodeBadHeader, "x-amz-mp-object-size must be a number of bytes")
		}
		n := int64(size)
		named.Totals.Bytes = &n
	}
	for _, p := range list {
		named.Parts = append(named.Parts, blob.NamedPart{Index: p.Number - 1, ETag: p.ETag})
	}
	return named, nil
}

// compareParts compares the checksums that a completion repeats with the parts as they are stored.
func compareParts(named []document.CompletedPart, stored []metastore.Part) error {
	for i, p := range named {
		own, text := checksumOfPart(&stored[i])
		for name, repeated := range p.ByAlgorithm() {
			crc64 := checksums.Algorithm(name) == checksums.CRC64NVME && *repeated == crc64Text(stored[i].CRC64)
			if *repeated != "" && !crc64 && (string(own) != name || *repeated != text) {
				return &blob.PartError{Index: p.Number - 1, Err: blob.ErrPartUnknown}
			}
		}
	}
	return nil
}

// finalChecksum returns the object's checksum, besides the one of every blob, that a completion
// states or that the upload was begun for. It is compared with the parts' own, or follows from
// them.
func finalChecksum(stored []metastore.Part, stated *checksums.Final, u *metastore.Upload) (checksums.Algorithm, string, error) {
	var final checksums.Final
	if stated != nil {
		final = *stated
	} else if final.Algorithm, final.Type = uploadChecksum(u); final.Algorithm == "" {
		return "", "", nil
	}
	parts := make([]checksums.Part, len(stored))
	for i := range stored {
		own, text := checksumOfPart(&stored[i])
		if final.Algorithm == checksums.CRC64NVME {
			own, text = final.Algorithm, crc64Text(stored[i].CRC64)
		}
		switch {
		case own != final.Algorithm && stated != nil:
			return "", "", refuseWith("InvalidRequest", wire.CodeBadRequest, "the object's %s cannot be compared: part %d was not uploaded with one", final.Algorithm, stored[i].Index+1)
		case own != final.Algorithm:
			return "", "", nil
		}
		value, err := checksums.ParseValue(own, text)
		if err != nil {
			return "", "", err
		}
		parts[i] = checksums.Part{Value: value, Size: stored[i].Size}
	}
	sum, err := final.Check(parts)
	if stated == nil && errors.Is(err, checksums.ErrInvalidRequest) {
		return "", "", nil // it does not follow from them
	}
	return final.Algorithm, sum, err
}

// abortUpload ends an upload.
func (s *Server) abortUpload(x *call) error {
	u, err := s.findUpload(x)
	if err != nil {
		return err
	}
	if err := checkBegun(x.header, u.Created); err != nil {
		return err
	}
	if err := s.blobs.Abort(x.Request.Context(), u.ID); err != nil {
		return exchange.UploadError(err)
	}
	return x.writeEmpty(http.StatusNoContent)
}

// checkBegun checks the condition that an upload began at a time, which has seconds.
func checkBegun(h http.Header, created time.Time) error {
	text := h.Get("X-Amz-If-Match-Initiated-Time")
	if text == "" {
		return nil
	}
	when, err := http.ParseTime(text)
	if err != nil {
		return refuseWith("InvalidArgument", wire.CodeBadHeader, "x-amz-if-match-initiated-time must be a date of HTTP")
	}
	if !when.Equal(created.Truncate(time.Second)) {
		return exchange.ErrPrecondition
	}
	return nil
}

// listParts lists an open upload's parts.
func (s *Server) listParts(x *call) error {
	limit, err := x.number("max-parts", mostParts)
	if err != nil {
		return err
	}
	marker, err := x.number("part-number-marker", metastore.MaxUnevenParts)
	if err != nil {
		return err
	}
	if !x.query.has("part-number-marker") {
		marker = 0
	}
	u, err := s.findUpload(x)
	switch {
	case err != nil:
		return err
	case u.State != metastore.UploadOpen:
		return exchange.ErrNoUpload
	}
	if err := x.HoldPage(limit); err != nil {
		return err
	}
	_, parts, err := s.blobs.Upload(x.Request.Context(), u.ID, marker-1, limit+1)
	if err != nil {
		return exchange.UploadError(err)
	}
	algorithm, kind := uploadChecksum(&u)
	result := document.ListPartsResult{
		Bucket: x.bucket, Key: document.Name(x.key), UploadID: u.ID, PartNumberMarker: marker, MaxParts: limit, IsTruncated: len(parts) > limit,
		Initiator: ownerOf(x.account), Owner: ownerOf(x.account), StorageClass: storageClass,
		ChecksumAlgorithm: string(algorithm), ChecksumType: string(kind),
	}
	for _, p := range parts[:min(limit, len(parts))] {
		result.NextPartNumberMarker = p.Index + 1
		result.Parts = append(result.Parts, document.Part{
			PartNumber: p.Index + 1, LastModified: document.Time{Time: p.Stored}, ETag: checksum.ETag(p.Size, p.CRC64), Size: p.Size,
			Checksums: checksumsOfPart(&p),
		})
	}
	x.SpendPage(len(result.Parts))
	return x.writeXML(http.StatusOK, result)
}

// listUploads lists a bucket's open uploads by key, and those with one key by when they began.
func (s *Server) listUploads(x *call) error {
	limit, err := x.number("max-uploads", mostKeys)
	if err != nil {
		return err
	}
	encoding, err := x.encoding()
	if err != nil {
		return err
	}
	if err := x.HoldPage(limit); err != nil {
		return err
	}
	q := blob.NamedUploads{
		Account: x.account, Prefix: x.query.get("prefix"), Delimiter: x.query.get("delimiter"), Limit: limit, Bytes: exchange.PageBytes,
		AfterName: x.query.get("key-marker"), AfterID: x.query.get("upload-id-marker"),
	}
	if q.AfterName == "" {
		q.AfterID = "" // as Amazon has it
	}
	var page blob.UploadPage
	if limit > 0 {
		if page, err = s.blobs.UploadsByKey(x.Request.Context(), q); errors.Is(err, database.ErrNotFound) {
			return parameterError("upload-id-marker", "must be an upload's id")
		}
		if err != nil {
			return err
		}
	}
	if len(page.Uploads)+len(page.Groups) == 0 {
		if err := s.needBucket(x.Request.Context(), x.account); err != nil {
			return err
		}
	}
	result := document.ListMultipartUploadsResult{
		Bucket: x.bucket, KeyMarker: document.Name(q.AfterName), UploadIDMarker: q.AfterID, Prefix: document.Name(q.Prefix), Delimiter: document.Name(q.Delimiter),
		EncodingType: encoding, MaxUploads: limit, IsTruncated: page.NextName != "", NextKeyMarker: document.Name(page.NextName), NextUploadIDMarker: page.NextID,
		CommonPrefixes: prefixesOf(page.Groups),
	}
	for _, u := range page.Uploads {
		algorithm, kind := uploadChecksum(&u)
		result.Uploads = append(result.Uploads, document.Upload{
			Key: document.Name(u.Name), UploadID: u.ID, Initiator: ownerOf(x.account), Owner: ownerOf(x.account), StorageClass: storageClass,
			Initiated: document.Time{Time: u.Created}, ChecksumAlgorithm: string(algorithm), ChecksumType: string(kind),
		})
	}
	x.SpendPage(len(page.Uploads) + len(page.Groups))
	x.Allowance.Spend(int64(len(page.Groups) / 10)) // each costs a query
	return x.writeXML(http.StatusOK, result)
}
