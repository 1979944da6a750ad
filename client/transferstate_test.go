package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sluice/blob"
	"sluice/test/testenv"
	"sluice/wire"
)

func exampleUploadState() *uploadState {
	account, name, partSize := "team", "a/b", int64(1000)
	return &uploadState{
		Version: 1, Service: "http://localhost:9090", UploadID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Begun: time.Unix(1, 0).UTC(),
		Begin: wire.BeginUpload{RawAccount: &account, RawBlobName: &name, RawPartSize: &partSize},
		Size:  10_500, Modified: time.Unix(5, 123).UTC(),
	}
}

// FuzzParseUploadState checks that a parsed state is written as it was, and describes a possible
// upload.
func FuzzParseUploadState(f *testing.F) {
	text := testenv.Must(json.Marshal(exampleUploadState()))(f)
	f.Add(text)
	f.Add(bytes.Replace(text, []byte("10500"), []byte("-1"), 1))
	f.Add([]byte(`{"version":1,"uploadId":"A","begin":{"rawAccount":"a","rawBlobName":"b","rawPartSize":0}}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseUploadState(text)
		if err != nil {
			return
		}
		u := (&Client{}).existingUpload(s.UploadID, *s.Begin.RawBlobName, *s.Begin.RawPartSize, nil, nil)
		if n := u.parts(s.Size); n < 0 || n > maxParts {
			t.Errorf("%d parts", n)
		}
		again := testenv.Must(json.Marshal(s))(t)
		if s, err = parseUploadState(again); err != nil {
			t.Errorf("%s cannot be parsed: %v", again, err)
		} else if !s.resumes(s) {
			t.Errorf("%s does not resume itself", again)
		}
	})
}

// FuzzParseDownloadState checks that a state's ranges lie in its blob.
func FuzzParseDownloadState(f *testing.F) {
	head := `{"version":1,"service":"http://localhost:9090","account":"team","name":"a","etag":"\"5-0000000000000000\"","size":10500,"rangeSize":1000}` + "\n"
	f.Add([]byte(head + "0 00000000000000ff\n10 0123456789abcdef\n"))
	f.Add([]byte(head + "0 00000000000000ff\n10 0123"))
	f.Add([]byte(head + "11 0000000000000000\n"))
	f.Add([]byte(head))
	f.Add([]byte(strings.TrimSpace(head)))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseDownloadState(text)
		if err != nil {
			return
		}
		for i := range s.ranges {
			if begin := int64(i) * s.RangeSize; i < 0 || begin < 0 || begin >= s.Size {
				t.Errorf("range %d of %d bytes by %d", i, s.Size, s.RangeSize)
			}
		}
		again := testenv.Must(json.Marshal(s))(t)
		again = append(again, '\n')
		for i, crc := range s.ranges {
			again = appendRange(again, i, crc)
		}
		if parsed, err := parseDownloadState(again); err != nil || len(parsed.ranges) != len(s.ranges) {
			t.Errorf("%q is parsed as %v, %v", again, parsed, err)
		}
	})
}

// TestPartSizes checks that the default part size is enough for every size, and the limits of
// parts.
func TestPartSizes(t *testing.T) {
	for _, size := range []int64{0, 1, DefaultPartSize, 1 << 40, maxBlobSize} {
		o := PutOptions{}
		part := o.partSize(size)
		if parts := (size + part - 1) / part; parts > maxParts || part > maxPartSize || part < DefaultPartSize {
			t.Errorf("%d bytes: %d parts of %d bytes", size, parts, part)
		}
	}
	o := PutOptions{PartSize: 7}
	testenv.Equal(t, o.partSize(maxBlobSize), 7, "the part size")
}

// TestLimitsOfTheService checks that the client, which does not import the service, has its limits.
func TestLimitsOfTheService(t *testing.T) {
	testenv.Equal(t, maxBlobSize, blob.MaxSize, "the bytes of a blob")
	testenv.Equal(t, maxPartSize, blob.MaxPartSize, "the bytes of a part")
	testenv.Equal(t, maxParts, blob.MaxParts, "the parts of an upload")
}

// TestResumes checks which upload a later call continues.
func TestResumes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *uploadState)
		want   bool
	}{
		"same":                  {func(*uploadState) {}, true},
		"another part size":     {func(s *uploadState) { *s.Begin.RawPartSize = 5 }, true},
		"later":                 {func(s *uploadState) { s.Begun = s.Begun.Add(time.Hour) }, true},
		"expiry as much later":  {func(s *uploadState) { s.Begun, s.Begin.Expires = s.Begun.Add(time.Hour), "2030-01-01T01:00:00Z" }, true},
		"expiry more later":     {func(s *uploadState) { s.Begun, s.Begin.Expires = s.Begun.Add(time.Hour), "2030-01-01T01:01:01Z" }, false},
		"expiry before":         {func(s *uploadState) { s.Begun, s.Begin.Expires = s.Begun.Add(time.Hour), "2029-01-01T00:00:00Z" }, false},
		"no expiry":             {func(s *uploadState) { s.Begin.Expires = "" }, false},
		"another service":       {func(s *uploadState) { s.Service = "http://localhost:9091" }, false},
		"another size":          {func(s *uploadState) { s.Size++ }, false},
		"another time":          {func(s *uploadState) { s.Modified = s.Modified.Add(1) }, false},
		"another name":          {func(s *uploadState) { *s.Begin.RawBlobName = "c" }, false},
		"another content type":  {func(s *uploadState) { s.Begin.ContentType = "text/x" }, false},
		"a condition":           {func(s *uploadState) { s.Begin.IfNoneMatch = "*" }, false},
		"additional metadata":   {func(s *uploadState) { s.Begin.Metadata = map[string]string{"a": "b"} }, false},
		"another cache control": {func(s *uploadState) { s.Begin.CacheControl = "no-cache" }, false},
	} {
		before, now := exampleUploadState(), exampleUploadState()
		before.Begin.Expires, now.Begin.Expires = "2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"
		test.change(now)
		testenv.Equal(t, before.resumes(now), test.want, "%s", name)
	}
}
