package client_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/checksum"
	"sluice/client"
	"sluice/internal/testenv"
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

// sourceFile is a file to send, in a folder of its own.
type sourceFile struct {
	t       *testing.T
	path    string
	content []byte
}

func newSourceFile(t *testing.T, size int) *sourceFile {
	t.Helper()
	f := &sourceFile{t, filepath.Join(testenv.MemoryDir(t), "source"), randomBytes(size)}
	f.write(f.content)
	return f
}

func (f *sourceFile) write(content []byte) {
	f.t.Helper()
	f.content = content
	testenv.OK(f.t, os.WriteFile(f.path, content, 0o600))
}

// others returns the other files in a folder.
func others(t *testing.T, path string) []fs.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	testenv.OK(t, err)
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
func (f *sourceFile) interrupted(s *inProcess, c *client.Client, p *parts, o client.PutOptions) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	o.Concurrency = 1
	s.setHook(p.count(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/parts/6") {
			cancel()
		}
	}))
	if _, err := c.PutFile(ctx, "team", "a", f.path, o); !errors.Is(err, context.Canceled) {
		f.t.Fatalf("the interrupted upload returned %v", err)
	}
	p.handlers.Wait()
}

// checkStored fails the test unless the blob is the file, and neither an upload nor a file is left.
func (f *sourceFile) checkStored(c *client.Client) {
	f.t.Helper()
	b, err := c.Head(f.t.Context(), "team", "a")
	if want := checksum.ETag(int64(len(f.content)), checksum.Update(0, f.content)); err != nil || b.ETag != want {
		f.t.Errorf("the blob is %s, %v, and the file %s", b.ETag, err, want)
	}
	f.checkNothingLeft(c)
}

func (f *sourceFile) checkNothingLeft(c *client.Client) {
	f.t.Helper()
	for u, err := range c.Uploads(f.t.Context(), "team") {
		f.t.Errorf("an upload is left: %v, %v", u, err)
	}
	if left := others(f.t, f.path); left != nil {
		f.t.Errorf("files are left: %v", left)
	}
}

// TestPutFileResumes checks that an upload that was interrupted is continued by the next call,
// which sends no part that the service has acknowledged.
func TestPutFileResumes(t *testing.T) {
	s, c := startServer(t)
	f := newSourceFile(t, 10_500)
	var p parts
	o := client.PutOptions{PartSize: 1000, Concurrency: 2, Expires: time.Now().Add(time.Hour), Metadata: map[string]string{"color": "red"}}
	f.interrupted(s, c, &p, o)
	left := others(t, f.path)
	if len(left) != 1 || !client.IsTemporary(left[0].Name()) {
		t.Fatalf("files beside the source: %v", left)
	}
	info, err := left[0].Info()
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("state file: %v, %v", info.Mode(), err)
	}
	had := p.total()
	if had < 4 {
		t.Errorf("%d parts before the interruption", had)
	}
	accepted := p.accepted
	s.setHook(p.count(func(*http.Request) {}))
	p.accepted = accepted
	o.Expires = time.Now().Add(time.Hour) // "in an hour", said later
	var first, last int64 = -1, 0
	o.Progress = func(done, _ int64) {
		if first < 0 && done > 0 {
			first = done
		}
		last = done
	}
	testenv.OK(t, testenv.Error(c.PutFile(t.Context(), "team", "a", f.path, o)))
	if p.total() != 11 || len(p.accepted) != 11 {
		t.Errorf("acknowledged parts: %v", p.accepted)
	}
	if last != 10_500 {
		t.Errorf("progress ended with %d", last)
	}
	f.checkStored(c)
}

