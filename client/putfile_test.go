package client_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/test/testenv"
)

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// parts counts, for each part, how often the service acknowledged it.
type parts struct {
	mu       sync.Mutex
	accepted map[string]int
	handlers sync.WaitGroup
}

// count is a hook that counts parts, and calls before for each request.
func (p *parts) count(before func(r *http.Request)) func(http.ResponseWriter, *http.Request, http.Handler) {
	p.accepted = map[string]int{}
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		p.handlers.Add(1)
		defer p.handlers.Done()
		before(r)
		sw := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(sw, r)
		if _, part, ok := strings.Cut(r.URL.Path, "/parts/"); ok && sw.status == http.StatusOK {
			p.mu.Lock()
			p.accepted[part]++
			p.mu.Unlock()
		}
	}
}

// total returns how many parts were acknowledged, counting repetitions.
func (p *parts) total() int {
	p.handlers.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, times := range p.accepted {
		n += times
	}
	return n
}

// sourceFile is a file of 11 parts, in a folder of its own, and the service to send it to.
type sourceFile struct {
	t       *testing.T
	s       *inProcess
	c       *client.Client
	path    string
	content []byte
}

func newSourceFile(t *testing.T) *sourceFile {
	t.Helper()
	s, c := startServer(t)
	f := &sourceFile{t: t, s: s, c: c, path: filepath.Join(testenv.MemoryDir(t), "source")}
	f.write(randomBytes(10_500))
	return f
}

// put sends the file.
func (f *sourceFile) put(o client.PutOptions) error {
	return testenv.Error(f.c.PutFile(f.t.Context(), "team", "a", f.path, o))
}

func (f *sourceFile) write(content []byte) {
	f.t.Helper()
	f.content = content
	testenv.OK(f.t, os.WriteFile(f.path, content, 0o600))
}

// others returns all files in a path's folder except the file itself.
func others(t *testing.T, path string) []fs.DirEntry {
	t.Helper()
	entries := testenv.Must(os.ReadDir(filepath.Dir(path)))(t)
	var found []fs.DirEntry
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			found = append(found, e)
		}
	}
	return found
}

// interrupted sends the file, a part at a time, and ends the context when part 6 arrives. No other
// request is on its way then, which could arrive during the next call.
func (f *sourceFile) interrupted(p *parts, o client.PutOptions) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	o.Concurrency = 1
	f.s.setHook(p.count(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/parts/6") {
			cancel()
		}
	}))
	testenv.Is(f.t, testenv.Error(f.c.PutFile(ctx, "team", "a", f.path, o)), context.Canceled, "the interrupted upload")
	p.handlers.Wait()
}

// completedUnseen sends the file, and ends the context when the upload is complete, without the
// response.
func (f *sourceFile) completedUnseen(o client.PutOptions) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	f.s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/complete") {
			cancel()
			panic(http.ErrAbortHandler)
		}
	})
	testenv.Is(f.t, testenv.Error(f.c.PutFile(ctx, "team", "a", f.path, o)), client.ErrOutcomeUnknown, "the interrupted upload")
	f.s.setHook(nil)
}

// abortUploads aborts the uploads of a service.
func abortUploads(t *testing.T, c *client.Client) {
	t.Helper()
	for u, err := range c.Uploads(t.Context(), "team") {
		testenv.OK(t, errors.Join(err, c.AbortUpload(t.Context(), u.ID)))
	}
}

// storeBlob stores the blob a of the account team.
func storeBlob(t *testing.T, c *client.Client, content []byte) {
	t.Helper()
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{PartSize: 5_000})))
}

// checkFile fails the test unless the file has the content, and is alone in its folder.
func checkFile(t *testing.T, path string, want []byte) {
	t.Helper()
	checkContent(t, path, want)
	checkAlone(t, path)
}

// checkAlone fails the test if another file is in the folder of a file, which need not exist.
func checkAlone(t *testing.T, path string) {
	t.Helper()
	if left := others(t, path); left != nil {
		t.Errorf("files are left: %v", left)
	}
}

// checkStored fails the test unless the blob is the file, and neither an upload nor a file is left.
func (f *sourceFile) checkStored() {
	f.t.Helper()
	b := testenv.Must(f.c.Head(f.t.Context(), "team", "a"))(f.t)
	testenv.Equal(f.t, b.ETag, checksum.ETag(int64(len(f.content)), checksum.Update(0, f.content)), "the blob's ETag")
	f.checkNothingLeft()
}

func (f *sourceFile) checkNothingLeft() {
	f.t.Helper()
	checkNoUploads(f.t, f.c)
	checkAlone(f.t, f.path)
}

