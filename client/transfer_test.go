package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/checksum"
	"sluice/client"
	"sluice/test/testenv"
)

// randomBytes returns n bytes that depend on n alone.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = src.Read(b) // it returns no error
	return b
}

// alteredWriter alters a response body.
type alteredWriter struct {
	http.ResponseWriter
	offset int64                               // where the next byte is
	alter  func(offset int64, p []byte) []byte // returns the bytes to send; shorter: the connection is cut
}

func (w *alteredWriter) Write(p []byte) (int, error) {
	out := w.alter(w.offset, bytes.Clone(p))
	w.offset += int64(len(out))
	n, err := w.ResponseWriter.Write(out)
	if len(out) < len(p) {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// cutAfter cuts a response after n bytes.
func cutAfter(n int64) func(int64, []byte) []byte {
	return func(offset int64, p []byte) []byte { return p[:min(int64(len(p)), n-offset)] }
}

// flip damages the byte at an offset.
func flip(at int64) func(int64, []byte) []byte {
	return func(offset int64, p []byte) []byte {
		if at >= offset && at < offset+int64(len(p)) {
			p[at-offset] ^= 1
		}
		return p
	}
}

// TestPutAndDownload stores contents of many sizes in each way, and reads them in each way.
func TestPutAndDownload(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	const part = 1000
	for _, size := range []int{0, 1, part - 1, part, part + 1, 3 * part, 10*part + 7} {
		want := randomBytes(size)
		file := filepath.Join(testenv.MemoryDir(t), "source")
		testenv.OK(t, os.WriteFile(file, want, 0o600))
		o := client.PutOptions{PartSize: part, ContentType: "text/x", Concurrency: 3}
		for how, put := range map[string]func() (client.Blob, error){
			"reader at": func() (client.Blob, error) { return c.Put(t.Context(), "team", "a", bytes.NewReader(want), o) },
			"stream": func() (client.Blob, error) {
				return c.Put(t.Context(), "team", "a", iotest.HalfReader(bytes.NewReader(want)), o)
			},
			"bytes": func() (client.Blob, error) {
				return c.Put(t.Context(), "team", "a", iotest.OneByteReader(bytes.NewReader(want)), o)
			},
			"file": func() (client.Blob, error) { return c.PutFile(t.Context(), "team", "a", file, o) },
		} {
			b, err := put()
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", how, size, err)
			}
			if want := checksum.ETag(int64(size), checksum.Update(0, want)); b.ETag != want || b.Size != int64(size) || b.LastModified.IsZero() {
				t.Errorf("%s of %d bytes returned %+v, want ETag %s", how, size, b, want)
			}
			r := testenv.Must(c.Get(t.Context(), "team", "a", client.GetOptions{}))(t)
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, want) || r.Blob().ContentType != "text/x" {
				t.Errorf("%s of %d bytes is read as %d bytes, %v, %+v", how, size, len(got), err, r.Blob())
			}
			testenv.Check(t, r.Close())
			for _, rangeSize := range []int64{1, 700, part, 1 << 20} {
				if rangeSize == 1 && size > 10 {
					continue
				}
				var w writerAt
				b, err := c.Download(t.Context(), "team", "a", &w, client.DownloadOptions{RangeSize: rangeSize})
				if err != nil || !bytes.Equal(w.bytes, want) || b.Size != int64(size) {
					t.Errorf("%s of %d bytes is downloaded in ranges of %d as %d bytes: %v", how, size, rangeSize, len(w.bytes), err)
				}
			}
		}
	}
	checkNoUploads(t, c)
}

// writerAt keeps the written bytes.
type writerAt struct {
	mu    sync.Mutex
	bytes []byte
}

func (w *writerAt) WriteAt(p []byte, offset int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if missing := int(offset) + len(p) - len(w.bytes); missing > 0 {
		w.bytes = append(w.bytes, make([]byte, missing)...)
	}
	return copy(w.bytes[offset:], p), nil
}

// TestEmptyBlobsAreNotWaitedFor checks that an empty blob is stored at once: net/http gets no body
// that it could close.
func TestEmptyBlobsAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newService(t, serviceOptions{reads: access.ReadsPublic}))
		began := time.Now()
		for _, content := range []io.Reader{strings.NewReader(""), onlyReader{strings.NewReader("")}} {
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", content, client.PutOptions{})))
		}
		testenv.Equal(t, time.Since(began), 0, "the time for two empty blobs")
	})
}

