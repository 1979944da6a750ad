package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
)

// span is a range of bytes, both ends included.
type span struct{ first, last int64 }

// stored is a blob that the range tests read.
type stored struct {
	name string
	data []byte
	etag string
}

func (b stored) target() string { return blobTarget("0x1", b.name) }

// storeShapes stores one blob for each way in which the server stores content.
func storeShapes(s *server) []stored {
	s.t.Helper()
	shapes := []struct {
		name     string
		size     int
		partSize int // 0 for a PUT
	}{
		{"one byte", 1, 0},
		{"inline", 1000, 0},
		{"one extent", 3<<20 + 17, 0},
		{"several extents", 65<<20 + 5, 0},
		{"many parts", 40*70_001 + 123, 70_001},
		{"tiny parts", 50, 3},
	}
	all := make([]stored, len(shapes))
	for i, shape := range shapes {
		b := stored{name: shape.name, data: content(uint64(i), shape.size)}
		if shape.partSize == 0 {
			b.etag = s.must(204, "PUT", b.target(), b.data).header.Get("ETag")
		} else {
			b.etag = s.upload("0x1", b.name, b.data, shape.partSize).header.Get("ETag")
		}
		all[i] = b
	}
	return all
}

// TestRanges requests ranges of every form.
func TestRanges(t *testing.T) { overEachProtocol(t, testRanges) }

func testRanges(t *testing.T, s *server) {
	for _, b := range storeShapes(s) {
		t.Run(b.name, func(t *testing.T) {
			at := *s
			at.t = t
			n := int64(len(b.data))
			at.rangesWithOneAnswer(b, n)
			at.rangesThatAreIgnored(b)
			at.rangesThatCannotBeMet(b, n)
			if n >= 50 {
				at.rangesAtRandom(b, n)
			}
		})
	}
}

func (s *server) rangesWithOneAnswer(b stored, n int64) {
	s.t.Helper()
	type oneAnswer struct {
		header string
		want   span
	}
	tests := []oneAnswer{
		{"bytes=0-0", span{0, 0}},
		{"bytes=0-", span{0, n - 1}},
		{"bytes=-1", span{n - 1, n - 1}},
		{fmt.Sprintf("bytes=-%d", n), span{0, n - 1}},
		{fmt.Sprintf("bytes=-%d", n+5), span{0, n - 1}},
		{fmt.Sprintf("bytes=%d-", n-1), span{n - 1, n - 1}},
		{fmt.Sprintf("bytes=0-%d", n-1), span{0, n - 1}},
		{fmt.Sprintf("bytes=0-%d", n), span{0, n - 1}},
		{"bytes=0-99999999999", span{0, n - 1}},
		{"bytes=0-99999999999999999999999", span{0, n - 1}},
		{"bytes=-99999999999999999999999", span{0, n - 1}},
		{"Bytes=0-0", span{0, 0}},
		{"bytes=0-0 ,\t", span{0, 0}},
		{fmt.Sprintf("bytes=0-0,%d-", n), span{0, 0}},
		{fmt.Sprintf("bytes=%d-,0-0,%d-%d", n, n+1, n+2), span{0, 0}},
		{"bytes=0-0,0-0", span{0, 0}},
	}
	if n >= 50 {
		tests = append(tests, oneAnswer{"bytes=5-9", span{5, 9}}, oneAnswer{"bytes=5-9,10-19", span{5, 19}}, oneAnswer{"bytes=8-19,5-10", span{5, 19}},
			oneAnswer{"bytes=00005-0009", span{5, 9}})
	}
	for _, test := range tests {
		r := s.do("GET", b.target(), nil, "Range", test.header)
		want := b.data[test.want.first : test.want.last+1]
		field := fmt.Sprintf("bytes %d-%d/%d", test.want.first, test.want.last, n)
		if r.status != 206 || r.header.Get("Content-Range") != field || !bytes.Equal(r.body, want) {
			s.t.Errorf("%s: %v, want 206 %s", test.header, r, field)
		}
		if r.length != int64(len(want)) || r.header.Get("ETag") != b.etag || r.header.Get("Accept-Ranges") != "bytes" {
			s.t.Errorf("%s: headers %v", test.header, r.header)
		}
	}
}

func (s *server) rangesThatAreIgnored(b stored) {
	s.t.Helper()
	ignored := []string{"bytes=", "bytes=a-b", "bytes=5-4", "bytes=-", "bytes=--1", "bytes=1-2,x", "bytes=0-0;", "bytes=+1-2",
		"bytes=1.5-2", "bytes=1e3-", "bytes 0-1", "items=0-1", "bytes", "=0-1", "", "bytes=0 - 1", "bytes=0x1-2",
		"bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", 65), ",")}
	if len(b.data) > 8<<20 {
		ignored = ignored[:3] // each response is the whole blob
	}
	for _, header := range ignored {
		r := s.do("GET", b.target(), nil, "Range", header)
		if r.status != 200 || r.header.Get("Content-Range") != "" || !bytes.Equal(r.body, b.data) {
			s.t.Errorf("%.60q: %v, want 200 and the whole blob", header, r)
		}
	}
	head := s.do("HEAD", b.target(), nil, "Range", "bytes=0-0")
	if head.status != 200 || head.header.Get("Content-Length") != fmt.Sprint(len(b.data)) {
		s.t.Errorf("HEAD with a range: %v", head)
	}
}

