package headers

import (
	"crypto/rand"

	"sluice/blob"
)

// MultipartRanges frames a multipart/byteranges body (RFC 9110, section 14.6). The body consists of
// each part's header followed by its bytes, and of the trailer.
type MultipartRanges struct {
	ContentType string // the response's
	Length      int64  // the whole body's, in bytes
	Parts       []RangePart
	Trailer     string
}

// RangePart is one part in a multipart/byteranges body.
type RangePart struct {
	Header string // including the delimiter before it
	blob.Range
}

// FrameRanges returns the framing for these ranges in a blob of this size. A content type that is
// not empty must be valid in a header line; an empty one is omitted. boundary must be the result of
// NewBoundary.
func FrameRanges(ranges []blob.Range, contentType string, size int64, boundary string) MultipartRanges {
	m := MultipartRanges{
		ContentType: "multipart/byteranges; boundary=" + boundary,
		Parts:       make([]RangePart, len(ranges)),
		Trailer:     "\r\n--" + boundary + "--\r\n",
	}
	m.Length = int64(len(m.Trailer))
	delimiter := "--" + boundary + "\r\n"
	for i, r := range ranges {
		header := delimiter
		if contentType != "" {
			header += "Content-Type: " + contentType + "\r\n"
		}
		header += "Content-Range: " + ContentRange(r, size) + "\r\n\r\n"
		m.Parts[i] = RangePart{header, r}
		m.Length += int64(len(header)) + r.N
		delimiter = "\r\n--" + boundary + "\r\n"
	}
	return m
}

// NewBoundary returns a random boundary. Stored bytes contain it with a probability of 1 in 2^130.
func NewBoundary() string { return rand.Text() }
