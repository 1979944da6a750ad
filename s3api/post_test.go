package s3api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/exchange"
	"sluice/test/testenv"
)

// form returns a form and its media type. fields are names, each with its value; the last is the
// file.
func form(t *testing.T, fields ...string) (body, mediaType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] != "file" {
			testenv.OK(t, w.WriteField(fields[i], fields[i+1]))
			continue
		}
		part := testenv.Must(w.CreateFormFile("file", "picture.png"))(t)
		testenv.OK(t, testenv.Error(part.Write([]byte(fields[i+1]))))
	}
	testenv.OK(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// policyOf returns a policy with these conditions, for an hour.
func policyOf(t *testing.T, conditions ...any) string {
	t.Helper()
	text := testenv.Must(json.Marshal(map[string]any{"expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "conditions": conditions}))(t)
	return base64.StdEncoding.EncodeToString(text)
}

func TestPost(t *testing.T) {
	s := newService(t)
	post := func(status int, fields ...string) response {
		t.Helper()
		body, mediaType := form(t, fields...)
		return s.want(t, status, "POST", "/bucket", body, "Content-Type", mediaType)
	}
	res := post(204, "key", "dir/${filename}", "Content-Type", "image/png", "x-amz-meta-a", "b", "file", "bytes")
	testenv.Equal(t, res.Header.Get("ETag"), etagOf("bytes"), "the ETag")
	testenv.Equal(t, res.Header.Get("Location"), s.url+"/bucket/dir/picture.png", "the location")
	res = s.want(t, 200, "GET", "/bucket/dir/picture.png", "")
	testenv.Equal(t, res.body+res.Header.Get("Content-Type")+res.Header.Get("X-Amz-Meta-A"), "bytesimage/pngb", "what was stored")
	res = post(201, "key", "a", "success_action_status", "201", "file", "")
	testenv.Equal(t, decodedAs[struct{ Key string }](t, res.body).Key, "a", "the document's key")
	const check = "4waSgw==" // CRC-32C's check value, 0xE3069283
	res = post(204, "key", "a", "x-amz-checksum-crc32c", check, "file", "123456789")
	testenv.Equal(t, res.Header.Get("X-Amz-Checksum-Crc32c"), check, "the checksum of a form")
	res = post(303, "key", "a", "success_action_redirect", "http://localhost:1/done?x=y", "file", "z")
	testenv.Equal(t, res.Header.Get("Location"), "http://localhost:1/done?bucket=bucket&etag="+strings.ReplaceAll(etagOf("z"), `"`, "%22")+"&key=a&x=y", "where the page goes")

	policy := policyOf(t, map[string]string{"bucket": "bucket"}, []any{"starts-with", "$key", "dir/"}, []any{"content-length-range", 1, 4},
		[]any{"starts-with", "$x-amz-credential", ""}, []any{"starts-with", "$x-amz-date", ""}, []any{"starts-with", "$x-amz-algorithm", ""})
	signed := func(status int, key, file string) {
		t.Helper()
		post(status, "key", key, "policy", policy, "x-amz-algorithm", "AWS4-HMAC-SHA256", "x-amz-credential", "any/20260101/us-east-1/s3/aws4_request",
			"x-amz-date", "20260101T000000Z", "x-amz-signature", strings.Repeat("0", 64), "file", file)
	}
	signed(204, "dir/b", "1234")
	signed(403, "b", "1234")
	signed(400, "dir/c", "12345")
	signed(400, "dir/c", "")
	post(400, "file", "without a key")
	post(204, "key", "private", "acl", "private", "file", "x")
	post(400, "key", "public", "acl", "private", "x-amz-acl", "private", "file", "x")
	post(400, "key", "public", "x-amz-tagging", "a=b", "tagging", "<Tagging><TagSet/></Tagging>", "file", "x")
	post(403, "key", "public", "x-amz-expected-bucket-owner", "other", "file", "x")
	body, mediaType := form(t, "key", "public", "file", "x")
	for _, field := range []string{"x-amz-acl=private", "X-Amz-Meta-A=1", "x-amz-tagging=a"} {
		s.refused(t, 400, "InvalidArgument", "POST", "/bucket?"+field, body, "Content-Type", mediaType)
	}
	body, mediaType = form(t, "key", "public", "acl", "public-read-write", "file", "x")
	if status := s.do(t, "POST", "/bucket", body, "Content-Type", mediaType).StatusCode; status < 400 {
		t.Errorf("a form with another access list: %d", status)
	}
	s.want(t, 404, "HEAD", "/bucket/public", "")
	s.want(t, 404, "HEAD", "/bucket/dir/c", "")
	s.want(t, 404, "HEAD", "/bucket/b", "")
}

// TestLocations checks that an object's URL in a response has the scheme, the host and the style by
// which the client has sent the request.
func TestLocations(t *testing.T) {
	s := start(t, setup{exchange: func(c *exchange.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	}})
	key := "dir/a b"
	for _, test := range []struct{ from, proto, host, bucket, want string }{
		{"127.0.0.1:1", "", "127.0.0.1:9000", "/bucket", "http://127.0.0.1:9000/bucket/dir/a%20b"},
		{"192.0.2.1:1", "https", "localhost", "/bucket", "https://localhost/bucket/dir/a%20b"},
		{"192.0.2.1:1", "http", "localhost", "/bucket", "http://localhost/bucket/dir/a%20b"},
		{"127.0.0.1:1", "https", "localhost", "/bucket", "http://localhost/bucket/dir/a%20b"},
		{"192.0.2.1:1", "https", "bucket.localhost:9443", "", "https://bucket.localhost:9443/dir/a%20b"},
	} {
		sent := func(path, body, mediaType string) (location string) {
			r := httptest.NewRequest("POST", path, strings.NewReader(body))
			r.RemoteAddr, r.Host = test.from, test.host
			r.Header.Set("Content-Type", mediaType)
			r.Header.Set("X-Forwarded-Proto", test.proto)
			res := s.direct(r)
			return decodedAs[struct{ Location string }](t, string(testenv.Must(io.ReadAll(res.Body))(t))).Location
		}
		body, mediaType := form(t, "key", key, "success_action_status", "201", "file", "x")
		testenv.Equal(t, sent(test.bucket+"/", body, mediaType), test.want, "a form from %s", test.from)
		id := s.begin(t, "/bucket/dir/a%20b")
		part := s.want(t, 200, "PUT", "/bucket/dir/a%20b?partNumber=1&uploadId="+id, "part").Header.Get("ETag")
		testenv.Equal(t, sent(test.bucket+"/dir/a%20b?uploadId="+id, completion(named{1, part}), "application/xml"), test.want, "a completion from %s", test.from)
	}
}
