package headers

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"testing"

	"sluice/blob"
	"sluice/test/testenv"
)

func TestFrameRanges(t *testing.T) {
	content := []byte("0123456789abcdef")
	size := int64(len(content))
	for _, contentType := range []string{"text/plain; charset=utf-8", ""} {
		for _, ranges := range [][]blob.Range{spans(0, 1, 5, 3), spans(15, 1, 0, 2, 4, 10), spans(0, 16)} {
			m := FrameRanges(ranges, contentType, size, NewBoundary())
			var body bytes.Buffer
			for _, p := range m.Parts {
				body.WriteString(p.Header)
				body.Write(content[p.Off : p.Off+p.N])
			}
			body.WriteString(m.Trailer)
			if int64(body.Len()) != m.Length {
				t.Errorf("%v: %d bytes, announced %d", ranges, body.Len(), m.Length)
			}

			media, params, err := mime.ParseMediaType(m.ContentType)
			if err != nil || media != "multipart/byteranges" {
				t.Fatalf("content type %q: %v", m.ContentType, err)
			}
			reader := multipart.NewReader(&body, params["boundary"])
			for _, r := range ranges {
				part := testenv.Must(reader.NextRawPart())(t)
				got, err := io.ReadAll(part)
				if err != nil || !bytes.Equal(got, content[r.Off:r.Off+r.N]) {
					t.Errorf("part %v: %q, %v", r, got, err)
				}
				if part.Header.Get("Content-Range") != ContentRange(r, size) || part.Header.Get("Content-Type") != contentType {
					t.Errorf("part %v: header %v", r, part.Header)
				}
			}
			testenv.Is(t, testenv.Error(reader.NextRawPart()), io.EOF, "after the last part")
		}
	}
	if a, b := NewBoundary(), NewBoundary(); a == b || len(a) < 20 || len(a) > 70 {
		t.Errorf("boundaries %q and %q", a, b)
	}
}
