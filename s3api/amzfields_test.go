package s3api

import (
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7/pkg/signer"

	"sluice/access"
	"sluice/s3api/internal/model"
	"sluice/test/testenv"
)

// inQuery returns a path with fields as parameters, as SDKs presign them.
func inQuery(path string, fields ...string) string {
	q := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		q.Set(fields[i], fields[i+1])
	}
	if strings.Contains(path, "?") {
		return path + "&" + q.Encode()
	}
	return path + "?" + q.Encode()
}

// TestFieldsInTheQuery: a field in the query is the same as in the header, and one in both must be
// equal.
// Invariant 184.
func TestFieldsInTheQuery(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/source", "content")
	s.want(t, 200, "PUT", "/bucket/key", "old")
	for _, test := range []struct {
		method, path, field, value string
		status                     int
		code                       string
	}{
		{"PUT", "/bucket/key", "x-amz-copy-source", "", 400, "InvalidArgument"},
		{"PUT", "/bucket/key", "x-amz-copy-source", "/bucket/missing", 404, "NoSuchKey"},
		{"PUT", "/bucket/key", "x-amz-acl", "public-read-write", 400, "AccessControlListNotSupported"},
		{"PUT", "/bucket/key", "x-amz-storage-class", "COLD", 400, "InvalidStorageClass"},
		{"PUT", "/bucket/key", "x-amz-object-lock-mode", "GOVERNANCE", 400, "InvalidArgument"},
		{"PUT", "/bucket/key", "x-amz-object-lock-legal-hold", "ON", 400, "InvalidRequest"},
		{"PUT", "/bucket/key", "x-amz-server-side-encryption-customer-algorithm", "AES256", 400, "InvalidRequest"},
		{"PUT", "/bucket/key", "x-amz-write-offset-bytes", "3", 400, "InvalidRequest"},
		{"PUT", "/bucket/key", "x-amz-meta-expiration-seconds", "0", 400, "InvalidArgument"},
		{"PUT", "/bucket/key", "x-amz-decoded-content-length", "3", 400, "IncompleteBody"},
		{"PUT", "/bucket/key", "x-amz-expected-bucket-owner", "other", 403, "AccessDenied"},
		{"PUT", "/bucket/key", "x-amz-expected-bucket-owner", "", 400, "InvalidArgument"},
		{"PUT", "/bucket", "x-amz-bucket-object-lock-enabled", "maybe", 400, "InvalidArgument"},
		{"DELETE", "/bucket/key", "x-amz-if-match-size", "5", 412, "PreconditionFailed"},
		{"DELETE", "/bucket/key", "x-amz-if-match-size", "", 400, "InvalidArgument"},
		{"DELETE", "/bucket/key", "x-amz-if-match-last-modified-time", "Mon, 02 Jan 2006 15:04:05 GMT", 412, "PreconditionFailed"},
		{"GET", "/bucket/key", "x-amz-server-side-encryption-customer-key", "a", 400, "InvalidRequest"},
		{"GET", "/bucket/key?attributes", "x-amz-object-attributes", "Nothing", 400, "InvalidArgument"},
	} {
		s.refused(t, test.status, test.code, test.method, test.path, "replaced", test.field, test.value)
		s.refused(t, test.status, test.code, test.method, inQuery(test.path, test.field, test.value), "replaced")
		s.refused(t, test.status, test.code, test.method, inQuery(test.path, http.CanonicalHeaderKey(test.field), test.value), "replaced", test.field, test.value)
		if test.value != "" {
			s.refused(t, 400, "InvalidArgument", test.method, inQuery(test.path, test.field, test.value+"x"), "replaced", test.field, test.value)
		}
		testenv.Equal(t, s.want(t, 200, "GET", "/bucket/key", "").body, "old", "after %s %s: %q", test.method, test.field, test.value)
	}
	s.refused(t, 400, "InvalidArgument", "PUT", inQuery("/bucket/key", "x-amz-meta-a", "b\r\nc"), "")
	s.refused(t, 400, "InvalidRequest", "PUT", inQuery("/bucket/key", "x-amz-meta-a b", "c"), "")
	s.refused(t, 400, "InvalidArgument", "PUT", inQuery("/bucket/key", "x-amz-meta-a", "1", "X-Amz-Meta-A", "2"), "")

	s.want(t, 200, "PUT", inQuery("/bucket/described", "x-amz-meta-color", "blue", "x-amz-meta-expiration-seconds", "3600", "x-amz-storage-class", "STANDARD"), "x")
	res := s.want(t, 200, "HEAD", "/bucket/described", "")
	if res.Header.Get("X-Amz-Meta-Color") != "blue" || res.Header.Get("X-Amz-Expiration") == "" {
		t.Errorf("what the query states is not kept: %v", res.Header)
	}
	// The checksum of an empty body, which Amazon's SDK for JavaScript adds to URLs.
	s.want(t, 200, "PUT", inQuery("/bucket/checked", "x-amz-checksum-crc32", "AAAAAA==", "x-amz-sdk-checksum-algorithm", "CRC32"), "x")
	s.want(t, 200, "PUT", inQuery("/bucket/copy", "x-amz-copy-source", "/bucket/source", "x-amz-metadata-directive", "REPLACE"), "")
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/copy", "").body, "content", "a copy")
}