// TestPutFileBeginsAnew checks that an upload that cannot be continued is replaced by another, and
// that the blob is the file as it is now.
func TestPutFileBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, c *client.Client, f *sourceFile, o *client.PutOptions)
		sent   int // parts in the second call
	}{
		"another time": {func(t *testing.T, _ *client.Client, f *sourceFile, _ *client.PutOptions) {
			testenv.OK(t, os.Chtimes(f.path, time.Time{}, time.Unix(1, 0)))
		}, 11},
		"another size": {func(_ *testing.T, _ *client.Client, f *sourceFile, _ *client.PutOptions) {
			f.write(append(f.content, "more"...))
		}, 11},
		"other bytes with the same size and time": {func(t *testing.T, _ *client.Client, f *sourceFile, _ *client.PutOptions) {
			info, err := os.Stat(f.path)
			testenv.OK(t, err)
			changed := bytes.Clone(f.content)
			changed[0] ^= 1
			f.write(changed)
			testenv.OK(t, os.Chtimes(f.path, time.Time{}, info.ModTime()))
		}, -1},
		"aborted upload": {func(t *testing.T, c *client.Client, _ *sourceFile, _ *client.PutOptions) {
			for u, err := range c.Uploads(t.Context(), "team") {
				testenv.OK(t, errors.Join(err, c.AbortUpload(t.Context(), u.ID)))
			}
		}, 11},
		"other options": {func(_ *testing.T, _ *client.Client, _ *sourceFile, o *client.PutOptions) {
			o.ContentType = "text/x"
		}, 11},
		"another expiry": {func(_ *testing.T, _ *client.Client, _ *sourceFile, o *client.PutOptions) {
			o.Expires = o.Expires.Add(time.Hour)
		}, 11},
		"damaged state": {func(t *testing.T, _ *client.Client, f *sourceFile, _ *client.PutOptions) {
			for _, e := range others(t, f.path) {
				testenv.OK(t, os.WriteFile(filepath.Join(filepath.Dir(f.path), e.Name()), []byte("{"), 0o600))
			}
		}, 11},
		"foreign upload with the same id": {func(t *testing.T, c *client.Client, _ *sourceFile, _ *client.PutOptions) {
			for u, err := range c.Uploads(t.Context(), "team") { // another writer has sent other bytes
				testenv.OK(t, err)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.URL()+"/v1/multipart-uploads/"+u.ID+"/parts/0", bytes.NewReader(make([]byte, 1000)))
				testenv.OK(t, err)
				resp, err := http.DefaultClient.Do(r)
				if err != nil || resp.StatusCode != 200 {
					t.Fatal(resp, err)
				}
				testenv.OK(t, resp.Body.Close())
			}
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := startServer(t)
			f := newSourceFile(t, 10_500)
			var p parts
			o := client.PutOptions{PartSize: 1000, Concurrency: 2, Expires: time.Now().Add(time.Hour)}
			f.interrupted(s, c, &p, o)
			s.setHook(nil)
			test.change(t, c, f, &o)
			s.setHook(p.count(func(*http.Request) {}))
			testenv.OK(t, testenv.Error(c.PutFile(t.Context(), "team", "a", f.path, o)))
			if n := p.total(); test.sent >= 0 && n != test.sent || n < 11 {
				t.Errorf("%d parts were sent", n)
			}
			b, err := c.Head(t.Context(), "team", "a")
			if want := checksum.ETag(int64(len(f.content)), checksum.Update(0, f.content)); err != nil || b.ETag != want {
				t.Errorf("the blob is %s, %v, and the file %s", b.ETag, err, want)
			}
			if name == "damaged state" { // nothing has the former upload's id; it expires
				for u, err := range c.Uploads(t.Context(), "team") {
					testenv.OK(t, errors.Join(err, c.AbortUpload(t.Context(), u.ID)))
				}
			}
			f.checkNothingLeft(c)
		})
	}
}

// TestLostCompletion checks what the next call does if the response to complete was lost: it sends
// nothing if the blob is the file, and everything if the blob was replaced since.
func TestLostCompletion(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s, c := startServer(t)
		f := newSourceFile(t, 10_500)
		ctx, cancel := context.WithCancel(t.Context())
		s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			if strings.HasSuffix(r.URL.Path, "/complete") {
				cancel()
				panic(http.ErrAbortHandler)
			}
		})
		o := client.PutOptions{PartSize: 1000, IfAbsent: !replaced}
		if _, err := c.PutFile(ctx, "team", "a", f.path, o); !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Fatalf("the interrupted upload returned %v", err)
		}
		s.setHook(nil)
		want := 0
		if replaced {
			want = 11
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("other"), client.PutOptions{})))
		}
		var p parts
		s.setHook(p.count(func(*http.Request) {}))
		testenv.OK(t, testenv.Error(c.PutFile(t.Context(), "team", "a", f.path, o)))
		if n := p.total(); n != want {
			t.Errorf("replaced %v: %d parts were sent, want %d", replaced, n, want)
		}
		f.checkStored(c)
	}
}

