package s3api

import (
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"sluice/test/testenv"
)

// TestMetadataThatOtherStoresKeep: every form is stored, so that a migration does not stop, and a
// form that is not valid is not sent.
// Invariant 188.
func TestMetadataThatOtherStoresKeep(t *testing.T) {
	s := newService(t)
	sent := func(name, value, want string) {
		t.Helper()
		if s.want(t, 200, "PUT", "/bucket/a", "x", name, value).StatusCode != 200 {
			return
		}
		for _, method := range []string{"HEAD", "GET"} {
			testenv.Equal(t, s.want(t, 200, method, "/bucket/a", "").Header.Get(name), want, "%s %q is sent as", name, value)
		}
	}
	for _, valid := range []string{
		"no-cache", "no-store", "private", "public", "max-age=0", "max-age=31536000", "public, max-age=60", "Public, Max-Age=60", "public,max-age=60",
		"max-age=60, immutable", "no-cache, no-store, must-revalidate", "s-maxage=1, stale-if-error=2", `private="set-cookie"`, "max-age=60,\tpublic",
		"max-age=99999999999999999999", "x-unknown=1", "public, , max-age=1",
	} {
		sent("Cache-Control", valid, valid)
	}
	for _, invalid := range []string{
		"max-age", "max-age=", `max-age="60"`, "max-age = 60", "max-age=-1", "max-age=1.5", "max-age=1h", "max-age: 60", "max-age=60;", "max-age=1, max-age=2",
		"public max-age=60", "public; max-age=60", `private="`, "{max-age=60}", "=1", "käse", "max-age=60 (a comment)",
	} {
		sent("Cache-Control", invalid, "no-cache")
	}
	for value, want := range map[string]string{
		"plain": "plain", "tab\tinside": "tab\tinside", "=?UTF-8?B?w6Q=?=": "=?UTF-8?B?w6Q=?=", "": "",
		"ä":               "=?UTF-8?B?w6Q=?=",
		"\xe4":            "=?UTF-8?B?w6Q=?=", // ISO 8859-1
		"Hello World\xe9": "=?UTF-8?B?SGVsbG8gV29ybGTDqQ==?=",
	} {
		sent("X-Amz-Meta-A", value, want)
	}
	if _, there := s.want(t, 200, "HEAD", "/bucket/a", "").Header["X-Amz-Meta-A"]; !there {
		t.Error("a value of the last PUT is not there")
	}
	long := strings.TrimSpace(strings.Repeat("日本語 text ", 100))
	s.want(t, 200, "PUT", "/bucket/a", "x", "X-Amz-Meta-A", long)
	decoded := testenv.Must(new(mime.WordDecoder).DecodeHeader(s.want(t, 200, "HEAD", "/bucket/a", "").Header.Get("X-Amz-Meta-A")))(t)
	testenv.Equal(t, decoded, long, "a long value, decoded")
	for value, want := range map[string]string{
		`attachment; filename="a.txt"`:                          `attachment; filename="a.txt"`,
		`attachment; filename="ä.txt"`:                          `attachment; filename*=utf-8''%C3%A4.txt`,
		"attachment; filename=\"\xe4.txt\"":                     `attachment; filename*=utf-8''%C3%A4.txt`,
		`inline; filename="ä.txt"; filename*=UTF-8''%C3%A4.txt`: `inline; filename*=utf-8''%C3%A4.txt`,
		`inline; filename=ä.txt`:                                `inline`, // not quoted
		`ä`:                                                     `attachment`,
		"attachment; filename=\"日本.txt\"; size=1":               `attachment; filename*=utf-8''%E6%97%A5%E6%9C%AC.txt; size=1`,
	} {
		sent("Content-Disposition", value, want)
	}
	sent("Content-Encoding", "identity", "identity")
	sent("Content-Encoding", "aws-chunked, gzip, identity", "gzip, identity")
	sent("Content-Encoding", "ä", "")
	sent("Content-Language", "ä", "")
	sent("Expires", "0", "0")
}

// TestMetadataThatIsNotKept: the refused field is named as S3's clients name it.
func TestMetadataThatIsNotKept(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket", "")
	many := make([]string, 0, 66)
	for i := range 33 {
		many = append(many, "X-Amz-Meta-"+string(rune('A'+i%26))+strings.Repeat("a", i/26), "v")
	}
	for _, fields := range [][]string{
		{"X-Amz-Meta-A", strings.Repeat("a", 2100)}, {"X-Amz-Meta-A", strings.Repeat("ä", 1050)}, many, {"Cache-Control", strings.Repeat("a", 256)},
		{"Content-Disposition", strings.Repeat("a", 1025)}, {"Content-Encoding", strings.Repeat("a", 65)},
	} {
		res := s.do(t, "PUT", "/bucket/a", "x", fields...)
		if res.StatusCode != http.StatusBadRequest || strings.Contains(strings.ToLower(res.body), "blob-meta") {
			t.Errorf("%.60q: %d %s", fields, res.StatusCode, res.body)
		}
	}
	s.refused(t, 400, "MetadataTooLarge", "PUT", "/bucket/a", "x", many...)
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/a", "")
}

// TestStorageClasses: every class of Amazon's model is accepted, and no response names one but
// STANDARD.
func TestStorageClasses(t *testing.T) {
	s := newService(t)
	for _, class := range types.StorageClass("").Values() {
		s.want(t, 200, "PUT", "/bucket/a", "x", "X-Amz-Storage-Class", string(class))
		testenv.Equal(t, s.want(t, 200, "HEAD", "/bucket/a", "").Header.Get("X-Amz-Storage-Class"), "", "the class in the header")
	}
	s.want(t, 200, "POST", "/bucket/b?uploads", "", "X-Amz-Storage-Class", "STANDARD_IA")
	s.want(t, 200, "PUT", "/bucket/c", "", "X-Amz-Storage-Class", "GLACIER", "X-Amz-Copy-Source", "/bucket/a")
	for _, path := range []string{"/bucket?list-type=2", "/bucket?uploads"} {
		if body := s.want(t, 200, "GET", path, "").body; !strings.Contains(body, "<StorageClass>STANDARD</StorageClass>") {
			t.Errorf("%s: %s", path, body)
		}
	}
	for _, unknown := range []string{"standard", "COLD", "STANDARD, GLACIER"} {
		s.refused(t, 400, "InvalidStorageClass", "PUT", "/bucket/d", "x", "X-Amz-Storage-Class", unknown)
		s.refused(t, 400, "InvalidStorageClass", "POST", "/bucket/d?uploads", "", "X-Amz-Storage-Class", unknown)
		s.refused(t, 400, "InvalidStorageClass", "PUT", "/bucket/d", "", "X-Amz-Storage-Class", unknown, "X-Amz-Copy-Source", "/bucket/a")
	}
}
