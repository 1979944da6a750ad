package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/checksum"
	"sluice/database"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/exchange/transfer"
	"sluice/metastore"
	"sluice/metering"
	"sluice/wire"
)

func (s *Server) putBlob(x *call) error {
	account, name, err := x.blobTarget()
	if err != nil {
		return err
	}
	put := blob.PutOptions{Account: account, Name: name, Permit: x.Recheck}
	if put.SHA256, err = checkContent(x.Request); err != nil {
		return err
	}
	if put.Precondition, err = s.precondition(x.Request.Header); err != nil {
		return err
	}
	put.Precondition = x.Creating(put.Precondition)
	if put.ContentType, err = exchange.ContentType(x.Request.Header.Values("Content-Type")); err != nil {
		return fmt.Errorf("%w: Content-Type %w", exchange.ErrHeader, err)
	}
	if put.Expires, err = expiresHeader(x.Request.Header); err != nil {
		return err
	}
	metadata, err := headers.ParseMetadata(x.Request.Header)
	if err != nil {
		return err
	}
	put.Metadata = string(metadata)
	fields, err := lockFields(x.Request.Header)
	if err != nil {
		return err
	}
	lock, err := x.newLock(fields, account, name)
	if err != nil {
		return err
	}
	body, err := x.StoreBody(x.Request.Body, x.Request.ContentLength, put.Name, put.Metadata)
	if err != nil {
		return err
	}
	put.Owner, put.By, put.Lock = x.Owner(), x.By(), lock
	b, err := s.blobs.Put(x.StoreContext(), put, body, x.Request.ContentLength)
	if err = body.Confirm(err); err != nil {
		return err
	}
	x.Access.Bytes = b.Size
	x.SetValidators(s.validatorsOf(&b))
	setVersion(x, &b)
	if x.linked {
		x.Fields.Set("Cache-Control", notCached)
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// precondition returns a write's conditions, or nil if there are none.
func (s *Server) precondition(h http.Header) (metastore.Precondition, error) {
	c := headers.ParseConditions(h)
	if err := c.Malformed(); err != nil {
		return nil, err
	}
	return exchange.Precondition(c, s.blobs, exchange.ErrPrecondition), nil
}

func (s *Server) validatorsOf(b *metastore.Blob) headers.Validators {
	return exchange.ValidatorsOf(b, s.blobs.Now())
}

func (s *Server) deleteBlob(x *call) error {
	account, name, err := x.blobTarget()
	if err != nil {
		return err
	}
	precondition, err := s.precondition(x.Request.Header)
	if err != nil {
		return err
	}
	removed, err := s.blobs.RemoveBlob(x.Request.Context(), metastore.Removal{
		BlobName: metastore.BlobName{Account: account, Name: name}, By: x.By(), Precondition: precondition,
	})
	if err != nil {
		return err
	}
	setVersion(x, &removed.Mark)
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) getBlob(x *call) error {
	account, name, err := x.blobTarget()
	if err != nil {
		return err
	}
	return s.serveBlob(x, func() (*blob.Content, error) {
		c, err := s.blobs.Open(x.Request.Context(), account, name)
		if errors.Is(err, database.ErrNotFound) && !x.linked && (x.Local || x.HoldsRead(account, name)) {
			mark, failed := s.blobs.Deleted(x.Request.Context(), metastore.BlobName{Account: account, Name: name})
			if err = cmp.Or(failed, err); mark.Mark {
				x.Fields.Set(wire.HeaderBlobDeleted, "true")
				x.Fields.Set(wire.HeaderBlobVersion, metastore.VersionOf(&mark).String())
			}
		}
		return c, err
	})
}

// serveBlob serves GET and HEAD in the order of RFC 9110, section 13.2.2: conditions, then the
// range.
func (s *Server) serveBlob(x *call, open func() (*blob.Content, error)) error {
	if x.Request.Header.Get("Service-Worker") != "" {
		return exchange.ErrServiceWorker
	}
	bill, err := s.newBill(x)
	if err != nil {
		return err
	}
	c, err := open()
	if err != nil {
		return exchange.BlobError(err)
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
		return exchange.ErrPrecondition
	case headers.NotModified:
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	x.Fields.Set("Content-Type", exchange.MediaType(&c.Blob))
	if x.Request.Method == http.MethodHead {
		x.Fields.Set("Content-Length", strconv.FormatInt(c.Size, 10))
		x.WriteHeader(http.StatusOK)
		return nil
	}
	var wanted headers.RangeSet
	if conditions.RangeApplies(&v) {
		wanted = headers.ParseRange(x.Request.Header.Values("Range"))
	}
	return s.serveRanges(x, c, wanted, bill)
}

// readConditions returns a read's conditions. If the blob's checksums are withheld, they neither
// decide a condition nor are the answer to a HEAD.
func (s *Server) readConditions(x *call, size int64) headers.Conditions {
	conditions := headers.ParseConditions(x.Request.Header)
	if !s.withholds(x, size) {
		return conditions
	}
	if x.Request.Method == http.MethodHead {
		x.Fields.Remove("Etag")
		x.Fields.Remove(wire.HeaderReprDigest)
	}
	return conditions.Unevaluated()
}

// serveRanges charges the bill, which is nil for a free read, and sends the wanted ranges. It
// refunds chunksets that were charged and not sent.
func (s *Server) serveRanges(x *call, c *blob.Content, wanted headers.RangeSet, bill *metering.Bill) error {
	if bill != nil && (wanted.Kind() == headers.RangeMalformed || wanted.Kind() == headers.RangeTooMany) {
		return &exchange.UnsatisfiedRange{Size: c.Size} // not the whole blob, which costs more
	}
	selection, ranges := wanted.Resolve(c.Size)
	switch selection {
	case headers.SelectNothing:
		return &exchange.UnsatisfiedRange{Size: c.Size}
	case headers.SelectWhole:
		ranges = metering.Whole(c.Size)
	}
	if err := c.CheckRanges(x.Request.Context(), ranges); err != nil {
		return err // before it is charged
	}
	if err := s.charge(x, bill, ranges); err != nil {
		return err
	}
	served, err := x.SendContent(c, selection, ranges)
	if err == nil && bill != nil {
		err = x.Out.Send() // while lost bytes can be refunded
	}
	if err != nil {
		bill.Return(sentRanges(served, &x.Out))
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
	default: // it is not known how many unsent bytes are framing
		return served
	}
}

// withholds reports whether checksums for a blob of this size are sent or compared only to callers
// who pay, because they disclose the bytes.
func (s *Server) withholds(x *call, size int64) bool {
	return x.place.Reads == access.ReadsPaid && !x.readsFree && size <= exchange.SmallBlob
}

// notCached is the Cache-Control for a response that only one caller may have.
const notCached = "private, no-store"

// setBlobHeaders sets the headers of every response about a blob.
func (s *Server) setBlobHeaders(x *call, b *metastore.Blob, v headers.Validators) {
	x.SetValidators(v)
	setVersion(x, b)
	if x.Local || x.HoldsRead(b.Account, b.Name) {
		setLockFields(x, b.Lock)
	}
	x.Fields.Set("Accept-Ranges", "bytes")
	cacheControl := setMetadata(x, headers.Metadata(b.Metadata))
	switch {
	case x.linked: // a cache may not know queries
		x.Fields.Set("Cache-Control", notCached)
	case x.place.Reads == access.ReadsPaid:
		x.Fields.Set("Cache-Control", notCached)
		x.Fields.Add("Vary", wire.HeaderSessionID+", "+wire.HeaderMicropayment)
	case x.place.Reads != access.ReadsPublic:
		x.Fields.Set("Cache-Control", "private, no-cache")
	default:
		s.setPublicCacheControl(x, b, cacheControl)
	}
	if s.keys != nil && !x.place.Reads.Everybody() {
		x.Fields.Add("Vary", "Authorization, "+wire.HeaderAPIKey)
	}
	x.Fields.Set("Content-Security-Policy", headers.ContentPolicy(b.ContentType))
	if !b.Expires.IsZero() {
		x.Fields.Set(wire.HeaderBlobExpires, b.Expires.UTC().Format(time.RFC3339Nano))
	}
	if b.SHA256 != nil {
		x.Fields.Set(wire.HeaderReprDigest, headers.FormatDigest(b.SHA256))
	}
}

// setVersion sets a version's id, if the account keeps it.
func setVersion(x *call, b *metastore.Blob) {
	if b.Versioned {
		x.Fields.Set(wire.HeaderBlobVersion, metastore.VersionOf(b).String())
	}
}

// setMetadata sets the headers with which a blob's writer has described it, and lets a page of
// another origin read them. It returns the Cache-Control, which is set only for public reads.
func setMetadata(x *call, m headers.Metadata) (cacheControl string) {
	if m == "" {
		return ""
	}
	exposed := corsResponseHeaders
	for name, value := range m.Fields() {
		if name == "Cache-Control" {
			cacheControl = value
			continue
		}
		x.Fields.Set(name, value)
		if _, custom := headers.MetaName(name); custom {
			exposed += ", " + name
		}
	}
	if len(exposed) > len(corsResponseHeaders) && x.Fields.Has("Access-Control-Expose-Headers") {
		x.Fields.Set("Access-Control-Expose-Headers", exposed)
	}
	return cacheControl
}

// setPublicCacheControl sets the Cache-Control for a blob that everybody may read: the one that its
// writer has stated, or else the service's default, as far as the blob does not expire before.
func (s *Server) setPublicCacheControl(x *call, b *metastore.Blob, stated string) {
	value := cmp.Or(headers.SentCacheControl(stated), headers.SentCacheControl(s.publicCacheControl))
	if value == "" {
		x.Fields.Set("Cache-Control", "no-cache")
		return
	}
	if !b.Expires.IsZero() {
		now := s.blobs.Now()
		value = headers.LimitCacheControl(value, b.Expires.Sub(now), now.Sub(b.Modified))
	}
	x.Fields.Set("Cache-Control", value)
}

// includeMetadata is the parameter include's value with which a listing has metadata.
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
			custom, ok := headers.MetaName(name)
			if !ok {
				continue // only S3's clients state it
			}
			if out.Metadata == nil {
				out.Metadata = map[string]string{}
			}
			out.Metadata[custom] = value
		}
	}
}

