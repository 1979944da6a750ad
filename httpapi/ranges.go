package httpapi

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/wire"
)

// maxRanges is how many ranges a Range header may name before it is excessive.
const maxRanges = 64

// chunksetSize is the number of bytes in the unit by which reads are metered.
const chunksetSize = wire.ChunksetSize

// byteRange is a run of a blob's bytes.
type byteRange struct {
	off int64
	n   int64 // at least 1
}

// contentRange gives the value of the Content-Range header for a part of a blob
// of this size.
func (r byteRange) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.off, r.off+r.n-1, size)
}

// unsatisfiedRange gives the value of the Content-Range header of a 416.
func unsatisfiedRange(size int64) string { return fmt.Sprintf("bytes */%d", size) }

// rangeKind tells what a Range header is, whatever the blob.
type rangeKind int

const (
	rangeAbsent      rangeKind = iota // there is none
	rangeUnknownUnit                  // not in bytes
	rangeMalformed                    // in bytes, but against the grammar
	rangeExcessive                    // in bytes, but too many
	rangeGood
)

// rangeSet is a parsed Range header (RFC 9110, section 14.2). It means the
// whole blob unless its kind is rangeGood.
type rangeSet struct {
	kind  rangeKind
	specs []rangeSpec
}

// rangeSpec is one element of a header. Numbers beyond 2^63-1 are that number:
// no blob comes near it.
type rangeSpec struct {
	first  int64 // -1: a suffix
	last   int64 // inclusive; math.MaxInt64: open-ended
	suffix int64 // the number of last bytes, when first is -1
}

// rangeOutcome tells what a range set makes of a blob.
type rangeOutcome int

const (
	wholeBlob     rangeOutcome = iota // 200
	partialBlob                       // 206
	unsatisfiable                     // 416
)

// parseRange reads the Range headers of a request. It never fails: what cannot
// be honoured is told by the kind.
func parseRange(headers []string) rangeSet {
	if len(headers) == 0 {
		return rangeSet{kind: rangeAbsent}
	}
	unit, list, ok := strings.Cut(headers[0], "=")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return rangeSet{kind: rangeUnknownUnit}
	}
	if len(headers) > 1 { // not a list header: two of them contradict
		return rangeSet{kind: rangeMalformed}
	}
	set := rangeSet{kind: rangeGood}
	count := 0
	for element := range strings.SplitSeq(list, ",") {
		element = strings.Trim(element, " \t")
		if element == "" { // recipients accept empty list elements
			continue
		}
		spec, ok := parseRangeSpec(element)
		if !ok {
			return rangeSet{kind: rangeMalformed}
		}
		if count++; count <= maxRanges {
			set.specs = append(set.specs, spec)
		}
	}
	switch {
	case count == 0:
		return rangeSet{kind: rangeMalformed}
	case count > maxRanges:
		return rangeSet{kind: rangeExcessive}
	}
	return set
}

// parseRangeSpec reads "N-M", "N-" or "-N".
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

// parsePosition reads digits; numbers beyond 2^63-1 are that number.
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

// compareDecimal compares numbers of any length, written in digits.
func compareDecimal(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// resolve gives the bytes that the set takes out of a blob of this size (0 or
// more). For partialBlob the ranges lie inside the blob, do not overlap and do
// not touch: those that did are one. They come in the order in which the header
// first named them, because a client may want the end of a file (an index)
// before what it asked for next. Else there are none.
func (s rangeSet) resolve(size int64) (rangeOutcome, []byteRange) {
	if s.kind != rangeGood {
		return wholeBlob, nil
	}
	var ranges []byteRange
	for _, spec := range s.specs {
		switch {
		case spec.first < 0 && spec.suffix > 0 && size == 0:
			// The last bytes of nothing are all of it, and a 206 has no way
			// to say so.
			return wholeBlob, nil
		case spec.first < 0:
			if n := min(spec.suffix, size); n > 0 {
				ranges = append(ranges, byteRange{size - n, n})
			}
		case spec.first < size:
			ranges = append(ranges, byteRange{spec.first, min(spec.last, size-1) - spec.first + 1})
		}
	}
	if len(ranges) == 0 {
		return unsatisfiable, nil
	}
	return partialBlob, mergeRanges(ranges)
}

// mergeRanges joins what overlaps or touches; a joined range stands where the
// first of its pieces stood.
func mergeRanges(ranges []byteRange) []byteRange {
	type ranked struct {
		byteRange
		rank int
	}
	byOffset := make([]ranked, len(ranges))
	for i, r := range ranges {
		byOffset[i] = ranked{r, i}
	}
	slices.SortFunc(byOffset, func(a, b ranked) int { return cmp.Compare(a.off, b.off) })
	merged := byOffset[:1]
	for _, r := range byOffset[1:] {
		last := &merged[len(merged)-1]
		if r.off > last.off+last.n {
			merged = append(merged, r)
			continue
		}
		last.n = max(last.n, r.off+r.n-last.off)
		last.rank = min(last.rank, r.rank)
	}
	slices.SortFunc(merged, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	result := make([]byteRange, len(merged))
	for i, r := range merged {
		result[i] = r.byteRange
	}
	return result
}

// countChunksets counts the distinct chunksets of a blob that the ranges touch.
func countChunksets(ranges []byteRange) int64 {
	byOffset := slices.SortedFunc(slices.Values(ranges), func(a, b byteRange) int { return cmp.Compare(a.off, b.off) })
	var count int64
	next := int64(0) // the first chunkset that is not counted yet
	for _, r := range byOffset {
		first := max(r.off/chunksetSize, next)
		if end := (r.off+r.n-1)/chunksetSize + 1; end > first {
			count += end - first
			next = end
		}
	}
	return count
}

// multipartRanges is the framing of a multipart/byteranges body (RFC 9110,
// section 14.6): for each part its header and then its bytes, at the end the
// trailer.
type multipartRanges struct {
	contentType string // of the reply
	length      int64  // of the whole body: the reply's Content-Length
	parts       []rangePart
	trailer     string
}

// rangePart is one part of a multipart/byteranges body.
type rangePart struct {
	header string // with the delimiter before it
	byteRange
}

// frameRanges frames these ranges of a blob of this size and content type. An
// empty content type is left out; another must be fit for a header line.
// boundary is one that newBoundary made.
func frameRanges(ranges []byteRange, contentType string, size int64, boundary string) multipartRanges {
	m := multipartRanges{
		contentType: "multipart/byteranges; boundary=" + boundary,
		parts:       make([]rangePart, len(ranges)),
		trailer:     "\r\n--" + boundary + "--\r\n",
	}
	m.length = int64(len(m.trailer))
	delimiter := "--" + boundary + "\r\n"
	for i, r := range ranges {
		header := delimiter
		if contentType != "" {
			header += "Content-Type: " + contentType + "\r\n"
		}
		header += "Content-Range: " + r.contentRange(size) + "\r\n\r\n"
		m.parts[i] = rangePart{header, r}
		m.length += int64(len(header)) + r.n
		delimiter = "\r\n--" + boundary + "\r\n"
	}
	return m
}

// newBoundary makes a random boundary that no stored bytes hold, but by an
// accident of one in 2^130.
func newBoundary() string { return rand.Text() }
