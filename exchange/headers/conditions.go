package headers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrMalformedCondition reports an If-Match or If-None-Match header that is neither "*" nor a
// list of entity tags.
var ErrMalformedCondition = errors.New("malformed condition")

// Verdict is the result of evaluating a request's conditions.
type Verdict int

// The verdicts.
const (
	ConditionHolds  Verdict = iota
	NotModified             // 304
	ConditionFailed         // 412
)

// Validators identify a blob's current version.
type Validators struct {
	ETag string // strong, including its quotes
	// Date is the response's Date. Modified is the Last-Modified and never later (RFC 9110, section
	// 8.8.2.1). Both are in whole seconds.
	Date, Modified time.Time
	// Again is since when the version is current again, because newer ones were removed. Zero: it
	// always was.
	Again time.Time
	// exact reports that no other version was ever sent with this Modified, which makes it a strong
	// validator (section 8.8.2.2).
	exact bool
}

// NewValidators returns the validators for a version with this ETag that was stored at this time.
// shared reports that an earlier version may have been stored within the same second.
func NewValidators(etag string, stored time.Time, shared bool, now time.Time) Validators {
	v := Validators{ETag: etag, Date: now.UTC().Truncate(time.Second), Modified: stored.UTC().Truncate(time.Second), exact: !shared}
	if v.Modified.After(v.Date) {
		v.Modified, v.exact = v.Date, false
	}
	return v
}

// Conditions are a request's parsed conditional headers. The zero value represents a request
// without conditions. They are immutable and independent of the request, so a transaction can
// evaluate them again when it commits.
type Conditions struct {
	ifMatch           *tagList
	ifNoneMatch       *tagList
	ifUnmodifiedSince time.Time // zero: absent or ignored
	ifModifiedSince   time.Time // zero: absent or ignored
	ifRange           string
}

// ParseConditions parses the conditional headers. A malformed list of entity tags matches nothing
// and makes every write fail (see Malformed). A date that is malformed or repeated is ignored, as
// RFC 9110 requires.
func ParseConditions(h http.Header) Conditions {
	return Conditions{
		ifMatch:           parseTagHeader(h, "If-Match"),
		ifNoneMatch:       parseTagHeader(h, "If-None-Match"),
		ifUnmodifiedSince: parseDateHeader(h.Values("If-Unmodified-Since")),
		ifModifiedSince:   parseDateHeader(h.Values("If-Modified-Since")),
		ifRange:           strings.Join(h.Values("If-Range"), ", "),
	}
}

// Unevaluated returns conditions for a read that must not disclose validators: no condition is
// evaluated, and a range with If-Range selects the whole blob.
func (c Conditions) Unevaluated() Conditions {
	if c.ifRange == "" {
		return Conditions{}
	}
	return Conditions{ifRange: "never"} // neither a tag nor a date
}

// Malformed returns an error that wraps ErrMalformedCondition if a list of entity tags is
// malformed. A read may proceed despite it. A write must not, because its caller relies on the
// condition: ForWrite fails too, but does not return the reason.
func (c Conditions) Malformed() error {
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
	return fmt.Errorf(`%w: %s must be "*" or a list of entity tags in double quotes`, ErrMalformedCondition, name)
}

// Any reports whether a write has conditions.
func (c Conditions) Any() bool {
	return c.ifMatch != nil || c.ifNoneMatch != nil || !c.ifUnmodifiedSince.IsZero()
}

// OnlyTag returns the entity tag with its quotes if If-Match is exactly one strong one.
func (c Conditions) OnlyTag() (tag string, ok bool) {
	if c.ifMatch == nil || len(c.ifMatch.tags) != 1 || c.ifMatch.tags[0].weak {
		return "", false
	}
	return c.ifMatch.tags[0].opaque, true
}