// TestReadContinuesAfterCut checks that a read in which each response is cut returns every byte
// once, that a read without progress ends with an error that is not io.EOF, and that neither is
// mistaken for the end.
// Invariant 147.
func TestReadContinuesAfterCut(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	want := randomBytes(100_000)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(want), client.PutOptions{})))
	t.Run("progress", func(t *testing.T) {
		s.alter(cutAfter(30_000))
		got, err := readAll(t, c, client.GetOptions{})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		testenv.Equal(t, s.requests(func(r request) bool { return strings.HasPrefix(r.rawRange, "bytes=") }), 3, "requests for the rest")
		var w writerAt
		if _, err := c.Download(t.Context(), "team", "a", &w, client.DownloadOptions{RangeSize: 50_000}); err != nil || !bytes.Equal(w.bytes, want) {
			t.Errorf("downloaded %d bytes, %v", len(w.bytes), err)
		}
	})
	t.Run("no progress", func(t *testing.T) {
		s.alter(cutAfter(0))
		impatient := testenv.Must(client.New(s.URL, client.Options{MaxAttempts: 3}))(t)
		o := testenv.Must(impatient.Open(t.Context(), "team", "a", client.GetOptions{}))(t)
		if n, err := o.Read(make([]byte, 10)); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes, %v", n, err)
		}
		testenv.Is(t, testenv.Error(impatient.Get(t.Context(), "team", "a", client.GetOptions{})), io.ErrUnexpectedEOF, "Get")
	})
}

// TestDamagedBytesAreFound checks that a wrong byte in a response is reported by each way to read a
// whole blob, unless it is not to be verified.
func TestDamagedBytesAreFound(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	want := randomBytes(50_000)
	for _, partSize := range []int64{0, 20_000} { // with and without a SHA-256
		testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(want), client.PutOptions{PartSize: partSize})))
		s.alter(flip(100))
		for _, skip := range []bool{false, true} {
			o := client.GetOptions{SkipVerify: skip}
			r := testenv.Must(c.Get(t.Context(), "team", "a", o))(t)
			n, err := io.Copy(io.Discard, r)
			if n != int64(len(want)) || errors.Is(err, client.ErrCorrupt) == skip || err != nil == skip {
				t.Errorf("SkipVerify %v: read %d bytes, %v", skip, n, err)
			}
			if _, err := r.Read(make([]byte, 1)); errors.Is(err, client.ErrCorrupt) == skip {
				t.Errorf("SkipVerify %v: the error of a second read is %v", skip, err)
			}
			var w writerAt
			if _, err = c.Download(t.Context(), "team", "a", &w, client.DownloadOptions{GetOptions: o, RangeSize: 9_000}); errors.Is(err, client.ErrCorrupt) == skip || err != nil == skip {
				t.Errorf("SkipVerify %v: downloaded, %v", skip, err)
			}
		}
		s.setHook(nil)
	}
}

// TestSHA256IsVerified checks the digest by itself: the response's ETag matches the damaged bytes.
func TestSHA256IsVerified(t *testing.T) {
	s, c := startServer(t)
	want := randomBytes(50_000)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(want), client.PutOptions{})))
	damaged := bytes.Clone(want)
	damaged[30_000] ^= 1
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("If-Match")
		begin, err := strconv.ParseInt(strings.Split(strings.TrimPrefix(r.Header.Get("Range")+"=0", "bytes="), "-")[0], 10, 64)
		if err != nil {
			begin = 0
		}
		next.ServeHTTP(&taggedWriter{alteredWriter{ResponseWriter: w, alter: flip(30_000 - begin)}, checksum.ETag(int64(len(damaged)), checksum.Update(0, damaged))}, r)
	})
	r := testenv.Must(c.Get(t.Context(), "team", "a", client.GetOptions{}))(t)
	testenv.Is(t, testenv.Error(io.Copy(io.Discard, r)), client.ErrCorrupt, "read")
	file := testenv.Must(os.Create(filepath.Join(testenv.MemoryDir(t), "f")))(t)
	defer func() { _ = file.Close() }()
	for _, w := range []io.WriterAt{file, &writerAt{}} {
		_, err := c.Download(t.Context(), "team", "a", w, client.DownloadOptions{RangeSize: 20_000})
		checkMessage(t, err, client.ErrCorrupt, "SHA-256")
	}
}

