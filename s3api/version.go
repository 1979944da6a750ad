package s3api

import (
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// versionID is the id that a request states for an object's version, or none.
type versionID struct {
	stated bool
	null   bool // the version that was stored while the account kept none
	id     metastore.Version
}

// parseVersion parses a version's id.
func parseVersion(text string) (versionID, error) {
	id, ok := metastore.ParseVersion(text)
	if !ok && text != document.NullVersion {
		return versionID{}, refuseWith("InvalidArgument", wire.CodeBadParameter, `a version's id is one that this service has returned, or "null"`)
	}
	return versionID{stated: true, null: !ok, id: id}, nil
}

// String returns the id, or "" for none.
func (n versionID) String() string {
	switch {
	case !n.stated:
		return ""
	case n.null:
		return document.NullVersion
	}
	return n.id.String()
}

// of returns this version of an object, by where it is stored.
func (n versionID) of(at metastore.BlobName) metastore.VersionName {
	return metastore.VersionName{BlobName: at, Version: n.id, Null: n.null}
}

// idOf returns the id of a blob's version.
func idOf(b *metastore.Blob) string {
	if !b.Versioned {
		return document.NullVersion
	}
	return metastore.VersionOf(b).String()
}
