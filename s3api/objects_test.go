package s3api

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/checksum"
	"sluice/metastore"
	"sluice/test/testenv"
)

// etagOf returns a body's ETag.
func etagOf(body string) string { return checksum.ETag(int64(len(body)), crcOf(body)) }

// sha256Text returns a body's SHA-256 in hexadecimal digits.
func sha256Text(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// crcOf returns a body's CRC-64/NVME, which the standard library computes by its polynomial.
func crcOf(body string) uint64 {
	return crc64.Checksum([]byte(body), crc64.MakeTable(0x9a6c9329ac4bc9b5))
}

func TestObject(t *testing.T) {
	s := newService(t)
	const body = "the bytes of an object"
	res := s.want(t, 200, "PUT", "/bucket/dir/name", body,
		"Content-Type", "text/plain", "Cache-Control", "max-age=5", "Content-Disposition", "inline", "Content-Language", "en",
		"Content-Encoding", "gzip", "Expires", "Thu, 01 Dec 2033 16:00:00 GMT", "X-Amz-Meta-Author", "Zoe", "X-Amz-Meta-Two-Words", "a b")
	testenv.Equal(t, res.Header.Get("ETag"), etagOf(body), "the ETag of a PUT")
	testenv.Equal(t, res.Header.Get("X-Amz-Checksum-Crc64nvme"), crc64Text(crcOf(body)), "the checksum of a PUT")
	for _, method := range []string{"GET", "HEAD"} {
		res := s.want(t, 200, method, "/bucket/dir/name", "", "X-Amz-Checksum-Mode", "ENABLED")
		for name, want := range map[string]string{
			"Content-Type": "text/plain", "Cache-Control": "max-age=5", "Content-Disposition": "inline", "Content-Language": "en", "Content-Encoding": "gzip",
			"Expires": "Thu, 01 Dec 2033 16:00:00 GMT", "X-Amz-Meta-Author": "Zoe", "X-Amz-Meta-Two-Words": "a b", "ETag": etagOf(body),
			"Content-Length": "22", "Accept-Ranges": "bytes", "X-Amz-Checksum-Crc64nvme": crc64Text(crcOf(body)), "X-Amz-Checksum-Type": "FULL_OBJECT",
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox",
		} {
			testenv.Equal(t, res.Header.Get(name), want, "%s: %s", method, name)
		}
		if method == "GET" {
			testenv.Equal(t, res.body, body, "the body")
		}
	}
	res = s.want(t, 200, "PUT", "/bucket/dir/name", "", "X-Amz-Meta-A", "b")
	testenv.Equal(t, res.Header.Get("ETag"), etagOf(""), "the ETag of no bytes")
	res = s.want(t, 200, "GET", "/bucket/dir/name", "")
	testenv.Equal(t, res.body+res.Header.Get("X-Amz-Meta-Author")+res.Header.Get("Cache-Control"), "", "what is left of the object that was replaced")
	s.want(t, 204, "DELETE", "/bucket/dir/name", "")
	s.want(t, 204, "DELETE", "/bucket/dir/name", "")
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/dir/name", "")
	s.want(t, 404, "HEAD", "/bucket/dir/name", "")
}

func TestRanges(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "0123456789")
	for _, test := range []struct{ field, body, contentRange string }{
		{"bytes=0-0", "0", "bytes 0-0/10"},
		{"bytes=2-4", "234", "bytes 2-4/10"},
		{"bytes=8-100", "89", "bytes 8-9/10"},
		{"bytes=7-", "789", "bytes 7-9/10"},
		{"bytes=-3", "789", "bytes 7-9/10"},
		{"bytes=-30", "0123456789", "bytes 0-9/10"},
	} {
		res := s.want(t, 206, "GET", "/bucket/a", "", "Range", test.field)
		testenv.Equal(t, res.body, test.body, "%s", test.field)
		testenv.Equal(t, res.Header.Get("Content-Range"), test.contentRange, "%s", test.field)
		head := s.want(t, 206, "HEAD", "/bucket/a", "", "Range", test.field)
		testenv.Equal(t, head.Header.Get("Content-Range"), test.contentRange, "HEAD of %s", test.field)
		testenv.Equal(t, head.ContentLength, int64(len(test.body)), "HEAD of %s", test.field)
	}
	res := s.refused(t, 416, "InvalidRange", "GET", "/bucket/a", "", "Range", "bytes=10-")
	testenv.Equal(t, res.Header.Get("Content-Range"), "bytes */10", "what a range can be chosen from")
	for _, field := range []string{"bytes=4-2", "lines=1-2", "bytes=a-b"} {
		testenv.Equal(t, s.want(t, 200, "GET", "/bucket/a", "", "Range", field).body, "0123456789", "%s", field)
	}
	// The last bytes of an object are all that there are, if there are fewer (RFC 9110, section
	// 14.1.2), also of an empty one.
	s.want(t, 200, "PUT", "/bucket/empty", "")
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/empty", "", "Range", "bytes=-5").body, "", "the last bytes of an empty object")
	s.refused(t, 416, "InvalidRange", "GET", "/bucket/empty", "", "Range", "bytes=0-")
	// An object that was not uploaded in parts is its own only part.
	testenv.Equal(t, s.want(t, 206, "GET", "/bucket/a?partNumber=1", "").body, "0123456789", "part 1")
	s.refused(t, 416, "InvalidPartNumber", "GET", "/bucket/a?partNumber=2", "")
	s.refused(t, 400, "InvalidArgument", "GET", "/bucket/none?partNumber=0", "")
	s.refused(t, 400, "InvalidRequest", "GET", "/bucket/a?partNumber=1", "", "Range", "bytes=0-1")
}

