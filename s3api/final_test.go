package s3api

import (
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/checksums"
	"sluice/test/testenv"
)

// TestChecksumsOfCompletions: a checksum that a completion states is compared, and one that is
// wrong or cannot be compared changes nothing.
// Invariant 183.
func TestChecksumsOfCompletions(t *testing.T) {
	s := newService(t)
	bodies := []string{strings.Repeat("a", 5<<20), "tail"}
	whole := checksums.Value{Algorithm: checksums.CRC32, Sum: crc32.NewIEEE().Sum(nil)}
	h := crc32.NewIEEE()
	id := s.begin(t, "/bucket/a")
	none := s.begin(t, "/bucket/none")
	etag := s.part(t, "/bucket/none", none, 1, "x", "X-Amz-Checksum-Crc64nvme", crc64Text(crcOf("x")))
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
		{"BadDigest", without.String(), "X-Amz-Checksum-Crc32", wrong},
		{"BadDigest", without.String(), "X-Amz-Checksum-Crc32", wrong + "-2"},
		{"InvalidPart", strings.Replace(withSums.String(), wrong, whole.String(), 1), "X-Amz-Checksum-Crc32", whole.String()},
		{"InvalidPart", strings.ReplaceAll(withSums.String(), "CRC32>", "CRC32C>"), "X-Amz-Checksum-Crc32", whole.String()},
		{"InvalidRequest", withSums.String(), "X-Amz-Checksum-Sha256", "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4=-2"},
	} {
		s.refused(t, 400, test.code, "POST", path, complete(test.parts), test.field, test.value)
	}
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/a", "")
	// A part that was uploaded without a checksum does not get the client's word as one.
	s.refused(t, 400, "InvalidPart", "POST", "/bucket/none?uploadId="+none,
		strings.Replace(completion(named{1, etag}), "</Part>", "<ChecksumCRC32>"+wrong+"</ChecksumCRC32></Part>", 1))
	s.refused(t, 400, "InvalidRequest", "POST", "/bucket/none?uploadId="+none, completion(named{1, etag}), "X-Amz-Checksum-Crc32", wrong+"-1")
	for range 2 { // a completion can be repeated
		s.want(t, 200, "POST", path, complete(withSums.String()), "X-Amz-Checksum-Crc32", whole.String())
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").body, strings.Join(bodies, ""), "the object")
	s.wantChecksum(t, "/bucket/a", "Crc32", whole.String(), "FULL_OBJECT")
	for i, v := range values {
		part := fmt.Sprint("/bucket/a?partNumber=", i+1)
		h := s.want(t, 206, "GET", part, "", "X-Amz-Checksum-Mode", "ENABLED").Header
		testenv.Equal(t, h.Get("X-Amz-Checksum-Crc32")+" "+h.Get("X-Amz-Checksum-Type"), v.String()+" FULL_OBJECT", "the checksum of part %d", i+1)
		testenv.Equal(t, s.want(t, 206, "HEAD", part, "").Header.Get("X-Amz-Checksum-Crc32"), "", "a part's checksum that was not asked for")
	}
}

// keptSums are the checksums in a document.
type keptSums struct {
	ChecksumAlgorithm, ChecksumCRC32, ChecksumSHA1, ChecksumSHA256, ChecksumCRC64NVME, ChecksumType string
}

// wantChecksum checks the checksum that an object's readers get, or with no sum the CRC-64/NVME.
func (s *service) wantChecksum(t *testing.T, path, algorithm, sum, kind string) {
	t.Helper()
	name := "X-Amz-Checksum-" + algorithm
	for _, method := range []string{"GET", "HEAD"} {
		h := s.want(t, 200, method, path, "", "X-Amz-Checksum-Mode", "ENABLED").Header
		testenv.Equal(t, h.Get(name)+" "+h.Get("X-Amz-Checksum-Type"), sum+" "+kind, "the checksum of %s %s", method, path)
		testenv.Equal(t, h.Get(fieldCRC64) == "", sum != "" && name != fieldCRC64, "no other checksum")
		testenv.Equal(t, s.want(t, 200, method, path, "").Header.Get(name), "", "a checksum that was not asked for")
	}
	testenv.Equal(t, s.want(t, 206, "GET", path, "", "X-Amz-Checksum-Mode", "ENABLED", "Range", "bytes=0-0").Header.Get(name), "", "a range's checksum")
	testenv.Equal(t, s.refused(t, 412, "PreconditionFailed", "GET", path, "", "If-Match", `"other"`).Header.Get(name), "", "an error's checksum")
	body := s.want(t, 200, "GET", path+"?attributes", "", "X-Amz-Object-Attributes", "Checksum").body
	if want := "<Checksum" + strings.ToUpper(algorithm) + ">" + sum + "<"; sum != "" && !strings.Contains(body, want) || !strings.Contains(body, kind) {
		t.Errorf("the attributes of %s are %s", path, body)
	}
}

