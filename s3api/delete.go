package s3api

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/access"
	"sluice/checksum"
	"sluice/exchange"
	"sluice/internal/auditlog"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

const (
	// mostDeleteBody bounds the body that names keys to delete: 1,000 of the longest, escaped.
	mostDeleteBody = 8 << 20
	// deletesAtOnce is how many keys are deleted concurrently: an embedded engine commits them
	// together, and a shared one makes their round trips together.
	deletesAtOnce = 32
	// reportedKey bounds the report about a key without the key itself, in bytes.
	reportedKey = 400
)

// deleteObjects deletes up to 1,000 keys, each in a transaction of its own, and reports each. They
// cost their caller as much as that many requests.
func (s *Server) deleteObjects(x *call) error {
	if x.Request.ContentLength > mostDeleteBody {
		return exchange.BodyTooLarge(mostDeleteBody)
	}
	stated, err := x.statedChecksum()
	if err != nil {
		return err
	}
	var wanted document.Delete
	if err := x.decode(mostDeleteBody, stated, func(body io.Reader) (err error) {
		wanted, err = document.DecodeDelete(body, x.HoldDocument)
		return err
	}); err != nil {
		return err
	}
	// Nothing can be refused after a key is deleted. A document that grows has up to twice its
	// size.
	if err := x.HoldReply(2 * int64(wanted.Escaped+reportedKey*len(wanted.Objects))); err != nil {
		return err
	}
	x.Allowance.Spend(int64(len(wanted.Objects) - 1))
	removed, errs := s.deleteAll(x, wanted.Objects)
	if !slices.ContainsFunc(removed, func(r metastore.Removed) bool { return r.Existed }) {
		if err := s.needBucket(x.Request.Context(), x.account); err != nil {
			return err
		}
	}
	x.Access = auditlog.Access{} // there is a line for each key
	var result document.DeleteResult
	for i, o := range wanted.Objects {
		x.Audit(auditlog.Access{Action: auditlog.Delete, Account: x.account, Name: o.Key, Version: o.VersionID[:min(len(o.VersionID), 32)]}, errs[i])
		switch err := errs[i]; {
		case err != nil:
			row := errorTable.RowOf(err)
			result.Errors = append(result.Errors, document.DeleteError{Key: document.Name(o.Key), VersionID: o.VersionID, Code: codeOf(row, err), Message: exchange.Sentence(row.Detail)})
		case !wanted.Quiet:
			mark, id := markOf(&removed[i])
			result.Deleted = append(result.Deleted, document.Deleted{Key: document.Name(o.Key), VersionID: o.VersionID, Mark: mark, MarkID: id})
		}
	}
	return x.writeXML(http.StatusOK, result)
}

// deleteAll deletes keys and versions, and returns each one's result.
func (s *Server) deleteAll(x *call, objects []document.DeletedObject) (removed []metastore.Removed, errs []error) {
	removed, errs = make([]metastore.Removed, len(objects)), make([]error, len(objects))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(deletesAtOnce, len(objects)) {
		workers.Go(func() {
			for i := range next {
				removed[i], errs[i] = s.deleteOne(x, objects[i])
			}
		})
	}
	for i := range objects {
		next <- i
	}
	close(next)
	workers.Wait()
	return removed, errs
}

func (s *Server) deleteOne(x *call, o document.DeletedObject) (removed metastore.Removed, err error) {
	var version versionID
	if o.VersionID != "" {
		if version, err = parseVersion(o.VersionID); err != nil {
			return removed, errNoVersion // which Amazon reports here
		}
	}
	if err := checkKey(o.Key); err != nil {
		return removed, err
	}
	if x.Caller != nil {
		if err := x.Caller.Allows(access.ScopeWrite, x.account, o.Key); err != nil {
			return removed, err
		}
	}
	precondition, err := deleteCondition(o)
	if err != nil {
		return removed, err
	}
	return s.remove(x, o.Key, version, precondition)
}

// deleteCondition returns the conditions that a key has in the list, or nil.
func deleteCondition(o document.DeletedObject) (metastore.Precondition, error) {
	if o.ETag == "" && o.Size == "" && o.LastModifiedTime == "" {
		return nil, nil
	}
	size, sizeErr := strconv.ParseInt(o.Size, 10, 64)
	modified, timeErr := time.Parse(time.RFC3339, o.LastModifiedTime)
	if http1, err := http.ParseTime(o.LastModifiedTime); err == nil {
		modified, timeErr = http1, nil
	}
	if o.Size != "" && sizeErr != nil || o.LastModifiedTime != "" && timeErr != nil {
		return nil, refuseWith("InvalidArgument", wire.CodeBadParameter, "Size must be a number, and LastModifiedTime a time")
	}
	return forDeletion(func(current *metastore.Blob) error {
		switch {
		case o.ETag != "" && o.ETag != "*" && strings.Trim(o.ETag, `"`) != strings.Trim(checksum.ETag(current.Size, current.CRC64), `"`),
			o.Size != "" && size != current.Size,
			o.LastModifiedTime != "" && !modified.Equal(current.Modified.Truncate(time.Second)):
			return exchange.ErrPrecondition
		}
		return nil
	}), nil
}
