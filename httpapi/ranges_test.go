package httpapi

import (
	"bytes"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
)

func TestParseRange(t *testing.T) {
	many := func(n int) string { return "bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", n), ",") }
	for _, tc := range []struct {
		headers []string
		want    rangeKind
	}{
		{nil, rangeAbsent},
		{[]string{"bytes=0-0"}, rangeGood},
		{[]string{"Bytes=0-"}, rangeGood},
		{[]string{"BYTES=-1"}, rangeGood},
		{[]string{"bytes=0-0,2-2"}, rangeGood},
		{[]string{"bytes= 0-0 ,\t2-2 "}, rangeGood},
		{[]string{"bytes=,0-0,,2-2,"}, rangeGood},
		{[]string{"bytes=00-00"}, rangeGood},
		{[]string{"bytes=-0"}, rangeGood},
		{[]string{"bytes=9223372036854775807-"}, rangeGood},
		{[]string{"bytes=99999999999999999999-"}, rangeGood},
		{[]string{"bytes=99999999999999999998-99999999999999999999"}, rangeGood},
		{[]string{"bytes=9-0000000000000000000000000000010"}, rangeGood},
		{[]string{many(64)}, rangeGood},
		{[]string{many(65)}, rangeExcessive},
		{[]string{many(10000)}, rangeExcessive},
		{[]string{many(65) + ",x"}, rangeMalformed},
		{[]string{"bytes=99999999999999999999-99999999999999999998"}, rangeMalformed},
		{[]string{"bytes=0-0", "bytes=1-1"}, rangeMalformed},
		{[]string{"bytes="}, rangeMalformed},
		{[]string{"bytes=,"}, rangeMalformed},
		{[]string{"bytes=-"}, rangeMalformed},
		{[]string{"bytes=1"}, rangeMalformed},
		{[]string{"bytes=2-1"}, rangeMalformed},
		{[]string{"bytes=-5-"}, rangeMalformed},
		{[]string{"bytes=--5"}, rangeMalformed},
		{[]string{"bytes=1-2-3"}, rangeMalformed},
		{[]string{"bytes=1.5-2.5"}, rangeMalformed},
		{[]string{"bytes=1e+21-1e+22"}, rangeMalformed},
		{[]string{"bytes=NaN-"}, rangeMalformed},
		{[]string{"bytes=+1-2"}, rangeMalformed},
		{[]string{"bytes=0x1-2"}, rangeMalformed},
		{[]string{"bytes=1_0-20"}, rangeMalformed},
		{[]string{"bytes=1 -2"}, rangeMalformed},
		{[]string{"bytes=1- 2"}, rangeMalformed},
		{[]string{"bytes=1-2;3-4"}, rangeMalformed},
		{[]string{"bytes=0-0,a"}, rangeMalformed},
		{[]string{"bytes=٣-٤"}, rangeMalformed},
		{[]string{""}, rangeUnknownUnit},
		{[]string{"bytes"}, rangeUnknownUnit},
		{[]string{"bytes =0-1"}, rangeUnknownUnit},
		{[]string{"items=0-1"}, rangeUnknownUnit},
		{[]string{"0-1"}, rangeUnknownUnit},
	} {
		got := parseRange(tc.headers)
		if got.kind != tc.want {
			t.Errorf("%.60q: kind %d, want %d", tc.headers, got.kind, tc.want)
		}
		if outcome, ranges := got.resolve(10); got.kind != rangeGood && (outcome != wholeBlob || ranges != nil) {
			t.Errorf("%.60q: outcome %d, want the whole blob", tc.headers, outcome)
		}
	}
}