// TestErrorsHaveNoChecksum: the checksum that was set for a read that then fails is not sent.
func TestErrorsHaveNoChecksum(t *testing.T) {
	sent := http.Header{}
	x := call{}
	x.Fields = exchange.NewFields(sent)
	x.setChecksums(&metastore.Blob{Metadata: fieldOf(checksums.SHA256) + ":sum\n"})
	testenv.Equal(t, len(x.Fields.All()), 2, "the fields of a read: %v", sent)
	removeObjectFields(&x.Fields)
	testenv.Equal(t, len(x.Fields.All()), 0, "the fields of an error: %v", sent)
}

// TestKeptChecksums: an object keeps the checksum that its writer has stated, in a header or a
// trailer, until other bytes replace it, and copies have it.
// Invariant 183.
func TestKeptChecksums(t *testing.T) {
	s := newService(t)
	const body = "checked"
	for _, a := range checksums.Algorithms() {
		h := a.New()
		h.Write([]byte(body))
		sum, name := checksums.Value{Algorithm: a, Sum: h.Sum(nil)}.String(), strings.TrimPrefix(fieldOf(a), "X-Amz-Checksum-")
		s.want(t, 200, "PUT", "/bucket/a", body, fieldOf(a), sum, "X-Amz-Meta-Color", "red", "X-Amz-Tagging", "b=c")
		s.want(t, 200, "PUT", "/bucket/b", "7\r\nchecked\r\n0\r\n"+a.Header()+":"+sum+"\r\n\r\n", "X-Amz-Trailer", a.Header(), "X-Amz-Decoded-Content-Length", "7")
		s.want(t, 200, "PUT", "/bucket/copy", "", "X-Amz-Copy-Source", "bucket/b")
		s.want(t, 200, "PUT", "/bucket/described", "", "X-Amz-Copy-Source", "bucket/a", "X-Amz-Metadata-Directive", "REPLACE", "X-Amz-Tagging-Directive", "REPLACE")
		for _, path := range []string{"/bucket/a", "/bucket/b", "/bucket/copy", "/bucket/described"} {
			s.wantChecksum(t, path, name, sum, "FULL_OBJECT")
		}
		testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").Header.Get("X-Amz-Meta-Color"), "red", "the metadata beside a checksum")
	}
	s.want(t, 200, "PUT", "/bucket/a", "other")
	s.wantChecksum(t, "/bucket/a", "Xxhash128", "", "FULL_OBJECT")
}

