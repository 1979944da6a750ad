package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
)

// target is a file to receive, in a folder of its own.
func target(t *testing.T) string {
	t.Helper()
	return filepath.Join(testenv.MemoryDir(t), "target")
}

// download is a download of a blob of 10,500 bytes, which has 11 ranges.
type download struct {
	t       *testing.T
	s       *inProcess
	c       *client.Client
	content []byte
	path    string
	o       client.DownloadOptions
}

// newDownload stores a blob, and does not begin to receive it.
func newDownload(t *testing.T) *download {
	t.Helper()
	s, c := startServer(t)
	d := &download{t, s, c, randomBytes(10_500), target(t), client.DownloadOptions{RangeSize: 1000, Concurrency: 1}}
	storeBlob(t, c, d.content)
	return d
}

// receive receives the blob, or the rest of it.
func (d *download) receive(ctx context.Context) error {
	return testenv.Error(d.c.DownloadFile(ctx, "team", "a", d.path, d.o))
}

// interrupt ends the context when the blob's seventh range is requested.
func (d *download) interrupt() {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	d.s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=6000-") {
			cancel()
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	testenv.Is(d.t, d.receive(ctx), context.Canceled, "the interrupted download")
	testenv.Is(d.t, testenv.Error(os.Stat(d.path)), fs.ErrNotExist, "the file")
	d.s.setHook(nil)
}

// TestForgetDownload checks that nothing remains of an interrupted download that will not be
// continued, and that no request is sent for it.
func TestForgetDownload(t *testing.T) {
	t.Parallel()
	d := newDownload(t)
	for _, suffix := range []string{"", ".sluice-part", ".sluice-download"} { // without which file
		d.interrupt()
		if suffix != "" {
			testenv.OK(t, os.Remove(beside(t, d.path, suffix)))
		}
		for range 2 { // the second call finds nothing
			testenv.OK(t, d.c.ForgetDownload("team", "a", d.path, client.DownloadOptions{}))
		}
		checkAlone(t, d.path)
	}
	testenv.Equal(t, d.s.requests(func(request) bool { return true }), 0, "the requests")
}

// beside returns the path of a file's neighbour with a suffix.
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
func replacedBy(size int) func(*download) {
	return func(d *download) {
		d.content = randomBytes(size)
		storeBlob(d.t, d.c, d.content)
	}
}

// TestDownloadFileResumes checks that a download that was interrupted is continued by the next
// call, and which ranges that call requests if something has changed meanwhile.
// Invariant 146.
func TestDownloadFileResumes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change      func(d *download)
		least, most int // requested ranges
	}{
		"nothing": {func(*download) {}, 5, 5},
		"damaged range": {func(d *download) {
			f := testenv.Must(os.OpenFile(beside(d.t, d.path, ".sluice-part"), os.O_RDWR, 0))(d.t)
			testenv.OK(d.t, testenv.Error(f.WriteAt([]byte("damage"), 1_500)))
			testenv.OK(d.t, f.Close())
		}, 6, 6},
		"shorter file": {func(d *download) {
			testenv.OK(d.t, os.Truncate(beside(d.t, d.path, ".sluice-part"), 1_500))
		}, 10, 10},
		"no file": {func(d *download) {
			testenv.OK(d.t, os.Remove(beside(d.t, d.path, ".sluice-part")))
		}, 11, 11},
		"torn last line": {func(d *download) {
			state := beside(d.t, d.path, ".sluice-download")
			text := testenv.Must(os.ReadFile(state))(d.t)
			testenv.OK(d.t, os.WriteFile(state, text[:len(text)-3], 0o600))
		}, 6, 6},
		"damaged state": {func(d *download) {
			testenv.OK(d.t, os.WriteFile(beside(d.t, d.path, ".sluice-download"), []byte("garbage\n"), 0o600))
		}, 11, 11},
		"replaced blob": {replacedBy(3_300), 4, 4},
		"small blob":    {replacedBy(300), 1, 1},
		"empty blob":    {replacedBy(0), 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDownload(t)
			d.interrupt()
			test.change(d)
			d.s.setHook(nil)
			first, last := int64(-1), int64(0)
			d.o.Progress = func(done, _ int64) {
				if last = done; first < 0 {
					first = done
				}
			}
			testenv.OK(t, d.receive(t.Context()))
			size, requested := int64(len(d.content)), int64(0)
			n := d.s.requests(func(r request) bool {
				var begin, end int64
				if scanned, _ := fmt.Sscanf(r.rawRange, "bytes=%d-%d", &begin, &end); scanned == 2 {
					requested += min(end+1, size) - min(begin, size)
				}
				return r.method == http.MethodGet
			})
			if n < test.least || n > test.most {
				t.Errorf("%d requests, want %d to %d", n, test.least, test.most)
			}
			testenv.Equal(t, first, size-requested, "the first progress")
			testenv.Equal(t, last, size, "the last progress")
			checkFile(t, d.path, d.content)
		})
	}
}

// TestDownloadFileIsAtomic checks that a download that fails leaves the file as it was.
// Invariant 146.
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
			s.alter(flip(100))
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
	dir := testenv.Must(os.MkdirTemp(testenv.MemoryRoot(), ""))(t) // a socket's path must be short
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, link := filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	l := testenv.Must(net.Listen("unix", socket))(t)
	t.Cleanup(func() { _ = l.Close() })
	testenv.OK(t, os.Symlink("socket", link))
	root := testenv.Must(os.OpenRoot(dir))(t)
	t.Cleanup(func() { _ = root.Close() })
	for _, name := range []string{"socket", "link"} {
		for path, o := range map[string]client.DownloadOptions{filepath.Join(dir, name): {}, name: {Root: root}} {
			testenv.Is(t, testenv.Error(c.DownloadFile(t.Context(), "team", "a", path, o)), client.ErrInvalid, "%s", path)
		}
	}
	testenv.Equal(t, testenv.Must(os.Lstat(link))(t).Mode().Type(), fs.ModeSymlink, "the link's type")
	testenv.Equal(t, testenv.Must(os.Lstat(socket))(t).Mode().Type(), fs.ModeSocket, "the socket's type")
}

// TestDownloadOfADeletedBlob checks that nothing remains of an interrupted download if there is no
// blob any more.
func TestDownloadOfADeletedBlob(t *testing.T) {
	t.Parallel()
	d := newDownload(t)
	d.interrupt()
	testenv.OK(t, d.c.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
	testenv.Is(t, d.receive(t.Context()), client.ErrNotFound, "DownloadFile")
	checkAlone(t, d.path)
}

// TestDownloadFileStaysInRoot checks that the file and its temporary files do not leave a root.
func TestDownloadFileStaysInRoot(t *testing.T) {
	_, c := startServer(t)
	storeBlob(t, c, randomBytes(5_000))
	outside, inside := testenv.MemoryDir(t), testenv.MemoryDir(t)
	testenv.OK(t, errors.Join(os.Symlink(outside, filepath.Join(inside, "link")), os.Mkdir(filepath.Join(inside, "sub"), 0o700)))
	root := testenv.Must(os.OpenRoot(inside))(t)
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
	testenv.Equal(t, testenv.Must(os.Stat(filepath.Join(inside, "sub", "x")))(t).Size(), 5_000, "the file's size")
}
