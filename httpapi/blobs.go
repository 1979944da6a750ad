package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"sluice/blob"
	"sluice/checksum"
	"sluice/database"
	"sluice/httpapi/internal/headers"
	"sluice/httpapi/internal/transfer"
	"sluice/metastore"
	"sluice/metering"
	"sluice/wire"
)

// blobError reports that a blob does not exist or has expired.
func blobError(err error) error {
	switch {
	case errors.Is(err, database.ErrNotFound):
		return fmt.Errorf("%w: %w", errNoBlob, err)
	case errors.Is(err, database.ErrExpired):
		return fmt.Errorf("%w: %w", errBlobExpired, err)
	default:
		return err
	}
}

func (s *Server) putBlob(x *exchange) error {
	account, name, err := x.blobTarget()
	if err != nil {
		return err
	}
	put := blob.PutOptions{Account: account, Name: name, Permit: x.recheck}
	if put.SHA256, err = checkContent(x.r); err != nil {
		return err
	}
	if put.Precondition, err = s.precondition(x.r.Header); err != nil {
		return err
	}
	if put.ContentType, err = contentType(x.r.Header.Values("Content-Type")); err != nil {
		return fmt.Errorf("%w: Content-Type %w", errHeader, err)
	}
	if put.Expires, err = expiresHeader(x.r.Header); err != nil {
		return err
	}
	metadata, err := headers.ParseMetadata(x.r.Header)
	if err != nil {
		return err
	}
	if put.Metadata, err = s.admitMetadata(metadata); err != nil {
		return err
	}
	body, err := x.storeBody(put.Name, put.Metadata)
	if err != nil {
		return err
	}
	put.Owner = x.owner()
	b, err := s.blobs.Put(x.storeContext(), put, body, x.r.ContentLength)
	if err = body.confirm(err); err != nil {
		return err
	}
	x.setValidators(s.validatorsOf(&b))
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// precondition returns a write's conditions, or nil if there are none.
func (s *Server) precondition(h http.Header) (metastore.Precondition, error) {
	c := headers.ParseConditions(h)
	if err := c.Malformed(); err != nil {
		return nil, err
	}
	return s.preconditionOf(c, errPrecondition), nil
}

// preconditionOf returns a write's conditions, or nil if there are none. failed is the error if
// they do not hold.
func (s *Server) preconditionOf(c headers.Conditions, failed error) metastore.Precondition {
	if !c.Any() {
		return nil
	}
	now := s.blobs.Now() // a precondition must be a pure function
	return func(current *metastore.Blob) error {
		var v *headers.Validators
		if current != nil {
			is := headers.NewValidators(checksum.ETag(current.Size, current.CRC64), current.Modified, current.SharedSecond, now)
			v = &is
		}
		if c.ForWrite(v) == headers.ConditionFailed {
			return failed
		}
		return nil
	}
}

func (s *Server) validatorsOf(b *metastore.Blob) headers.Validators {
	return headers.NewValidators(checksum.ETag(b.Size, b.CRC64), b.Modified, b.SharedSecond, s.blobs.Now())
}

func (x *exchange) setValidators(v headers.Validators) {
	x.header.set("Etag", v.ETag)
	x.header.set("Date", httpDate(v.Date)) // by the store's clock instead of this node's
	x.header.set("Last-Modified", httpDate(v.Modified))
}

func (s *Server) deleteBlob(x *exchange) error {
	account, name, err := x.blobTarget()
	if err != nil {
		return err
	}
	precondition, err := s.precondition(x.r.Header)
	if err != nil {
		return err
	}
	if err := s.blobs.Delete(x.r.Context(), account, name, precondition); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// getBlob serves GET and HEAD in the order of RFC 9110, section 13.2.2: conditions, then the range.
func (s *Server) getBlob(x *exchange) error {
	account, name, err := x.blobTarget()
	if err != nil {
		return err
	}
	if x.r.Header.Get("Service-Worker") != "" {
		return errServiceWorker
	}
	bill, err := s.newBill(x)
	if err != nil {
		return err
	}
	c, err := s.blobs.Open(x.r.Context(), account, name)
	if err != nil {
		return blobError(err)
	}
	defer c.Close()

	s.setPriceHeaders(x, c.Size)
	if err := bill.Require(c.Size); err != nil {
		return err
	}
	v := s.validatorsOf(&c.Blob)
	s.setBlobHeaders(x, &c.Blob, v)
	conditions := s.readConditions(x, c.Size)
	switch conditions.ForRead(&v) {
	case headers.ConditionFailed:
		return errPrecondition
	case headers.NotModified:
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	x.header.set("Content-Type", mediaType(&c.Blob))
	if x.r.Method == http.MethodHead {
		x.header.set("Content-Length", strconv.FormatInt(c.Size, 10))
		x.WriteHeader(http.StatusOK)
		return nil
	}
	var wanted headers.RangeSet
	if conditions.RangeApplies(&v) {
		wanted = headers.ParseRange(x.r.Header.Values("Range"))
	}
	return s.serveRanges(x, c, wanted, bill)
}

// readConditions returns a read's conditions. If the blob's checksums are withheld, they neither
// decide a condition nor are the answer to a HEAD.
func (s *Server) readConditions(x *exchange, size int64) headers.Conditions {
	conditions := headers.ParseConditions(x.r.Header)
	if !s.withholds(x, size) {
		return conditions
	}
	if x.r.Method == http.MethodHead {
		x.header.remove("Etag")
		x.header.remove(wire.HeaderReprDigest)
	}
	return conditions.Unevaluated()
}

// serveRanges charges the bill, which is nil for a free read, and sends the wanted ranges. It
// returns to the payer what was charged and not sent.
func (s *Server) serveRanges(x *exchange, c *blob.Content, wanted headers.RangeSet, bill *metering.Bill) error {
	if bill != nil && (wanted.Kind() == headers.RangeMalformed || wanted.Kind() == headers.RangeTooMany) {
		return &unsatisfiedRange{size: c.Size} // not the whole blob, which costs more
	}
	selection, ranges := wanted.Resolve(c.Size)
	switch selection {
	case headers.SelectNothing:
		return &unsatisfiedRange{size: c.Size}
	case headers.SelectWhole:
		ranges = metering.Whole(c.Size)
	}
	if err := s.charge(x, bill, ranges); err != nil {
		return err
	}
	x.out.SetDeadline(c.Until())
	c.OnCut(x.out.Cut)
	served, err := sendBlob(x, c, selection, ranges)
	if err == nil && bill != nil {
		err = x.out.Send() // while what is lost can be returned
	}
	if err != nil {
		bill.Return(sentRanges(served, &x.out))
	}
	return err
}

// sentRanges returns the served ranges, as far as they may have left the process.
func sentRanges(served []blob.Range, out *transfer.Writer) []blob.Range {
	unsent := out.Unsent()
	switch {
	case unsent == out.Written():
		return nil
	case len(served) == 1: // the response's body has nothing else
		return []blob.Range{{Off: served[0].Off, N: served[0].N - unsent}}
	default: // it is not known how much of what is unsent is framing
		return served
	}
}

// smallBlob is the size in bytes up to which a blob can be computed from its checksums.
const smallBlob = 16

// withholds reports whether checksums for a blob of this size are sent or compared only to callers
// who pay, because they disclose the bytes.
func (s *Server) withholds(x *exchange, size int64) bool {
	return s.reads == ReadsPaid && !x.readsFree && size <= smallBlob
}

// setBlobHeaders sets the headers of every response about a blob.
func (s *Server) setBlobHeaders(x *exchange, b *metastore.Blob, v headers.Validators) {
	x.setValidators(v)
	x.header.set("Accept-Ranges", "bytes")
	cacheControl := setMetadata(x, headers.Metadata(b.Metadata))
	switch s.reads {
	case ReadsPaid:
		x.header.set("Cache-Control", "private, no-store")
		x.header.add("Vary", wire.HeaderSessionID+", "+wire.HeaderMicropayment)
	case ReadsKey:
		x.header.set("Cache-Control", "private, no-cache")
	default:
		s.setPublicCacheControl(x, b, cacheControl)
	}
	if s.keys != nil && s.reads != ReadsPublic {
		x.header.add("Vary", "Authorization, "+wire.HeaderAPIKey)
	}
	// Blobs are untrusted: they must not run as pages of this origin.
	x.header.set("Content-Security-Policy", "sandbox")
	if !b.Expires.IsZero() {
		x.header.set(wire.HeaderBlobExpires, b.Expires.UTC().Format(time.RFC3339Nano))
	}
	if b.SHA256 != nil {
		x.header.set(wire.HeaderReprDigest, headers.FormatDigest(b.SHA256))
	}
}

// admitMetadata returns metadata as it is stored, or errOlderNodes.
func (s *Server) admitMetadata(m headers.Metadata) (string, error) {
	if m != "" && s.olderNodes() {
		return "", errOlderNodes
	}
	return string(m), nil
}

// setMetadata sets the headers with which a blob's writer has described it, and lets a page of
// another origin read them. It returns the Cache-Control, which is set only for public reads.
func setMetadata(x *exchange, m headers.Metadata) (cacheControl string) {
	if m == "" {
		return ""
	}
	exposed := corsResponseHeaders
	for name, value := range m.Fields() {
		if name == "Cache-Control" {
			cacheControl = value
			continue
		}
		x.header.set(name, value)
		if _, custom := headers.MetaName(name); custom {
			exposed += ", " + name
		}
	}
	if len(exposed) > len(corsResponseHeaders) && x.header.has("Access-Control-Expose-Headers") {
		x.header.set("Access-Control-Expose-Headers", exposed)
	}
	return cacheControl
}

// setPublicCacheControl sets the Cache-Control for a blob that everybody may read: the one that its
// writer has stated, or else the service's default, as far as the blob does not expire before.
func (s *Server) setPublicCacheControl(x *exchange, b *metastore.Blob, stated string) {
	value := cmp.Or(headers.SentCacheControl(stated), headers.SentCacheControl(s.publicCacheControl))
	if value == "" {
		x.header.set("Cache-Control", "no-cache")
		return
	}
	if !b.Expires.IsZero() {
		now := s.blobs.Now()
		value = headers.LimitCacheControl(value, b.Expires.Sub(now), now.Sub(b.Modified))
	}
	x.header.set("Cache-Control", value)
}

// mediaType returns a blob's content type, or the default if its writer sent none.
func mediaType(b *metastore.Blob) string {
	if b.ContentType == "" {
		return "application/octet-stream"
	}
	return b.ContentType
}

// sendBlob sends the whole blob, one range, or several ranges as multipart/byteranges. Their
// framing is computed first, so that the length is known. It returns the ranges of bytes that were
// sent, also with an error.
func sendBlob(x *exchange, c *blob.Content, selection headers.Selection, ranges []blob.Range) (served []blob.Range, err error) {
	frame := headers.MultipartRanges{Length: c.Size}
	status := http.StatusOK
	if selection == headers.SelectPartial {
		status = http.StatusPartialContent
		frame.Length = ranges[0].N
	}
	switch {
	case len(ranges) > 1:
		frame = headers.FrameRanges(ranges, mediaType(&c.Blob), c.Size, headers.NewBoundary())
		x.header.set("Content-Type", frame.ContentType)
	case selection == headers.SelectPartial:
		x.header.set("Content-Range", headers.ContentRange(ranges[0], c.Size))
	}
	x.header.set("Content-Length", strconv.FormatInt(frame.Length, 10))
	x.WriteHeader(status)
	reading := c.Read(ranges, x.paceRead)
	defer reading.Close()
	for i, one := range ranges {
		if len(frame.Parts) > 0 {
			if err := writeFraming(x, frame.Parts[i].Header); err != nil {
				return served, err
			}
		}
		n, err := reading.WriteNext(x.r.Context(), checkedWriter(x))
		if n > 0 {
			served = append(served, blob.Range{Off: one.Off, N: n})
		}
		if err != nil {
			return served, err
		}
	}
	return served, writeFraming(x, frame.Trailer)
}

// paceRead waits until the caller may have n more bytes. They are read and not sent: a range costs
// the store whole blocks.
func (x *exchange) paceRead(ctx context.Context, n int64) error {
	for n > 0 {
		chunk := min(n, x.allowance.ChunkOut())
		if err := x.allowance.PaceOut(ctx, int(chunk)); err != nil {
			return err
		}
		n -= chunk
	}
	return nil
}

// writeFraming writes the text between ranges. It does not write an empty text, because the first
// write sends the status.
func writeFraming(w io.Writer, text string) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// checkedWriter returns x without its ReadFrom on connections for which ReadFrom would copy: bytes
// that are copied anyway are verified on the way.
func checkedWriter(x *exchange) io.Writer {
	if x.r.TLS == nil && x.r.ProtoMajor == 1 {
		return x
	}
	return struct{ io.Writer }{x}
}

// includeMetadata is the value of the parameter include with which a listing has metadata.
const includeMetadata = "metadata"

// describe sets the members that have a blob's metadata.
func describe(out *wire.Blob, m headers.Metadata) {
	for name, value := range m.Fields() {
		switch name {
		case "Cache-Control":
			out.CacheControl = value
		case "Content-Disposition":
			out.ContentDisposition = value
		case "Content-Language":
			out.ContentLanguage = value
		default:
			if out.Metadata == nil {
				out.Metadata = map[string]string{}
			}
			custom, _ := headers.MetaName(name)
			out.Metadata[custom] = value
		}
	}
}

func (s *Server) listBlobs(x *exchange) error {
	account, err := blob.ParseAccount(x.params.Get("account"))
	if err != nil {
		return err
	}
	q, err := readQuery(x.r)
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	switch q.text("include") {
	case "", includeMetadata:
	default:
		return fmt.Errorf("%w: include can only be %s", errParameter, includeMetadata)
	}
	if err := x.holdPage(limit); err != nil {
		return err
	}
	page, err := s.blobs.List(x.r.Context(), metastore.ListQuery{
		Account:   account,
		Prefix:    q.text("prefix"),
		Delimiter: q.text("delimiter"),
		After:     q.text("after"),
		Limit:     limit,
		Bytes:     pageBytes,
		Metadata:  q.text("include") == includeMetadata,
	})
	if err != nil {
		return err
	}
	out := wire.BlobPage{Prefixes: page.Prefixes, Next: page.Next}
	for _, b := range page.Blobs {
		one := wire.Blob{
			Name:         b.Name,
			Size:         b.Size,
			ETag:         checksum.ETag(b.Size, b.CRC64),
			ContentType:  mediaType(&b),
			LastModified: b.Modified,
			Expires:      b.Expires,
		}
		describe(&one, headers.Metadata(b.Metadata))
		if x.local && s.withholds(x, b.Size) { // a key that may list may also read
			one.ETag = ""
		}
		out.Blobs = append(out.Blobs, one)
	}
	return writePage(x, out, len(out.Blobs)+len(out.Prefixes))
}
