package s3api

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"sluice/blob"
	"sluice/checksum"
	"sluice/database"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/checksums"
	"sluice/s3api/internal/document"
)

// mostKeys is the greatest and the default number of entries in a page.
const mostKeys = 1000

// listing has the parameters that both versions have.
type listing struct {
	prefix, delimiter, after string
	limit                    int
	encoding                 string
	owner                    bool
	versions                 bool              // it lists versions, beginning behind afterVersion
	afterVersion             metastore.Version // a version of after; zero: behind all
}

// group returns the group that the listing's start lies in, or "".
func (l listing) group() string {
	rest, within := strings.CutPrefix(l.after, l.prefix)
	before, _, grouped := strings.Cut(rest, l.delimiter)
	if l.delimiter == "" || !within || !grouped {
		return ""
	}
	return l.prefix + before + l.delimiter
}

// parseListing parses the parameters that both versions have.
func (x *call) parseListing() (l listing, err error) {
	l.prefix, l.delimiter = x.query.get("prefix"), x.query.get("delimiter")
	if l.limit, err = x.number("max-keys", mostKeys); err != nil {
		return l, err
	}
	l.encoding, err = x.encoding()
	return l, err
}

// encoding returns the parameter encoding-type.
func (x *call) encoding() (string, error) {
	switch encoding := x.query.get("encoding-type"); encoding {
	case "", document.EncodingURL:
		return encoding, nil
	default:
		return "", parameterError("encoding-type", "can only be url")
	}
}

// number returns a parameter that is a number of entries, at most most.
func (x *call) number(name string, most int) (int, error) {
	text := x.query.get(name)
	if text == "" {
		return most, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<31-1 {
		return 0, parameterError(name, "must be a number from 0 to 2147483647")
	}
	return int(min(n, int64(most))), nil
}

// listObjects serves version 1, which goes on after a key that the client has seen.
func (s *Server) listObjects(x *call) error {
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	l.after, l.owner = x.query.get("marker"), true
	page, err := s.list(x, l)
	if err != nil {
		return err
	}
	return x.writePage(page, document.ListBucketResult{
		Page: x.pageOf(l, page), Marker: document.Name(l.after),
		NextMarker: document.Name(page.Next), // Amazon leaves it out without a delimiter; other services do not
	})
}

// listObjectsV2 serves version 2, which goes on after a token.
func (s *Server) listObjectsV2(x *call) error {
	if x.query.get("list-type") != "2" {
		return parameterError("list-type", "can only be 2")
	}
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	token, start := x.query.get("continuation-token"), x.query.get("start-after")
	l.after, l.owner = start, x.query.get("fetch-owner") == "true"
	if x.query.has("continuation-token") {
		if l.after, err = parseToken(token); err != nil {
			return err
		}
	}
	page, err := s.list(x, l)
	if err != nil {
		return err
	}
	return x.writePage(page, document.ListBucketResultV2{
		Page: x.pageOf(l, page), StartAfter: document.Name(start), ContinuationToken: token, NextContinuationToken: tokenOf(page.Next),
		KeyCount: len(page.Blobs) + len(page.Prefixes),
	})
}

// listVersions serves ListObjectVersions. In an account that has ever kept versions it needs a key.
func (s *Server) listVersions(x *call) error {
	l, err := x.parseListing()
	if err != nil {
		return err
	}
	if !x.readsVersions(x.account, l.prefix) {
		keeping, err := s.blobs.Keeping(x.Request.Context(), x.account)
		if err == nil && keeping.State != metastore.KeepNever {
			err = x.requireRead(x.account, l.prefix)
		}
		if err != nil {
			return err
		}
	}
	marker := x.query.get("version-id-marker")
	l.after, l.owner, l.versions = x.query.get("key-marker"), true, true
	if marker != "" {
		if l.afterVersion, err = s.versionAfter(x, l.after, marker); err != nil {
			return err
		}
	}
	page, err := s.list(x, l)
	if err != nil {
		return err
	}
	result := document.ListVersionsResult{
		Page: x.pageOf(l, page), KeyMarker: document.Name(l.after), VersionIDMarker: marker, NextKeyMarker: document.Name(page.Next),
	}
	last := l.after
	for i := range page.Blobs {
		b, entry := &page.Blobs[i], &result.Contents[i]
		entry.VersionID, entry.Mark, entry.Latest = idOf(b), b.Mark, b.Name != last || !b.Mark && b.Since.IsZero()
		if last = b.Name; last == page.Next { // also for "null", which may be deleted before the next page
			result.NextVersionIDMarker = metastore.VersionOf(b).String()
		}
	}
	return x.writePage(page, result)
}

// versionAfter returns the version of a key that a marker names. "null" names none if it is not
// there: then the page begins after the key's versions.
func (s *Server) versionAfter(x *call, key, marker string) (id metastore.Version, err error) {
	version, err := parseVersion(marker)
	if err != nil || key == "" {
		return id, parameterError("version-id-marker", "must be a version's id, and needs a key-marker")
	}
	if !version.null {
		return version.id, nil
	}
	b, err := closed(s.blobs.OpenVersion(x.Request.Context(), version.of(blob.Place(x.account, key))))
	switch {
	case errors.Is(err, database.ErrNotFound):
		return id, nil
	case err != nil:
		return id, exchange.BlobError(err)
	}
	return metastore.VersionOf(&b), nil
}

// list returns a page, or an error if there is neither an entry nor a bucket. It may have fewer
// entries than the limit if they are long.
func (s *Server) list(x *call, l listing) (metastore.Page, error) {
	page, err := s.listEntries(x, l)
	if err == nil && len(page.Blobs)+len(page.Prefixes) == 0 {
		err = s.needBucket(x.Request.Context(), x.account)
	}
	return page, err
}

func (s *Server) listEntries(x *call, l listing) (metastore.Page, error) {
	if l.limit == 0 {
		return metastore.Page{}, nil
	}
	if err := x.HoldPage(l.limit); err != nil {
		return metastore.Page{}, err
	}
	q := metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: x.account, Prefix: l.prefix, Delimiter: l.delimiter, After: l.after, Limit: l.limit, Bytes: exchange.PageBytes}}
	if l.group() == "" {
		q.AfterVersion = l.afterVersion
	}
	group, err := s.groupLeft(x, l)
	if err != nil {
		return metastore.Page{}, err
	}
	if group == "" {
		return s.listFrom(x, l, q)
	}
	if q.Limit--; q.Limit == 0 {
		// Whatever follows the group is on the next page, if there is anything.
		q.Limit, q.After = 1, group
		rest, err := s.listFrom(x, l, q)
		page := metastore.Page{Prefixes: []string{group}}
		if len(rest.Blobs)+len(rest.Prefixes) > 0 {
			page.Next = group
		}
		return page, err
	}
	page, err := s.listFrom(x, l, q)
	page.Prefixes = append([]string{group}, page.Prefixes...)
	return page, err
}