// TestFileChangesMeanwhile checks that no upload is completed while its file changes.
func TestFileChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *sourceFile) error{
		"shorter": func(f *sourceFile) error { return os.Truncate(f.path, 5_000) },
		"longer":  func(f *sourceFile) error { return os.Truncate(f.path, 20_000) },
		"touched": func(f *sourceFile) error { return os.Chtimes(f.path, time.Time{}, time.Unix(1, 0)) },
	} {
		for _, partSize := range []int64{1000, 1 << 20} {
			t.Run(name, func(t *testing.T) {
				s, c := startServer(t)
				f := newSourceFile(t, 10_500)
				var once sync.Once
				s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method == http.MethodPut {
						once.Do(func() {
							testenv.Check(t, change(f))
						})
					}
					next.ServeHTTP(w, r)
				})
				testenv.Is(t, testenv.Error(c.PutFile(t.Context(), "team", "a", f.path, client.PutOptions{PartSize: partSize, Concurrency: 1})), client.ErrChanged, "PutFile")
				f.checkNothingLeft(c)
			})
		}
	}
}

// TestRefusedCondition checks that an upload is aborted if its condition does not hold.
func TestRefusedCondition(t *testing.T) {
	_, c := startServer(t)
	f := newSourceFile(t, 10_500)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("other"), client.PutOptions{})))
	if _, err := c.PutFile(t.Context(), "team", "a", f.path, client.PutOptions{PartSize: 1000, IfAbsent: true}); !errors.Is(err, client.ErrPreconditionFailed) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	f.checkNothingLeft(c)
}

// TestForgetUpload checks that nothing remains of an interrupted upload that will not be continued,
// whatever its state is.
func TestForgetUpload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, c *client.Client, state string){
		"open": func(*testing.T, *client.Client, string) {},
		"aborted": func(t *testing.T, c *client.Client, _ string) {
			for u, err := range c.Uploads(t.Context(), "team") {
				testenv.OK(t, errors.Join(err, c.AbortUpload(t.Context(), u.ID)))
			}
		},
		"damaged state": func(t *testing.T, c *client.Client, state string) {
			for u, err := range c.Uploads(t.Context(), "team") { // nothing refers to it any more
				testenv.OK(t, errors.Join(err, c.AbortUpload(t.Context(), u.ID), os.WriteFile(state, []byte("{"), 0o600)))
			}
		},
		"only other files of the state": func(t *testing.T, c *client.Client, state string) {
			for u, err := range c.Uploads(t.Context(), "team") {
				testenv.OK(t, errors.Join(err, c.AbortUpload(t.Context(), u.ID), os.Rename(state, state+".tmp"), os.WriteFile(state+".lock", nil, 0o600)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := startServer(t)
			f := newSourceFile(t, 10_500)
			f.interrupted(s, c, &parts{}, client.PutOptions{PartSize: 1000})
			s.setHook(nil)
			change(t, c, filepath.Join(filepath.Dir(f.path), others(t, f.path)[0].Name()))
			for range 2 { // the second call finds nothing
				testenv.OK(t, c.ForgetUpload(t.Context(), "team", "a", f.path, client.PutOptions{}))
			}
			f.checkNothingLeft(c)
		})
	}
}

// TestForgetCompletedUpload checks that a blob remains if its upload is forgotten because the
// response to complete was lost.
func TestForgetCompletedUpload(t *testing.T) {
	s, c := startServer(t)
	f := newSourceFile(t, 10_500)
	ctx, cancel := context.WithCancel(t.Context())
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/complete") {
			cancel()
			panic(http.ErrAbortHandler)
		}
	})
	if _, err := c.PutFile(ctx, "team", "a", f.path, client.PutOptions{PartSize: 1000}); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatalf("the interrupted upload returned %v", err)
	}
	s.setHook(nil)
	testenv.OK(t, c.ForgetUpload(t.Context(), "team", "a", f.path, client.PutOptions{}))
	f.checkStored(c)
}

