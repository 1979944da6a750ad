package headers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/blob"
)

// MaxRanges is the maximum number of ranges in a Range header.
const MaxRanges = 64

// ContentRange returns the Content-Range header for a range in a blob of this size.
func ContentRange(r blob.Range, size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.Off, r.Off+r.N-1, size)
}

// UnsatisfiedRange returns the Content-Range header for a 416.
func UnsatisfiedRange(size int64) string { return fmt.Sprintf("bytes */%d", size) }

// RangeKind classifies a Range header, whatever the blob.
type RangeKind int

// The kinds of Range headers.
const (
	RangeAbsent      RangeKind = iota
	RangeUnknownUnit           // not in bytes
	RangeMalformed             // in bytes, but against the grammar
	RangeTooMany               // more than MaxRanges ranges
	RangeValid
)

// RangeSet is a parsed Range header (RFC 9110, section 14.2). It selects the whole blob unless
// its kind is RangeValid.
type RangeSet struct {
	kind  RangeKind
	specs []rangeSpec
}

// Kind returns the header's kind.
func (s RangeSet) Kind() RangeKind { return s.kind }

// rangeSpec is one element in a header. Numbers above 2^63-1, which exceed the size of every blob,
// are stored as 2^63-1.
type rangeSpec struct {
	first  int64 // -1: a suffix
	last   int64 // inclusive; math.MaxInt64: open-ended
	suffix int64 // number of bytes at the end, if first is -1, else 0
}

// Selection is the kind of result that a range set has for a blob.
type Selection int

// The selections.
const (
	SelectWhole   Selection = iota // 200
	SelectPartial                  // 206
	SelectNothing                  // 416: the set is unsatisfiable
)

// ParseRange parses a request's Range headers. A header that is invalid or unsupported is reported
// by the set's kind.
func ParseRange(headers []string) RangeSet {
	if len(headers) == 0 {
		return RangeSet{kind: RangeAbsent}
	}
	unit, list, ok := strings.Cut(headers[0], "=")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return RangeSet{kind: RangeUnknownUnit}
	}
	if len(headers) > 1 { // not a list header, so several lines contradict each other
		return RangeSet{kind: RangeMalformed}
	}
	set := RangeSet{kind: RangeValid}
	count := 0
	for element := range strings.SplitSeq(list, ",") {
		element = strings.Trim(element, " \t")
		if element == "" { // recipients accept empty list elements
			continue
		}
		spec, ok := parseRangeSpec(element)
		if !ok {
			return RangeSet{kind: RangeMalformed}
		}
		if count++; count <= MaxRanges {
			set.specs = append(set.specs, spec)
		}
	}
	switch {
	case count == 0:
		return RangeSet{kind: RangeMalformed}
	case count > MaxRanges:
		return RangeSet{kind: RangeTooMany}
	}
	return set
}

// parseRangeSpec parses "N-M", "N-" or "-N".
func parseRangeSpec(s string) (rangeSpec, bool) {
	firstDigits, lastDigits, ok := strings.Cut(s, "-")
	if !ok {
		return rangeSpec{}, false
	}
	if firstDigits == "" {
		n, ok := parsePosition(lastDigits)
		return rangeSpec{first: -1, suffix: n}, ok
	}
	first, ok := parsePosition(firstDigits)
	if !ok {
		return rangeSpec{}, false
	}
	if lastDigits == "" {
		return rangeSpec{first: first, last: math.MaxInt64}, true
	}
	last, ok := parsePosition(lastDigits)
	if !ok || compareDecimal(firstDigits, lastDigits) > 0 {
		return rangeSpec{}, false
	}
	return rangeSpec{first: first, last: last}, true
}

// parsePosition parses decimal digits. It returns 2^63-1 for every greater number.
func parsePosition(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil { // all are digits, so it is out of range
		return math.MaxInt64, true
	}
	return n, true
}

// compareDecimal compares decimal numbers of any length.
func compareDecimal(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// Resolve returns the part that the set selects from a blob of this size, which must not be
// negative. For SelectPartial the ranges lie within the blob and neither overlap nor touch: those
// that did are merged. They are in the order in which the header first named them, because a client
// may want a file's end (an index) before the rest. Otherwise there are no ranges.
func (s RangeSet) Resolve(size int64) (Selection, []blob.Range) {
	if s.kind != RangeValid {
		return SelectWhole, nil
	}
	var ranges []blob.Range
	for _, spec := range s.specs {
		switch {
		case spec.suffix > 0 && size == 0:
			// An empty blob's last bytes are all of it, which a 206 cannot express.
			return SelectWhole, nil
		case spec.first < 0:
			if n := min(spec.suffix, size); n > 0 {
				ranges = append(ranges, blob.Range{Off: size - n, N: n})
			}
		case spec.first < size:
			ranges = append(ranges, blob.Range{Off: spec.first, N: min(spec.last, size-1) - spec.first + 1})
		}
	}
	if len(ranges) == 0 {
		return SelectNothing, nil
	}
	return SelectPartial, mergeRanges(ranges)
}

// mergeRanges merges ranges that overlap or touch. A merged range has the position of its first
// part.
func mergeRanges(ranges []blob.Range) []blob.Range {
	type ranked struct {
		blob.Range
		rank int
	}
	byOffset := make([]ranked, len(ranges))
	for i, r := range ranges {
		byOffset[i] = ranked{r, i}
	}
	slices.SortFunc(byOffset, func(a, b ranked) int { return cmp.Compare(a.Off, b.Off) })
	merged := byOffset[:1]
	for _, r := range byOffset[1:] {
		last := &merged[len(merged)-1]
		if r.Off > last.Off+last.N {
			merged = append(merged, r)
			continue
		}
		last.N = max(last.N, r.Off+r.N-last.Off)
		last.rank = min(last.rank, r.rank)
	}
	slices.SortFunc(merged, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	result := make([]blob.Range, len(merged))
	for i, r := range merged {
		result[i] = r.Range
	}
	return result
}