func (s *server) rangesThatCannotBeMet(b stored, n int64) {
	s.t.Helper()
	for _, header := range []string{fmt.Sprintf("bytes=%d-", n), fmt.Sprintf("bytes=%d-%d", n, n+5), "bytes=-0",
		"bytes=99999999999999999999999-", fmt.Sprintf("bytes=%d-,-0", n)} {
		r := s.do("GET", b.target(), nil, "Range", header)
		checkProblem(s.t, r, 416, "range_not_satisfiable")
		if got, want := r.header.Get("Content-Range"), fmt.Sprintf("bytes */%d", n); got != want {
			s.t.Errorf("%s: Content-Range %q, want %q", header, got, want)
		}
	}
}

// rangesAtRandom requests sets of ranges and compares each response with the original's bytes.
func (s *server) rangesAtRandom(b stored, n int64) {
	s.t.Helper()
	random := rand.New(rand.NewPCG(seed(s.t), 0))
	for range 60 {
		asked := make([]span, 1+random.IntN(6))
		fields := make([]string, len(asked))
		for i := range asked {
			asked[i], fields[i] = randomSpan(random, n)
		}
		header := "bytes=" + strings.Join(fields, ",")
		r := s.do("GET", b.target(), nil, "Range", header)
		if r.status != 206 || r.length != int64(len(r.body)) {
			s.t.Fatalf("%s: %v, want 206 with its length", header, r)
		}
		got, err := spansOf(r, b.data)
		if err != nil {
			s.t.Errorf("%s: %v", header, err)
		}
		slices.SortFunc(got, func(a, b span) int { return int(a.first - b.first) })
		if want := merge(asked); !slices.Equal(got, want) {
			s.t.Errorf("%s: got the spans %v, want %v", header, got, want)
		}
	}
}

// randomSpan returns a satisfiable range, and one way to write it. Many begin or end where extents,
// parts and blocks meet.
func randomSpan(random *rand.Rand, n int64) (span, string) {
	edges := []int64{0, n / 2, n - 1, 70_001, 1 << 20, 2 << 20, 64 << 20}
	first := min(n-1, max(0, edges[random.IntN(len(edges))]+random.Int64N(7)-3))
	if random.IntN(3) == 0 {
		first = random.Int64N(n)
	}
	last := min(n-1, first+random.Int64N(min(n, 1+random.Int64N(200_000))))
	switch random.IntN(4) {
	case 0:
		if n-first <= 300_000 {
			return span{first, n - 1}, fmt.Sprintf("%d-", first)
		}
	case 1:
		if n-first <= 300_000 {
			return span{first, n - 1}, fmt.Sprintf("-%d", n-first)
		}
	}
	return span{first, last}, fmt.Sprintf("%d-%d", first, last)
}

// merge joins spans that touch or overlap.
func merge(spans []span) []span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return int(a.first - b.first) })
	merged := sorted[:1]
	for _, next := range sorted[1:] {
		if top := &merged[len(merged)-1]; next.first <= top.last+1 {
			top.last = max(top.last, next.last)
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

// spansOf reads a 206 response's ranges, single or multipart, and compares their bytes with the
// blob's.
func spansOf(r response, data []byte) ([]span, error) {
	kind, parameters, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil && r.header.Get("Content-Type") != "" {
		return nil, err
	}
	if kind != "multipart/byteranges" {
		got, err := checkSpan(r.header.Get("Content-Range"), r.body, data)
		return []span{got}, err
	}
	if field := r.header.Get("Content-Range"); field != "" {
		return nil, fmt.Errorf("a multipart response has Content-Range %q", field)
	}
	var spans []span
	reader := multipart.NewReader(bytes.NewReader(r.body), parameters["boundary"])
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return spans, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		got, err := checkSpan(part.Header.Get("Content-Range"), body, data)
		if err != nil {
			return nil, err
		}
		spans = append(spans, got)
	}
}

// checkSpan compares one Content-Range's bytes with the blob's.
func checkSpan(field string, body, data []byte) (span, error) {
	var s span
	var n int
	if _, err := fmt.Sscanf(field, "bytes %d-%d/%d", &s.first, &s.last, &n); err != nil {
		return s, fmt.Errorf("Content-Range %q: %w", field, err)
	}
	if n != len(data) || s.first < 0 || s.last < s.first || s.last >= int64(n) {
		return s, fmt.Errorf("Content-Range %q of a blob of %d bytes", field, len(data))
	}
	if !bytes.Equal(body, data[s.first:s.last+1]) {
		return s, fmt.Errorf("other bytes than the blob's at %q", field)
	}
	return s, nil
}

// TestRangesOfEmptyBlobs checks that no range is satisfiable on an empty blob.
func TestRangesOfEmptyBlobs(t *testing.T) { overEachProtocol(t, testRangesOfEmptyBlobs) }

func testRangesOfEmptyBlobs(t *testing.T, s *server) {
	target := blobTarget("0x1", "empty")
	s.must(204, "PUT", target, nil)
	s.upload("0x1", "empty by parts", nil, 1000)
	for _, target := range []string{target, blobTarget("0x1", "empty by parts")} {
		for _, header := range []string{"bytes=0-", "bytes=5-", "bytes=0-0"} {
			r := s.do("GET", target, nil, "Range", header)
			checkProblem(t, r, 416, "range_not_satisfiable")
			if got := r.header.Get("Content-Range"); got != "bytes */0" {
				t.Errorf("%s: Content-Range %q", header, got)
			}
		}
		for _, header := range []string{"bytes=-5", "bytes=-1", "x"} {
			if r := s.do("GET", target, nil, "Range", header); r.status != 200 || r.length != 0 {
				t.Errorf("%s: %v, want 200 and no bytes", header, r)
			}
		}
	}
}
