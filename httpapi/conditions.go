package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// errMalformedCondition: an If-Match or If-None-Match header is neither "*" nor
// a list of entity tags.
var errMalformedCondition = errors.New("malformed condition")

// verdict tells whether a request may go on under its conditions.
type verdict int

const (
	conditionHolds       verdict = iota
	conditionNotModified         // 304
	conditionFailed              // 412
)

// validators identify the current version of a blob.
type validators struct {
	etag string // strong, with its quotes, as in the ETag header
	// date is that of the reply, and modified never a later one (RFC 9110, section
	// 8.8.2.1): both as they are sent, in whole seconds.
	date, modified time.Time
	// exact says that the server knows that no other version of the blob was ever sent
	// with this modified (section 8.8.2.2), so that it identifies this one.
	exact bool
}

// newValidators returns those of a version with this ETag that was stored at this
// time. shared says that an earlier one may have been stored in the same second.
func newValidators(etag string, stored time.Time, shared bool, now time.Time) validators {
	v := validators{etag: etag, date: now.UTC().Truncate(time.Second), modified: stored.UTC().Truncate(time.Second), exact: !shared}
	if v.modified.After(v.date) {
		v.modified, v.exact = v.date, false
	}
	return v
}

// conditions are the parsed conditional headers of a request. The zero value
// is a request without any. They do not change and need the request no more,
// so that a transaction can evaluate them again when it commits.
type conditions struct {
	ifMatch           *tagList
	ifNoneMatch       *tagList
	ifUnmodifiedSince time.Time // zero: absent, or to be ignored
	ifModifiedSince   time.Time // zero: absent, or to be ignored
	ifRange           string
}

// parseConditions reads the conditional headers. It never fails: a list of
// entity tags that cannot be read matches nothing and lets no write through
// (see malformed), and dates that are malformed or given twice are ignored, as
// RFC 9110 demands.
func parseConditions(h http.Header) conditions {
	return conditions{
		ifMatch:           parseTagHeader(h, "If-Match"),
		ifNoneMatch:       parseTagHeader(h, "If-None-Match"),
		ifUnmodifiedSince: parseDateHeader(h.Values("If-Unmodified-Since")),
		ifModifiedSince:   parseDateHeader(h.Values("If-Modified-Since")),
		ifRange:           strings.Join(h.Values("If-Range"), ", "),
	}
}

// unjudged is c for a blob that nothing may be compared with: no condition holds
// or fails, and a range under If-Range is the whole blob.
func (c conditions) unjudged() conditions {
	if c.ifRange == "" {
		return conditions{}
	}
	return conditions{ifRange: "never"} // neither a tag nor a date
}

// malformed tells of lists of entity tags that cannot be read, wrapping
// errMalformedCondition. A read may go on in spite of them. A write may not,
// because its writer believes that he is protected: forWrite fails then, and a
// handler that asks here first can say why.
func (c conditions) malformed() error {
	var errs []error
	if c.ifMatch != nil && c.ifMatch.malformed {
		errs = append(errs, malformedTags("If-Match"))
	}
	if c.ifNoneMatch != nil && c.ifNoneMatch.malformed {
		errs = append(errs, malformedTags("If-None-Match"))
	}
	return errors.Join(errs...)
}

func malformedTags(name string) error {
	return fmt.Errorf(`%w: %s must be "*" or a list of entity tags in double quotes`, errMalformedCondition, name)
}

// any reports whether a write has conditions at all.
func (c conditions) any() bool {
	return c.ifMatch != nil || c.ifNoneMatch != nil || !c.ifUnmodifiedSince.IsZero()
}

// forRead decides for GET and HEAD of a blob that is there, in the order
// of RFC 9110, section 13.2.2. (Without a blob the answer is 404 whatever the
// conditions.)
func (c conditions) forRead(current *validators) verdict {
	if !c.unchanged(current) {
		return conditionFailed
	}
	if c.ifNoneMatch != nil {
		if c.ifNoneMatch.matchesWeakly(current) {
			return conditionNotModified
		}
		return conditionHolds // If-Modified-Since does not count beside it
	}
	if !c.ifModifiedSince.IsZero() && !current.modifiedAfter(c.ifModifiedSince) {
		return conditionNotModified
	}
	return conditionHolds
}

