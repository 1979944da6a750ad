package headers

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"sluice/blob"
)

func TestParseRange(t *testing.T) {
	many := func(n int) string { return "bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", n), ",") }
	for _, tc := range []struct {
		headers []string
		want    RangeKind
	}{
		{nil, RangeAbsent},
		{[]string{"bytes=0-0"}, RangeValid},
		{[]string{"Bytes=0-"}, RangeValid},
		{[]string{"BYTES=-1"}, RangeValid},
		{[]string{"bytes=0-0,2-2"}, RangeValid},
		{[]string{"bytes= 0-0 ,\t2-2 "}, RangeValid},
		{[]string{"bytes=,0-0,,2-2,"}, RangeValid},
		{[]string{"bytes=00-00"}, RangeValid},
		{[]string{"bytes=-0"}, RangeValid},
		{[]string{"bytes=9223372036854775807-"}, RangeValid},
		{[]string{"bytes=99999999999999999999-"}, RangeValid},
		{[]string{"bytes=99999999999999999998-99999999999999999999"}, RangeValid},
		{[]string{"bytes=9-0000000000000000000000000000010"}, RangeValid},
		{[]string{many(64)}, RangeValid},
		{[]string{many(65)}, RangeTooMany},
		{[]string{many(10000)}, RangeTooMany},
		{[]string{many(65) + ",x"}, RangeMalformed},
		{[]string{"bytes=99999999999999999999-99999999999999999998"}, RangeMalformed},
		{[]string{"bytes=0-0", "bytes=1-1"}, RangeMalformed},
		{[]string{"bytes="}, RangeMalformed},
		{[]string{"bytes=,"}, RangeMalformed},
		{[]string{"bytes=-"}, RangeMalformed},
		{[]string{"bytes=1"}, RangeMalformed},
		{[]string{"bytes=2-1"}, RangeMalformed},
		{[]string{"bytes=-5-"}, RangeMalformed},
		{[]string{"bytes=--5"}, RangeMalformed},
		{[]string{"bytes=1-2-3"}, RangeMalformed},
		{[]string{"bytes=1.5-2.5"}, RangeMalformed},
		{[]string{"bytes=1e+21-1e+22"}, RangeMalformed},
		{[]string{"bytes=NaN-"}, RangeMalformed},
		{[]string{"bytes=+1-2"}, RangeMalformed},
		{[]string{"bytes=0x1-2"}, RangeMalformed},
		{[]string{"bytes=1_0-20"}, RangeMalformed},
		{[]string{"bytes=1 -2"}, RangeMalformed},
		{[]string{"bytes=1- 2"}, RangeMalformed},
		{[]string{"bytes=1-2;3-4"}, RangeMalformed},
		{[]string{"bytes=0-0,a"}, RangeMalformed},
		{[]string{"bytes=٣-٤"}, RangeMalformed},
		{[]string{""}, RangeUnknownUnit},
		{[]string{"bytes"}, RangeUnknownUnit},
		{[]string{"bytes =0-1"}, RangeUnknownUnit},
		{[]string{"items=0-1"}, RangeUnknownUnit},
		{[]string{"0-1"}, RangeUnknownUnit},
	} {
		got := ParseRange(tc.headers)
		if got.kind != tc.want {
			t.Errorf("%.60q: kind %d, want %d", tc.headers, got.kind, tc.want)
		}
		if selection, ranges := got.Resolve(10); got.kind != RangeValid && (selection != SelectWhole || ranges != nil) {
			t.Errorf("%.60q: selection %d, want the whole blob", tc.headers, selection)
		}
	}
}

// TestResolveMostRanges checks that no range is lost if there are as many as permitted.
func TestResolveMostRanges(t *testing.T) {
	var elements []string
	var want []blob.Range
	for i := range int64(MaxRanges) {
		elements = append(elements, fmt.Sprintf("%d-%d", 2*i, 2*i))
		want = append(want, blob.Range{Off: 2 * i, N: 1})
	}
	selection, ranges := ParseRange([]string{"bytes=" + strings.Join(elements, ",")}).Resolve(1000)
	if selection != SelectPartial || !slices.Equal(ranges, want) {
		t.Errorf("%d %v, want %v", selection, ranges, want)
	}
}