func TestConditions(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "first", "If-None-Match", "*")
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/a", "second", "If-None-Match", "*")
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/a", "second", "If-Match", `"other"`)
	tag := etagOf("first")
	s.want(t, 200, "GET", "/bucket/a", "", "If-Match", tag)
	s.want(t, 304, "GET", "/bucket/a", "", "If-None-Match", tag)
	s.want(t, 200, "GET", "/bucket/a", "", "If-Match", strings.Trim(tag, `"`))
	s.want(t, 304, "GET", "/bucket/a", "", "If-None-Match", strings.Trim(tag, `"`))
	s.want(t, 304, "HEAD", "/bucket/a", "", "If-None-Match", tag)
	s.refused(t, 412, "PreconditionFailed", "GET", "/bucket/a", "", "If-Match", `"other"`)
	future := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	s.refused(t, 412, "PreconditionFailed", "GET", "/bucket/a", "", "If-Unmodified-Since", past)
	s.want(t, 200, "GET", "/bucket/a", "", "If-Modified-Since", past)
	s.want(t, 200, "GET", "/bucket/a", "", "If-Unmodified-Since", future)
	s.want(t, 200, "PUT", "/bucket/a", "second", "If-Match", tag)
	s.refused(t, 412, "PreconditionFailed", "DELETE", "/bucket/a", "", "If-Match", tag)
	s.want(t, 204, "DELETE", "/bucket/a", "", "If-Match", etagOf("second"))
}

// TestConditionsWithoutAnObject: a write that needs an object is NoSuchKey without one
// ("Conditional writes", Amazon S3 User Guide), and a deletion succeeds (DeleteObject, Amazon S3
// API Reference).
func TestConditionsWithoutAnObject(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/source", "x")
	for _, match := range []string{"*", `"other"`, etagOf("x")} {
		s.refused(t, 404, "NoSuchKey", "PUT", "/bucket/b", "x", "If-Match", match)
		s.refused(t, 404, "NoSuchKey", "PUT", "/bucket/b", "", "If-Match", match, "X-Amz-Copy-Source", "/bucket/source")
		id := s.begin(t, "/bucket/b")
		part := s.want(t, 200, "PUT", "/bucket/b?partNumber=1&uploadId="+id, "x").Header.Get("ETag")
		s.refused(t, 404, "NoSuchKey", "POST", "/bucket/b?uploadId="+id, completion(named{1, part}), "If-Match", match)
		s.want(t, 200, "GET", "/bucket/b?uploadId="+id, "") // it is still open
		s.want(t, 204, "DELETE", "/bucket/b", "", "If-Match", match)
	}
	s.want(t, 204, "DELETE", "/bucket/b", "", "X-Amz-If-Match-Size", "1")
	s.want(t, 204, "DELETE", "/bucket/b", "", "X-Amz-If-Match-Last-Modified-Time", "Thu, 01 Dec 1994 16:00:00 GMT")
	testenv.Equal(t, len(s.deleted(t, "<Object><Key>b</Key><ETag>other</ETag></Object>").Deleted), 1, "keys that are deleted")
	s.want(t, 404, "HEAD", "/bucket/b", "")
}