// TestForgetDownload checks that nothing remains of an interrupted download that will not be
// continued, and that no request is sent for it.
func TestForgetDownload(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(randomBytes(10_500)), client.PutOptions{PartSize: 5_000})))
	path := target(t)
	for _, suffix := range []string{"", ".sluice-part", ".sluice-download"} { // without which file
		interruptedDownload(t, s, c, path, client.DownloadOptions{RangeSize: 1000, Concurrency: 1})
		for _, e := range others(t, path) {
			if suffix != "" && strings.HasSuffix(e.Name(), suffix) {
				testenv.OK(t, os.Remove(filepath.Join(filepath.Dir(path), e.Name())))
			}
		}
		for range 2 { // the second call finds nothing
			testenv.OK(t, c.ForgetDownload("team", "a", path, client.DownloadOptions{}))
		}
		if left := others(t, path); left != nil {
			t.Errorf("without %q, %v is left", suffix, left)
		}
	}
	if sent := s.requests(func(request) bool { return true }); len(sent) != 0 {
		t.Errorf("requests: %v", sent)
	}
}

// TestBusy checks that a second transfer of the same file is refused while the first runs.
func TestBusy(t *testing.T) {
	s, c := startServer(t)
	f := newSourceFile(t, 10_500)
	var second atomic.Bool
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !second.Swap(true) {
			testenv.Is(t, testenv.Error(c.PutFile(t.Context(), "team", "a", f.path, client.PutOptions{PartSize: 1000})), client.ErrBusy, "a second upload")
			testenv.Is(t, c.ForgetUpload(t.Context(), "team", "a", f.path, client.PutOptions{}), client.ErrBusy, "ForgetUpload")
			if _, err := c.PutFile(t.Context(), "team", "b", f.path, client.PutOptions{PartSize: 1000}); err != nil {
				t.Errorf("an upload to another name: %v", err)
			}
		}
		next.ServeHTTP(w, r)
	})
	testenv.OK(t, testenv.Error(c.PutFile(t.Context(), "team", "a", f.path, client.PutOptions{PartSize: 1000})))
	target := filepath.Join(testenv.MemoryDir(t), "target")
	second.Store(false)
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") && !second.Swap(true) {
			testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", target, client.DownloadOptions{RangeSize: 1000})), client.ErrBusy, "a second download")
			testenv.Is(t, c.ForgetDownload("team", "a", target, client.DownloadOptions{}), client.ErrBusy, "ForgetDownload")
		}
		next.ServeHTTP(w, r)
	})
	testenv.OK(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", target, client.DownloadOptions{RangeSize: 1000})))
	if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, f.content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// target is a file to receive, in a folder of its own.
func target(t *testing.T) string {
	t.Helper()
	return filepath.Join(testenv.MemoryDir(t), "target")
}

// interruptedDownload receives a blob of 10,500 bytes, and ends the context when its sixth range is
// requested.
func interruptedDownload(t *testing.T, s *inProcess, c *client.Client, path string, o client.DownloadOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=6000-") {
			cancel()
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	if _, err := c.DownloadFile(ctx, "team", "a", path, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted download returned %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the file exists: %v", err)
	}
	s.setHook(nil)
}

// TestDownloadFileResumes checks that a download that was interrupted is continued by the next
// call, and what that call requests if something has changed meanwhile.
func TestDownloadFileResumes(t *testing.T) {
	t.Parallel()
	find := func(t *testing.T, path, suffix string) string {
		t.Helper()
		for _, e := range others(t, path) {
			if strings.HasSuffix(e.Name(), suffix) {
				return filepath.Join(filepath.Dir(path), e.Name())
			}
		}
		t.Fatalf("there is no file %s", suffix)
		return ""
	}
	for name, test := range map[string]struct {
		change      func(t *testing.T, c *client.Client, path string) (replacement []byte)
		least, most int // requested ranges
	}{
		"nothing": {func(*testing.T, *client.Client, string) []byte { return nil }, 5, 5},
		"damaged range": {func(t *testing.T, _ *client.Client, path string) []byte {
			f, err := os.OpenFile(find(t, path, ".sluice-part"), os.O_RDWR, 0)
			testenv.OK(t, err)
			testenv.OK(t, testenv.Error(f.WriteAt([]byte("damage"), 1_500)))
			testenv.OK(t, f.Close())
			return nil
		}, 6, 6},
		"shorter file": {func(t *testing.T, _ *client.Client, path string) []byte {
			testenv.OK(t, os.Truncate(find(t, path, ".sluice-part"), 1_500))
			return nil
		}, 10, 10},
		"no file": {func(t *testing.T, _ *client.Client, path string) []byte {
			testenv.OK(t, os.Remove(find(t, path, ".sluice-part")))
			return nil
		}, 11, 11},
		"torn last line": {func(t *testing.T, _ *client.Client, path string) []byte {
			state := find(t, path, ".sluice-download")
			text, err := os.ReadFile(state)
			testenv.OK(t, err)
			testenv.OK(t, os.WriteFile(state, text[:len(text)-3], 0o600))
			return nil
		}, 6, 6},
		"damaged state": {func(t *testing.T, _ *client.Client, path string) []byte {
			testenv.OK(t, os.WriteFile(find(t, path, ".sluice-download"), []byte("garbage\n"), 0o600))
			return nil
		}, 11, 11},
		"replaced blob": {func(t *testing.T, c *client.Client, _ string) []byte {
			replacement := randomBytes(3_300)
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(replacement), client.PutOptions{})))
			return replacement
		}, 4, 4},
		"small blob": {func(t *testing.T, c *client.Client, _ string) []byte {
			replacement := randomBytes(300)
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(replacement), client.PutOptions{})))
			return replacement
		}, 1, 1},
		"empty blob": {func(t *testing.T, c *client.Client, _ string) []byte {
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader(""), client.PutOptions{})))
			return []byte{}
		}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := startServer(t)
			want := randomBytes(10_500)
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(want), client.PutOptions{PartSize: 5_000})))
			path := target(t)
			o := client.DownloadOptions{RangeSize: 1000, Concurrency: 1}
			interruptedDownload(t, s, c, path, o)
			if replacement := test.change(t, c, path); replacement != nil {
				want = replacement
			}
			s.setHook(nil)
			var last int64
			o.Progress = func(done, _ int64) { last = done }
			testenv.OK(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", path, o)))
			if n := len(s.requests(func(r request) bool { return r.method == http.MethodGet })); n < test.least || n > test.most {
				t.Errorf("%d requests, want %d to %d", n, test.least, test.most)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if last != int64(len(want)) {
				t.Errorf("progress ended with %d", last)
			}
			if left := others(t, path); left != nil {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

// TestDownloadFileIsAtomic checks that a download that fails leaves the file as it was.
func TestDownloadFileIsAtomic(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	for _, size := range []int{500, 10_500} {
		for _, existing := range []bool{false, true} {
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(randomBytes(size)), client.PutOptions{PartSize: 5_000})))
			path := target(t)
			if existing {
				testenv.OK(t, os.WriteFile(path, []byte("before"), 0o600))
			}
			s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				next.ServeHTTP(&alteredWriter{ResponseWriter: w, alter: flip(100)}, r)
			})
			testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", path, client.DownloadOptions{RangeSize: 1000})), client.ErrCorrupt, "%d bytes", size)
			s.setHook(nil)
			got, err := os.ReadFile(path)
			if existing && (err != nil || string(got) != "before") || !existing && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%d bytes: the file has %q, %v", size, got, err)
			}
			if left := others(t, path); left != nil {
				t.Errorf("%d bytes: files are left: %v", size, left)
			}
			testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "none", path, client.DownloadOptions{})), client.ErrNotFound, "no blob")
			testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", filepath.Dir(path), client.DownloadOptions{})), client.ErrInvalid, "a folder")
		}
	}
}