// TestChecksumsOfUploads: an upload that is begun for a checksum becomes an object with it, which
// follows from the parts' own. They have it even if they do not state it, and are listed with it.
// Invariant 183.
func TestChecksumsOfUploads(t *testing.T) {
	s := newService(t)
	value := func(a checksums.Algorithm, body string) checksums.Value {
		h := a.New()
		h.Write([]byte(body))
		return checksums.Value{Algorithm: a, Sum: h.Sum(nil)}
	}
	bodies := []string{strings.Repeat("a", 5<<20), "tail"}
	for name, test := range map[string]struct {
		algorithm  checksums.Algorithm
		kind, want string
		lacks      bool // whether a part states no checksum, and the completion repeats none
	}{
		"composite":       {checksums.SHA256, "COMPOSITE", checksums.CompositeOf(checksums.SHA256, []checksums.Value{value(checksums.SHA256, bodies[0]), value(checksums.SHA256, bodies[1])}), false},
		"composite CRC":   {checksums.CRC32, "COMPOSITE", checksums.CompositeOf(checksums.CRC32, []checksums.Value{value(checksums.CRC32, bodies[0]), value(checksums.CRC32, bodies[1])}), false},
		"full":            {checksums.CRC32, "FULL_OBJECT", value(checksums.CRC32, bodies[0]+bodies[1]).String(), false},
		"lacks":           {checksums.SHA1, "COMPOSITE", checksums.CompositeOf(checksums.SHA1, []checksums.Value{value(checksums.SHA1, bodies[0]), value(checksums.SHA1, bodies[1])}), true},
		"does not follow": {checksums.MD5, "FULL_OBJECT", "", false},
	} {
		path := "/bucket/" + strings.ReplaceAll(name, " ", "-")
		algorithm := string(test.algorithm)
		id := s.begin(t, path, "X-Amz-Checksum-Algorithm", algorithm, "X-Amz-Checksum-Type", test.kind, "X-Amz-Meta-Color", "red")
		var parts strings.Builder
		for i, body := range bodies {
			sum, part := value(test.algorithm, body).String(), fmt.Sprintf("%s?partNumber=%d&uploadId=%s", path, i+1, id)
			stated := []string{fieldOf(test.algorithm), sum}
			if test.lacks {
				stated = nil
			}
			if i == 1 {
				s.refused(t, 400, "InvalidRequest", "PUT", part, body, fieldOf(checksums.XXHash64), value(checksums.XXHash64, body).String())
			}
			res := s.want(t, 200, "PUT", part, body, stated...)
			testenv.Equal(t, res.Header.Get(fieldOf(test.algorithm)), sum, "the checksum of a part of %s", name)
			if test.lacks && i == 1 { // a copy has it, too
				s.want(t, 200, "PUT", "/bucket/source", "the "+body)
				copied := s.want(t, 200, "PUT", part, "", "X-Amz-Copy-Source", "/bucket/source", "X-Amz-Copy-Source-Range", "bytes=4-7").body
				testenv.Equal(t, decodedAs[keptSums](t, copied).ChecksumSHA1, sum, "the checksum of a copied part")
			}
			fmt.Fprintf(&parts, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag>", i+1, res.Header.Get("Etag"))
			if !test.lacks {
				fmt.Fprintf(&parts, "<Checksum%s>%s</Checksum%[1]s>", algorithm, sum)
			}
			parts.WriteString("</Part>")
		}
		for _, list := range []string{path + "?uploadId=" + id, "/bucket?uploads"} {
			if text := s.want(t, 200, "GET", list, "").body; !strings.Contains(text, "<ChecksumAlgorithm>"+algorithm+"</ChecksumAlgorithm><ChecksumType>"+test.kind) {
				t.Errorf("%s lacks %s: %s", list, algorithm, text)
			} else if list != "/bucket?uploads" {
				s.wantPartSums(t, text, test.algorithm, value(test.algorithm, bodies[0]), value(test.algorithm, bodies[1]))
			}
		}
		stated, _, _ := strings.Cut(test.want, "-")
		for _, fields := range [][]string{nil, {fieldOf(test.algorithm), stated}} { // a completion can be repeated
			if test.want == "" {
				fields = nil
			}
			text := s.want(t, 200, "POST", path+"?uploadId="+id, "<CompleteMultipartUpload>"+parts.String()+"</CompleteMultipartUpload>", fields...).body
			got := decodedAs[keptSums](t, text)
			testenv.Equal(t, got.ChecksumCRC32+got.ChecksumSHA1+got.ChecksumSHA256, test.want, "%s: the checksum in %s", name, text)
		}
		if test.want == "" {
			test.kind = "FULL_OBJECT" // the CRC-64/NVME's
		}
		text := s.want(t, 200, "GET", path+"?attributes", "", "X-Amz-Object-Attributes", "ObjectParts").body
		s.wantPartSums(t, text, test.algorithm, value(test.algorithm, bodies[0]), value(test.algorithm, bodies[1]))
		s.wantChecksum(t, path, strings.TrimPrefix(fieldOf(test.algorithm), "X-Amz-Checksum-"), test.want, test.kind)
		testenv.Equal(t, s.want(t, 200, "GET", path, "").Header.Get("X-Amz-Meta-Color"), "red", "the metadata")
	}
	s.refused(t, 400, "InvalidRequest", "POST", "/bucket/a?uploads", "", "X-Amz-Checksum-Type", "COMPOSITE")
}

// wantPartSums checks the checksums that a list of parts has.
func (s *service) wantPartSums(t *testing.T, list string, a checksums.Algorithm, sums ...checksums.Value) {
	t.Helper()
	for _, sum := range sums {
		if !strings.Contains(list, fmt.Sprintf("<Checksum%s>%s</Checksum%[1]s></Part>", a, sum)) {
			t.Errorf("the parts lack the %s %s: %s", a, sum, list)
		}
	}
}
