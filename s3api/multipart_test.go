package s3api

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/test/testenv"
)

// begin begins an upload and returns its id.
func (s *service) begin(t *testing.T, path string, fields ...string) string {
	t.Helper()
	begun := decodedAs[struct {
		UploadID string `xml:"UploadId"`
	}](t, s.want(t, 200, "POST", path+"?uploads", "", fields...).body)
	if begun.UploadID == "" {
		t.Fatal("an upload has no id")
	}
	return begun.UploadID
}

// part stores a part and returns its ETag.
func (s *service) part(t *testing.T, path, id string, number int, body string, fields ...string) string {
	t.Helper()
	res := s.want(t, 200, "PUT", fmt.Sprintf("%s?uploadId=%s&partNumber=%d", path, id, number), body, fields...)
	testenv.Equal(t, res.Header.Get("ETag"), etagOf(body), "the ETag of part %d", number)
	return res.Header.Get("ETag")
}

// named is a part in the body that completes an upload.
type named struct {
	number int
	etag   string
}

// completion returns the body that names parts.
func completion(parts ...named) string {
	var b strings.Builder
	b.WriteString("<CompleteMultipartUpload>")
	for _, p := range parts {
		fmt.Fprintf(&b, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", p.number, strings.ReplaceAll(p.etag, `"`, "&quot;"))
	}
	b.WriteString("</CompleteMultipartUpload>")
	return b.String()
}

// TestUploadWithGaps: parts of any size and number make an object, and parts that Complete does not
// name are gone. Repeated, Complete has the same answer. Invariant 189.
func TestUploadWithGaps(t *testing.T) {
	s := newService(t)
	const path = "/bucket/a"
	id := s.begin(t, path, "Content-Type", "text/plain", "X-Amz-Meta-A", "b")
	big := strings.Repeat("x", minPart)
	first := s.part(t, path, id, 3, big+"third")
	s.part(t, path, id, 4, "not named")
	s.part(t, path, id, 10_000, "replaced")
	last := s.part(t, path, id, 10_000, "last")
	s.part(t, path, id, 7, big)
	second := s.part(t, path, id, 8, big+"8")
	body := completion(named{3, first}, named{8, second}, named{10_000, last})
	done := s.want(t, 200, "POST", path+"?uploadId="+id, body)
	again := s.want(t, 200, "POST", path+"?uploadId="+id, body)
	testenv.Equal(t, again.body, done.body, "the repeated answer")
	whole := big + "third" + big + "8last"
	if !strings.Contains(done.body, strings.Trim(etagOf(whole), `"`)) {
		t.Errorf("the answer is %s", done.body)
	}
	res := s.want(t, 200, "GET", path, "")
	testenv.Equal(t, res.body == whole, true, "the object is what was named")
	testenv.Equal(t, res.Header.Get("X-Amz-Meta-A")+res.Header.Get("Content-Type"), "btext/plain", "what the upload said of it")
	res = s.want(t, 206, "GET", path+"?partNumber=8", "")
	testenv.Equal(t, res.body == big+"8", true, "the second part's bytes")
	testenv.Equal(t, res.Header.Get("X-Amz-Mp-Parts-Count"), "3", "how many parts there are")
	res = s.want(t, 206, "GET", path, "", "Range", "bytes="+strconv.Itoa(2*minPart+4)+"-"+strconv.Itoa(2*minPart+7))
	testenv.Equal(t, res.body, "x8la", "a range over a part's end")
	s.refused(t, 404, "NoSuchUpload", "PUT", path+"?partNumber=1&uploadId="+id, "late")
	s.refused(t, 404, "NoSuchUpload", "GET", path+"?uploadId="+id, "")
}

// Invariant 189.
func TestCompleteRefuses(t *testing.T) {
	s := newService(t)
	const path = "/bucket/a"
	id := s.begin(t, path)
	one, two := s.part(t, path, id, 1, "one"), s.part(t, path, id, 2, "two")
	for _, test := range []struct{ code, body string }{
		{"EntityTooSmall", completion(named{1, one}, named{2, two})},
		{"InvalidPartOrder", completion(named{2, two}, named{1, one})},
		{"InvalidPartOrder", completion(named{1, one}, named{1, one})},
		{"InvalidPart", completion(named{1, two})},
		{"InvalidPart", completion(named{1, `"d41d8cd98f00b204e9800998ecf8427e"`})},
		{"InvalidPart", completion(named{3, one})},
		{"MalformedXML", completion()},
		{"MalformedXML", ""},
		{"MalformedXML", completion(named{0, one})},
		{"MalformedXML", completion(named{10_001, one})},
		{"MalformedXML", "<!DOCTYPE a [<!ENTITY b \"1\">]>" + completion(named{1, one})},
		{"MalformedXML", completion(named{1, one}) + "<more/>"},
	} {
		s.refused(t, 400, test.code, "POST", path+"?uploadId="+id, test.body)
	}
	if text := s.refused(t, 400, "InvalidPart", "POST", path+"?uploadId="+id, completion(named{3, one})).body; !strings.Contains(text, "Part 3: ") {
		t.Errorf("the part's number is not named: %s", text)
	}
	s.refused(t, 404, "NoSuchUpload", "POST", "/bucket/other?uploadId="+id, completion(named{1, one}))
	s.refused(t, 404, "NoSuchUpload", "POST", path+"?uploadId=unknown", completion(named{1, one}))
	s.refused(t, 400, "InvalidRequest", "POST", path+"?uploadId="+id, completion(named{1, one}), "X-Amz-Mp-Object-Size", "4")
	s.refused(t, 400, "BadDigest", "POST", path+"?uploadId="+id, completion(named{1, one}), "X-Amz-Checksum-Crc64nvme", crc64Text(1))
	s.want(t, 404, "HEAD", path, "")
	s.want(t, 200, "PUT", path, "there")
	s.refused(t, 412, "PreconditionFailed", "POST", path+"?uploadId="+id, completion(named{1, one}), "If-None-Match", "*")
	s.want(t, 200, "POST", path+"?uploadId="+id, completion(named{1, one}), "If-Match", etagOf("there"), "X-Amz-Mp-Object-Size", "3",
		"X-Amz-Checksum-Crc64nvme", crc64Text(crcOf("one")))
	testenv.Equal(t, s.want(t, 200, "GET", path, "").body, "one", "the object")
}

func TestPartsAreListed(t *testing.T) {
	s := newService(t)
	const path = "/bucket/a"
	id := s.begin(t, path)
	for _, number := range []int{1, 5, 9, 10_000} {
		s.part(t, path, id, number, strings.Repeat("x", number%7+1))
	}
	type page struct {
		PartNumberMarker, NextPartNumberMarker, MaxParts int
		IsTruncated                                      bool
		Part                                             []struct {
			PartNumber int
			Size       int64
			ETag       string
		}
	}
	var numbers []string
	for marker := 0; ; {
		p := decodedAs[page](t, s.want(t, 200, "GET", fmt.Sprintf("%s?uploadId=%s&max-parts=2&part-number-marker=%d", path, id, marker), "").body)
		for _, part := range p.Part {
			numbers = append(numbers, fmt.Sprint(part.PartNumber))
			testenv.Equal(t, part.ETag, etagOf(strings.Repeat("x", part.PartNumber%7+1)), "an ETag")
		}
		if marker = p.NextPartNumberMarker; !p.IsTruncated {
			break
		}
	}
	testenv.Equal(t, strings.Join(numbers, " "), "1 5 9 10000", "the parts")
	for _, number := range []string{"0", "10001", "x", "-1", ""} {
		s.refused(t, 400, "InvalidArgument", "PUT", path+"?uploadId="+id+"&partNumber="+number, "x")
	}
	s.want(t, 204, "DELETE", path+"?uploadId="+id, "")
	s.refused(t, 404, "NoSuchUpload", "GET", path+"?uploadId="+id, "")
	s.refused(t, 404, "NoSuchUpload", "DELETE", "/bucket/other?uploadId="+id, "")
}

// TestPartsOfOtherObjects: UploadPartCopy makes an object, or a range from it, a part.
func TestPartsOfOtherObjects(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/other/source", "0123456789")
	id := s.begin(t, "/bucket/a")
	copied := func(number int, fields ...string) string {
		t.Helper()
		res := s.want(t, 200, "PUT", fmt.Sprintf("/bucket/a?uploadId=%s&partNumber=%d", id, number), "", append([]string{"X-Amz-Copy-Source", "/other/source"}, fields...)...)
		return decodedAs[struct{ ETag string }](t, res.body).ETag
	}
	testenv.Equal(t, copied(1), etagOf("0123456789"), "a part of all bytes")
	testenv.Equal(t, copied(2, "X-Amz-Copy-Source-Range", "bytes=2-4"), etagOf("234"), "a part with a range")
	for _, field := range []string{"bytes=5-10", "bytes=4-2", "bytes=-3", "2-4", "bytes=2-"} {
		s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/a?partNumber=3&uploadId="+id, "", "X-Amz-Copy-Source", "/other/source", "X-Amz-Copy-Source-Range", field)
	}
	s.refused(t, 404, "NoSuchKey", "PUT", "/bucket/a?partNumber=3&uploadId="+id, "", "X-Amz-Copy-Source", "/other/none")
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/a?partNumber=3&uploadId="+id, "", "X-Amz-Copy-Source", "/other/source", "X-Amz-Copy-Source-If-Match", `"x"`)
	s.want(t, 200, "POST", "/bucket/a?uploadId="+id, completion(named{2, etagOf("234")}))
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").body, "234", "the object")
}

func TestAttributes(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x")
	res := s.want(t, 200, "GET", "/bucket/a?attributes", "", "X-Amz-Object-Attributes", "ETag,Checksum, ObjectSize,StorageClass,ObjectParts")
	got := decodedAs[struct {
		ETag, StorageClass string
		ObjectSize         int
		Checksum           struct{ ChecksumCRC64NVME string }
	}](t, res.body)
	testenv.Equal(t, got.ETag, strings.Trim(etagOf("x"), `"`), "the ETag")
	testenv.Equal(t, got.Checksum.ChecksumCRC64NVME, crc64Text(crcOf("x")), "the checksum")
	testenv.Equal(t, got.StorageClass+fmt.Sprint(got.ObjectSize), "STANDARD1", "the class and the size")
	s.refused(t, 400, "InvalidRequest", "GET", "/bucket/a?attributes", "")
	s.refused(t, 400, "InvalidArgument", "GET", "/bucket/a?attributes", "", "X-Amz-Object-Attributes", "Color")
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/b?attributes", "", "X-Amz-Object-Attributes", "ETag")
}

// TestPartsAreComparedWithTheirChecksums: a completion may state a part's checksum, which must be
// the part's.
func TestPartsAreComparedWithTheirChecksums(t *testing.T) {
	s := newService(t)
	id := s.begin(t, "/bucket/a")
	etag := s.part(t, "/bucket/a", id, 1, "x")
	complete := func(crc string) string {
		return strings.Replace(completion(named{1, etag}), "</Part>", "<ChecksumCRC64NVME>"+crc+"</ChecksumCRC64NVME></Part>", 1)
	}
	s.refused(t, 400, "InvalidPart", "POST", "/bucket/a?uploadId="+id, complete(crc64Text(crcOf("y"))))
	s.want(t, 200, "POST", "/bucket/a?uploadId="+id, complete(crc64Text(crcOf("x"))))
}

// TestEmptyPart: clients that do not know an object's size send an empty one as an empty part.
func TestEmptyPart(t *testing.T) {
	s := newService(t)
	id := s.begin(t, "/bucket/a")
	s.want(t, 200, "POST", "/bucket/a?uploadId="+id, completion(named{1, s.part(t, "/bucket/a", id, 1, "")}))
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").body, "", "the object")
	big := strings.Repeat("x", minPart)
	id = s.begin(t, "/bucket/b")
	s.want(t, 200, "POST", "/bucket/b?uploadId="+id, completion(named{2, s.part(t, "/bucket/b", id, 2, big)}, named{5, s.part(t, "/bucket/b", id, 5, "")}))
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/b", "").body == big, true, "the object has its bytes")
}

// TestUploadsAreListed lists open uploads by key, in groups and pages.
func TestUploadsAreListed(t *testing.T) {
	s := newService(t)
	ids := map[string]string{}
	for _, key := range []string{"b", "a/1", "a/2", "c"} {
		ids[key] = s.begin(t, "/bucket/"+key)
	}
	again := s.begin(t, "/bucket/b")
	type page struct {
		IsTruncated                       bool
		NextKeyMarker, NextUploadIDMarker string
		Upload                            []struct {
			Key      string
			UploadID string `xml:"UploadId"`
		}
		CommonPrefixes []struct{ Prefix string }
	}
	var got []string
	query := "/bucket?uploads&delimiter=/&max-uploads=2"
	for next := query; ; {
		body := s.want(t, 200, "GET", next, "").body
		p := decodedAs[page](t, strings.ReplaceAll(body, "NextUploadIdMarker", "NextUploadIDMarker"))
		for _, group := range p.CommonPrefixes {
			got = append(got, group.Prefix)
		}
		for _, u := range p.Upload {
			got = append(got, u.Key+" "+u.UploadID)
		}
		if !p.IsTruncated {
			break
		}
		next = query + "&key-marker=" + p.NextKeyMarker + "&upload-id-marker=" + p.NextUploadIDMarker
	}
	testenv.Equal(t, strings.Join(got, ", "), "a/, b "+ids["b"]+", b "+again+", c "+ids["c"], "the uploads")
	for marker, status := range map[string]int{"b&upload-id-marker=unknown": 400, "a&upload-id-marker=" + again: 400, "b&upload-id-marker=" + again: 200, "&upload-id-marker=unknown": 200} {
		if status == 200 {
			s.want(t, 200, "GET", "/bucket?uploads&key-marker="+marker, "")
		} else {
			s.refused(t, 400, "InvalidArgument", "GET", "/bucket?uploads&key-marker="+marker, "")
		}
	}
}

// TestPartsOfLargeObjects makes parts of an object that is too large to be kept inline, several at
// once.
func TestPartsOfLargeObjects(t *testing.T) {
	s := newService(t)
	const size = 6 << 20
	source := strings.Repeat("0123456789abcdef", 4*size/16)
	s.want(t, 200, "PUT", "/bucket/source", source)
	id := s.begin(t, "/bucket/a")
	var parts sync.WaitGroup
	named := make([]named, 4)
	for i := range named {
		parts.Go(func() {
			res := s.want(t, 200, "PUT", fmt.Sprintf("/bucket/a?uploadId=%s&partNumber=%d", id, i+1), "", "X-Amz-Copy-Source", "/bucket/source",
				"X-Amz-Copy-Source-Range", fmt.Sprintf("bytes=%d-%d", i*size, (i+1)*size-1))
			named[i].number, named[i].etag = i+1, decodedAs[struct{ ETag string }](t, res.body).ETag
		})
	}
	parts.Wait()
	s.want(t, 200, "POST", "/bucket/a?uploadId="+id, completion(named...))
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "").body == source, true, "the copy has the source's bytes")
}