// forWrite decides for a request that replaces or deletes a blob; current
// is nil when there is none. If-Modified-Since has no meaning for a write.
func (c conditions) forWrite(current *validators) verdict {
	if !c.unchanged(current) {
		return conditionFailed
	}
	if c.ifNoneMatch != nil && (c.ifNoneMatch.malformed || c.ifNoneMatch.matchesWeakly(current)) {
		return conditionFailed
	}
	return conditionHolds
}

// unchanged evaluates If-Match, or without it If-Unmodified-Since.
func (c conditions) unchanged(current *validators) bool {
	if c.ifMatch != nil {
		return c.ifMatch.matchesStrongly(current)
	}
	// What does not exist has no modification date, and then the header is to
	// be ignored.
	return c.ifUnmodifiedSince.IsZero() || current == nil || !current.modifiedAfter(c.ifUnmodifiedSince)
}

// rangeApplies evaluates If-Range: true when there is none, or when it names
// the current version; false means that the whole blob is to be sent. A date
// must be exactly that of the blob, and be a strong validator (RFC 9110, sections
// 13.1.5 and 8.8.2.2): where the blob may have changed twice within that second,
// parts of two versions would be put together.
func (c conditions) rangeApplies(current *validators) bool {
	if c.ifRange == "" {
		return true
	}
	if tag, rest, ok := cutTag(c.ifRange); ok {
		return rest == "" && !tag.weak && tag.opaque == current.etag
	}
	date, err := http.ParseTime(c.ifRange)
	return err == nil && current.exact && date.Equal(current.modified)
}

// modifiedAfter compares what is sent, which is in whole seconds.
func (v *validators) modifiedAfter(date time.Time) bool {
	return v.modified.After(date)
}

// parseDateHeader reads an HTTP-date; zero when there is not exactly one.
func parseDateHeader(values []string) time.Time {
	if len(values) != 1 {
		return time.Time{}
	}
	date, err := http.ParseTime(values[0])
	if err != nil {
		return time.Time{} // to be ignored, says RFC 9110
	}
	return date
}

// tagList is the value of If-Match or If-None-Match.
type tagList struct {
	any       bool // "*"
	malformed bool // matches nothing
	tags      []entityTag
}

// entityTag is one element of such a list.
type entityTag struct {
	opaque string // with its quotes
	weak   bool   // had "W/" before it
}

// matchesStrongly compares as If-Match demands: a weak tag equals nothing.
// current is nil when there is no blob, which nothing matches, "*" included.
func (l *tagList) matchesStrongly(current *validators) bool {
	if current == nil || l.any {
		return current != nil
	}
	for _, t := range l.tags {
		if !t.weak && t.opaque == current.etag {
			return true
		}
	}
	return false
}

// matchesWeakly compares as If-None-Match demands: "W/" makes no difference.
func (l *tagList) matchesWeakly(current *validators) bool {
	if current == nil || l.any {
		return current != nil
	}
	for _, t := range l.tags {
		if t.opaque == current.etag {
			return true
		}
	}
	return false
}

// parseTagHeader reads a header of entity tags, nil when it is absent.
func parseTagHeader(h http.Header, name string) *tagList {
	values := h.Values(name)
	if len(values) == 0 {
		return nil
	}
	list, ok := parseTagList(strings.Join(values, ","))
	if !ok {
		return &tagList{malformed: true}
	}
	return &list
}

// parseTagList reads "*" or a list of one or more entity tags.
func parseTagList(s string) (tagList, bool) {
	if strings.Trim(s, " \t") == "*" {
		return tagList{any: true}, true
	}
	var list tagList
	for {
		s = strings.TrimLeft(s, " \t,") // recipients accept empty list elements
		if s == "" {
			return list, len(list.tags) > 0
		}
		tag, rest, ok := cutTag(s)
		rest = strings.TrimLeft(rest, " \t")
		if !ok || rest != "" && rest[0] != ',' {
			return tagList{}, false
		}
		list.tags = append(list.tags, tag)
		s = rest
	}
}

// cutTag takes the entity tag off the front of s (RFC 9110, section 8.8.3).
// What is between the quotes may be anything printable but a quote, commas and
// bytes above 0x7f included.
func cutTag(s string) (tag entityTag, rest string, ok bool) {
	s, tag.weak = strings.CutPrefix(s, "W/")
	if s == "" || s[0] != '"' {
		return entityTag{}, "", false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			tag.opaque = s[:i+1]
			return tag, s[i+1:], true
		case c <= ' ' || c == 0x7f:
			return entityTag{}, "", false
		}
	}
	return entityTag{}, "", false
}