// TestOverrides: a request may replace fields in its response, which only its signer can state. On
// a local instance everyone may.
func TestOverrides(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x", "Content-Type", "text/plain")
	res := s.want(t, 200, "GET", "/bucket/a?response-content-type=text/csv&response-content-disposition=attachment&response-cache-control=no-store&response-expires=0", "")
	for name, want := range map[string]string{"Content-Type": "text/csv", "Content-Disposition": "attachment", "Cache-Control": "no-store", "Expires": "0"} {
		testenv.Equal(t, res.Header.Get(name), want, "%s", name)
	}
	s.refused(t, 400, "InvalidArgument", "GET", "/bucket/a?response-content-type=a%0Ab:c", "")
	// The type that the browser takes the object for decides how it is guarded.
	s.want(t, 200, "PUT", "/bucket/pdf", "x", "Content-Type", "application/pdf")
	for target, sandboxed := range map[string]bool{"/bucket/pdf": false, "/bucket/pdf?response-content-type=text/html": true, "/bucket/a": true, "/bucket/a?response-content-type=application/pdf": false} {
		got := s.want(t, 200, "GET", target, "").Header.Get("Content-Security-Policy")
		if (got == "sandbox") != sandboxed || got == "" {
			t.Errorf("%s has the policy %q", target, got)
		}
	}
}

func TestExpiry(t *testing.T) {
	s := newService(t)
	begun := time.Now()
	res := s.want(t, 200, "PUT", "/bucket/a", "x", "X-Amz-Meta-Expiration-Seconds", "3600")
	date, rest, ok := strings.Cut(strings.TrimPrefix(res.Header.Get("X-Amz-Expiration"), `expiry-date="`), `", rule-id="`)
	when, err := http.ParseTime(date)
	if !ok || rest == "" || err != nil || when.Before(begun.Add(3598*time.Second)) || when.After(time.Now().Add(3601*time.Second)) {
		t.Errorf("x-amz-expiration is %q", res.Header.Get("X-Amz-Expiration"))
	}
	testenv.Equal(t, s.want(t, 200, "HEAD", "/bucket/a", "").Header.Get("X-Amz-Expiration"), res.Header.Get("X-Amz-Expiration"), "the expiry of a HEAD")
	b := testenv.Must(s.database.Blob(t.Context(), "bucket", "a"))(t)
	testenv.Equal(t, b.Expires.UTC().Format(http.TimeFormat), date, "the blob's expiry")
	for _, seconds := range []string{"0", "-1", "x", "99999999999999999999", "4000000000"} {
		s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/b", "x", "X-Amz-Meta-Expiration-Seconds", seconds)
	}
	s.want(t, 404, "HEAD", "/bucket/b", "")
}

