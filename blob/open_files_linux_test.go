package blob_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/test/testenv"
)

// kernel sends files without reading them, as httpconn does.
type kernel struct{ bytes.Buffer }

func (k *kernel) ReadFrom(src io.Reader) (int64, error) {
	limited := src.(*io.LimitedReader)
	p, ok := limited.R.(bytestore.Positioned)
	if !ok {
		return 0, errors.New("the source is no Positioned")
	}
	file, offset := p.Position()
	b, n := make([]byte, limited.N), 0
	var err error
	controlled := file.Control(func(fd uintptr) { n, err = syscall.Pread(int(fd), b, offset) })
	k.Write(b[:n])
	limited.N -= int64(n)
	return int64(n), errors.Join(err, controlled, testenv.Error(p.Seek(int64(n), io.SeekCurrent)))
}

// TestFileReplacedByHandIsReadAnew damages or cuts off a file that stays open, and puts a good one
// in its place, as an operator does. The next read finds the bytes that are stored.
func TestFileReplacedByHandIsReadAnew(t *testing.T) {
	for name, c := range map[string]struct {
		ttl   time.Duration
		spoil func(t *testing.T, dir string)
	}{
		"damaged": {0, func(t *testing.T, dir string) { damageFile(t, dir, 1000) }},
		"cut off": {time.Minute, func(t *testing.T, dir string) { testenv.OK(t, os.Truncate(onlyFile(t, dir), 1000)) }},
	} {
		t.Run(name, func(t *testing.T) {
			f, dir := newOnOpenFiles(t, blob.Options{VerifyTTL: c.ttl}, 10)
			body := randomBytes(1, 100_000)
			f.put(t, "n", body)
			read := func() ([]byte, error) {
				content := testenv.Must(f.Open(t.Context(), "a", "n"))(t)
				defer content.Close()
				var out kernel
				_, err := content.WriteRange(t.Context(), &out, 0, content.Size)
				return out.Bytes(), err
			}
			if got, err := read(); err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%d bytes were read, %v", len(got), err)
			}
			path := onlyFile(t, dir)
			c.spoil(t, dir)
			testenv.OK(t, os.WriteFile(path+".good", body, 0o600))
			testenv.OK(t, os.Rename(path+".good", path))
			if got, err := read(); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes were read of the new file, %v", len(got), err)
			}
		})
	}
}