// taggedWriter replaces a response's ETag.
type taggedWriter struct {
	alteredWriter
	etag string
}

func (w *taggedWriter) WriteHeader(status int) {
	w.Header().Set("ETag", w.etag)
	w.alteredWriter.WriteHeader(status)
}

// TestReplacedBlob checks that no read mixes two versions of a blob.
// Invariant 147.
func TestReplacedBlob(t *testing.T) {
	s, c := startServer(t)
	old, replacement := randomBytes(50_000), randomBytes(60_000)
	replace := func(t *testing.T) {
		t.Helper()
		testenv.Check(t, testenv.Error(c.Put(context.WithoutCancel(t.Context()), "team", "a", bytes.NewReader(replacement), client.PutOptions{})))
	}
	for name, read := range map[string]func(t *testing.T) error{
		"Get after a cut": func(t *testing.T) error {
			s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet {
					w = &alteredWriter{ResponseWriter: w, alter: cutAfter(10_000)}
				}
				next.ServeHTTP(w, r)
			})
			r := testenv.Must(c.Get(t.Context(), "team", "a", client.GetOptions{}))(t)
			replace(t)
			_, err := io.Copy(io.Discard, r)
			return err
		},
		"ReadAt": func(t *testing.T) error {
			o := testenv.Must(c.Open(t.Context(), "team", "a", client.GetOptions{}))(t)
			replace(t)
			_, err := o.ReadAt(make([]byte, 10), 5)
			return err
		},
		"Download": func(t *testing.T) error {
			var once sync.Once
			s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet && !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
					once.Do(func() { replace(t) })
				}
				next.ServeHTTP(w, r)
			})
			_, err := c.Download(t.Context(), "team", "a", &writerAt{}, client.DownloadOptions{RangeSize: 10_000})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.setHook(nil)
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(old), client.PutOptions{})))
			testenv.Is(t, read(t), client.ErrChanged, "read")
		})
	}
}

// TestRangesAndSeeks compares a Reader and an Object with an io.SectionReader.
func TestRangesAndSeeks(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	content := randomBytes(10_000)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{})))
	o := testenv.Must(c.Open(t.Context(), "team", "a", client.GetOptions{}))(t)
	testenv.Equal(t, o.Size(), 10_000, "the size")
	testenv.Check(t, iotest.TestReader(o, content))
	for _, bounds := range [][2]int64{{0, 10_000}, {5, 100}, {9_999, 1}, {9_000, 5_000}, {4_000, -1}} {
		r := testenv.Must(c.GetRange(t.Context(), "team", "a", bounds[0], bounds[1], client.GetOptions{}))(t)
		end := bounds[0] + bounds[1]
		if bounds[1] < 0 || end > 10_000 {
			end = 10_000
		}
		want := content[bounds[0]:end]
		testenv.Equal(t, r.Size(), int64(len(want)), "the size of %v", bounds)
		if err := iotest.TestReader(r, want); err != nil {
			t.Errorf("%v: %v", bounds, err)
		}
		testenv.Check(t, r.Close())
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Error("a closed reader can be read")
		}
	}
	testenv.Is(t, testenv.Error(c.GetRange(t.Context(), "team", "a", 10_000, 1, client.GetOptions{})), client.ErrRangeInvalid, "a range after the end")
	testenv.Is(t, testenv.Error(c.Get(t.Context(), "team", "none", client.GetOptions{})), client.ErrNotFound, "a blob that does not exist")
	testenv.Check(t, o.Close())
	if _, err := o.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("a closed object can be read")
	}
}

// TestNamesInUTF8 checks that a name that is not UTF-8 is refused, whatever the request has: JSON
// would have another name, and two of them the same one.
func TestNamesInUTF8(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	for _, size := range []int{10, 2_500} {
		testenv.Is(t, testenv.Error(c.Put(t.Context(), "team", "a\xff", bytes.NewReader(make([]byte, size)), client.PutOptions{PartSize: 1000})), client.ErrInvalid, "%d bytes", size)
	}
	testenv.Is(t, testenv.Error(c.CreateSession(t.Context(), client.CreateSessionOptions{UserIdentity: "a\xff"})), client.ErrInvalid, "user identity")
	for e, err := range c.List(t.Context(), "team", client.ListOptions{}) {
		t.Errorf("%v is stored, %v", e, err)
	}
}