// TestFieldsOfOneOperation: a field that bounds or conditions one operation is not ignored by
// another, and a field has one value.
func TestFieldsOfOneOperation(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/key", "old")
	upload := "/bucket/parts?partNumber=1&uploadId=" + s.begin(t, "/bucket/parts")
	for _, test := range []struct{ method, path, field, value string }{
		{"PUT", "/bucket/key", "x-amz-if-match-size", "4"},
		{"PUT", "/bucket/key", "x-amz-if-match-last-modified-time", "Mon, 02 Jan 2006 15:04:05 GMT"},
		{"PUT", "/bucket/key", "x-amz-copy-source-if-match", "*"},
		{"PUT", "/bucket/key", "x-amz-source-expected-bucket-owner", "bucket"},
		{"PUT", "/bucket/key", "x-amz-mp-object-size", "4"},
		{"PUT", upload, "x-amz-copy-source-range", "bytes=0-1"},
		{"DELETE", "/bucket/key", "x-amz-copy-source", "bucket/key"},
		{"DELETE", "/bucket/key", "x-amz-if-match-initiated-time", "Mon, 02 Jan 2006 15:04:05 GMT"},
		{"POST", "/bucket/key?uploads", "x-amz-copy-source", "bucket/key"},
		{"PUT", upload, "x-amz-object-lock-mode", "GOVERNANCE"},
		{"PUT", "/bucket/key", "x-amz-bucket-object-lock-enabled", "true"},
		{"PUT", upload, "if-none-match", "*"},
		{"PUT", upload, "if-match", "*"},
		{"POST", "/bucket/key?uploads", "if-none-match", "*"},
		{"PUT", "/bucket/key?tagging", "if-match", `"other"`},
		{"DELETE", "/bucket/key?tagging", "if-match", `"other"`},
		{"PUT", "/bucket?tagging", "if-unmodified-since", "Mon, 02 Jan 2006 15:04:05 GMT"},
		{"DELETE", "/bucket/key?uploadId=" + upload[len(upload)-26:], "if-match", "*"},
		{"POST", "/bucket?delete", "if-match", "*"},
	} {
		s.refused(t, 400, "InvalidArgument", test.method, test.path, "replaced", test.field, test.value)
		if !strings.HasPrefix(test.field, "x-amz-") {
			continue
		}
		s.refused(t, 400, "InvalidArgument", test.method, inQuery(test.path, test.field, test.value), "replaced")
	}
	s.refused(t, 400, "InvalidArgument", "PUT", "/bucket/copy", "", "x-amz-copy-source", "bucket/key", "x-amz-copy-source-range", "bytes=0-1")
	for field, values := range map[string][2]string{
		"X-Amz-Acl": {"private", "public-read"}, "X-Amz-Copy-Source": {"bucket/key", "bucket/other"}, "X-Amz-Expected-Bucket-Owner": {"bucket", "other"},
		"X-Amz-Storage-Class": {"STANDARD", "COLD"}, "X-Amz-Tagging": {"a=b", "c=d"}, "X-Amz-Metadata-Directive": {"COPY", "REPLACE"},
	} {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), "PUT", s.url+"/bucket/key", strings.NewReader("replaced")))(t)
		r.Header[field] = values[:]
		wantError(t, send(t, r), 400, "InvalidArgument")
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/key", "").body, "old", "the object")
	r := testenv.Must(http.NewRequestWithContext(t.Context(), "GET", s.url+"/bucket/key?attributes", http.NoBody))(t)
	r.Header["X-Amz-Object-Attributes"] = []string{"ETag", "ObjectSize"}
	testenv.Equal(t, send(t, r).StatusCode, 200, "a field that is a list")
}