// listQuery returns the query for a page of blobs or versions.
func listQuery(x *call) (q query, of metastore.ListQuery, err error) {
	if of.Account, err = blob.ParseAccount(x.params.Get("account")); err != nil {
		return nil, of, err
	}
	if q, of.Limit, err = pageOf(x); err != nil {
		return nil, of, err
	}
	include := q.text("include")
	if include != "" && include != includeMetadata {
		err = fmt.Errorf("%w: include can only be %s", exchange.ErrParameter, includeMetadata)
	}
	of.Prefix, of.Delimiter, of.After = q.text("prefix"), q.text("delimiter"), q.text("after")
	of.Bytes, of.Metadata = exchange.PageBytes, include != ""
	return q, of, err
}

func (s *Server) listBlobs(x *call) error {
	_, of, err := listQuery(x)
	if err != nil {
		return err
	}
	page, err := s.blobs.List(x.Request.Context(), of)
	if err != nil {
		return err
	}
	out := wire.BlobPage{Prefixes: page.Prefixes, Next: page.Next}
	for _, b := range page.Blobs {
		out.Blobs = append(out.Blobs, listed(x, of.Account, &b))
	}
	return writePage(x, out, len(out.Blobs)+len(out.Prefixes))
}

// listed returns a list's entry, as far as the caller may know it.
func listed(x *call, account string, b *metastore.Blob) wire.Blob {
	one := wire.Blob{Name: b.Name, Size: b.Size, LastModified: b.Modified, Expires: b.Expires}
	rule := x.rules.At(b.Name)
	described, summed := exchange.ListShows(rule, b.Size, x.HoldsRead(account, b.Name) || x.Local && rule.Reads != access.ReadsPaid)
	if described {
		one.ContentType = exchange.MediaType(b)
		describe(&one, headers.Metadata(b.Metadata))
	}
	if summed {
		one.ETag = checksum.ETag(b.Size, b.CRC64)
	}
	return one
}