// TestFailedStreamIsAborted checks that an upload that cannot be resumed leaves nothing at the
// server.
func TestFailedStreamIsAborted(t *testing.T) {
	s, c := startServer(t)
	broken := errors.New("broken")
	put := func(source io.Reader) error {
		return testenv.Error(c.Put(t.Context(), "team", "a", source, client.PutOptions{PartSize: 1000}))
	}
	source := io.MultiReader(bytes.NewReader(randomBytes(5_000)), iotest.ErrReader(broken))
	testenv.Is(t, put(source), broken, "Put of a broken source")
	checkNoUploads(t, c)
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/parts/3") {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		next.ServeHTTP(w, r)
	})
	testenv.Is(t, put(bytes.NewReader(randomBytes(5_000))), client.ErrStorageFull, "Put that is refused")
	checkNoUploads(t, c)
}

// TestProgress checks that a transfer's progress is reported until all is done.
func TestProgress(t *testing.T) {
	_, c := startServer(t)
	content := randomBytes(50_000)
	var done, total, calls int64
	progress := func(d, n int64) { done, total, calls = d, n, calls+1 } // calls do not overlap
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{PartSize: 7_000, Progress: progress})))
	if done != 50_000 || total != 50_000 || calls == 0 {
		t.Errorf("put: %d of %d bytes in %d calls", done, total, calls)
	}
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", iotest.HalfReader(bytes.NewReader(content)), client.PutOptions{PartSize: 7_000, Progress: progress})))
	if done != 50_000 || total != 50_000 {
		t.Errorf("put of a stream: %d of %d bytes", done, total)
	}
	done, total = 0, 0
	testenv.OK(t, testenv.Error(c.Download(t.Context(), "team", "a", &writerAt{}, client.DownloadOptions{RangeSize: 7_000, Progress: progress})))
	if done != 50_000 || total != 50_000 {
		t.Errorf("download: %d of %d bytes", done, total)
	}
}

// onlyReader hides a reader's other methods.
type onlyReader struct{ io.Reader }

// TestDamagedRequests checks that parts that are damaged on the way to the service are sent again,
// even if a proxy has made their ETags weak, and never become a blob. Without their ETags, complete
// is refused.
func TestDamagedRequests(t *testing.T) {
	t.Parallel()
	content := randomBytes(3_000)
	for name, test := range map[string]struct {
		times int
		etag  func(string) string
		want  error
	}{
		"never":            {0, nil, nil},
		"once":             {1, nil, nil},
		"always":           {1 << 30, nil, client.ErrCorrupt},
		"never, weak ETag": {0, weak, nil},
		"once, weak ETag":  {1, weak, nil},
		"never, no ETag":   {0, none, nil},
		"once, no ETag":    {1, none, client.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := startInProcess()
			defer s.stop()
			c := testenv.Must(client.New(s.URL, client.Options{MaxAttempts: 3}))(t)
			defer c.CloseIdleConnections()
			var left atomic.Int64
			left.Store(int64(test.times))
			s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.HasSuffix(r.URL.Path, "/parts/1") && left.Add(-1) >= 0 {
					r.Body = &damaged{ReadCloser: r.Body}
				}
				if test.etag != nil && strings.Contains(r.URL.Path, "/parts/") {
					w = &changedETag{w, test.etag}
				}
				next.ServeHTTP(w, r)
			})
			var done int64
			_, err := c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{PartSize: 1000, Progress: func(n, _ int64) { done = n }})
			testenv.Is(t, err, test.want, "error")
			if err == nil {
				testenv.Equal(t, done, int64(len(content)), "the progress")
			}
			_, err = c.Head(t.Context(), "team", "a")
			testenv.Equal(t, err == nil, test.want == nil, "the blob exists, with error %v,", err)
		})
	}
}

func weak(etag string) string { return "W/" + etag }

func none(string) string { return "" }

// changedETag is a response with another ETag.
type changedETag struct {
	http.ResponseWriter
	change func(string) string
}

func (w *changedETag) WriteHeader(status int) {
	h := w.Header()
	if etag := w.change(h.Get("ETag")); etag == "" {
		h.Del("ETag")
	} else {
		h.Set("ETag", etag)
	}
	w.ResponseWriter.WriteHeader(status)
}

// damaged is a body with another first byte.
type damaged struct {
	io.ReadCloser
	done bool
}

func (d *damaged) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if n > 0 && !d.done {
		d.done = true
		p[0] ^= 1
	}
	return n, err
}
