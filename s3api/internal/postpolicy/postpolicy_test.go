package postpolicy

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sluice/test/testenv"
)

const (
	bucket  = "b"
	content = "the file's content"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// field is a form's field.
type field struct{ name, value string }

// formOf returns a form's body and Content-Type. The file comes last.
func formOf(t testing.TB, filename string, fields ...field) ([]byte, string) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, f := range fields {
		testenv.OK(t, w.WriteField(f.name, f.value))
	}
	part := testenv.Must(w.CreateFormFile("file", filename))(t)
	testenv.Must(io.WriteString(part, content))(t)
	testenv.OK(t, w.Close())
	return body.Bytes(), w.FormDataContentType()
}

// signed returns the fields of a form with a policy that has these conditions beside those that
// each needs.
func signed(conditions string, fields ...field) []field {
	document := `{"expiration": "2026-11-26T12:00:01.000Z", "conditions": [{"bucket": "b"},
		["starts-with", "$x-amz-algorithm", ""], ["starts-with", "$x-amz-credential", ""], ["starts-with", "$x-amz-date", ""]` + conditions + `]}`
	return withPolicy(document, fields...)
}

func withPolicy(document string, fields ...field) []field {
	return append([]field{
		{"Policy", base64.StdEncoding.EncodeToString([]byte(document))},
		{"X-Amz-Algorithm", "AWS4-HMAC-SHA256"},
		{"X-Amz-Credential", "id/20261126/us-east-1/s3/aws4_request"},
		{"X-Amz-Date", "20261126T120000Z"},
		{"X-Amz-Signature", "abc"},
	}, fields...)
}

// upload reads a form, checks it and reads its file.
func upload(t testing.TB, filename string, fields ...field) (Upload, error) {
	t.Helper()
	body, contentType := formOf(t, filename, fields...)
	f, err := Read(iotest.HalfReader(bytes.NewReader(body)), contentType)
	if err != nil {
		return Upload{}, err
	}
	u, err := f.Check(bucket, now)
	if err != nil {
		return Upload{}, err
	}
	got, err := io.ReadAll(u.Body)
	if err == nil && string(got) != content {
		t.Errorf("the file is %q", got)
	}
	return u, err
}

// TestUpload uploads by a form with everything that the package returns.
func TestUpload(t *testing.T) {
	fields := signed(`, ["starts-with", "$key", "user/"], {"acl": "private"}, ["eq", "$Content-Type", "text/plain"], {"x-amz-meta-a": "file a.txt"},
		["starts-with", "$success_action_status", "20"], ["starts-with", "$success_action_redirect", ""], ["content-length-range", 1, 100], ["content-length-range", "0", "18"]`,
		field{"key", "user/${filename}"}, field{"acl", "private"}, field{"Content-Type", "text/plain"}, field{"x-amz-meta-a", "file ${filename}"},
		field{"success_action_status", "201"}, field{"success_action_redirect", "https://example.com/done?a=b"}, field{"x-ignore-this", "1"})
	body, contentType := formOf(t, `C:\folder\a.txt`, fields...)
	f := testenv.Must(Read(bytes.NewReader(body), contentType))(t)
	want := Signature{fields[0].value, "AWS4-HMAC-SHA256", "id/20261126/us-east-1/s3/aws4_request", "20261126T120000Z", "abc"}
	testenv.Equal(t, *f.Signature, want, "the signature")
	u := testenv.Must(f.Check(bucket, now))(t)
	testenv.Equal(t, u.Key, "user/a.txt", "the key")
	testenv.Equal(t, u.Status, http.StatusCreated, "the status")
	testenv.Equal(t, u.Redirect.String(), "https://example.com/done?a=b", "the redirect")
	if want := (http.Header{"Content-Type": {"text/plain"}, "X-Amz-Acl": {"private"}, "X-Amz-Meta-A": {"file a.txt"}}); !reflect.DeepEqual(u.Header, want) {
		t.Errorf("the header is %v, want %v", u.Header, want)
	}
	testenv.Equal(t, string(testenv.Must(io.ReadAll(u.Body))(t)), content, "the file")
}

// TestUnsigned uploads by the smallest form.
func TestUnsigned(t *testing.T) {
	u, err := upload(t, "", field{"key", "k"}, field{"success_action_status", "999"}, field{"redirect", "javascript:alert(1)"})
	testenv.OK(t, err)
	if u.Key != "k" || u.Status != http.StatusNoContent || u.Redirect != nil || len(u.Header) != 0 {
		t.Errorf("got %+v", u)
	}
}

