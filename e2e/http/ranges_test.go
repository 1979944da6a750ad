package http

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

	"sluice/e2e"
)

// stored is a blob that the range tests read.
type stored struct {
	name string
	data []byte
	etag string
}

func (b stored) target() string { return e2e.BlobTarget("0x1", b.name) }

// storeShapes stores one blob for each way in which the server stores content.
func storeShapes(s *e2e.Server) []stored {
	s.T.Helper()
	shapes := []struct {
		name     string
		size     int
		partSize int // 0 for a PUT
	}{
		{"inline", 1000, 0},
		{"one extent", 3<<20 + 17, 0},
		{"several extents", 65<<20 + 5, 0},
		{"many parts", 40*70_001 + 123, 70_001},
		{"tiny parts", 50, 3},
	}
	all := make([]stored, len(shapes))
	for i, shape := range shapes {
		b := stored{name: shape.name, data: e2e.Content(uint64(i), shape.size)}
		if shape.partSize == 0 {
			b.etag = s.Must(204, "PUT", b.target(), b.data).Header.Get("ETag")
		} else {
			b.etag = s.Upload("0x1", b.name, b.data, shape.partSize).Header.Get("ETag")
		}
		all[i] = b
	}
	return all
}

// TestRanges requests random sets of ranges.
func TestRanges(t *testing.T) { overEachProtocol(t, testRanges) }

func testRanges(t *testing.T, s *e2e.Server) {
	for _, b := range storeShapes(s) {
		t.Run(b.name, func(t *testing.T) {
			at := *s
			at.T = t
			rangesAtRandom(&at, b, int64(len(b.data)))
		})
	}
}

// rangesAtRandom requests sets of ranges and compares each response with the original's bytes.
func rangesAtRandom(s *e2e.Server, b stored, n int64) {
	s.T.Helper()
	random := rand.New(rand.NewPCG(e2e.Seed(s.T), 0))
	for range 60 {
		asked := make([]e2e.Span, 1+random.IntN(6))
		fields := make([]string, len(asked))
		for i := range asked {
			asked[i], fields[i] = randomSpan(random, n)
		}
		header := "bytes=" + strings.Join(fields, ",")
		r := s.Do("GET", b.target(), nil, "Range", header)
		if r.Status != 206 || r.Length != int64(len(r.Body)) {
			s.T.Fatalf("%s: %v, want 206 with its length", header, r)
		}
		got, err := spansOf(r, b.data)
		if err != nil {
			s.T.Errorf("%s: %v", header, err)
		}
		slices.SortFunc(got, func(a, b e2e.Span) int { return int(a.First - b.First) })
		if want := merge(asked); !slices.Equal(got, want) {
			s.T.Errorf("%s: got the spans %v, want %v", header, got, want)
		}
	}
}

// randomSpan returns a satisfiable range, and one way to write it. Many begin or end where extents,
// parts and blocks meet.
func randomSpan(random *rand.Rand, n int64) (e2e.Span, string) {
	edges := []int64{0, n / 2, n - 1, 70_001, 1 << 20, 2 << 20, 64 << 20}
	first := min(n-1, max(0, edges[random.IntN(len(edges))]+random.Int64N(7)-3))
	if random.IntN(3) == 0 {
		first = random.Int64N(n)
	}
	last := min(n-1, first+random.Int64N(min(n, 1+random.Int64N(200_000))))
	switch random.IntN(4) {
	case 0:
		if n-first <= 300_000 {
			return e2e.Span{First: first, Last: n - 1}, fmt.Sprintf("%d-", first)
		}
	case 1:
		if n-first <= 300_000 {
			return e2e.Span{First: first, Last: n - 1}, fmt.Sprintf("-%d", n-first)
		}
	}
	return e2e.Span{First: first, Last: last}, fmt.Sprintf("%d-%d", first, last)
}

// merge joins spans that touch or overlap.
func merge(spans []e2e.Span) []e2e.Span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b e2e.Span) int { return int(a.First - b.First) })
	merged := sorted[:1]
	for _, next := range sorted[1:] {
		if top := &merged[len(merged)-1]; next.First <= top.Last+1 {
			top.Last = max(top.Last, next.Last)
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

// spansOf reads a 206 response's ranges, single or multipart, and compares their bytes with the
// blob's.
func spansOf(r e2e.Response, data []byte) ([]e2e.Span, error) {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.Header.Get("Content-Type") != "" {
		return nil, err
	}
	if kind != "multipart/byteranges" {
		got, err := checkSpan(r.Header.Get("Content-Range"), r.Body, data)
		return []e2e.Span{got}, err
	}
	if field := r.Header.Get("Content-Range"); field != "" {
		return nil, fmt.Errorf("a multipart response has Content-Range %q", field)
	}
	var spans []e2e.Span
	reader := multipart.NewReader(bytes.NewReader(r.Body), parameters["boundary"])
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
func checkSpan(field string, body, data []byte) (e2e.Span, error) {
	var s e2e.Span
	var n int
	if _, err := fmt.Sscanf(field, "bytes %d-%d/%d", &s.First, &s.Last, &n); err != nil {
		return s, fmt.Errorf("Content-Range %q: %w", field, err)
	}
	if n != len(data) || s.First < 0 || s.Last < s.First || s.Last >= int64(n) {
		return s, fmt.Errorf("Content-Range %q of a blob of %d bytes", field, len(data))
	}
	if !bytes.Equal(body, data[s.First:s.Last+1]) {
		return s, fmt.Errorf("other bytes than the blob's at %q", field)
	}
	return s, nil
}
