package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"sluice/access"
	"sluice/blob"
	"sluice/checksum"
	"sluice/database"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/internal/auditlog"
	"sluice/metastore"
	"sluice/wire"
)

// Why a copy or a move is refused for its conditions.
var (
	errSourceCondition      = fmt.Errorf("%w: a condition on the source does not hold", exchange.ErrPrecondition)
	errDestinationCondition = fmt.Errorf("%w: a condition on the destination does not hold", exchange.ErrPrecondition)
	errHiddenCondition      = fmt.Errorf("%w: a condition on this blob needs %q, because its answer discloses the bytes", access.ErrScope, access.ScopeRead)
)

// transferral is a request that copies or moves a blob.
type transferral struct {
	from, to      metastore.BlobName
	version       *metastore.VersionName // of from, which is copied; nil: the current one
	moves         bool
	onSource      headers.Conditions
	onDestination headers.Conditions
	once          *database.Idempotency // may be nil

	options blob.CopyOptions // Lock, and of a copy: Expires, Restated, ContentType and Metadata
}

// copyBlob serves POST on a blob, which copies or moves it.
func (s *Server) copyBlob(x *call) error {
	account, name, err := x.blobTarget()
	if err != nil {
		return err
	}
	return s.copyFrom(x, transferral{from: metastore.BlobName{Account: account, Name: name}})
}

// copyFrom copies or moves the source to the destination in the request's body.
func (s *Server) copyFrom(x *call, t transferral) error {
	t.onSource = headers.ParseConditions(x.Request.Header)
	if err := t.onSource.Malformed(); err != nil {
		return err
	}
	var in wire.CopyBlob
	body, err := x.readJSON(&in)
	if err != nil {
		return err
	}
	if t.once, err = ownedIdempotency(x, "move", "", body); err != nil {
		return err
	}
	if err := s.parseTransfer(&in, &t); err != nil {
		return err
	}
	if x.Access.Action != "" {
		x.Access = t.access()
	}
	if err := s.permitTransfer(x, &t); err != nil {
		return err
	}
	if t.options.Lock, err = x.newLock(in.Lock, t.to.Account, t.to.Name); err != nil {
		return err
	}
	b, err := s.transfer(x, &t)
	if err != nil {
		return err
	}
	x.Access.Bytes = b.Size
	return s.writeCopied(x, b)
}

// access returns the access to the blobs, for the audit log.
func (t *transferral) access() auditlog.Access {
	a := auditlog.Access{Action: auditlog.Copy, Account: t.to.Account, Name: t.to.Name, FromAccount: t.from.Account, FromName: t.from.Name}
	if t.moves {
		a.Action = auditlog.Move
	}
	if t.version != nil {
		a.Version = t.version.Version.String()
	}
	return a
}

// parseTransfer parses a request's body.
func (s *Server) parseTransfer(in *wire.CopyBlob, t *transferral) (err error) {
	switch {
	case in.CopyTo == nil && in.MoveTo == nil:
		return fmt.Errorf(`%w: member "copyTo" or "moveTo" is required`, errMalformedJSON)
	case in.CopyTo != nil && in.MoveTo != nil:
		return fmt.Errorf(`%w: only one of the members "copyTo" and "moveTo" is possible`, errMalformedJSON)
	case in.MoveTo != nil && t.version != nil:
		return fmt.Errorf("%w: a version can be copied, and not moved", exchange.ErrParameter)
	case in.MoveTo != nil:
		t.moves = true
		err = t.parseDestination("moveTo", in.MoveTo)
	default:
		err = t.parseDestination("copyTo", in.CopyTo)
	}
	if err != nil {
		return err
	}
	if t.onDestination, err = conditionMembers(in); err != nil {
		return err
	}
	if err := onlyWith("copyTo", !t.moves, member{"expires", in.Expires != nil}, member{"replaceMetadata", in.ReplaceMetadata != nil}); err != nil {
		return err
	}
	t.options.Restated = in.ReplaceMetadata != nil && *in.ReplaceMetadata
	if err := onlyWith("replaceMetadata", t.options.Restated, member{"contentType", in.ContentType != nil}, member{"cacheControl", in.CacheControl != nil},
		member{"contentDisposition", in.ContentDisposition != nil}, member{"contentLanguage", in.ContentLanguage != nil}, member{"metadata", in.Metadata != nil},
	); err != nil {
		return err
	}
	if in.Expires != nil {
		if t.options.Expires, err = parseTime("expires", *in.Expires); err != nil {
			return err
		}
	}
	return s.parseRestated(in, t)
}