// TestChecksums: a body that contradicts the client's statement is refused, and nothing is stored.
// Invariant 183.
func TestChecksums(t *testing.T) {
	s := newService(t)
	const body = "checked"
	sum := md5.Sum([]byte(body))
	digest := sha256.Sum256([]byte(body))
	good := map[string]string{
		"Content-MD5":              base64.StdEncoding.EncodeToString(sum[:]),
		"X-Amz-Content-Sha256":     hex.EncodeToString(digest[:]),
		"X-Amz-Checksum-Sha256":    base64.StdEncoding.EncodeToString(digest[:]),
		"X-Amz-Checksum-Crc64nvme": crc64Text(crcOf(body)),
	}
	wrong := map[string]struct{ value, code string }{
		"Content-MD5":              {base64.StdEncoding.EncodeToString(make([]byte, 16)), "BadDigest"},
		"X-Amz-Content-Sha256":     {strings.Repeat("0", 64), "XAmzContentSHA256Mismatch"},
		"X-Amz-Checksum-Sha256":    {base64.StdEncoding.EncodeToString(make([]byte, 32)), "BadDigest"},
		"X-Amz-Checksum-Crc64nvme": {crc64Text(1), "BadDigest"},
		"X-Amz-Checksum-Crc32":     {"AAAAAA==", "BadDigest"},
		"X-Amz-Checksum-Crc32c":    {"AAAAAA==", "BadDigest"},
		"X-Amz-Checksum-Sha1":      {base64.StdEncoding.EncodeToString(make([]byte, 20)), "BadDigest"},
	}
	for name, value := range good {
		res := s.want(t, 200, "PUT", "/bucket/a", body, name, value)
		if strings.HasPrefix(name, "X-Amz-Checksum-") {
			testenv.Equal(t, res.Header.Get(name), value, "the response's %s", name)
		}
	}
	for name, test := range wrong {
		s.refused(t, 400, test.code, "PUT", "/bucket/b", body, name, test.value)
	}
	s.refused(t, 400, "BadDigest", "PUT", "/bucket/b", "", "X-Amz-Checksum-Crc32", "AAAAAQ==")
	s.want(t, 200, "PUT", "/bucket/a", "", "X-Amz-Checksum-Crc32", "AAAAAA==")
	s.refused(t, 400, "InvalidDigest", "PUT", "/bucket/b", body, "Content-MD5", "short")
	s.want(t, 404, "HEAD", "/bucket/b", "")
}

// TestChunkedBodies sends bodies in the coding aws-chunked. A local instance ignores signatures.
// Invariant 183.
func TestChunkedBodies(t *testing.T) {
	s := newService(t)
	const body = "in one chunk!"
	crc := crc64Text(crcOf(body))
	for _, test := range []struct{ name, payload, sent string }{
		{"unsigned", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "d\r\nin one chunk!\r\n0\r\nx-amz-checksum-crc64nvme:" + crc + "\r\n\r\n"},
		{"signed", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "d;chunk-signature=" + strings.Repeat("a", 64) + "\r\nin one chunk!\r\n0;chunk-signature=" + strings.Repeat("b", 64) + "\r\n\r\n"},
	} {
		fields := []string{"X-Amz-Content-Sha256", test.payload, "X-Amz-Decoded-Content-Length", "13", "Content-Encoding", "aws-chunked,gzip"}
		if test.name == "unsigned" {
			fields = append(fields, "X-Amz-Trailer", "x-amz-checksum-crc64nvme")
		}
		res := s.want(t, 200, "PUT", "/bucket/"+test.name, test.sent, fields...)
		testenv.Equal(t, res.Header.Get("ETag"), etagOf(body), "%s", test.name)
		res = s.want(t, 200, "GET", "/bucket/"+test.name, "")
		testenv.Equal(t, res.body+" "+res.Header.Get("Content-Encoding"), body+" gzip", "%s", test.name)
	}
	unsigned := []string{"X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Trailer", "x-amz-checksum-crc64nvme", "X-Amz-Decoded-Content-Length"}
	s.refused(t, 400, "BadDigest", "PUT", "/bucket/b", "3\r\nabc\r\n0\r\nx-amz-checksum-crc64nvme:"+crc+"\r\n\r\n", append(unsigned, "3")...)
	s.refused(t, 400, "IncompleteBody", "PUT", "/bucket/b", "3\r\nab", append(unsigned, "3")...)
	s.refused(t, 400, "IncompleteBody", "PUT", "/bucket/b", "zz\r\nabc\r\n0\r\n\r\n", append(unsigned, "3")...)
	s.refused(t, 400, "BadDigest", "PUT", "/bucket/b", "0\r\nx-amz-checksum-crc64nvme:"+crc+"\r\n\r\n", append(unsigned, "0")...)
	s.refused(t, 411, "MissingContentLength", "PUT", "/bucket/b", "3\r\nabc\r\n0\r\n\r\n", append(unsigned, "x")...)
	s.want(t, 404, "HEAD", "/bucket/b", "")
}