// TestPutFileResumes checks that an upload that was interrupted is continued by the next call,
// which sends no part that the service has acknowledged.
// Invariant 145.
func TestPutFileResumes(t *testing.T) {
	f := newSourceFile(t)
	var p parts
	o := client.PutOptions{PartSize: 1000, Concurrency: 2, Expires: time.Now().Add(time.Hour), Metadata: map[string]string{"color": "red"}}
	f.interrupted(&p, o)
	left := others(t, f.path)
	if len(left) != 1 || !client.IsTemporary(left[0].Name()) {
		t.Fatalf("files beside the source: %v", left)
	}
	testenv.Equal(t, testenv.Must(left[0].Info())(t).Mode(), 0o600, "the state file's mode")
	if had := p.total(); had < 4 {
		t.Errorf("%d parts before the interruption", had)
	}
	accepted := p.accepted
	f.s.setHook(p.count(func(*http.Request) {}))
	p.accepted = accepted
	o.Expires = time.Now().Add(time.Hour) // "in an hour", given later
	stored := int64(len(accepted)) * 1000
	var reported []int64
	o.Progress = func(done, _ int64) { reported = append(reported, done) }
	testenv.OK(t, f.put(o))
	testenv.Equal(t, p.total(), 11, "the acknowledged parts")
	testenv.Equal(t, len(p.accepted), 11, "the different parts")
	testenv.Equal(t, reported[0], stored, "the first progress")
	testenv.Equal(t, reported[len(reported)-1], 10_500, "the last progress")
	f.checkStored()
}

// TestPutFileBeginsAnew checks that an upload that cannot be continued is replaced by another, and
// that the blob is the file as it is now.
// Invariant 145.
func TestPutFileBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(f *sourceFile, o *client.PutOptions)
		sent   int // parts in the second call
	}{
		"another time": {func(f *sourceFile, _ *client.PutOptions) {
			testenv.OK(f.t, os.Chtimes(f.path, time.Time{}, time.Unix(1, 0)))
		}, 11},
		"another size": {func(f *sourceFile, _ *client.PutOptions) {
			f.write(append(f.content, "more"...))
		}, 11},
		"other bytes with the same size and time": {func(f *sourceFile, _ *client.PutOptions) {
			info := testenv.Must(os.Stat(f.path))(f.t)
			changed := bytes.Clone(f.content)
			changed[0] ^= 1
			f.write(changed)
			testenv.OK(f.t, os.Chtimes(f.path, time.Time{}, info.ModTime()))
		}, -1},
		"aborted upload": {func(f *sourceFile, _ *client.PutOptions) { abortUploads(f.t, f.c) }, 11},
		"other options":  {func(_ *sourceFile, o *client.PutOptions) { o.ContentType = "text/x" }, 11},
		"another expiry": {func(_ *sourceFile, o *client.PutOptions) {
			o.Expires = o.Expires.Add(time.Hour)
		}, 11},
		"damaged state": {func(f *sourceFile, _ *client.PutOptions) {
			for _, e := range others(f.t, f.path) {
				testenv.OK(f.t, os.WriteFile(filepath.Join(filepath.Dir(f.path), e.Name()), []byte("{"), 0o600))
			}
		}, 11},
		"foreign upload with the same id": {func(f *sourceFile, _ *client.PutOptions) {
			for u, err := range f.c.Uploads(f.t.Context(), "team") { // another writer has sent other bytes
				testenv.OK(f.t, err)
				r := testenv.Must(http.NewRequestWithContext(f.t.Context(), http.MethodPut, f.c.URL()+"/v1/multipart-uploads/"+u.ID+"/parts/0", bytes.NewReader(make([]byte, 1000))))(f.t)
				resp, err := http.DefaultClient.Do(r)
				if err != nil || resp.StatusCode != 200 {
					f.t.Fatal(resp, err)
				}
				testenv.OK(f.t, resp.Body.Close())
			}
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSourceFile(t)
			var p parts
			o := client.PutOptions{PartSize: 1000, Concurrency: 2, Expires: time.Now().Add(time.Hour)}
			f.interrupted(&p, o)
			f.s.setHook(nil)
			test.change(f, &o)
			f.s.setHook(p.count(func(*http.Request) {}))
			testenv.OK(t, f.put(o))
			if n := p.total(); test.sent >= 0 && n != test.sent || n < 11 {
				t.Errorf("%d parts were sent", n)
			}
			if name == "damaged state" { // nothing has the former upload's id; it expires
				abortUploads(t, f.c)
			}
			f.checkStored()
		})
	}
}

// TestLostCompletion checks the next call if the response to complete was lost: it sends nothing if
// the blob is the file, and everything if the blob was replaced since.
// Invariant 145.
func TestLostCompletion(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		f := newSourceFile(t)
		o := client.PutOptions{PartSize: 1000, IfAbsent: !replaced}
		f.completedUnseen(o)
		want := 0
		if replaced {
			want = 11
			storeBlob(t, f.c, []byte("other"))
		}
		var p parts
		f.s.setHook(p.count(func(*http.Request) {}))
		testenv.OK(t, f.put(o))
		testenv.Equal(t, p.total(), want, "parts that were sent with replaced %v", replaced)
		f.checkStored()
	}
}