// TestCheck lists forms that policies allow and refuse.
func TestCheck(t *testing.T) {
	key := field{"key", "user/k"}
	anyKey := `, ["starts-with", "$key", ""]`
	for _, test := range []struct {
		name   string
		fields []field
		want   error
	}{
		{"exact key", signed(`, {"key": "user/k"}`, key), nil},
		{"another key", signed(`, {"key": "user/l"}`, key), ErrRefused},
		{"prefix", signed(`, ["starts-with", "$key", "user/"]`, key), nil},
		{"another prefix", signed(`, ["starts-with", "$key", "other/"]`, key), ErrRefused},
		{"both must hold", signed(anyKey+`, ["eq", "$key", "l"]`, key), ErrRefused},
		{"no condition for the key", signed(``, key), ErrRefused},
		{"no condition for a field", signed(anyKey, key, field{"acl", "public-read"}), ErrRefused},
		{"no condition for metadata", signed(anyKey, key, field{"x-amz-meta-a", "1"}), ErrRefused},
		{"field is missing", signed(anyKey+`, {"acl": "private"}`, key), ErrRefused},
		{"missing field may have any value", signed(anyKey+`, ["starts-with", "$acl", ""]`, key), nil},
		{"names in another case", signed(`, ["EQ", "$Key", "user/k"]`, field{"KEY", "user/k"}), nil},
		{"types", signed(anyKey+`, ["starts-with", "$Content-Type", "image/"]`, key, field{"content-type", "image/png, image/gif"}), nil},
		{"one other type", signed(anyKey+`, ["starts-with", "$Content-Type", "image/"]`, key, field{"content-type", "image/png,text/html"}), ErrRefused},
		{"a list elsewhere", signed(anyKey+`, ["starts-with", "$acl", "a"]`, key, field{"acl", "a,b"}), nil},
		{"another bucket in the policy", signed(anyKey+`, {"bucket": "c"}`, key), ErrRefused},
		{"no bucket in the policy", withPolicy(`{"expiration": "2026-11-27T12:00:00Z", "conditions": [["starts-with", "$key", ""],
			["starts-with", "$x-amz-algorithm", ""], ["starts-with", "$x-amz-credential", ""], ["starts-with", "$x-amz-date", ""]]}`, key), ErrRefused},
		{"another bucket in the form", signed(anyKey, key, field{"bucket", "c"}), ErrField},
		{"the same bucket in the form", signed(anyKey, key, field{"bucket", "b"}), nil},
		{"credential of another", withPolicy(`{"expiration": "2026-11-27T12:00:00Z", "conditions": [{"bucket": "b"}, ["starts-with", "$key", ""]]}`, key), ErrRefused},
		{"file of the right size", signed(anyKey+`, ["content-length-range", 18, 18]`, key), nil},
		{"file too small", signed(anyKey+`, ["content-length-range", 19, 20]`, key), ErrTooSmall},
		{"file too large", signed(anyKey+`, ["content-length-range", 0, 17]`, key), ErrTooLarge},
		{"two ranges", signed(anyKey+`, ["content-length-range", 0, 100], ["content-length-range", 0, 10]`, key), ErrTooLarge},
		{"expired", withPolicy(`{"expiration": "2026-11-26T12:00:00Z", "conditions": []}`, key), ErrRefused},
		{"escaped", signed(`, ["eq", "\$key", "\$\v\\\u0041"]`, field{"key", "$\v\\A"}), nil},
		{"no time", withPolicy(`{"expiration": "tomorrow", "conditions": []}`, key), ErrPolicy},
		{"no expiration", withPolicy(`{"conditions": []}`, key), ErrPolicy},
		{"no conditions", withPolicy(`{"expiration": "2026-11-27T12:00:00Z"}`, key), ErrPolicy},
		{"no JSON", withPolicy(`{`, key), ErrPolicy},
		{"JSON with a tail", withPolicy(`{"expiration": "2026-11-27T12:00:00Z", "conditions": []} {}`, key), ErrPolicy},
		{"condition without a form", signed(`, "key"`, key), ErrPolicy},
		{"empty condition", signed(`, {}`, key), ErrPolicy},
		{"unknown condition", signed(`, ["ends-with", "$key", "k"]`, key), ErrPolicy},
		{"short condition", signed(`, ["eq", "$key"]`, key), ErrPolicy},
		{"condition of no field", signed(`, ["eq", "key", "k"]`, key), ErrPolicy},
		{"condition of a number", signed(`, ["eq", "$key", 1]`, key), ErrPolicy},
		{"negative size", signed(`, ["content-length-range", -1, 1]`, key), ErrPolicy},
		{"sizes in the wrong order", signed(`, ["content-length-range", 2, 1]`, key), ErrPolicy},
		{"size with a fraction", signed(`, ["content-length-range", 0, 1.5]`, key), ErrPolicy},
		{"no key", nil, ErrField},
		{"empty key", []field{{"key", ""}}, ErrField},
		{"empty after expansion", []field{{"key", "${filename}"}}, ErrField},
		{"two keys", []field{{"key", "k"}, {"Key", "l"}}, ErrField},
		{"line in a header", []field{{"key", "k"}, {"Content-Type", "a\r\nb"}}, ErrField},
		{"space in a header's name", []field{{"key", "k"}, {"x-amz-meta-a b", "c"}}, ErrField},
		{"version 2", []field{{"key", "k"}, {"AWSAccessKeyId", "id"}, {"policy", "p"}, {"signature", "s"}}, ErrField},
		{"policy alone", []field{{"key", "k"}, {"policy", "p"}}, ErrField},
		{"signature without a policy", signed("", key)[1:], ErrField},
		{"most fields", append(many(mostFields-1), key), nil},
		{"too many fields", append(many(mostFields), key), ErrTooLong},
		{"too long fields", []field{{"key", "k"}, {"a", strings.Repeat("a", mostFieldBytes)}}, ErrTooLong},
		{"too long names", []field{{"key", "k"}, {strings.Repeat("a", mostFormBytes), ""}}, ErrTooLong},
	} {
		t.Run(test.name, func(t *testing.T) {
			testenv.Is(t, testenv.Error(upload(t, "", test.fields...)), test.want, "error")
		})
	}
}

