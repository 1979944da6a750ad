package document

import (
	"encoding/xml"
	"fmt"
	"testing"
	"time"
)

// BenchmarkPage writes a page of 1,000 keys, beside encoding/xml alone.
func BenchmarkPage(b *testing.B) {
	page := ListBucketResultV2{Page: Page{Name: "bucket", MaxKeys: 1000}, KeyCount: 1000}
	for i := range 1000 {
		page.Contents = append(page.Contents, Object{
			Key: Name(fmt.Sprintf("names/%07d", i)), LastModified: Time{time.Unix(int64(i), 0)}, ETag: `"1000-0123456789abcdef"`, Size: 4096,
			ChecksumAlgorithm: "CRC64NVME", ChecksumType: "FULL_OBJECT", StorageClass: "STANDARD",
		})
	}
	b.Run("Encode", func(b *testing.B) {
		for b.Loop() {
			Encode(page)
		}
	})
	b.Run("encoding-xml", func(b *testing.B) {
		for b.Loop() {
			if _, err := xml.Marshal(page); err != nil {
				b.Fatal(err)
			}
		}
	})
}