// parseRestated parses a copy's content type and metadata.
func (s *Server) parseRestated(in *wire.CopyBlob, t *transferral) (err error) {
	if stated(in.ContentType) != "" {
		if t.options.ContentType, err = exchange.ContentType([]string{*in.ContentType}); err != nil {
			return fmt.Errorf("%w: contentType %w", exchange.ErrParameter, err)
		}
	}
	metadata, err := headers.NewMetadata(stated(in.CacheControl), stated(in.ContentDisposition), stated(in.ContentLanguage), in.Metadata)
	if err != nil {
		return fmt.Errorf("%w: %w", exchange.ErrParameter, err)
	}
	t.options.Metadata = string(metadata)
	return nil
}

// stated returns an optional member, or "".
func stated(member *string) string {
	if member == nil {
		return ""
	}
	return *member
}

func (t *transferral) parseDestination(member string, to *wire.BlobName) (err error) {
	t.to.Account = t.from.Account
	if to.Account != nil {
		if t.to.Account, err = blob.ParseAccount(*to.Account); err != nil {
			return err
		}
	}
	if to.BlobName == nil {
		return missingMember(member + ".blobName")
	}
	t.to.Name = *to.BlobName
	return blob.CheckName(t.to.Name)
}

// member is an optional member in a request's body.
type member struct {
	name    string
	present bool
}

// onlyWith returns an error if a member is present without the member that must accompany it.
func onlyWith(other string, accompanied bool, members ...member) error {
	for _, m := range members {
		if m.present && !accompanied {
			return fmt.Errorf("%w: %s is possible only with %s", exchange.ErrParameter, m.name, other)
		}
	}
	return nil
}

func conditionMembers(in *wire.CopyBlob) (headers.Conditions, error) {
	h := http.Header{}
	for _, m := range []struct {
		member, header string
		value          *string
	}{{"ifMatch", "If-Match", in.IfMatch}, {"ifNoneMatch", "If-None-Match", in.IfNoneMatch}} {
		if m.value == nil {
			continue
		}
		if headers.ParseConditions(http.Header{m.header: {*m.value}}).Malformed() != nil {
			return headers.Conditions{}, fmt.Errorf(`%w: %s must be "*" or a list of entity tags in double quotes`, exchange.ErrParameter, m.member)
		}
		h[m.header] = []string{*m.value}
	}
	return headers.ParseConditions(h), nil
}

// restores reports whether a version is copied onto its own name.
func (t *transferral) restores() bool { return t.version != nil && t.from == t.to }

// permitTransfer requires that the caller may copy or move the blob. It also finds out whether the
// caller may read it.
func (s *Server) permitTransfer(x *call, t *transferral) error {
	from, to, needs := t.from, t.to, access.ScopeCreate
	if t.restores() {
		needs = access.ScopeWrite
	}
	if err := x.Require(needs, to.Account, to.Name); err != nil {
		return err
	}
	if t.version != nil && !t.restores() && !x.Local {
		if err := x.GrantMore(access.ScopeRead, from.Account, from.Name); err != nil {
			return err
		}
	}
	source, err := s.ruleOf(x, from)
	if err != nil {
		return err
	}
	destination, err := s.ruleOf(x, to)
	if err != nil {
		return err
	}
	if x.place = source; source.Reads.Opener(destination.Reads) {
		x.place = destination
	}
	readsTo := x.HoldsRead(to.Account, to.Name)
	x.readsFree = readsTo || x.HoldsRead(from.Account, from.Name)
	if t.moves && !x.Local {
		if err := x.GrantMore(access.ScopeWrite, from.Account, from.Name); err != nil {
			return err
		}
	}
	// There are other readers: another account's, or the caller. A copy or move cannot be paid for.
	reads := !t.restores() && (!t.moves || from.Account != to.Account || readsTo)
	return x.PermitCopy(source, destination, from, reads)
}

// ruleOf returns a blob's rule.
func (s *Server) ruleOf(x *call, at metastore.BlobName) (access.Rule, error) {
	rules, err := s.places.Account(x.Request.Context(), at.Account)
	return rules.At(at.Name), err
}

// hides reports whether a condition on a blob of this size would disclose its bytes to a caller who
// may not read it.
func (s *Server) hides(x *call, size int64) bool { return !x.Local && s.withholds(x, size) }

// sourceCondition returns the conditions on the source, or nil if there are none.
func (s *Server) sourceCondition(x *call, c headers.Conditions) metastore.Precondition {
	holds := exchange.Precondition(c, s.blobs, errSourceCondition)
	if holds == nil {
		return nil
	}
	return func(current *metastore.Blob) error {
		if s.hides(x, current.Size) {
			return errHiddenCondition
		}
		return holds(current)
	}
}