// TestTrailersAreAnnounced: Amazon refuses a trailer that is not the one of x-amz-trailer
// (https://github.com/scality/Arsenal/pull/2596).
// Invariant 183.
func TestTrailersAreAnnounced(t *testing.T) {
	s := newService(t)
	field := "x-amz-checksum-crc64nvme:" + crc64Text(crcOf("abc")) + "\r\n"
	unannounced := []string{"X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Decoded-Content-Length", "3"}
	announced := append(unannounced[:4:4], "X-Amz-Trailer", "x-amz-checksum-crc64nvme")
	for _, path := range []string{"/bucket/b", "/bucket/c?partNumber=1&uploadId=" + s.begin(t, "/bucket/c")} {
		for trailer, fields := range map[string][]string{field: unannounced, "x-amz-other:1\r\n": unannounced, "": announced, field + "x-amz-other:1\r\n": announced, ":" + field[25:]: announced} {
			s.refused(t, 400, "MalformedTrailerError", "PUT", path, "3\r\nabc\r\n0\r\n"+trailer+"\r\n", fields...)
		}
	}
	s.want(t, 404, "HEAD", "/bucket/b", "")
	s.want(t, 200, "PUT", "/bucket/b", "3\r\nabc\r\n0\r\n\r\n", unannounced...)
	s.want(t, 200, "PUT", "/bucket/b", "3\r\nabc\r\n0\r\n"+field+"\r\n", announced...)
}

// TestShortChunks: Amazon refuses a chunk of less than 8,192 bytes before a further chunk
// (https://github.com/aws/aws-sdk-cpp/issues/2727). Invariant 183.
func TestShortChunks(t *testing.T) {
	s := newService(t)
	for _, test := range []struct {
		sizes  []int
		status int
	}{
		{[]int{8191, 1}, 403}, {[]int{8192, 100, 8192}, 403}, {[]int{1, 8192}, 403}, {[]int{8192, 1}, 200}, {[]int{8192, 8192, 8191}, 200}, {[]int{1}, 200}, {nil, 200},
	} {
		for _, signed := range []bool{false, true} {
			payload, extension := "STREAMING-UNSIGNED-PAYLOAD-TRAILER", ""
			if signed {
				payload, extension = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", ";chunk-signature="+strings.Repeat("a", 64)
			}
			var sent strings.Builder
			size := 0
			for _, n := range test.sizes {
				fmt.Fprintf(&sent, "%x%s\r\n%s\r\n", n, extension, strings.Repeat("x", n))
				size += n
			}
			sent.WriteString("0" + extension + "\r\n\r\n")
			res := s.do(t, "PUT", "/bucket/a", sent.String(), "X-Amz-Content-Sha256", payload, "X-Amz-Decoded-Content-Length", fmt.Sprint(size))
			testenv.Equal(t, res.StatusCode, test.status, "chunks of %d bytes, signed: %t: %s", test.sizes, signed, res.body)
			if test.status != 200 {
				wantError(t, res, 403, "InvalidChunkSizeError")
			}
		}
	}
}

