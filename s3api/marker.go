package s3api

import (
	"errors"
	"net/http"
	"strings"

	"sluice/blob"
	"sluice/checksum"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/wire"
)

// emptyETag is a marker's ETag: it has no bytes.
var emptyETag = checksum.ETag(0, 0)

// isMarker reports whether a key is a folder's marker, as mounts and consoles write them. A blob
// cannot have such a name.
func isMarker(key string) bool {
	return strings.HasSuffix(key, "/") && blob.CheckName(strings.TrimRight(key, "/")) == nil
}

// putMarker accepts a folder's marker and stores nothing: a folder is there while something is in
// it.
func (s *Server) putMarker(x *call) error {
	_, err := x.readDocument(0)
	if errors.Is(err, exchange.ErrBodyTooLarge) {
		return markerError()
	}
	if err != nil {
		return err
	}
	x.Fields.Set("Etag", emptyETag)
	x.setChecksum(0)
	return x.writeEmpty(http.StatusOK)
}

func markerError() error {
	return refuseWith("InvalidArgument", wire.CodeBadName, `a key that ends in "/" can only be an empty folder's marker, which is not stored`)
}

// getMarker responds to a read of a folder's marker: it is there while something is in the folder.
func (s *Server) getMarker(x *call) error {
	page, err := s.blobs.List(x.Request.Context(), metastore.ListQuery{Account: x.account, Prefix: x.key, Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Blobs) == 0 {
		return exchange.ErrNoBlob
	}
	x.Fields.Set("Etag", emptyETag)
	x.Fields.Set("Last-Modified", exchange.Date(page.Blobs[0].Modified))
	x.Fields.Set("Content-Type", "application/x-directory; charset=UTF-8")
	return x.writeEmpty(http.StatusOK)
}
