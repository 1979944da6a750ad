package operation

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
	"sluice/wire"
)

// audited is a line of the audit log.
type audited struct {
	Time                        time.Time
	Action, Account, Name       string
	FromAccount, FromName       string
	Version                     string
	Bytes, Status               int
	Error, Key, Client, Request string
}

// String returns the line without its time, key, client and request.
func (a audited) String() string {
	from := ""
	if a.FromAccount != "" {
		from = " from " + a.FromAccount + "/" + a.FromName
	}
	if a.Version != "" {
		from += " version " + a.Version
	}
	return fmt.Sprintf("%s %s/%s%s %d %d %s", a.Action, a.Account, a.Name, from, a.Bytes, a.Status, a.Error)
}

// linesOf reads an audit log with this many lines.
func linesOf(t *testing.T, file string, count int) (lines []audited) {
	t.Helper()
	var text []byte
	e2e.Await(t, fmt.Sprintf("%s has %d lines", filepath.Base(file), count), func() bool {
		text, _ = os.ReadFile(file)
		return bytes.Count(text, []byte("\n")) >= count
	})
	for line := range bytes.Lines(text) {
		var a audited
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		testenv.OK(t, decoder.Decode(&a))
		lines = append(lines, a)
	}
	return lines
}

// TestAuditLog makes each kind of access by both interfaces, with success and without, and compares
// the lines.
// Invariant 190.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	s := e2e.Start(t, e2e.Options{Flags: []string{"--s3-addr", "127.0.0.1:0", "--audit-log", "reads:" + file}})
	var want []string
	expect := func(line ...string) { want = append(want, line...) }
	a, moved := e2e.BlobTarget("0x1", "a b/ä"), e2e.BlobTarget("0x1", "moved")

	s.Must(204, "PUT", a, []byte("hello"))
	expect("write 0x1/a b/ä 5 204 ")
	s.Must(412, "PUT", a, []byte("other"), "If-None-Match", "*")
	expect("write 0x1/a b/ä 0 412 precondition_failed")
	s.Must(206, "GET", a, nil, "Range", "bytes=1-3")
	expect("read 0x1/a b/ä 3 206 ")
	s.Must(200, "HEAD", a, nil)
	expect("read 0x1/a b/ä 0 200 ")
	s.Must(404, "GET", e2e.BlobTarget("0x1", "none"), nil)
	expect("read 0x1/none 0 404 blob_not_found")
	s.Must(200, "POST", a, []byte(`{"copyTo": {"account": "0x2", "blobName": "copy"}}`))
	expect("copy 0x2/copy from 0x1/a b/ä 5 200 ")
	s.Must(200, "POST", a, []byte(`{"moveTo": {"blobName": "moved"}}`))
	expect("move 0x1/moved from 0x1/a b/ä 5 200 ")
	s.Must(404, "POST", a, []byte(`{"moveTo": {"blobName": "moved"}}`))
	expect("move 0x1/moved from 0x1/a b/ä 0 404 blob_not_found")
	s.Must(400, "POST", a, []byte(`{`))
	expect("copy / from 0x1/a b/ä 0 400 bad_json")
	s.Upload("0x1", "parts", e2e.Content(1, 3<<20), 1<<20)
	expect(fmt.Sprintf("write 0x1/parts %d 200 ", 3<<20))
	var page wire.VersionPage
	s.Must(200, "GET", "/v1/versions/0x1?prefix=moved", nil).Decode(t, &page)
	id := page.Versions[0].Version
	version := "/v1/versions/0x1/" + id + "/moved"
	s.Must(200, "GET", version, nil)
	expect("read 0x1/moved version " + id + " 5 200 ")
	s.Must(200, "POST", version, []byte(`{"copyTo": {"blobName": "again"}}`))
	expect("copy 0x1/again from 0x1/moved version " + id + " 5 200 ")
	s.Must(204, "DELETE", version, nil)
	expect("delete 0x1/moved version " + id + " 0 204 ")
	s.Must(204, "DELETE", moved, nil)
	expect("delete 0x1/moved 0 204 ")
	s.Must(204, "DELETE", moved, nil)
	expect("delete 0x1/moved 0 204 ")

	s3 := func(status int, method, target, body string, h ...string) string {
		t.Helper()
		request := testenv.Must(http.NewRequestWithContext(t.Context(), method, s.S3+target, strings.NewReader(body)))(t)
		for i := 0; i < len(h); i += 2 {
			request.Header.Set(h[i], h[i+1])
		}
		r, err := e2e.Collect(testenv.Must(http.DefaultClient.Do(request))(t))
		if err != nil || r.Status != status {
			t.Fatalf("%s %s: %v, %v", method, target, r, err)
		}
		return string(r.Body)
	}
	s3(200, "PUT", "/0x1/key", "hello")
	expect("write 0x1/key 5 200 ")
	s3(200, "PUT", "/0x1/folder/", "")
	expect("write 0x1/folder/ 0 200 ")
	s3(200, "GET", "/0x1/key", "")
	expect("read 0x1/key 5 200 ")
	s3(200, "PUT", "/0x1/key?tagging", `<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>`)
	expect("tag 0x1/key 0 200 ")
	attributes := s3(200, "GET", "/0x1/key?attributes", "", "X-Amz-Object-Attributes", "ETag")
	expect(fmt.Sprintf("read 0x1/key %d 200 ", len(attributes)))
	s3(200, "PUT", "/0x1/copied", "", "X-Amz-Copy-Source", "/0x1/key")
	expect("copy 0x1/copied from 0x1/key 5 200 ")
	upload := s3(200, "POST", "/0x1/big?uploads", "")
	_, upload, _ = strings.Cut(upload, "<UploadId>")
	upload, _, _ = strings.Cut(upload, "</UploadId>")
	s3(200, "PUT", "/0x1/big?partNumber=2&uploadId="+upload, "", "X-Amz-Copy-Source", "/0x1/key")
	expect("read 0x1/key 5 200 ")
	s3(200, "PUT", "/0x1/big?partNumber=1&uploadId="+upload, "hello!")
	listed := s3(200, "GET", "/0x1/big?uploadId="+upload, "")
	_, etag, _ := strings.Cut(listed, "<ETag>")
	etag, _, _ = strings.Cut(etag, "</ETag>")
	s3(200, "POST", "/0x1/big?uploadId="+upload, `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>`+etag+`</ETag></Part></CompleteMultipartUpload>`)
	expect("write 0x1/big 6 200 ")
	const form = "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nposted\r\n--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nhello\r\n--x--\r\n"
	s3(204, "POST", "/0x1", form, "Content-Type", "multipart/form-data; boundary=x")
	expect("write 0x1/posted 5 204 ")
	const many = `<Delete><Object><Key>key</Key></Object><Object><Key>absent</Key></Object><Object><Key>big</Key><ETag>"other"</ETag></Object></Delete>`
	sum := md5.Sum([]byte(many))
	s3(200, "POST", "/0x1?delete", many, "Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	expect("delete 0x1/key 0 204 ", "delete 0x1/absent 0 204 ", "delete 0x1/big 0 412 precondition_failed")
	s3(400, "POST", "/0x1?delete", many, "Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")
	expect("delete 0x1/ 0 400 digest_mismatch")
	s3(204, "DELETE", "/0x1/copied", "")
	expect("delete 0x1/copied 0 204 ")

	requests := map[string]bool{}
	var got []string
	for _, line := range linesOf(t, file, len(want)) {
		got = append(got, line.String())
		requests[line.Request] = true
		if line.Client != "127.0.0.1" || line.Key != "" || time.Since(line.Time).Abs() > time.Hour {
			t.Errorf("%s has the client %q, the key %q and the time %v", line, line.Client, line.Key, line.Time)
		}
	}
	testenv.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "the audit log")
	if len(requests) != len(want)-2 { // three deletions are one request
		t.Errorf("%d requests, want %d", len(requests), len(want)-2)
	}
}

