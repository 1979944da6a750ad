package s3api

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"sluice/internal/testenv"
	"sluice/s3api/internal/checksums"
)

// TestChecksumsOfCompletions: a checksum that a completion states is compared, and one that is
// wrong or cannot be compared changes nothing.
func TestChecksumsOfCompletions(t *testing.T) {
	s := newService(t)
	bodies := []string{strings.Repeat("a", 5<<20), "tail"}
	whole := checksums.Value{Algorithm: checksums.CRC32, Sum: crc32.NewIEEE().Sum(nil)}
	h := crc32.NewIEEE()
	id := s.begin(t, "/bucket/a")
	var withSums, without strings.Builder
	var values []checksums.Value
	for i, body := range bodies {
		h.Write([]byte(body))
		one := checksums.CRC32.New()
		one.Write([]byte(body))
		values = append(values, checksums.Value{Algorithm: checksums.CRC32, Sum: one.Sum(nil)})
		res := s.want(t, 200, "PUT", fmt.Sprintf("/bucket/a?partNumber=%d&uploadId=%s", i+1, id), body, "X-Amz-Checksum-Crc32", values[i].String())
		part := fmt.Sprintf("<PartNumber>%d</PartNumber><ETag>%s</ETag>", i+1, res.Header.Get("Etag"))
		without.WriteString("<Part>" + part + "</Part>")
		withSums.WriteString("<Part>" + part + "<ChecksumCRC32>" + values[i].String() + "</ChecksumCRC32></Part>")
	}
	whole.Sum = h.Sum(nil)
	composite := checksums.CompositeOf(checksums.CRC32, values)
	complete := func(parts string) string { return "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>" }
	path := "/bucket/a?uploadId=" + id
	wrong := values[0].String()
	for _, test := range []struct{ code, parts, field, value string }{
		{"BadDigest", withSums.String(), "X-Amz-Checksum-Crc32", wrong},
		{"BadDigest", withSums.String(), "X-Amz-Checksum-Crc32", wrong + "-2"},
		{"BadDigest", withSums.String(), "X-Amz-Checksum-Crc32", strings.Replace(composite, "-2", "-3", 1)},
		{"BadDigest", without.String(), "X-Amz-Checksum-Crc64nvme", "i+6LR0y3eFo="},
		{"InvalidRequest", withSums.String(), "X-Amz-Checksum-Crc32", "bad"},
		{"InvalidRequest", without.String(), "X-Amz-Checksum-Crc32", whole.String()},
		{"InvalidRequest", withSums.String(), "X-Amz-Checksum-Sha256", "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4=-2"},
	} {
		s.refused(t, 400, test.code, "POST", path, complete(test.parts), test.field, test.value)
	}
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/a", "")
	type result struct{ ChecksumCRC32, ChecksumCRC64NVME, ChecksumType string }
	// A completion can be repeated.
	for value, kind := range map[string]string{whole.String(): "FULL_OBJECT", composite: "COMPOSITE"} {
		got := decodedAs[result](t, s.want(t, 200, "POST", path, complete(withSums.String()), "X-Amz-Checksum-Crc32", value).body)
		if got.ChecksumCRC32 != value || got.ChecksumType != kind || got.ChecksumCRC64NVME == "" {
			t.Errorf("%s: %+v", value, got)
		}
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").body, strings.Join(bodies, ""), "the object")
}