func TestResolveRange(t *testing.T) {
	const most = math.MaxInt64
	for _, tc := range []struct {
		header string
		size   int64
		want   rangeOutcome
		ranges []byteRange
	}{
		{"bytes=0-0", 10, partialBlob, []byteRange{{0, 1}}},
		{"bytes=0-9", 10, partialBlob, []byteRange{{0, 10}}},
		{"bytes=0-", 10, partialBlob, []byteRange{{0, 10}}},
		{"bytes=3-5", 10, partialBlob, []byteRange{{3, 3}}},
		{"bytes=3-50", 10, partialBlob, []byteRange{{3, 7}}},
		{"bytes=9-", 10, partialBlob, []byteRange{{9, 1}}},
		{"bytes=-3", 10, partialBlob, []byteRange{{7, 3}}},
		{"bytes=-30", 10, partialBlob, []byteRange{{0, 10}}},
		{"bytes=3-99999999999999999999", 10, partialBlob, []byteRange{{3, 7}}},
		{"bytes=-99999999999999999999", 10, partialBlob, []byteRange{{0, 10}}},
		{"bytes=0-9223372036854775807", most, partialBlob, []byteRange{{0, most}}},
		{"bytes=9223372036854775806-", most, partialBlob, []byteRange{{most - 1, 1}}},
		{"bytes=0-9223372036854775806,-1", most, partialBlob, []byteRange{{0, most}}},

		{"bytes=10-", 10, unsatisfiable, nil},
		{"bytes=10-20", 10, unsatisfiable, nil},
		{"bytes=-0", 10, unsatisfiable, nil},
		{"bytes=10-,-0,11-12", 10, unsatisfiable, nil},
		{"bytes=9223372036854775807-", most, unsatisfiable, nil},
		{"bytes=99999999999999999999-", most, unsatisfiable, nil},

		{"bytes=0-", 0, unsatisfiable, nil},
		{"bytes=0-0", 0, unsatisfiable, nil},
		{"bytes=5-", 0, unsatisfiable, nil},
		{"bytes=-0", 0, unsatisfiable, nil},
		{"bytes=-1", 0, wholeBlob, nil},
		{"bytes=0-,-5", 0, wholeBlob, nil},

		{"bytes=0-1,4-5", 10, partialBlob, []byteRange{{0, 2}, {4, 2}}},
		{"bytes=4-5,0-1", 10, partialBlob, []byteRange{{4, 2}, {0, 2}}},
		{"bytes=-1,0-0", 10, partialBlob, []byteRange{{9, 1}, {0, 1}}},
		{"bytes=0-1,2-3", 10, partialBlob, []byteRange{{0, 4}}},
		{"bytes=2-3,0-1", 10, partialBlob, []byteRange{{0, 4}}},
		{"bytes=0-5,3-8", 10, partialBlob, []byteRange{{0, 9}}},
		{"bytes=0-8,3-4", 10, partialBlob, []byteRange{{0, 9}}},
		{"bytes=3-3,3-3,3-3", 10, partialBlob, []byteRange{{3, 1}}},
		{"bytes=8-8,0-0,2-2,1-1", 10, partialBlob, []byteRange{{8, 1}, {0, 3}}},
		{"bytes=2-2,8-8,0-1", 10, partialBlob, []byteRange{{0, 3}, {8, 1}}},
		{"bytes=20-30,1-1,-0", 10, partialBlob, []byteRange{{1, 1}}},
		{"bytes=5-,-5", 10, partialBlob, []byteRange{{5, 5}}},
	} {
		outcome, ranges := parseRange([]string{tc.header}).resolve(tc.size)
		if outcome != tc.want || !slices.Equal(ranges, tc.ranges) {
			t.Errorf("%s of %d: %d %v, want %d %v", tc.header, tc.size, outcome, ranges, tc.want, tc.ranges)
		}
	}
}

func TestCountChunksets(t *testing.T) {
	const cs = chunksetSize
	for _, tc := range []struct {
		ranges []byteRange
		want   int64
	}{
		{nil, 0},
		{[]byteRange{{0, 1}}, 1},
		{[]byteRange{{0, cs}}, 1},
		{[]byteRange{{0, cs + 1}}, 2},
		{[]byteRange{{cs - 1, 2}}, 2},
		{[]byteRange{{cs, 1}}, 1},
		{[]byteRange{{0, 1}, {2, 1}, {cs - 1, 1}}, 1},
		{[]byteRange{{cs - 1, 1}, {0, 1}}, 1},
		{[]byteRange{{5 * cs, 1}, {0, 1}, {2*cs - 1, 2}}, 4},
		{[]byteRange{{cs / 2, cs}, {0, 1}, {2*cs - 1, 1}}, 2},
		{[]byteRange{{0, 5 << 40}}, (5 << 40) / cs},
		{[]byteRange{{0, math.MaxInt64}}, math.MaxInt64/cs + 1},
	} {
		if got := countChunksets(tc.ranges); got != tc.want {
			t.Errorf("%v: %d chunksets, want %d", tc.ranges, got, tc.want)
		}
	}
}