// ForRead evaluates the conditions of GET and HEAD for an existing blob, in the order of RFC 9110,
// section 13.2.2. (If the blob does not exist the response is 404 whatever the conditions.)
func (c Conditions) ForRead(current *Validators) Verdict {
	if !c.unchanged(current) {
		return ConditionFailed
	}
	if c.ifNoneMatch != nil {
		if c.ifNoneMatch.matchesWeakly(current) {
			return NotModified
		}
		return ConditionHolds // If-None-Match overrides If-Modified-Since
	}
	if !c.ifModifiedSince.IsZero() && !current.modifiedAfter(c.ifModifiedSince) {
		return NotModified
	}
	return ConditionHolds
}

// ForWrite evaluates the conditions in a request that replaces or deletes a blob. current is nil if
// the blob does not exist. If-Modified-Since does not apply to writes.
func (c Conditions) ForWrite(current *Validators) Verdict {
	if !c.unchanged(current) {
		return ConditionFailed
	}
	if c.ifNoneMatch != nil && (c.ifNoneMatch.malformed || c.ifNoneMatch.matchesWeakly(current)) {
		return ConditionFailed
	}
	return ConditionHolds
}

// unchanged evaluates If-Match or, if it is absent, If-Unmodified-Since.
func (c Conditions) unchanged(current *Validators) bool {
	if c.ifMatch != nil {
		return c.ifMatch.matchesStrongly(current)
	}
	// A blob that does not exist has no modification date, so the header must be ignored.
	return c.ifUnmodifiedSince.IsZero() || current == nil || !current.modifiedAfter(c.ifUnmodifiedSince)
}

// RangeApplies evaluates If-Range. It returns true if the header is absent or identifies the
// current version, and false if the whole blob must be sent. A date must equal the blob's and be a
// strong validator (RFC 9110, sections 13.1.5 and 8.8.2.2): otherwise a client could combine parts
// of two versions that were stored within one second.
func (c Conditions) RangeApplies(current *Validators) bool {
	if c.ifRange == "" {
		return true
	}
	if tag, rest, ok := cutTag(c.ifRange); ok {
		return rest == "" && !tag.weak && tag.opaque == current.ETag
	}
	date, err := http.ParseTime(c.ifRange)
	return err == nil && current.exact && date.Equal(current.Modified)
}

// modifiedAfter compares in whole seconds, as the dates are sent. A date between Modified and Again
// may be a newer version's.
func (v *Validators) modifiedAfter(date time.Time) bool {
	return v.Modified.After(date) || date.After(v.Modified) && !date.After(v.Again)
}

// parseDateHeader parses an HTTP-date. It returns the zero time unless there is exactly one.
func parseDateHeader(values []string) time.Time {
	if len(values) != 1 {
		return time.Time{}
	}
	date, err := http.ParseTime(values[0])
	if err != nil {
		return time.Time{} // RFC 9110 requires to ignore it
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
	opaque string // including its quotes
	weak   bool   // prefixed with "W/"
}

// matchesStrongly compares as If-Match requires: a weak tag matches nothing. Nothing, not even "*",
// matches a nil current, which is a blob that does not exist.
func (l *tagList) matchesStrongly(current *Validators) bool {
	if current == nil || l.any {
		return current != nil
	}
	for _, t := range l.tags {
		if !t.weak && t.opaque == current.ETag {
			return true
		}
	}
	return false
}

// matchesWeakly compares as If-None-Match requires, which ignores "W/".
func (l *tagList) matchesWeakly(current *Validators) bool {
	if current == nil || l.any {
		return current != nil
	}
	for _, t := range l.tags {
		if t.opaque == current.ETag {
			return true
		}
	}
	return false
}

// parseTagHeader parses a header of entity tags. It returns nil if the header is absent.
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

// parseTagList parses "*" or a list of one or more entity tags.
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

// cutTag cuts the entity tag from the front of s (RFC 9110, section 8.8.3). The text between the
// quotes may contain every printable character except a quote, and bytes above 0x7f.
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
