package s3api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/checksum"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// splitCopySource returns the bucket, the key and the version that a copy source names. The client
// escapes it as in a URL, a part or the whole, and may write a space as "+". Like Amazon, it is
// decoded once, before it is split, and a leading slash is ignored. A "?" that is not escaped
// begins a version's id.
func splitCopySource(text string) (bucket, key string, version versionID, err error) {
	malformed := refuseWith("InvalidArgument", wire.CodeBadHeader, "x-amz-copy-source must be BUCKET/KEY, encoded as in a URL")
	text, parameters, _ := strings.Cut(text, "?")
	id, stated := strings.CutPrefix(parameters, "versionId=")
	switch {
	case parameters != "" && !stated:
		return "", "", versionID{}, malformed
	case id != "":
		if version, err = parseVersion(id); err != nil {
			return "", "", versionID{}, err
		}
	}
	decoded, err := url.QueryUnescape(text)
	bucket, key, found := strings.Cut(strings.TrimPrefix(decoded, "/"), "/")
	if err != nil || !found || bucket == "" || key == "" {
		return "", "", versionID{}, malformed
	}
	return bucket, key, version, nil
}

// source is the object that a request copies from, or a version of it.
type source struct {
	metastore.BlobName // its bucket's account, and its key
	version            versionID
}

// copySource returns the request's source. The caller must be allowed to read it.
func (s *Server) copySource(x *call) (of source, err error) {
	bucket, key, version, err := splitCopySource(x.header.Get(fieldCopySource))
	if err != nil {
		return of, err
	}
	if err := checkKey(key); err != nil {
		return of, err
	}
	account, err := s.accountOf(bucket)
	if err == nil {
		err = checkOwner(x.header, "X-Amz-Source-Expected-Bucket-Owner", account)
	}
	if err != nil {
		return of, err
	}
	from, err := s.places.Account(x.Request.Context(), account)
	if err != nil {
		return of, err
	}
	to, err := s.places.Account(x.Request.Context(), x.account)
	of = source{metastore.BlobName{Account: account, Name: key}, version}
	if err == nil {
		err = x.PermitCopy(from.At(key), to.At(x.key), of.BlobName, true)
	}
	if err == nil && version.stated && x.HoldsRead(account, key) {
		err = x.GrantMore(access.ScopeRead, account, key) // also when the copy takes effect
	}
	return of, err
}

// setSource sets the field with the version that was copied, as setVersion does.
func (x *call) setSource(version versionID, b *metastore.Blob) {
	if b.Versioned || version.stated {
		x.Fields.Set(fieldFromVersion, idOf(b))
	}
}

// sourceConditions returns a copy's conditions on its source. S3 joins them as it does for a read:
// a tag decides over a date.
func sourceConditions(h http.Header) (headers.Conditions, error) {
	renamed := http.Header{}
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if values := h["X-Amz-Copy-Source-"+name]; values != nil {
			renamed[name] = values
		}
	}
	c := conditionsOf(renamed)
	return c, c.Malformed()
}

// sourcePrecondition returns the conditions on the source, or nil if there are none.
func (s *Server) sourcePrecondition(h http.Header) (metastore.Precondition, error) {
	c, err := sourceConditions(h)
	if err != nil || !c.Any() {
		return nil, err
	}
	now := s.blobs.Now() // a precondition must be a pure function
	return func(current *metastore.Blob) error {
		v := exchange.ValidatorsOf(current, now)
		if c.ForRead(&v) != headers.ConditionHolds {
			return exchange.ErrPrecondition
		}
		return nil
	}, nil
}

// copyObject serves CopyObject, which moves no byte.
func (s *Server) copyObject(x *call) error {
	from, err := s.copySource(x)
	if err != nil {
		return err
	}
	o, err := s.parseCopy(x, from)
	if err != nil {
		return err
	}
	x.Access.FromAccount, x.Access.FromName, x.Access.Version = from.Account, from.Name, from.version.String()
	b, err := s.copy(x, o, func(ctx context.Context, source metastore.Blob, metadata string) (*access.Reservation, error) {
		x.setSource(from.version, &source)
		if err := s.ensureBucket(x); err != nil {
			return nil, err
		}
		return x.Allowance.Reserve(ctx, o.To.Name, metadata, source.Size)
	})
	if err != nil {
		return err
	}
	x.Access.Bytes = b.Size
	x.setVersion(&b)
	x.setExpiration(&b)
	return x.writeXML(http.StatusOK, document.Copied("CopyObjectResult", b.Modified, checksum.ETag(b.Size, b.CRC64), checksumsOf(&b)))
}

