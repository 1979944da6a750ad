package s3api

import (
	"cmp"
	"errors"
	"net/http"

	"sluice/access"
	"sluice/blob"
	"sluice/database"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// setVersion sets the field with a blob's version. As by Amazon, a response has the id "null" only
// if the request names it.
func (x *call) setVersion(b *metastore.Blob) {
	if b.Versioned || x.version.stated {
		x.Fields.Set(fieldVersion, idOf(b))
	}
}

// errNoVersion is returned for a version that does not exist.
var errNoVersion = &refusal{code: "NoSuchVersion", as: wire.CodeBlobNotFound, detail: "the object has no such version"}

// readsVersions reports whether the caller may read versions of an object that are not current.
func (x *call) readsVersions(account, key string) bool { return x.Local || x.HoldsRead(account, key) }

// openNamed opens an object, or the version of it that is named.
func (s *Server) openNamed(x *call, account, key string, version versionID) (*blob.Content, error) {
	ctx, at := x.Request.Context(), blob.Place(account, key)
	if version.stated && x.readsVersions(account, key) {
		c, err := s.blobs.OpenVersion(ctx, version.of(at))
		switch {
		case errors.Is(err, database.ErrNotFound):
			return nil, errNoVersion
		case err != nil:
			return nil, exchange.BlobError(err)
		case c.Mark:
			c.Close()
			return nil, errorOfMark(x, &c.Blob)
		}
		return c, nil
	}
	c, err := s.blobs.Open(ctx, at.Account, at.Name)
	if err != nil {
		return nil, s.noObject(x, account, key, err)
	}
	if version.stated && !version.of(at).Is(&c.Blob) { // whatever versions there are
		c.Close()
		return nil, x.requireRead(account, key)
	}
	return c, nil
}

// noVersion returns the error for a version that is not there to be copied or changed.
func (s *Server) noVersion(x *call, v metastore.VersionName) error {
	c, err := s.blobs.OpenVersion(x.Request.Context(), v)
	if err != nil {
		return errNoVersion
	}
	defer c.Close()
	return errorOfMark(x, &c.Blob)
}

// requireRead requires that the caller has a key that may read an object.
func (x *call) requireRead(account, key string) error {
	if err := x.RequireScope(access.ScopeRead); err != nil {
		return err
	}
	return x.Caller.Allows(access.ScopeRead, account, key)
}

// errorOfMark returns the error for a read of a version that is a mark.
func errorOfMark(x *call, mark *metastore.Blob) error {
	if x.op.copies {
		return refuseWith("InvalidRequest", wire.CodeBadHeader, "the version marks that the object was deleted, so it cannot be copied")
	}
	fields := fieldsOfMark(mark)
	fields["Allow"], fields["Last-Modified"] = http.MethodDelete, exchange.Date(mark.Modified)
	return &refusal{code: "MethodNotAllowed", as: wire.CodeMethodNotAllowed, detail: "the version marks that the object was deleted", fields: fields}
}

// fieldsOfMark returns the fields about the mark that an object was deleted.
func fieldsOfMark(mark *metastore.Blob) map[string]string {
	return map[string]string{fieldMark: "true", fieldVersion: idOf(mark)}
}

// noObject returns the error for a blob that was not opened. To callers who may read versions it
// reports a mark that the object was deleted.
func (s *Server) noObject(x *call, account, key string, err error) error {
	err = exchange.BlobError(err)
	if !errors.Is(err, exchange.ErrNoBlob) || !x.readsVersions(account, key) {
		return err
	}
	mark, failed := s.blobs.Deleted(x.Request.Context(), blob.Place(account, key))
	if failed != nil || !mark.Mark {
		return cmp.Or(failed, err)
	}
	return &refusal{code: "NoSuchKey", as: wire.CodeBlobNotFound, detail: "the object was deleted", fields: fieldsOfMark(&mark)}
}

// remove deletes an object, or for good the version of it that is named. The caller may write the
// object; for a version they also need admin.
func (s *Server) remove(x *call, key string, version versionID, precondition metastore.Precondition) (removed metastore.Removed, err error) {
	ctx, at := x.Request.Context(), blob.Place(x.account, key)
	if version.null { // of an account that keeps no versions it is the object
		keeping, err := s.blobs.Keeping(ctx, x.account)
		if err != nil {
			return metastore.Removed{}, err
		}
		version.stated = keeping.State != metastore.KeepNever
	}
	if !version.stated {
		// A deletion is not refused. Without room, where there is no object, it sets no mark.
		reserved, err := x.Allowance.Reserve(ctx, at.Name, "", 0)
		if err != nil && !errors.Is(err, access.ErrQuota) {
			return metastore.Removed{}, err
		}
		r, removeErr := s.blobs.RemoveBlob(ctx, metastore.Removal{BlobName: at, By: x.By(), Owner: x.Owner(), Mark: err == nil, Precondition: precondition})
		if err == nil {
			exchange.Confirm(reserved, removeErr)
		}
		return r, removeErr
	}
	if x.Caller != nil {
		if err := x.Caller.Allows(access.ScopeAdmin, x.account, key); err != nil {
			return metastore.Removed{}, err
		}
	}
	err = s.bypassing(x, key, func(bypass metastore.Bypass) (err error) {
		removed, err = s.blobs.DeleteVersion(ctx, metastore.Deletion{VersionName: version.of(at), Precondition: precondition, Bypass: bypass})
		return err
	})
	return removed, err
}

// markOf returns whether a removal has set or deleted a mark, and the mark's id.
func markOf(r *metastore.Removed) (mark bool, id string) {
	switch {
	case r.Mark.Mark:
		return true, idOf(&r.Mark)
	case r.Blob.Mark:
		return true, idOf(&r.Blob)
	}
	return false, ""
}

// getVersioning returns whether the account keeps versions.
func (s *Server) getVersioning(x *call) error {
	keeping, err := s.blobs.Keeping(x.Request.Context(), x.account)
	if err != nil {
		return err
	}
	return x.writeXML(http.StatusOK, versioning[keeping.State])
}

// versioning are the documents for an account's states.
var versioning = map[metastore.KeepState]any{
	metastore.KeepNever: document.Setting("VersioningConfiguration", "", ""),
	metastore.KeepOn:    document.Setting("VersioningConfiguration", "Status", "Enabled"),
	metastore.KeepOff:   document.Setting("VersioningConfiguration", "Status", "Suspended"),
}

// putVersioning sets whether the account keeps versions. How long and how many it keeps stays as it
// is.
func (s *Server) putVersioning(x *call) error {
	body, err := x.readDocument(wire.MaxJSONBody)
	if err != nil {
		return err
	}
	status, factor, err := document.DecodeVersioning(body)
	switch {
	case err != nil:
		return err
	case factor:
		return notImplemented("MfaDelete")
	case status == "":
		return refuseWith("IllegalVersioningConfigurationException", wire.CodeBadRequest, "the configuration must have a Status")
	}
	return x.done(s.changeKeeping(x, func(now *metastore.Keeping) error {
		if now.State = metastore.KeepOn; status == "Suspended" {
			now.State = metastore.KeepOff
		}
		return nil
	}), http.StatusOK)
}
