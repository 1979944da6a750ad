package document

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The errors of a well-formed rule: it cannot be (InvalidArgument), or it needs other storage
// classes (NotImplemented).
var (
	ErrLifecycle  = errors.New("a lifecycle rule is invalid")
	ErrTransition = errors.New("there is one storage class, so a lifecycle rule cannot have a")
)

// LifecycleRule is a rule of a bucket's lifecycle ("LifecycleRule", Amazon S3 API Reference). A
// member that is zero is not stated.
type LifecycleRule struct {
	ID             string
	Disabled       bool
	Prefix         string
	Tags           map[string]string
	AtLeast, Below int64 // sizes in bytes; AtLeast is one more than ObjectSizeGreaterThan

	ExpireDays int
	ExpireOn   time.Time
	DropDays   int  // since a version ceased to be current
	DropBeyond int  // how many newer ones that are not current stay
	AbortDays  int  // since an upload began
	LoneMarks  bool // a mark without other versions is removed
	OldForm    bool // Prefix is not in a Filter
}

// lifecycleRule is a rule as the document has it.
type lifecycleRule struct {
	strict
	ID     []string
	Filter []lifecycleFilter
	Prefix []string
	Status []string
	Expire []expiration              `xml:"Expiration"`
	Drop   []noncurrent              `xml:"NoncurrentVersionExpiration"`
	Abort  []abort                   `xml:"AbortIncompleteMultipartUpload"`
	Moves  []struct{ Date []string } `xml:"Transition"`
	Moved  []struct{}                `xml:"NoncurrentVersionTransition"`
}

// lifecycleFilter selects objects. Several conditions are within And.
type lifecycleFilter struct {
	strict
	And    []lifecycleFilter
	Prefix []string
	Tag    []lifecycleTag
	Above  []string `xml:"ObjectSizeGreaterThan"`
	Below  []string `xml:"ObjectSizeLessThan"`
}

type lifecycleTag struct {
	strict
	Key, Value []string
}

type expiration struct {
	strict
	Days, Date []string
	LoneMarks  []string `xml:"ExpiredObjectDeleteMarker"`
}

type noncurrent struct {
	strict
	Days   []string `xml:"NoncurrentDays"`
	Beyond []string `xml:"NewerNoncurrentVersions"`
}

type abort struct {
	strict
	Days []string `xml:"DaysAfterInitiation"`
}