// TestFileChangesMeanwhile checks that no upload is completed while its file changes.
// Invariant 145.
func TestFileChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *sourceFile) error{
		"shorter": func(f *sourceFile) error { return os.Truncate(f.path, 5_000) },
		"longer":  func(f *sourceFile) error { return os.Truncate(f.path, 20_000) },
		"touched": func(f *sourceFile) error { return os.Chtimes(f.path, time.Time{}, time.Unix(1, 0)) },
	} {
		for _, partSize := range []int64{1000, 1 << 20} {
			t.Run(name, func(t *testing.T) {
				f := newSourceFile(t)
				var once sync.Once
				f.s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method == http.MethodPut {
						once.Do(func() { testenv.Check(t, change(f)) })
					}
					next.ServeHTTP(w, r)
				})
				testenv.Is(t, f.put(client.PutOptions{PartSize: partSize, Concurrency: 1}), client.ErrChanged, "PutFile")
				f.checkNothingLeft()
			})
		}
	}
}

// TestRefusedCondition checks that an upload is aborted if its condition does not hold.
func TestRefusedCondition(t *testing.T) {
	f := newSourceFile(t)
	storeBlob(t, f.c, []byte("other"))
	checkError(t, f.put(client.PutOptions{PartSize: 1000, IfAbsent: true}), client.ErrPreconditionFailed, client.ErrOutcomeUnknown)
	f.checkNothingLeft()
}

// TestForgetUpload checks that nothing remains of an interrupted upload that will not be continued,
// whatever its state is.
func TestForgetUpload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, c *client.Client, state string){
		"open":    func(*testing.T, *client.Client, string) {},
		"aborted": func(t *testing.T, c *client.Client, _ string) { abortUploads(t, c) },
		"damaged state": func(t *testing.T, c *client.Client, state string) {
			abortUploads(t, c) // nothing refers to it any more
			testenv.OK(t, os.WriteFile(state, []byte("{"), 0o600))
		},
		"only other files of the state": func(t *testing.T, c *client.Client, state string) {
			abortUploads(t, c)
			testenv.OK(t, errors.Join(os.Rename(state, state+".tmp"), os.WriteFile(state+".lock", nil, 0o600)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSourceFile(t)
			f.interrupted(&parts{}, client.PutOptions{PartSize: 1000})
			f.s.setHook(nil)
			change(t, f.c, filepath.Join(filepath.Dir(f.path), others(t, f.path)[0].Name()))
			for range 2 { // the second call finds nothing
				testenv.OK(t, f.c.ForgetUpload(t.Context(), "team", "a", f.path, client.PutOptions{}))
			}
			f.checkNothingLeft()
		})
	}
}

// TestForgetCompletedUpload checks that a blob remains if its upload is forgotten because the
// response to complete was lost.
func TestForgetCompletedUpload(t *testing.T) {
	f := newSourceFile(t)
	f.completedUnseen(client.PutOptions{PartSize: 1000})
	testenv.OK(t, f.c.ForgetUpload(t.Context(), "team", "a", f.path, client.PutOptions{}))
	f.checkStored()
}

// TestBusy checks that a second transfer of the same file is refused while the first runs.
func TestBusy(t *testing.T) {
	f := newSourceFile(t)
	var second atomic.Bool
	f.s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !second.Swap(true) {
			testenv.Is(t, f.put(client.PutOptions{PartSize: 1000}), client.ErrBusy, "a second upload")
			testenv.Is(t, f.c.ForgetUpload(t.Context(), "team", "a", f.path, client.PutOptions{}), client.ErrBusy, "ForgetUpload")
			if _, err := f.c.PutFile(t.Context(), "team", "b", f.path, client.PutOptions{PartSize: 1000}); err != nil {
				t.Errorf("an upload to another name: %v", err)
			}
		}
		next.ServeHTTP(w, r)
	})
	testenv.OK(t, f.put(client.PutOptions{PartSize: 1000}))
	target := target(t)
	second.Store(false)
	f.s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") && !second.Swap(true) {
			testenv.Is(t, testenv.Error(f.c.DownloadFile(t.Context(), "team", "a", target, client.DownloadOptions{RangeSize: 1000})), client.ErrBusy, "a second download")
			testenv.Is(t, f.c.ForgetDownload("team", "a", target, client.DownloadOptions{}), client.ErrBusy, "ForgetDownload")
		}
		next.ServeHTTP(w, r)
	})
	testenv.OK(t, testenv.Error(f.c.DownloadFile(t.Context(), "team", "a", target, client.DownloadOptions{RangeSize: 1000})))
	checkFile(t, target, f.content)
}