func TestResolveRange(t *testing.T) {
	const most = math.MaxInt64
	for _, tc := range []struct {
		header string
		size   int64
		want   Selection
		ranges []blob.Range
	}{
		{"bytes=0-0", 10, SelectPartial, spans(0, 1)},
		{"bytes=0-9", 10, SelectPartial, spans(0, 10)},
		{"bytes=0-", 10, SelectPartial, spans(0, 10)},
		{"bytes=3-5", 10, SelectPartial, spans(3, 3)},
		{"bytes=3-50", 10, SelectPartial, spans(3, 7)},
		{"bytes=9-", 10, SelectPartial, spans(9, 1)},
		{"bytes=-3", 10, SelectPartial, spans(7, 3)},
		{"bytes=-30", 10, SelectPartial, spans(0, 10)},
		{"bytes=3-99999999999999999999", 10, SelectPartial, spans(3, 7)},
		{"bytes=-99999999999999999999", 10, SelectPartial, spans(0, 10)},
		{"bytes=0-9223372036854775807", most, SelectPartial, spans(0, most)},
		{"bytes=9223372036854775806-", most, SelectPartial, spans(most-1, 1)},
		{"bytes=0-9223372036854775806,-1", most, SelectPartial, spans(0, most)},

		{"bytes=10-", 10, SelectNothing, nil},
		{"bytes=10-20", 10, SelectNothing, nil},
		{"bytes=-0", 10, SelectNothing, nil},
		{"bytes=10-,-0,11-12", 10, SelectNothing, nil},
		{"bytes=9223372036854775807-", most, SelectNothing, nil},
		{"bytes=99999999999999999999-", most, SelectNothing, nil},

		{"bytes=0-", 0, SelectNothing, nil},
		{"bytes=0-0", 0, SelectNothing, nil},
		{"bytes=5-", 0, SelectNothing, nil},
		{"bytes=-0", 0, SelectNothing, nil},
		{"bytes=-1", 0, SelectWhole, nil},
		{"bytes=0-,-5", 0, SelectWhole, nil},

		{"bytes=0-1,4-5", 10, SelectPartial, spans(0, 2, 4, 2)},
		{"bytes=4-5,0-1", 10, SelectPartial, spans(4, 2, 0, 2)},
		{"bytes=-1,0-0", 10, SelectPartial, spans(9, 1, 0, 1)},
		{"bytes=0-1,2-3", 10, SelectPartial, spans(0, 4)},
		{"bytes=2-3,0-1", 10, SelectPartial, spans(0, 4)},
		{"bytes=0-5,3-8", 10, SelectPartial, spans(0, 9)},
		{"bytes=0-8,3-4", 10, SelectPartial, spans(0, 9)},
		{"bytes=3-3,3-3,3-3", 10, SelectPartial, spans(3, 1)},
		{"bytes=8-8,0-0,2-2,1-1", 10, SelectPartial, spans(8, 1, 0, 3)},
		{"bytes=2-2,8-8,0-1", 10, SelectPartial, spans(0, 3, 8, 1)},
		{"bytes=20-30,1-1,-0", 10, SelectPartial, spans(1, 1)},
		{"bytes=5-,-5", 10, SelectPartial, spans(5, 5)},
	} {
		selection, ranges := ParseRange([]string{tc.header}).Resolve(tc.size)
		if selection != tc.want || !slices.Equal(ranges, tc.ranges) {
			t.Errorf("%s of %d: %d %v, want %d %v", tc.header, tc.size, selection, ranges, tc.want, tc.ranges)
		}
	}
}

func TestContentRange(t *testing.T) {
	if got := ContentRange(blob.Range{Off: 3, N: 4}, 10); got != "bytes 3-6/10" {
		t.Error(got)
	}
	if got := UnsatisfiedRange(0); got != "bytes */0" {
		t.Error(got)
	}
}

// bitmap computes naively which bytes a valid set selects.
func (s RangeSet) bitmap(size int64) []bool {
	named := make([]bool, size)
	for i := range size {
		for _, spec := range s.specs {
			if spec.first < 0 && size-i <= spec.suffix || spec.first >= 0 && spec.first <= i && i <= spec.last {
				named[i] = true
			}
		}
	}
	return named
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-", "bytes=-5,2-3", "bytes=1-2,4-5,3-3", "bytes=99999999999999999999-", "Bytes = 1", "x=1-2", "bytes=2-1", ""} {
		f.Add(s, int64(10))
	}
	f.Add("bytes=0-9223372036854775806,-1", int64(math.MaxInt64))
	f.Add("bytes=-3", int64(0))
	f.Fuzz(func(t *testing.T, header string, size int64) {
		size = max(size, 0)
		set := ParseRange([]string{header})
		selection, ranges := set.Resolve(size)
		if (selection == SelectPartial) != (len(ranges) > 0) || len(ranges) > MaxRanges {
			t.Fatalf("%q of %d: selection %d with %d ranges", header, size, selection, len(ranges))
		}
		if set.kind != RangeValid && selection != SelectWhole || set.kind == RangeAbsent {
			t.Fatalf("%q of %d: kind %d, selection %d", header, size, set.kind, selection)
		}
		for i, r := range ranges {
			if r.Off < 0 || r.N < 1 || r.Off > size-r.N {
				t.Fatalf("%q of %d: range %v", header, size, r)
			}
			for _, other := range ranges[:i] {
				if r.Off <= other.Off+other.N && other.Off <= r.Off+r.N {
					t.Fatalf("%q of %d: %v and %v overlap or touch", header, size, r, other)
				}
			}
		}
		if set.kind != RangeValid || size > 1000 {
			return
		}
		want, got := set.bitmap(size), make([]bool, size)
		for _, r := range ranges {
			for i := range r.N {
				got[r.Off+i] = true
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q of %d: %v", header, size, ranges)
		}
		if selection == SelectNothing && slices.Contains(want, true) {
			t.Fatalf("%q of %d is satisfiable", header, size)
		}
	})
}
