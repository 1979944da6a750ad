package s3api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/access"
	"sluice/blob"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

const (
	mostTags     = 10  // of an object, as in "Categorizing your storage using tags" (Amazon S3 User Guide)
	mostOfBucket = 50  // tags
	mostTagKey   = 128 // characters
	mostTagValue = 256 // characters
	mostTagging  = 64 << 10
)

// tagText has the characters of keys and values ("Tag" in the Amazon S3 API Reference).
var tagText = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// storedTags returns tags as the property fieldTagging has them: keys and values in turns, sorted
// by key, with "&" between them, which is in no tag.
func storedTags(tags []document.Tag, most int) (string, error) {
	values := map[string]string{}
	for _, tag := range tags {
		_, twice := values[tag.Key]
		switch {
		case tag.Key == "" || utf8.RuneCountInString(tag.Key) > mostTagKey || !tagText.MatchString(tag.Key):
			return "", tagError("a key must have 1 to 128 characters: letters, digits, spaces and _.:/=+-@")
		case utf8.RuneCountInString(tag.Value) > mostTagValue || !tagText.MatchString(tag.Value):
			return "", tagError("a value must have at most 256 characters: letters, digits, spaces and _.:/=+-@")
		case twice:
			return "", tagError("tags must have different keys")
		}
		values[tag.Key] = tag.Value
	}
	if len(values) > most {
		return "", tagError("an object has at most 10 tags, and a bucket 50")
	}
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, key, values[key])
	}
	return strings.Join(texts, "&"), nil
}

func tagError(reason string) error {
	return refuseWith("InvalidTag", wire.CodeBadParameter, "%s", reason)
}

// withTags returns metadata with these tags instead of its own, as it is stored.
func withTags(m headers.Metadata, tags string) string {
	return string(m.WithProperty(fieldTagging, tags))
}

// tagsOf returns a blob's tags.
func tagsOf(b *metastore.Blob) (tags []document.Tag) {
	stored := headers.Metadata(b.Metadata).Property(fieldTagging)
	if stored == "" {
		return nil
	}
	for pair := range slices.Chunk(strings.Split(stored, "&"), 2) {
		tags = append(tags, document.Tag{Key: pair[0], Value: pair[1]})
	}
	return tags
}

// headerTags returns the tags in a header, as they are stored: parameters, encoded as in a URL.
func headerTags(h http.Header) (string, error) {
	var tags []document.Tag
	for pair := range strings.SplitSeq(h.Get(fieldTagging), "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, keyErr := url.QueryUnescape(key)
		value, valueErr := url.QueryUnescape(value)
		same := func(tag document.Tag) bool { return tag.Key == key }
		if key == "" || keyErr != nil || valueErr != nil || slices.ContainsFunc(tags, same) {
			return "", refuseWith("InvalidArgument", wire.CodeBadHeader, "x-amz-tagging must be KEY=VALUE&KEY=VALUE, encoded as in a URL, with different keys")
		}
		tags = append(tags, document.Tag{Key: key, Value: value})
	}
	return storedTags(tags, mostTags)
}

// documentTags returns the tags in a document, at most most, as they are stored.
func documentTags(text []byte, most int) (string, error) {
	tags, err := document.DecodeTagging(text)
	if err != nil {
		return "", err
	}
	return storedTags(tags, most)
}

// getTagging returns an object's tags, or a bucket's, which are in its record.
func (s *Server) getTagging(x *call) error {
	b, err := s.lookUp(x)
	if x.level == bucketLevel && (err == nil || errors.Is(err, exchange.ErrNoBlob)) && len(tagsOf(&b)) == 0 {
		return &refusal{code: "NoSuchTagSet", as: wire.CodeBlobNotFound, detail: "the bucket has no tags"}
	}
	if err != nil {
		return err
	}
	x.setVersion(&b)
	return x.writeXML(http.StatusOK, document.Tagging{Tags: tagsOf(&b)})
}

// putTagging replaces an object's or a bucket's tags.
func (s *Server) putTagging(x *call) error {
	most, status := mostTags, http.StatusOK
	if x.level == bucketLevel {
		most, status = mostOfBucket, http.StatusNoContent
	}
	tags, err := readAs(x, mostTagging, func(text []byte) (string, error) { return documentTags(text, most) })
	if err != nil {
		return err
	}
	return x.done(s.tag(x, tags), status)
}

// deleteTagging removes an object's or a bucket's tags.
func (s *Server) deleteTagging(x *call) error {
	return x.done(s.tag(x, ""), http.StatusNoContent)
}

// tag replaces an object's or a bucket's tags.
func (s *Server) tag(x *call, tags string) error {
	if x.level == bucketLevel {
		return s.setBucketProperty(x, fieldTagging, tags, nil)
	}
	return s.setProperty(x, x.place(), fieldTagging, tags, nil)
}

// setBucketProperty sets a property in the bucket's record, which is stored if there is none.
func (s *Server) setBucketProperty(x *call, property, value string, act blob.ActOf) error {
	if err := s.recordBucket(x); err != nil {
		return err
	}
	return s.setProperty(x, blob.RecordOf(x.account), property, value, act)
}

// removeBucketProperty removes a property from the bucket's record, if there is one.
func (s *Server) removeBucketProperty(x *call, property string, act blob.ActOf) error {
	if value, err := s.bucketProperty(x, property); err != nil || value == "" {
		return err
	}
	return s.setProperty(x, blob.RecordOf(x.account), property, "", act)
}

// bucketProperty returns a property from the bucket's record, or "".
func (s *Server) bucketProperty(x *call, property string) (string, error) {
	record, err := s.record(x)
	if errors.Is(err, exchange.ErrNoBlob) {
		return "", nil
	}
	return headers.Metadata(record.Metadata).Property(property), err
}

// setProperty sets a property in an object or a bucket's record, or removes it if value is "". It
// leaves date and expiry as they are. Like every write, it makes the caller's group the owner. A
// change is recorded, unless act is nil.
func (s *Server) setProperty(x *call, at metastore.BlobName, property, value string, act blob.ActOf) error {
	o := blob.CopyOptions{From: at, To: at, KeepDate: true, Owner: x.Owner(), By: x.By(), Permit: x.Recheck, Act: act}
	if x.version.stated {
		version := x.version.of(at)
		o.FromVersion = &version
	}
	o.Restate = func(source metastore.Blob, copied *metastore.Blob) error {
		copied.Expires = source.Expires
		copied.Metadata = string(headers.Metadata(source.Metadata).WithProperty(property, value))
		return nil
	}
	b, err := s.copy(x, o, func(ctx context.Context, source metastore.Blob, metadata string) (*access.Reservation, error) {
		if source.Owner == o.Owner {
			return x.Allowance.ReserveRename(ctx, source.Metadata, metadata)
		}
		return x.Allowance.Reserve(ctx, at.Name, metadata, source.Size)
	})
	if err == nil {
		x.setVersion(&b)
	}
	return err
}

// setTagCount sets how many tags a blob has, if it has any.
func (x *call) setTagCount(b *metastore.Blob) {
	if n := len(tagsOf(b)); n > 0 {
		x.Fields.Set(fieldTaggingCount, strconv.Itoa(n))
	}
}
