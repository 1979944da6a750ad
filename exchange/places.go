package exchange

import (
	"fmt"

	"sluice/access"
	"sluice/checksum"
	"sluice/metastore"
	"sluice/wire"
)

// PermitRead requires that the caller may read, or list, where these reads apply: ReadsPublic,
// ReadsFree or ReadsKey. It allows everything on a local instance. name is the blob's, or the
// list's prefix.
func (x *Exchange) PermitRead(reads access.Reads, account, name string) error {
	switch {
	case x.Local:
		return nil
	case reads.Everybody():
		return x.BadCredential
	}
	if err := x.RequireScope(access.ScopeRead); err != nil {
		return err
	}
	return x.Grant(access.ScopeRead, account, name)
}

// SmallBlob is the size in bytes up to which a blob can be computed from its checksums.
const SmallBlob = 16

// ListShows reports whether a list may show a blob's description, and its checksums: no more than a
// read that costs nothing. holdsRead reports whether the caller has a key that may read the blob.
func ListShows(rule access.Rule, size int64, holdsRead bool) (described, summed bool) {
	switch {
	case holdsRead:
		return true, true
	case rule.Reads == access.ReadsKey || rule.Blocked != nil:
		return false, false
	default:
		return true, rule.Reads != access.ReadsPaid || size > SmallBlob
	}
}

// ShownChange returns a change as a reader sees it: no more than a list shows about the blob, see
// ListShows, and the blob's version only with versions. A change to a version that is not current
// is not shown without it.
func ShownChange(c *metastore.Change, rule access.Rule, holdsRead, versions bool) (shown wire.Change, ok bool) {
	if !versions && (c.Kind == metastore.ChangeVersionDeleted || c.Kind == metastore.ChangeLocked) {
		return shown, false
	}
	shown = wire.Change{
		Position: c.Position.String(), Time: c.Time.UTC(), Kind: c.Kind.String(), Account: c.Account, Name: c.Name, Size: c.Size, Expires: c.Expires,
	}
	if versions {
		shown.Version = c.Version.String()
	}
	described, summed := ListShows(rule, c.Size, holdsRead)
	if c.Kind == metastore.ChangeMarked { // a mark has no bytes
		described, summed = false, false
	}
	if described {
		shown.ContentType = MediaType(&metastore.Blob{ContentType: c.ContentType})
	}
	if summed {
		shown.ETag = checksum.ETag(c.Size, c.CRC64)
	}
	return shown, true
}

// HoldsRead reports whether the caller has a key that may read the blob.
func (x *Exchange) HoldsRead(account, name string) bool {
	return x.Caller != nil && x.Caller.Can(access.ScopeRead, account, name)
}

// PermitCopy requires that the caller, who may write the destination, may also copy the source
// there: not if it is blocked, to where more callers may read only with admin for the source, and
// if it reads, only with read for a source that not everybody may read.
func (x *Exchange) PermitCopy(from, to access.Rule, source metastore.BlobName, reads bool) error {
	if x.Local {
		return from.Unblocked()
	}
	if reads && !from.Reads.Everybody() {
		if err := x.GrantMore(access.ScopeRead, source.Account, source.Name); err != nil {
			return err
		}
	}
	if to.Reads.Opener(from.Reads) {
		if err := x.GrantMore(access.ScopeAdmin, source.Account, source.Name); err != nil {
			return fmt.Errorf("%w; it is needed for the source, because more callers may read the destination", err)
		}
	}
	return from.Unblocked()
}