// DecodeLifecycle reads a body with a bucket's lifecycle, of at least one rule. The error wraps
// ErrMalformed, ErrLifecycle or ErrTransition. The caller bounds the body's size.
func DecodeLifecycle(body []byte) (rules []LifecycleRule, err error) {
	var sent struct {
		strict
		XMLName xml.Name        `xml:"LifecycleConfiguration"`
		Rules   []lifecycleRule `xml:"Rule"`
	}
	if err := decodeStrictly(body, &sent); err != nil {
		return nil, err
	}
	if len(sent.Rules) == 0 {
		return nil, fmt.Errorf("%w: it must have a Rule", ErrMalformed)
	}
	for i := range sent.Rules {
		r, err := sent.Rules[i].rule()
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// texts reads the members of a rule. It keeps the first error.
type texts struct{ err error }

func (t *texts) keep(err error) {
	if t.err == nil {
		t.err = err
	}
}

// number returns a positive integer, or 0 if it is not stated.
func (t *texts) number(element string, list []string) int {
	n, stated, err := integer(element, list)
	if t.keep(err); err == nil && stated && n < 1 {
		t.keep(fmt.Errorf("%w: %s must be a positive number", ErrLifecycle, element))
	}
	return n
}

// size returns one more than a number of bytes, or 0 if it is not stated.
func (t *texts) size(element string, list []string) int64 {
	text, err := optional(element, list)
	if t.keep(err); len(list) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 62)
	if err != nil {
		t.keep(fmt.Errorf("%w: %s must be a number of bytes", ErrMalformed, element))
	}
	return int64(n) + 1
}

// one returns an element that may be there once, or its zero value.
func one[T any](t *texts, element string, list []T) (value T) {
	if len(list) > 1 {
		t.keep(fmt.Errorf("%w: it must have at most one %s", ErrMalformed, element))
	}
	if len(list) > 0 {
		value = list[0]
	}
	return value
}

func (s *lifecycleRule) rule() (r LifecycleRule, err error) {
	var t texts
	status, err := oneOf("Status", s.Status, "Enabled", "Disabled")
	t.keep(err)
	r.ID, r.Disabled, r.OldForm = one(&t, "ID", s.ID), status == "Disabled", len(s.Prefix) > 0
	filter := one(&t, "Filter", s.Filter)
	if status == "" || len(s.Prefix)+len(s.Filter) != 1 {
		t.keep(fmt.Errorf("%w: a Rule must have a Status, and either a Filter or a Prefix", ErrMalformed))
	}
	if r.OldForm {
		filter.Prefix = s.Prefix
	}
	filter.read(&t, &r)
	expire := one(&t, "Expiration", s.Expire)
	r.ExpireDays = t.number("Days", expire.Days)
	r.ExpireOn, err = instant("Date", expire.Date)
	t.keep(err)
	r.LoneMarks, err = optionalFlag("ExpiredObjectDeleteMarker", expire.LoneMarks)
	t.keep(err)
	drop := one(&t, "NoncurrentVersionExpiration", s.Drop)
	r.DropDays, r.DropBeyond = t.number("NoncurrentDays", drop.Days), t.number("NewerNoncurrentVersions", drop.Beyond)
	r.AbortDays = t.number("DaysAfterInitiation", one(&t, "AbortIncompleteMultipartUpload", s.Abort).Days)
	for _, move := range s.Moves {
		on, err := instant("Date", move.Date)
		if t.keep(err); on.Truncate(day) != on {
			t.keep(fmt.Errorf("%w: a Date must be at midnight UTC", ErrLifecycle))
		}
	}
	t.keep(s.check(&r))
	return r, t.err
}

// check refuses incomplete elements, and transitions by their names.
func (s *lifecycleRule) check(r *LifecycleRule) error {
	expirations := 0
	for _, stated := range []bool{r.ExpireDays != 0, !r.ExpireOn.IsZero(), r.LoneMarks} {
		if stated {
			expirations++
		}
	}
	switch {
	case len(s.Expire) > 0 && expirations != 1:
		return fmt.Errorf("%w: an Expiration has one of Days, Date and ExpiredObjectDeleteMarker", ErrMalformed)
	case len(s.Drop) > 0 && r.DropDays+r.DropBeyond == 0:
		return fmt.Errorf("%w: a NoncurrentVersionExpiration needs NoncurrentDays", ErrMalformed)
	case len(s.Abort) > 0 && r.AbortDays == 0:
		return fmt.Errorf("%w: an AbortIncompleteMultipartUpload needs DaysAfterInitiation", ErrMalformed)
	case len(s.Moves) > 0:
		return fmt.Errorf("%w Transition", ErrTransition)
	case len(s.Moved) > 0:
		return fmt.Errorf("%w NoncurrentVersionTransition", ErrTransition)
	}
	return nil
}

// read adds the conditions to a rule.
func (f *lifecycleFilter) read(t *texts, r *LifecycleRule) {
	if len(f.And)+len(f.Prefix)+len(f.Tag)+len(f.Above)+len(f.Below) > 1 {
		t.keep(fmt.Errorf("%w: a Filter has at most one condition; several are within its And", ErrMalformed))
	}
	if len(f.And) > 0 {
		if f = &f.And[0]; len(f.And) > 0 {
			t.keep(fmt.Errorf("%w: an And has no And", ErrMalformed))
		}
	}
	r.Prefix = one(t, "Prefix", f.Prefix)
	r.AtLeast = t.size("ObjectSizeGreaterThan", f.Above)
	if r.Below = t.size("ObjectSizeLessThan", f.Below) - 1; r.Below == 0 {
		t.keep(fmt.Errorf("%w: no object has less than 0 bytes", ErrLifecycle))
	}
	r.Below = max(r.Below, 0)
	for _, tag := range f.Tag {
		key, err := only("Key", tag.Key)
		t.keep(err)
		if _, twice := r.Tags[key]; twice || len(tag.Value) != 1 {
			t.keep(fmt.Errorf("%w: each Tag has a different Key, and a Value", ErrMalformed))
		}
		if r.Tags == nil {
			r.Tags = map[string]string{}
		}
		r.Tags[key] = one(t, "Value", tag.Value)
	}
}

// Lifecycle returns the document with rules.
func Lifecycle(rules []LifecycleRule) any {
	written := make([]lifecycleRule, len(rules))
	for i := range rules {
		written[i] = rules[i].written()
	}
	return struct {
		XMLName xml.Name        `xml:"http://s3.amazonaws.com/doc/2006-03-01/ LifecycleConfiguration"`
		Rules   []lifecycleRule `xml:"Rule"`
	}{Rules: written}
}

// number returns an element for a number that is not 0, with add added.
func number[N int | int64](add, n N) []string {
	if n == 0 {
		return nil
	}
	return []string{strconv.FormatInt(int64(n+add), 10)}
}

func (r *LifecycleRule) written() (s lifecycleRule) {
	s.ID, s.Status = []string{r.ID}, []string{"Enabled"}
	if r.Disabled {
		s.Status[0] = "Disabled"
	}
	if r.OldForm {
		s.Prefix = []string{r.Prefix}
	} else {
		s.Filter = []lifecycleFilter{r.filter()}
	}
	if r.ExpireDays != 0 || !r.ExpireOn.IsZero() || r.LoneMarks {
		e := expiration{Days: number(0, r.ExpireDays)}
		if !r.ExpireOn.IsZero() {
			e.Date = []string{Time{r.ExpireOn}.text()}
		}
		if r.LoneMarks {
			e.LoneMarks = []string{"true"}
		}
		s.Expire = []expiration{e}
	}
	if r.DropDays+r.DropBeyond != 0 {
		s.Drop = []noncurrent{{Days: number(0, r.DropDays), Beyond: number(0, r.DropBeyond)}}
	}
	if r.AbortDays != 0 {
		s.Abort = []abort{{Days: number(0, r.AbortDays)}}
	}
	return s
}

// filter returns a rule's conditions: several are within And.
func (r *LifecycleRule) filter() (f lifecycleFilter) {
	for _, key := range slices.Sorted(maps.Keys(r.Tags)) {
		f.Tag = append(f.Tag, lifecycleTag{Key: []string{key}, Value: []string{r.Tags[key]}})
	}
	f.Above, f.Below = number(-1, r.AtLeast), number(0, r.Below)
	conditions := len(f.Tag) + len(f.Above) + len(f.Below)
	if r.Prefix != "" || conditions == 0 {
		f.Prefix = []string{r.Prefix}
		conditions++
	}
	if conditions > 1 {
		return lifecycleFilter{And: []lifecycleFilter{f}}
	}
	return f
}