// transfer copies or moves the blob within the caller's quota.
func (s *Server) transfer(x *call, t *transferral) (b metastore.Blob, err error) {
	var reserved *access.Reservation
	admit := func(ctx context.Context, source metastore.Blob) (err error) {
		if reserved != nil { // for a source that was replaced meanwhile
			reserved.Release()
		}
		reserved, err = s.reserve(ctx, x, t, source)
		return err
	}
	record, noRecord, err := t.reserveRecord(x)
	if err != nil {
		return b, err
	}
	onSource, onDestination := s.sourceCondition(x, t.onSource), x.Creating(exchange.Precondition(t.onDestination, s.blobs, errDestinationCondition))
	if t.moves {
		b, err = s.blobs.Move(x.Request.Context(), blob.MoveOptions{
			From: t.from, To: t.to, Owner: x.Owner(), By: x.By(), Lock: t.options.Lock, Source: onSource, Precondition: onDestination, Made: s.moved(x, t.onSource), Once: t.once,
			NoRecord: noRecord, Admit: admit, Permit: x.Recheck,
		})
	} else {
		c := t.options
		c.From, c.FromVersion, c.To, c.Owner, c.By, c.Restores = t.from, t.version, t.to, x.Owner(), x.By(), t.restores()
		c.Source, c.Precondition, c.Admit, c.Permit = onSource, onDestination, admit, x.Recheck
		b, err = s.blobs.Copy(x.Request.Context(), c)
	}
	for _, r := range []*access.Reservation{reserved, record} {
		if r != nil {
			exchange.Confirm(r, err)
		}
	}
	if errors.Is(err, metastore.ErrNoSource) {
		return b, exchange.BlobError(err)
	}
	_, identified := t.onSource.OnlyTag()
	return b, inDoubt(err, doubtError{retryable: !t.moves || t.once != nil || identified})
}

// reserveRecord reserves the bytes for a move's record, whatever the move changes, or returns the
// reason against one.
func (t *transferral) reserveRecord(x *call) (r *access.Reservation, refused, err error) {
	if !t.moves || t.once == nil {
		return nil, nil, nil
	}
	if r, err = x.Allowance.ReserveRecord(x.Request.Context()); errors.Is(err, access.ErrQuota) {
		return nil, err, nil
	}
	return r, nil, err
}

// reserve reserves the bytes, objects and names that the destination adds to the caller's. A moved
// blob adds them if its account keeps it, too.
func (s *Server) reserve(ctx context.Context, x *call, t *transferral, source metastore.Blob) (*access.Reservation, error) {
	metadata := source.Metadata
	if t.options.Restated {
		metadata = t.options.Metadata
	}
	if t.moves && source.Owner == x.Owner() {
		k, err := s.blobs.Keeping(ctx, t.from.Account)
		if err != nil {
			return nil, err
		}
		if k.State == metastore.KeepNever {
			return x.Allowance.ReserveRename(ctx, t.from.Name, t.to.Name)
		}
	}
	return x.Allowance.Reserve(ctx, t.to.Name, metadata, source.Size)
}

// moved returns the function that recognizes an earlier move's result by the source's ETag, or nil
// if the request does not state exactly one.
func (s *Server) moved(x *call, onSource headers.Conditions) func(*metastore.Blob) bool {
	tag, ok := onSource.OnlyTag()
	if !ok {
		return nil
	}
	return func(current *metastore.Blob) bool {
		return !s.hides(x, current.Size) && checksum.ETag(current.Size, current.CRC64) == tag
	}
}

// writeCopied sends a copy's or a move's destination, as far as the caller may know it.
func (s *Server) writeCopied(x *call, b metastore.Blob) error {
	v := s.validatorsOf(&b)
	out := wire.CopiedBlob{Account: b.Account, Blob: wire.Blob{Name: b.Name, Size: b.Size, LastModified: b.Modified, Expires: b.Expires}}
	x.Fields.Set("Date", exchange.Date(v.Date)) // by the store's clock instead of this node's
	x.Fields.Set("Last-Modified", exchange.Date(v.Modified))
	setVersion(x, &b)
	if x.place.Reads == access.ReadsKey && !x.Local && !x.readsFree {
		return writeJSON(x, http.StatusOK, out)
	}
	if !s.withholds(x, b.Size) {
		x.Fields.Set("Etag", v.ETag)
		out.ETag = v.ETag
	}
	out.ContentType = b.ContentType
	describe(&out.Blob, headers.Metadata(b.Metadata))
	return writeJSON(x, http.StatusOK, out)
}
