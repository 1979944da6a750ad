package document

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestDecodedMemoryIsCounted decodes the largest documents of each shape, and compares the memory
// in use with the count for it. Nothing is read behind a refused element. Invariant 75.
func TestDecodedMemoryIsCounted(t *testing.T) {
	const size, spare = 8 << 20, 256 << 10
	filled := func(each string) string { return strings.Repeat(each, size/len(each)) }
	many := func(n int, each string) string { return strings.Repeat(each, n) }
	key := func(k string) string { return "<Object><Key>" + k + "</Key></Object>" }
	for _, test := range []struct {
		name, root, content string
		want                error
	}{
		{"short keys", "Delete", many(MostDeletes, key("k")), nil},
		{"long keys", "Delete", many(MostDeletes, key(strings.Repeat("ü", 1024))), nil},
		{"keys of references", "Delete", many(MostDeletes, key(strings.Repeat("&quot;", 1024))), nil},
		{"keys that are too long", "Delete", many(MostDeletes, key(strings.Repeat("k", 8000))), ErrMalformed},
		{"long conditions", "Delete", many(MostDeletes, "<Object><Key>k</Key><ETag>"+strings.Repeat("e", 8000)+"</ETag></Object>"), nil},
		{"empty keys", "Delete", filled("<Object/>"), ErrMalformed},
		{"many keys", "Delete", filled(key("k")), ErrMalformed},
		{"many elements", "Delete", filled("<a/>"), ErrMalformed},
		{"one text", "Delete", key(filled("k")), ErrMalformed},
		{"one text in pieces", "Delete", key(filled("k<!-- -->")), ErrMalformed},
		{"many texts of a key", "Delete", "<Object>" + filled("<Key>k</Key>") + "</Object>", ErrMalformed},
		{"spaces", "Delete", filled(" "), ErrMalformed},
		{"attributes", "Delete", "<Object" + filled(` a="b"`) + "/>", ErrMalformed},
		{"nested", "Delete", filled("<Object>"), ErrMalformed},
		{"a comment", "Delete", "<!--" + filled("c") + "-->", ErrMalformed},
		{"many Quiet", "Delete", filled("<Quiet>true</Quiet>"), ErrMalformed},
		{"parts", "CompleteMultipartUpload", many(MostParts, "<Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>"), nil},
		{"parts with everything", "CompleteMultipartUpload", many(MostParts, "<Part><PartNumber>10000</PartNumber><ETag>"+strings.Repeat("e", 500)+
			"</ETag><ChecksumSHA256>"+strings.Repeat("c", 44)+"</ChecksumSHA256></Part>"), nil},
		{"many parts", "CompleteMultipartUpload", filled("<Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>"), ErrMalformed},
		{"many checksums", "CompleteMultipartUpload", "<Part>" + filled("<ChecksumSHA1>a</ChecksumSHA1>") + "</Part>", ErrMalformed},
		{"empty parts", "CompleteMultipartUpload", filled("<Part/>"), ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := "<" + test.root + ">" + test.content + "</" + test.root + ">"
			body := &counted{Reader: strings.NewReader(text)}
			before := testenv.Heap()
			var counted int64
			hold := func(n int64) error {
				counted = n
				return nil
			}
			var parts []CompletedPart
			var keys Delete
			var err error
			if test.root == "Delete" {
				keys, err = DecodeDelete(body, hold)
			} else {
				parts, err = DecodeComplete(body, hold)
			}
			most := testenv.Heap() - before
			runtime.KeepAlive(parts)
			runtime.KeepAlive(keys)
			t.Logf("%d bytes of %d were read: %d are in memory, %d are counted (%.100v)", body.n, len(text), most, counted, err)
			testenv.Is(t, err, test.want, "the error")
			if most > counted+spare {
				t.Errorf("%d bytes are in memory, and %d are counted", most, counted)
			}
			if counted > 16<<20 {
				t.Errorf("%d bytes are counted, more than a caller may have", counted)
			}
			if err != nil && body.n > size/2 && len(keys.Objects)+len(parts) == 0 && test.name != "keys that are too long" {
				t.Errorf("%d bytes were read of a document that is refused", body.n)
			}
		})
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// TestHoldEndsTheDecoding: a document that memory has no room for is not read. Invariant 75.
func TestHoldEndsTheDecoding(t *testing.T) {
	full := errors.New("full")
	body := &counted{Reader: strings.NewReader("<Delete>" + strings.Repeat("<Object><Key>"+strings.Repeat("k", 1000)+"</Key></Object>", MostDeletes) + "</Delete>")}
	_, err := DecodeDelete(body, func(n int64) error {
		if n > 256<<10 {
			return full
		}
		return nil
	})
	testenv.Is(t, err, full, "the error")
	if body.n > 512<<10 {
		t.Errorf("%d bytes were read", body.n)
	}
}

// TestPageMemory measures the memory that pages of lists take while they are written: their keys
// have up to 512 KiB, and each character may be a reference. Invariant 75.
func TestPageMemory(t *testing.T) {
	const most = 7 * 512 << 10 // a little more than is held for a page
	for _, test := range []struct{ name, key, encoding string }{
		{"plain", strings.Repeat("k", 1024), ""}, {"references", strings.Repeat(`"`, 1024), ""}, {"in URLs", strings.Repeat("ü", 512), EncodingURL},
	} {
		page := ListBucketResultV2{Page: Page{EncodingType: test.encoding}}
		for range 512 {
			page.Contents = append(page.Contents, Object{Key: Name(test.key)})
		}
		uploads := ListMultipartUploadsResult{EncodingType: test.encoding}
		for range 400 { // of which each counts 256 bytes more than its name
			owner := Owner{strings.Repeat("a", 66), strings.Repeat("a", 66)}
			uploads.Uploads = append(uploads.Uploads, Upload{Key: Name(test.key), UploadID: strings.Repeat("i", 26), Initiator: owner, Owner: owner, StorageClass: "STANDARD"})
		}
		for kind, page := range map[string]any{"objects": page, "uploads": uploads} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			size := len(Encode(page))
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > most {
				t.Errorf("%s %s: %d bytes were taken for a page of %d", kind, test.name, taken, size)
			}
		}
	}
}