// TestAuditLogNamesKeys checks that a line has its caller's key, also one that refuses it, and that
// requests without a key, which anybody can repeat, have no line; nor have reads, unless asked for.
// Invariant 190.
func TestAuditLogNamesKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	s := e2e.StartHosted(t, "key", "--audit-log", file, "--s3-addr", "127.0.0.1:0")
	target := e2e.BlobTarget("0x1", "a")
	write, read := s.NewKey("--scopes", "write", "--accounts", "0x1"), s.NewKey("--scopes", "read", "--accounts", "0x1")
	s.As(write).Must(204, "PUT", target, []byte("x"))
	s.As(read).Must(200, "GET", target, nil)
	s.As(read).Must(403, "DELETE", target, nil)
	s.Must(401, "DELETE", target, nil)
	for _, header := range []string{"", "AWS4-HMAC-SHA256 nonsense"} {
		request := testenv.Must(http.NewRequestWithContext(t.Context(), "DELETE", s.S3+"/0x1/a", nil))(t)
		if header != "" {
			request.Header.Set("Authorization", header)
		}
		if r, err := e2e.Collect(testenv.Must(http.DefaultClient.Do(request))(t)); err != nil || r.Status != 403 && r.Status != 400 {
			t.Errorf("by S3 with %q: %v, %v", header, r, err)
		}
	}
	s.As(write).Must(204, "DELETE", target, nil)
	writer, reader := strings.Split(write, "_")[1], strings.Split(read, "_")[1]
	var got []string
	for _, line := range linesOf(t, file, 3) {
		got = append(got, line.Key+" "+line.String())
	}
	testenv.Equal(t, strings.Join(got, "\n"), strings.Join([]string{
		writer + " write 0x1/a 1 204 ", reader + " delete 0x1/a 0 403 scope_missing", writer + " delete 0x1/a 0 204 ",
	}, "\n"), "the audit log")
}

// TestAuditLogInTheDataFolder checks that a new instance may have it there.
// Invariant 190.
func TestAuditLogInTheDataFolder(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "new", "data")
	file := filepath.Join(data, "audit.log")
	s := e2e.Start(t, e2e.Options{Data: data, Flags: []string{"--audit-log", file}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "a"), nil)
	s.Stop()
	s.Launch()
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "b"), nil)
	testenv.Equal(t, fmt.Sprint(linesOf(t, file, 2)), "[write 0x1/a 0 204  write 0x1/b 0 204 ]", "lines")
}

// TestAuditLogIsRotated renames the file and sends SIGHUP, as logrotate does.
// Invariant 191.
func TestAuditLogIsRotated(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.log")
	s := e2e.Start(t, e2e.Options{Flags: []string{"--audit-log", file}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "before"), nil)
	linesOf(t, file, 1)
	testenv.OK(t, os.Rename(file, file+".1"))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "between"), nil)
	linesOf(t, file+".1", 2)
	s.Signal(syscall.SIGHUP)
	linesOf(t, file, 0)
	s.Await("the audit log was not reopened", func() bool { return strings.Contains(s.Log.String(), "reopened the audit log") })
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "after"), nil)
	testenv.Equal(t, linesOf(t, file, 1)[0].Name, "after", "the line in the new file")
	testenv.Equal(t, len(linesOf(t, file+".1", 2)), 2, "lines in the old file")
	s.Stop()
	testenv.Equal(t, len(linesOf(t, file, 1)), 1, "lines after the end")
}
