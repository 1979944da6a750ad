package s3api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
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

// policyOf returns a policy that allows what is stated, for an hour.
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
	s.want(t, 404, "HEAD", "/bucket/dir/c", "")
	s.want(t, 404, "HEAD", "/bucket/b", "")
}
