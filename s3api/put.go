package s3api

import (
	"cmp"
	"net/http"

	"sluice/blob"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/checksums"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// putObject serves PutObject.
func (s *Server) putObject(x *call) error {
	d, err := s.describe(x, x.key, x.header)
	if err != nil {
		return err
	}
	precondition, err := s.writeConditions(x.header)
	if err != nil {
		return err
	}
	b, err := x.openBody()
	if err != nil {
		return err
	}
	stored, err := s.put(x, x.key, d, precondition, b)
	if err != nil {
		return err
	}
	x.SetValidators(exchange.ValidatorsOf(&stored, s.blobs.Now()))
	x.Fields.Remove("Last-Modified")
	x.setStated(b)
	x.setChecksums(&stored)
	x.setExpiration(&stored)
	x.setVersion(&stored)
	return x.writeEmpty(http.StatusOK)
}

// put stores a body as a blob.
func (s *Server) put(x *call, key string, d described, precondition metastore.Precondition, b *body) (metastore.Blob, error) {
	if b.size > blob.MaxPartSize {
		return metastore.Blob{}, refuseWith("EntityTooLarge", wire.CodeTooLarge, "an object of one request has at most %d bytes; upload it in parts", int64(blob.MaxPartSize))
	}
	if err := s.ensureBucket(x); err != nil {
		return metastore.Blob{}, err
	}
	keep := func(v checksums.Value) string { return keeping(d.metadata, v.Algorithm, v.String()) }
	a := b.stated.Algorithm()
	body, err := x.store(b, key, keep(checksums.Value{Algorithm: a, Sum: make([]byte, a.Size())}))
	if err != nil {
		return metastore.Blob{}, err
	}
	at := blob.Place(x.account, key)
	stored, err := s.blobs.Put(x.StoreContext(), blob.PutOptions{
		Account: at.Account, Name: at.Name, ContentType: d.contentType, Owner: x.Owner(), By: x.By(), Expires: d.expires, Lock: d.lock,
		FinalMetadata: func() string { return keep(b.stated.Value()) }, SHA256: b.sha256, Precondition: x.Creating(precondition), Permit: x.Recheck,
	}, body, b.size)
	x.Access.Bytes = stored.Size
	return stored, body.Confirm(err)
}

// deleteObject removes a blob, or a version. They need not exist; the bucket must.
func (s *Server) deleteObject(x *call) error {
	precondition, err := s.deleteConditions(x.header)
	if err != nil {
		return err
	}
	removed, err := s.remove(x, x.key, x.version, precondition)
	if err == nil && !removed.Existed {
		err = s.needBucket(x.Request.Context(), x.account)
	}
	mark, id := markOf(&removed)
	if mark {
		x.Fields.Set(fieldMark, "true")
	}
	if id = cmp.Or(x.version.String(), id); id != "" {
		x.Fields.Set(fieldVersion, id)
	}
	return x.done(err, http.StatusNoContent)
}

// deleteConditions returns a deletion's conditions, or nil. S3 has two more than HTTP.
func (s *Server) deleteConditions(h http.Header) (metastore.Precondition, error) {
	standard, err := s.writeConditions(h)
	if err != nil {
		return nil, err
	}
	special, err := deleteCondition(document.DeletedObject{
		Size: h.Get("X-Amz-If-Match-Size"), LastModifiedTime: h.Get("X-Amz-If-Match-Last-Modified-Time"),
	})
	if err != nil || standard == nil && special == nil {
		return nil, err
	}
	return forDeletion(standard, special), nil
}