// TestDownloadFileKeepsWhatIsNoFile checks that a download replaces neither a device, a pipe or a
// socket nor a link to one.
func TestDownloadFileKeepsWhatIsNoFile(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("text"), client.PutOptions{})))
	dir, err := os.MkdirTemp(testenv.MemoryRoot(), "") // a socket's path must be short
	testenv.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, link := filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	l, err := net.Listen("unix", socket)
	testenv.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	testenv.OK(t, os.Symlink("socket", link))
	root, err := os.OpenRoot(dir)
	testenv.OK(t, err)
	t.Cleanup(func() { _ = root.Close() })
	for _, name := range []string{"socket", "link"} {
		for path, o := range map[string]client.DownloadOptions{filepath.Join(dir, name): {}, name: {Root: root}} {
			testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", path, o)), client.ErrInvalid, "%s", path)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err := os.Lstat(socket); err != nil || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("the socket is %v, %v", info, err)
	}
}

// TestDownloadOfADeletedBlob checks that nothing remains of an interrupted download if there is no
// blob any more.
func TestDownloadOfADeletedBlob(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(randomBytes(10_500)), client.PutOptions{PartSize: 5_000})))
	path := target(t)
	o := client.DownloadOptions{RangeSize: 1000, Concurrency: 1}
	interruptedDownload(t, s, c, path, o)
	testenv.OK(t, c.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
	testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", path, o)), client.ErrNotFound, "DownloadFile")
	if left := others(t, path); left != nil {
		t.Errorf("files are left: %v", left)
	}
}