// copy copies a blob, and reserves quota for a copy of source with this metadata.
func (s *Server) copy(x *call, o blob.CopyOptions, reserve func(ctx context.Context, source metastore.Blob, metadata string) (*access.Reservation, error)) (metastore.Blob, error) {
	var metadata string
	var reserved *access.Reservation
	restate := o.Restate
	o.Restate = func(source metastore.Blob, copied *metastore.Blob) error {
		err := restate(source, copied)
		metadata = copied.Metadata
		return err
	}
	o.Admit = func(ctx context.Context, source metastore.Blob) (err error) {
		if reserved != nil { // for a source that was replaced meanwhile
			reserved.Release()
		}
		reserved, err = reserve(ctx, source, metadata)
		return err
	}
	b, err := s.blobs.Copy(x.Request.Context(), o)
	if reserved != nil {
		exchange.Confirm(reserved, err)
	}
	if errors.Is(err, metastore.ErrNoSource) {
		account := accountOfPlace(o.From)
		if o.FromVersion != nil {
			err = s.noVersion(x, *o.FromVersion)
		} else if err = exchange.BlobError(err); o.From == o.To {
			err = s.noObject(x, account, o.From.Name, err)
		}
		err = s.missing(x.Request.Context(), account, err)
	}
	return b, err
}

// parseCopy returns a request's statements about the copy.
func (s *Server) parseCopy(x *call, from source) (o blob.CopyOptions, err error) {
	h := x.header
	o.From, o.To, o.Owner, o.By, o.Permit = blob.Place(from.Account, from.Name), blob.Place(x.account, x.key), x.Owner(), x.By(), x.Recheck
	if o.Source, err = s.sourcePrecondition(h); err != nil {
		return o, err
	}
	switch {
	case from.version.stated && x.readsVersions(from.Account, from.Name):
		version := from.version.of(o.From)
		o.FromVersion = &version
	case from.version.stated:
		o.Source = x.isCurrent(from, o.Source)
	}
	if o.Precondition, err = s.writeConditions(destinationConditions(h)); err != nil {
		return o, err
	}
	o.Precondition = x.Creating(o.Precondition)
	restated, err := replaces(h, "X-Amz-Metadata-Directive")
	if err != nil {
		return o, err
	}
	// A class or an encryption counts whatever it was before.
	changes := restated || h.Get("X-Amz-Storage-Class") != "" || h.Get(fieldEncryption) != ""
	if !changes && o.From == o.To && o.FromVersion == nil {
		return o, refuseWith("InvalidRequest", wire.CodeBadHeader, "an object can be copied to itself only with x-amz-metadata-directive: REPLACE, a storage class or an encryption")
	}
	if o.Restate, err = s.restate(x, restated); err == nil {
		o.Lock, err = x.statedLock(x.key, h)
	}
	return o, err
}

// isCurrent adds to the conditions of a copy, which may be nil, that the version which the source
// names is the current one.
func (x *call) isCurrent(from source, conditions metastore.Precondition) metastore.Precondition {
	denied := x.requireRead(from.Account, from.Name)
	return func(current *metastore.Blob) error {
		if !from.version.of(from.BlobName).Is(current) {
			return denied
		}
		if conditions == nil {
			return nil
		}
		return conditions(current)
	}
}

// restate returns the function that sets the members of a copy which are not the source's bytes.
func (s *Server) restate(x *call, restated bool) (blob.Restate, error) {
	var d described
	h := x.header
	err := s.refuseForeign(x, x.key, h)
	if err == nil && restated {
		d, err = s.describe(x, x.key, h)
	}
	if err != nil {
		return nil, err
	}
	retagged, err := replaces(h, "X-Amz-Tagging-Directive")
	if err != nil {
		return nil, err
	}
	tags, err := headerTags(h)
	return func(source metastore.Blob, copied *metastore.Blob) (err error) {
		metadata := headers.Metadata(source.Metadata)
		if restated {
			copied.ContentType, copied.Expires = d.contentType, d.expires
			metadata = headers.Metadata(d.metadata).WithPropertiesOf(metadata)
		} else {
			copied.Expires, err = s.copiedExpiry(source)
		}
		if retagged {
			metadata = metadata.WithProperty(fieldTagging, tags)
		}
		copied.Metadata = string(metadata)
		return err
	}, err
}

// replaces reports whether a directive demands that a copy has the request's values, not its
// source's.
func replaces(h http.Header, directive string) (bool, error) {
	switch h.Get(directive) {
	case "", "COPY":
		return false, nil
	case "REPLACE":
		return true, nil
	}
	return false, refuseWith("InvalidArgument", wire.CodeBadHeader, "%s can only be COPY or REPLACE", strings.ToLower(directive))
}

// destinationConditions returns the header without the fields that concern the source alone.
func destinationConditions(h http.Header) http.Header {
	return http.Header{"If-Match": h["If-Match"], "If-None-Match": h["If-None-Match"]}
}

// copiedExpiry returns when a copy expires that has its source's metadata: after as many seconds as
// the metadata states, if it does.
func (s *Server) copiedExpiry(source metastore.Blob) (when time.Time, err error) {
	for name, value := range headers.Metadata(source.Metadata).Fields() {
		if name == wire.HeaderBlobMeta+strings.TrimPrefix(fieldExpiration, metaPrefix) {
			return s.expiry(value)
		}
	}
	return when, nil
}