// TestFieldsOfTheModel: each field of Amazon's SDK that is not known is refused by the header and
// in the query.
// Invariant 184.
func TestFieldsOfTheModel(t *testing.T) {
	s := newService(t)
	refused := 0
	for _, field := range model.Fields {
		short, ours := strings.CutPrefix(field, amzPrefix)
		if _, isKnown := knownFields[short]; !ours || isKnown || strings.HasPrefix(short, "Checksum-") {
			continue
		}
		refused++
		code := "InvalidRequest"
		if strings.HasPrefix(short, "Grant-") {
			code = "AccessControlListNotSupported"
		}
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			s.refused(t, 400, code, method, "/bucket/key", "", field, "1")
			s.refused(t, 400, code, method, inQuery("/bucket/key", strings.ToLower(field), "1"), "")
		}
		s.want(t, 200, "PUT", "/bucket/asks-for-nothing", "", field, "false")
	}
	if refused < 60 {
		t.Errorf("only %d fields are refused", refused)
	}
	s.want(t, 404, "HEAD", "/bucket/key", "")
	s.want(t, 200, "PUT", "/bucket/key", "", "X-Amz-Cf-Id", "a", "X-Amz-User-Agent", "b", "X-Amzn-Trace-Id", "c", "X-Amz-Request-Payer", "requester")
}

// TestPresignedFields: the fields that a presigned URL states are covered by its signature, and
// obeyed. Invariant 184.
func TestPresignedFields(t *testing.T) {
	h := startHosted(t, access.ReadsKey, nil)
	key := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}})
	presign := func(method, path string) string {
		return signer.PreSignV4(*h.request(t, method, path, ""), key.id, key.secret, "", "us-east-1", 60).URL.RequestURI()
	}
	h.want(t, 200, "PUT", presign("PUT", "/ours/source"), "content")
	copied := presign("PUT", inQuery("/ours/copy", "x-amz-copy-source", "ours/source"))
	h.want(t, 200, "PUT", copied, "")
	h.refused(t, 403, "SignatureDoesNotMatch", "PUT", strings.Replace(copied, "source=ours", "source=Ours", 1), "")
	testenv.Equal(t, h.want(t, 200, "GET", presign("GET", "/ours/copy"), "").body, "content", "the copy")
	h.refused(t, 412, "PreconditionFailed", "DELETE", presign("DELETE", inQuery("/ours/copy", "x-amz-if-match-size", "1")), "")
	h.refused(t, 400, "InvalidArgument", "PUT", presign("PUT", inQuery("/ours/copy", "x-amz-copy-source", "")), "")
}

// FuzzFieldsOf: a field that is not refused is known or asks for nothing, can be sent in a header,
// and has everything that the header has.
func FuzzFieldsOf(f *testing.F) {
	f.Add("X-Amz-Acl", "private", "x-amz-acl=private&X-Amz-Signature=a")
	f.Add("X-Amz-Meta-A", "1", "x-amz-meta-b=%0a&x-amz-copy-source=")
	f.Add("Host", "h", "x-amz-meta-a%20b=1&X-AMZ-TAGGING=off&x-amz-=")
	f.Fuzz(func(t *testing.T, name, value, text string) {
		q, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		header := http.Header{name: {value}}
		merged, err := fieldsOf(header, query(q))
		if err != nil {
			return
		}
		if len(header) != 1 || merged[name][0] != value {
			t.Fatalf("%v became %v", header, merged)
		}
		for added, values := range merged {
			if added != name && (!strings.HasPrefix(added, amzPrefix) || strings.ContainsAny(values[0], "\r\n\x00") || checkField(added, values) != nil) {
				t.Errorf("%q is accepted: %q", added, values)
			}
		}
	})
}

// TestOneReaderOfFields: a request's own header, without the fields in its query, is read where
// that is meant, and nowhere else.
func TestOneReaderOfFields(t *testing.T) {
	allowed := map[string]int{"serve.go": 2, "body.go": 2}
	for _, name := range testenv.Must(fs.Glob(os.DirFS("."), "*.go"))(t) {
		if !strings.HasSuffix(name, "_test.go") {
			text := testenv.Must(os.ReadFile(name))(t)
			testenv.Equal(t, strings.Count(string(text), "Request.Header"), allowed[name], "uses of the request's own header in %s", name)
		}
	}
}