// TestDownloadFileStaysInRoot checks that the file and its temporary files do not leave a root.
func TestDownloadFileStaysInRoot(t *testing.T) {
	_, c := startServer(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(randomBytes(5_000)), client.PutOptions{})))
	outside, inside := testenv.MemoryDir(t), testenv.MemoryDir(t)
	testenv.OK(t, errors.Join(os.Symlink(outside, filepath.Join(inside, "link")), os.Mkdir(filepath.Join(inside, "sub"), 0o700)))
	root, err := os.OpenRoot(inside)
	testenv.OK(t, err)
	defer func() { _ = root.Close() }()
	o := client.DownloadOptions{Root: root, RangeSize: 1000}
	for _, path := range []string{"link/x", "../x", filepath.Join(outside, "x")} {
		if _, err := c.DownloadFile(t.Context(), "team", "a", path, o); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	if left := others(t, filepath.Join(outside, "none")); left != nil {
		t.Errorf("files outside: %v", left)
	}
	testenv.OK(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", filepath.Join("sub", "x"), o)))
	if info, err := os.Stat(filepath.Join(inside, "sub", "x")); err != nil || info.Size() != 5_000 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestAnySizes stores and reads a file with any size, part size, range size and concurrency.
func TestAnySizes(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	dir := testenv.MemoryDir(t)
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set("30"); err != nil { // each of them is many requests
		t.Fatal(err)
	}
	defer func() { testenv.Check(t, checks.Value.Set(before)) }()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 20_000).Draw(rt, "size")
		put := client.PutOptions{
			PartSize:    int64(rapid.IntRange(max(1, size/20), size+2).Draw(rt, "part size")),
			Concurrency: rapid.IntRange(0, 8).Draw(rt, "put concurrency"),
			SkipDigest:  rapid.Bool().Draw(rt, "without digests"),
		}
		get := client.DownloadOptions{
			RangeSize:   int64(rapid.IntRange(max(1, size/20), size+2).Draw(rt, "range size")),
			Concurrency: rapid.IntRange(0, 8).Draw(rt, "get concurrency"),
		}
		content := randomBytes(size)
		source, path := filepath.Join(dir, "source"), filepath.Join(dir, "target")
		if err := os.WriteFile(source, content, 0o600); err != nil {
			rt.Fatal(err)
		}
		var err error
		if rapid.Bool().Draw(rt, "stream") {
			_, err = c.Put(t.Context(), "team", "a", onlyReader{bytes.NewReader(content)}, put)
		} else {
			_, err = c.PutFile(t.Context(), "team", "a", source, put)
		}
		if err != nil {
			rt.Fatal(err)
		}
		if _, err := c.DownloadFile(t.Context(), "team", "a", path, get); err != nil {
			rt.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			rt.Errorf("%d bytes, %v", len(got), err)
		}
	})
}
