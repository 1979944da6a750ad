package meta

import (
	"bytes"
	"testing"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

// FuzzChange checks that a change is refused, or has a meaning that its encoding keeps.
func FuzzChange(f *testing.F) {
	at := time.UnixMicro(1_700_000_000_123_456)
	for _, b := range []metastore.Blob{
		{},
		{Owner: "o", Size: 1 << 40, CRC64: 1<<64 - 1, ContentType: "text/plain", Modified: at, Expires: at.Add(time.Hour), Content: metastore.NewContentID(at)},
		{Expires: time.UnixMicro(-5)},
	} {
		f.Add(appendChange(nil, metastore.ChangeStored, at, metastore.BlobName{Account: "0x1", Name: "a/b"}, &b))
	}
	f.Add([]byte{15: 0, 16: 1, 17: 0, 18: 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		c, err := unpackChange(p)
		if err != nil {
			return
		}
		got := c.change(metastore.FeedPosition{Generation: 1, Number: 2})
		b := metastore.Blob{Owner: string(c.owner), Size: c.size, CRC64: c.crc64, ContentType: got.ContentType, Modified: got.Version.Modified(), Expires: got.Expires}
		copy(b.Content[8:], got.Version[8:])
		again := appendChange(nil, got.Kind, got.Time, metastore.BlobName{Account: got.Account, Name: got.Name}, &b)
		second, err := unpackChange(again)
		testenv.OK(t, err)
		testenv.Equal(t, second.change(got.Position), got, "the change")
		testenv.Equal(t, string(second.owner), string(c.owner), "the owner")
		if len(again) == len(p) && !bytes.Equal(again, p) {
			t.Errorf("%x was encoded as %x", p, again)
		}
	})
}

// TestAppendChangeAllocatesNothing checks that a write pays no allocation for its change.
func TestAppendChangeAllocatesNothing(t *testing.T) {
	b := metastore.Blob{Account: "a", Name: "n", Owner: "o", Size: 4096, ContentType: "text/plain", Modified: time.Now()}
	p := make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(100, func() {
		p = appendChange(p[:0], metastore.ChangeStored, b.Modified, metastore.BlobName{Account: b.Account, Name: b.Name}, &b)
	}); n > 0 {
		t.Errorf("a change allocates %v times", n)
	}
}