func TestFrameRanges(t *testing.T) {
	content := []byte("0123456789abcdef")
	size := int64(len(content))
	for _, contentType := range []string{"text/plain; charset=utf-8", ""} {
		for _, ranges := range [][]byteRange{{{0, 1}, {5, 3}}, {{15, 1}, {0, 2}, {4, 10}}, {{0, 16}}} {
			m := frameRanges(ranges, contentType, size, newBoundary())
			var body bytes.Buffer
			for _, p := range m.parts {
				body.WriteString(p.header)
				body.Write(content[p.off : p.off+p.n])
			}
			body.WriteString(m.trailer)
			if int64(body.Len()) != m.length {
				t.Errorf("%v: %d bytes, announced %d", ranges, body.Len(), m.length)
			}

			media, params, err := mime.ParseMediaType(m.contentType)
			if err != nil || media != "multipart/byteranges" {
				t.Fatalf("content type %q: %v", m.contentType, err)
			}
			reader := multipart.NewReader(&body, params["boundary"])
			for _, r := range ranges {
				part, err := reader.NextRawPart()
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(part)
				if err != nil || !bytes.Equal(got, content[r.off:r.off+r.n]) {
					t.Errorf("part %v: %q, %v", r, got, err)
				}
				if part.Header.Get("Content-Range") != r.contentRange(size) || part.Header.Get("Content-Type") != contentType {
					t.Errorf("part %v: header %v", r, part.Header)
				}
			}
			if _, err := reader.NextRawPart(); !errors.Is(err, io.EOF) {
				t.Errorf("after the last part: %v", err)
			}
		}
	}
	if a, b := newBoundary(), newBoundary(); a == b || len(a) < 20 || len(a) > 70 {
		t.Errorf("boundaries %q and %q", a, b)
	}
}

func TestContentRange(t *testing.T) {
	if got := (byteRange{3, 4}).contentRange(10); got != "bytes 3-6/10" {
		t.Error(got)
	}
	if got := unsatisfiedRange(0); got != "bytes */0" {
		t.Error(got)
	}
}

// bitmap is the naive meaning of a good set: which bytes it names.
func (s rangeSet) bitmap(size int64) []bool {
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
		set := parseRange([]string{header})
		outcome, ranges := set.resolve(size)
		if (outcome == partialBlob) != (len(ranges) > 0) || len(ranges) > maxRanges {
			t.Fatalf("%q of %d: outcome %d with %d ranges", header, size, outcome, len(ranges))
		}
		if set.kind != rangeGood && outcome != wholeBlob || set.kind == rangeAbsent {
			t.Fatalf("%q of %d: kind %d, outcome %d", header, size, set.kind, outcome)
		}
		for i, r := range ranges {
			if r.off < 0 || r.n < 1 || r.off > size-r.n {
				t.Fatalf("%q of %d: range %v", header, size, r)
			}
			for _, other := range ranges[:i] {
				if r.off <= other.off+other.n && other.off <= r.off+r.n {
					t.Fatalf("%q of %d: %v and %v overlap or touch", header, size, r, other)
				}
			}
		}
		if n, all := countChunksets(ranges), countChunksets([]byteRange{{0, max(size, 1)}}); n > all || (n == 0) != (len(ranges) == 0) {
			t.Fatalf("%q of %d: %d chunksets of %d", header, size, n, all)
		}
		if set.kind != rangeGood || size > 1000 {
			return
		}
		want, got := set.bitmap(size), make([]bool, size)
		for _, r := range ranges {
			for i := range r.n {
				got[r.off+i] = true
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q of %d: %v", header, size, ranges)
		}
		if outcome == unsatisfiable && slices.Contains(want, true) {
			t.Fatalf("%q of %d is satisfiable", header, size)
		}
	})
}