func many(n int) (fields []field) {
	for i := range n {
		fields = append(fields, field{fmt.Sprint("f", i), ""})
	}
	return fields
}

// TestReadRefuses lists bodies that are no forms.
func TestReadRefuses(t *testing.T) {
	body, contentType := formOf(t, "a", field{"key", "k"})
	for _, test := range []struct {
		name, body, contentType string
		want                    error
	}{
		{"another type", string(body), "application/octet-stream", ErrMalformed},
		{"no type", string(body), "", ErrMalformed},
		{"no boundary", string(body), "multipart/form-data", ErrMalformed},
		{"another boundary", string(body), "multipart/form-data; boundary=x", ErrMalformed},
		{"empty", "", contentType, ErrMalformed},
		{"cut in a field", string(body[:80]), contentType, ErrMalformed},
		{"part without a name", "--x\r\n\r\nv\r\n--x--\r\n", "multipart/form-data; boundary=x", ErrMalformed},
		{"no file", "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nv\r\n--x--\r\n", "multipart/form-data; boundary=x", ErrField},
		{"endless preamble", strings.Repeat("line\r\n", mostFormBytes), "multipart/form-data; boundary=x", ErrTooLong},
		{"endless header", "--x\r\nA: " + strings.Repeat("a", mostFormBytes), "multipart/form-data; boundary=x", ErrTooLong},
	} {
		testenv.Is(t, testenv.Error(Read(strings.NewReader(test.body), test.contentType)), test.want, "%s", test.name)
	}
}

// TestCutFile checks that a form that ends within the file is no whole file.
func TestCutFile(t *testing.T) {
	body, contentType := formOf(t, "a", field{"key", "k"})
	f := testenv.Must(Read(bytes.NewReader(body[:len(body)-20]), contentType))(t)
	u := testenv.Must(f.Check(bucket, now))(t)
	testenv.Is(t, testenv.Error(io.ReadAll(u.Body)), ErrMalformed, "a cut file")
}

// TestBodysErrorPasses checks that an error in reading a body is not the form's fault.
func TestBodysErrorPasses(t *testing.T) {
	broken := errors.New("broken")
	body, contentType := formOf(t, "a", field{"key", "k"})
	for _, length := range []int{0, 10, 100} {
		source := io.MultiReader(bytes.NewReader(body[:length]), iotest.ErrReader(broken))
		testenv.Is(t, testenv.Error(Read(source, contentType)), broken, "after %d bytes", length)
	}
}

// FuzzUpload checks that an allowed upload has a key and sane headers, and that nothing else than
// the package's errors is returned.
func FuzzUpload(f *testing.F) {
	body, contentType := formOf(f, "a", signed(`, {"key": "k"}`, field{"key", "k"})...)
	f.Add(body, contentType)
	body, contentType = formOf(f, `C:\a`, field{"key", "${filename}"}, field{"x-amz-meta-a", "b"}, field{"redirect", "http://a/"})
	f.Add(body, contentType)
	known := []error{ErrMalformed, ErrTooLong, ErrField, ErrPolicy, ErrRefused, ErrTooSmall, ErrTooLarge}
	check := func(t *testing.T, err error) {
		for _, one := range known {
			if errors.Is(err, one) {
				return
			}
		}
		t.Errorf("error %v", err)
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		form, err := Read(bytes.NewReader(body), contentType)
		if err != nil {
			check(t, err)
			return
		}
		u, err := form.Check(bucket, now)
		if err != nil {
			check(t, err)
			return
		}
		testenv.OK(t, u.Header.Write(io.Discard))
		if u.Key == "" || u.Status < 200 || u.Status > 204 {
			t.Errorf("got %+v", u)
		}
		if _, err := io.Copy(io.Discard, u.Body); err != nil {
			check(t, err)
		}
	})
}

// FuzzPolicy checks that a policy is read in one way, or not.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"expiration": "2026-11-27T12:00:00Z", "conditions": [{"bucket": "b"}, ["starts-with", "$key", "\$\v"], ["content-length-range", 1, "2"]]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		p, err := parsePolicy(base64.StdEncoding.EncodeToString(document))
		if err != nil {
			testenv.Is(t, err, ErrPolicy, "%q", document)
			return
		}
		if p.least < 0 || p.most < 0 {
			t.Errorf("sizes from %d to %d", p.least, p.most)
		}
		for _, c := range p.conditions {
			if !c.holds(c.value) && c.field != "content-type" {
				t.Errorf("%v does not hold for its own value", c)
			}
		}
	})
}