func (s *Server) listFrom(x *call, l listing, q metastore.VersionQuery) (metastore.Page, error) {
	if !l.versions {
		return s.blobs.ListKeys(x.Request.Context(), q.ListQuery)
	}
	page, err := s.blobs.ListKeyVersions(x.Request.Context(), q)
	return metastore.Page{Blobs: page.Versions, Prefixes: page.Prefixes, Next: page.Next}, err
}

// groupLeft returns the group that the listing's start lies in, if it has keys after the start, and
// otherwise "". S3 lists such a group, even if the client has seen it.
func (s *Server) groupLeft(x *call, l listing) (string, error) {
	group := l.group()
	if group == "" || group == l.after {
		return "", nil
	}
	q := metastore.ListQuery{Account: x.account, Prefix: group, After: l.after, Limit: 1}
	left, err := s.listFrom(x, l, metastore.VersionQuery{ListQuery: q, AfterVersion: l.afterVersion})
	if err != nil || len(left.Blobs) == 0 {
		return "", err
	}
	return group, nil
}

// pageOf returns the members that the listings of objects have in common.
func (x *call) pageOf(l listing, page metastore.Page) document.Page {
	return document.Page{
		Name: x.bucket, Prefix: document.Name(l.prefix), MaxKeys: l.limit, Delimiter: document.Name(l.delimiter), EncodingType: l.encoding,
		IsTruncated: page.Next != "", Contents: contentsOf(x, page, l.owner), CommonPrefixes: prefixesOf(page.Prefixes),
	}
}

// writePage sends a page, which costs its caller by its entries.
func (x *call) writePage(page metastore.Page, result any) error {
	x.SpendPage(len(page.Blobs) + len(page.Prefixes))
	return x.writeXML(http.StatusOK, result)
}

func contentsOf(x *call, page metastore.Page, withOwner bool) []document.Object {
	list := make([]document.Object, len(page.Blobs))
	for i, b := range page.Blobs {
		list[i] = document.Object{
			Key: document.Name(b.Name), LastModified: document.Time{Time: b.Modified}, ETag: checksum.ETag(b.Size, b.CRC64), Size: b.Size,
			ChecksumAlgorithm: string(checksums.CRC64NVME), ChecksumType: string(checksums.FullObject), StorageClass: storageClass,
		}
		if withOwner {
			owner := ownerOf(x.account)
			list[i].Owner = &owner
		}
		if _, summed := exchange.ListShows(x.rules.At(b.Name), b.Size, x.Local || x.HoldsRead(x.account, b.Name)); !summed {
			list[i].ETag = ""
		}
	}
	return list
}

// storageClass is the only one.
const storageClass = "STANDARD"

func prefixesOf(prefixes []string) []document.CommonPrefix {
	list := make([]document.CommonPrefix, len(prefixes))
	for i, prefix := range prefixes {
		list[i].Prefix = document.Name(prefix)
	}
	return list
}

// tokenOf returns the token for the page after an entry, or "" if there is none.
func tokenOf(next string) string {
	if next == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(next))
}

func parseToken(token string) (after string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || token == "" {
		return "", parameterError("continuation-token", "must be one from an earlier page")
	}
	return string(text), nil
}