// TestUndeclaredChunks: a body is in chunks if its decoded length is stated, even when
// x-amz-content-sha256 does not declare them: botocore without credentials sends neither that nor a
// signature. Invariant 183.
func TestUndeclaredChunks(t *testing.T) {
	s := newService(t)
	const body, sent = "in one chunk!", "d\r\nin one chunk!\r\n0\r\n"
	crc := crc64Text(crcOf(body))
	length := []string{"X-Amz-Decoded-Content-Length", "13", "Content-Encoding"}
	upload := s.begin(t, "/bucket/parts")
	for name, test := range map[string]struct {
		sent   string
		fields []string
	}{
		"nothing":    {sent + "\r\n", append(length, "aws-chunked")},
		"no coding":  {sent + "\r\n", length[:2]},
		"unsigned":   {sent + "\r\n", append(length, "gzip,aws-chunked", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")},
		"a digest":   {sent + "\r\n", append(length, "aws-chunked", "X-Amz-Content-Sha256", sha256Text(body))},
		"a trailer":  {sent + "x-amz-checksum-crc64nvme:" + crc + "\r\n\r\n", append(length, "aws-chunked", "X-Amz-Trailer", "x-amz-checksum-crc64nvme")},
		"no framing": {body, append(length, "aws-chunked")},
	} {
		for _, path := range []string{"/bucket/a", "/bucket/parts?partNumber=1&uploadId=" + upload} {
			for _, stream := range []bool{false, true} {
				if stream && name == "no framing" {
					continue // the decoded length implies that there is one
				}
				r := testenv.Must(http.NewRequestWithContext(t.Context(), "PUT", s.url+path, strings.NewReader(test.sent)))(t)
				for i := 0; i < len(test.fields); i += 2 {
					r.Header.Set(test.fields[i], test.fields[i+1])
				}
				if stream {
					r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(test.sent))
				}
				res := send(t, r)
				testenv.Equal(t, res.Header.Get("ETag"), etagOf(body), "%s, %s: %s", name, path, res.body)
			}
		}
	}
	s.refused(t, 400, "XAmzContentSHA256Mismatch", "PUT", "/bucket/b", sent+"\r\n", append(length, "aws-chunked", "X-Amz-Content-Sha256", sha256Text(sent+"\r\n"))...)
	s.refused(t, 400, "IncompleteBody", "PUT", "/bucket/b", body, "X-Amz-Decoded-Content-Length", "12")
	s.refused(t, 400, "IncompleteBody", "PUT", "/bucket/b", "d;chunk-signature="+strings.Repeat("a", 64)+"\r\nin one chunk!\r\n0\r\n\r\n", length[:2]...)
	s.refused(t, 411, "MissingContentLength", "PUT", "/bucket/b", body, "X-Amz-Decoded-Content-Length", "-1")
	s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/b", body, "X-Amz-Decoded-Content-Length", "")
	s.want(t, 404, "HEAD", "/bucket/b", "")
	s.want(t, 200, "PUT", "/bucket/b", body, "Content-Encoding", "aws-chunked")
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/b", "").body, body, "a coding alone")
}

// TestFolderMarkers: an object with a key that ends in a slash is like any other, and the native
// interface has none of it. Amazon stores it so, with bytes, too ("Organizing objects using
// folders", Amazon S3 User Guide).
// Invariant 186.
func TestFolderMarkers(t *testing.T) {
	s := newService(t)
	s.refused(t, 404, "NoSuchBucket", "GET", "/bucket/dir/", "")
	s.want(t, 200, "PUT", "/bucket/dir/", "", "If-None-Match", "*", "X-Amz-Meta-Mode", "16877", "Content-Type", "application/x-directory")
	s.refused(t, 412, "PreconditionFailed", "PUT", "/bucket/dir/", "", "If-None-Match", "*")
	s.refused(t, 404, "NoSuchKey", "PUT", "/bucket/other/", "", "If-Match", "*")
	s.want(t, 404, "HEAD", "/bucket/dir", "")
	s.want(t, 200, "PUT", "/bucket/dir/file", "x")
	s.want(t, 200, "PUT", "/bucket/dir//", "with bytes")
	for _, one := range []*service{s, start(t, setup{database: s.database})} {
		res := one.want(t, 200, "HEAD", "/bucket/dir/", "")
		testenv.Equal(t, fmt.Sprint(res.ContentLength, " ", res.Header.Get("X-Amz-Meta-Mode"), " ", res.Header.Get("Content-Type"), " ", res.Header.Get("ETag")), "0 16877 application/x-directory "+etagOf(""), "a marker")
		testenv.Equal(t, one.want(t, 206, "GET", "/bucket/dir//", "", "Range", "bytes=5-").body, "bytes", "a marker's bytes")
	}
	list := func(query string) string {
		page := decodedAs[sentPage](t, s.want(t, 200, "GET", "/bucket?list-type=2&"+query, "").body)
		return strings.Join(page.entries(), ", ")
	}
	testenv.Equal(t, list(""), "dir/, dir//, dir/file", "the keys")
	testenv.Equal(t, list("delimiter=/"), "dir/ (group)", "the folders")
	testenv.Equal(t, list("prefix=dir/&delimiter=/"), "dir/, dir// (group), dir/file", "a folder")
	s.want(t, 200, "PUT", "/bucket/copy/", "", "X-Amz-Copy-Source", "bucket/dir/")
	testenv.Equal(t, s.want(t, 200, "HEAD", "/bucket/copy/", "").Header.Get("X-Amz-Meta-Mode"), "16877", "the metadata of a copy")
	s.want(t, 200, "PUT", "/bucket/copy/?tagging", "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>")
	testenv.Equal(t, s.want(t, 200, "HEAD", "/bucket/copy/", "").Header.Get("X-Amz-Tagging-Count"), "1", "the tags of a marker")
	s.want(t, 200, "PUT", "/bucket/plain", "", "X-Amz-Copy-Source", "bucket/dir//")
	id := s.begin(t, "/bucket/parts/")
	part := s.want(t, 200, "PUT", "/bucket/parts/?partNumber=1&uploadId="+id, "part").Header.Get("ETag")
	if got := s.want(t, 200, "GET", "/bucket?uploads", "").body; !strings.Contains(got, "<Key>parts/</Key>") {
		t.Errorf("the uploads are %s", got)
	}
	s.want(t, 200, "POST", "/bucket/parts/?uploadId="+id, completion(named{1, part}))
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/parts/", "").body, "part", "an upload")
	native := testenv.Must(s.blobs.List(t.Context(), metastore.ListQuery{Account: "bucket", Limit: 10}))(t)
	testenv.Equal(t, len(native.Blobs), 2, "the native interface's blobs")
	s.refused(t, 412, "PreconditionFailed", "DELETE", "/bucket/dir/", "", "If-Match", `"x"`)
	s.want(t, 204, "DELETE", "/bucket/dir/", "")
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/dir/", "")
	s.want(t, 200, "GET", "/bucket/dir/file", "")
	s.want(t, 204, "DELETE", "/bucket/dir/file", "")
	s.want(t, 200, "PUT", "/bucket/dir%7F", "x")
	s.want(t, 200, "PUT", "/bucket/plain", "", "X-Amz-Copy-Source", "bucket/dir%7F")
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/dir%7F", "").body, "x", "a key with U+007F")
	testenv.Equal(t, list("prefix=dir%7F"), "dir\x7f", "the keys")
	s.want(t, 204, "DELETE", "/bucket/dir%7F", "")
	s.want(t, 204, "DELETE", "/bucket/plain", "")
	s.refused(t, 409, "BucketNotEmpty", "DELETE", "/bucket", "")
	testenv.Equal(t, len(s.deleted(t, "<Object><Key>dir//</Key></Object><Object><Key>copy/</Key></Object><Object><Key>parts/</Key></Object>").Deleted), 3, "what was deleted")
	s.want(t, 204, "DELETE", "/bucket", "")
	for _, key := range []string{"/", "//", strings.Repeat("k", 1023) + "/"} {
		s.want(t, 200, "PUT", "/bucket/"+key, "")
		s.want(t, 200, "HEAD", "/bucket/"+key, "")
	}
	for key, code := range map[string]string{"a%00/": "InvalidArgument", strings.Repeat("k", 1024) + "/": "KeyTooLongError"} {
		s.refused(t, 400, code, "PUT", "/bucket/"+key, "")
	}
}

// TestForeignPages: a web page from elsewhere must not write to a local instance, nor name it by
// another host.
func TestForeignPages(t *testing.T) {
	s := newService(t)
	s.refused(t, 403, "AccessForbidden", "PUT", "/bucket/a", "x", "Origin", "https://example.org")
	s.refused(t, 403, "AccessForbidden", "GET", "/bucket", "", "Origin", "https://example.org")
	s.want(t, 404, "HEAD", "/bucket/a", "")
	r := testenv.Must(http.NewRequestWithContext(t.Context(), "GET", s.url+"/bucket", nil))(t)
	r.Host = "rebound.example.org"
	testenv.Equal(t, send(t, r).StatusCode, 403, "a foreign host")
	res := s.want(t, 204, "OPTIONS", "/bucket/a", "", "Origin", "http://localhost:5173", "Access-Control-Request-Method", "PUT",
		"Access-Control-Request-Headers", "amz-sdk-request,x-amz-date,x-amz-content-sha256,authorization")
	if got := res.Header.Get("Access-Control-Allow-Headers"); !strings.HasSuffix(got, ", amz-sdk-request, x-amz-date, x-amz-content-sha256, authorization") {
		t.Errorf("a page may send %q", got)
	}
}

// TestConditionsOfS3 checks the conditions that HTTP does not have.
func TestConditionsOfS3(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x")
	modified := s.want(t, 200, "HEAD", "/bucket/a", "").Header.Get("Last-Modified")
	s.refused(t, 403, "AccessDenied", "DELETE", "/bucket/a", "", "X-Amz-Expected-Bucket-Owner", "123456789012")
	s.refused(t, 403, "AccessDenied", "PUT", "/other/b", "", "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Source-Expected-Bucket-Owner", "other")
	s.refused(t, 412, "PreconditionFailed", "DELETE", "/bucket/a", "", "X-Amz-If-Match-Size", "2")
	s.refused(t, 412, "PreconditionFailed", "DELETE", "/bucket/a", "", "X-Amz-If-Match-Last-Modified-Time", "Thu, 01 Dec 1994 16:00:00 GMT")
	s.refused(t, 412, "PreconditionFailed", "DELETE", "/bucket/a", "", "X-Amz-If-Match-Size", "1", "If-Match", `"other"`)
	s.want(t, 204, "DELETE", "/bucket/a", "", "X-Amz-If-Match-Size", "1", "X-Amz-If-Match-Last-Modified-Time", modified, "If-Match", etagOf("x"),
		"X-Amz-Expected-Bucket-Owner", "bucket")
	id := s.begin(t, "/bucket/a")
	s.refused(t, 412, "PreconditionFailed", "DELETE", "/bucket/a?uploadId="+id, "", "X-Amz-If-Match-Initiated-Time", "Thu, 01 Dec 1994 16:00:00 GMT")
	s.want(t, 200, "GET", "/bucket/a?uploadId="+id, "")
}

// TestMetadataOfS3: a name that occurs several times has one value, and too much is refused.
func TestMetadataOfS3(t *testing.T) {
	s := newService(t)
	r := testenv.Must(http.NewRequestWithContext(t.Context(), "PUT", s.url+"/bucket/a", strings.NewReader("x")))(t)
	r.Header["X-Amz-Meta-Color"] = []string{"red", "blue"}
	testenv.Equal(t, send(t, r).StatusCode, 200, "a PUT")
	testenv.Equal(t, s.want(t, 200, "HEAD", "/bucket/a", "").Header.Get("X-Amz-Meta-Color"), "red,blue", "the metadata")
	s.refused(t, 400, "MetadataTooLarge", "PUT", "/bucket/a", "x", "X-Amz-Meta-A", strings.Repeat("a", 2100))
}

// TestExpectationsWithoutABody: who waits for 100 Continue must not use the connection again.
func TestExpectationsWithoutABody(t *testing.T) {
	s := newService(t)
	testenv.Equal(t, s.want(t, 200, "PUT", "/bucket/a", "", "Expect", "100-continue", "Content-Length", "0").Close, true, "the connection is closed")
	res := s.want(t, 200, "GET", "/bucket/a?tagging", "")
	if !strings.Contains(res.body, "<TagSet></TagSet>") {
		t.Errorf("the tags are %s", res.body)
	}
}
