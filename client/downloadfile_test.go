package client_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/client"
	"sluice/internal/testenv"
)

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

// TestForgetDownload checks that nothing remains of an interrupted download that will not be
// continued, and that no request is sent for it.
func TestForgetDownload(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	storeBlob(t, c, randomBytes(10_500))
	path := target(t)
	for _, suffix := range []string{"", ".sluice-part", ".sluice-download"} { // without which file
		interruptedDownload(t, s, c, path, client.DownloadOptions{RangeSize: 1000, Concurrency: 1})
		if suffix != "" {
			testenv.OK(t, os.Remove(beside(t, path, suffix)))
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

// beside returns the path of the file with a suffix in the folder of a file.
func beside(t *testing.T, path, suffix string) string {
	t.Helper()
	for _, e := range others(t, path) {
		if strings.HasSuffix(e.Name(), suffix) {
			return filepath.Join(filepath.Dir(path), e.Name())
		}
	}
	t.Fatalf("there is no file %s", suffix)
	return ""
}

// replacedBy returns a function that replaces the blob by one with a size.
func replacedBy(size int) func(*testing.T, *client.Client, string) []byte {
	return func(t *testing.T, c *client.Client, _ string) []byte {
		content := randomBytes(size)
		storeBlob(t, c, content)
		return content
	}
}

// TestDownloadFileResumes checks that a download that was interrupted is continued by the next
// call, and what that call requests if something has changed meanwhile.
func TestDownloadFileResumes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change      func(t *testing.T, c *client.Client, path string) (replacement []byte)
		least, most int // requested ranges
	}{
		"nothing": {func(*testing.T, *client.Client, string) []byte { return nil }, 5, 5},
		"damaged range": {func(t *testing.T, _ *client.Client, path string) []byte {
			f, err := os.OpenFile(beside(t, path, ".sluice-part"), os.O_RDWR, 0)
			testenv.OK(t, err)
			testenv.OK(t, testenv.Error(f.WriteAt([]byte("damage"), 1_500)))
			testenv.OK(t, f.Close())
			return nil
		}, 6, 6},
		"shorter file": {func(t *testing.T, _ *client.Client, path string) []byte {
			testenv.OK(t, os.Truncate(beside(t, path, ".sluice-part"), 1_500))
			return nil
		}, 10, 10},
		"no file": {func(t *testing.T, _ *client.Client, path string) []byte {
			testenv.OK(t, os.Remove(beside(t, path, ".sluice-part")))
			return nil
		}, 11, 11},
		"torn last line": {func(t *testing.T, _ *client.Client, path string) []byte {
			state := beside(t, path, ".sluice-download")
			text, err := os.ReadFile(state)
			testenv.OK(t, err)
			testenv.OK(t, os.WriteFile(state, text[:len(text)-3], 0o600))
			return nil
		}, 6, 6},
		"damaged state": {func(t *testing.T, _ *client.Client, path string) []byte {
			testenv.OK(t, os.WriteFile(beside(t, path, ".sluice-download"), []byte("garbage\n"), 0o600))
			return nil
		}, 11, 11},
		"replaced blob": {replacedBy(3_300), 4, 4},
		"small blob":    {replacedBy(300), 1, 1},
		"empty blob":    {replacedBy(0), 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := startServer(t)
			want := randomBytes(10_500)
			storeBlob(t, c, want)
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
			testenv.Equal(t, last, int64(len(want)), "the last progress")
			checkFile(t, path, want)
		})
	}
}

// TestDownloadFileIsAtomic checks that a download that fails leaves the file as it was.
func TestDownloadFileIsAtomic(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	for _, size := range []int{500, 10_500} {
		for _, existing := range []bool{false, true} {
			storeBlob(t, c, randomBytes(size))
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
			checkAlone(t, path)
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
	storeBlob(t, c, []byte("text"))
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
	storeBlob(t, c, randomBytes(10_500))
	path := target(t)
	o := client.DownloadOptions{RangeSize: 1000, Concurrency: 1}
	interruptedDownload(t, s, c, path, o)
	testenv.OK(t, c.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
	testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", path, o)), client.ErrNotFound, "DownloadFile")
	checkAlone(t, path)
}

// TestDownloadFileStaysInRoot checks that the file and its temporary files do not leave a root.
func TestDownloadFileStaysInRoot(t *testing.T) {
	_, c := startServer(t)
	storeBlob(t, c, randomBytes(5_000))
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
	_, c := startServer(t)
	dir := testenv.MemoryDir(t)
	setChecks(t, 30) // each of them is many requests
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
