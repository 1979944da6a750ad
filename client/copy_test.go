package client_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
)

// copied is a blob of one service that is stored at another.
type copied struct {
	t        *testing.T
	from, to *client.Client
	sent     parts
	o        client.PutOptions
}

const copiedPart = 64 << 10

func (c *copied) store(content []byte) {
	c.t.Helper()
	testenv.OK(c.t, testenv.Error(c.from.Put(c.t.Context(), "team", "source", bytes.NewReader(content), client.PutOptions{})))
}

func (c *copied) copy(ctx context.Context) error {
	c.t.Helper()
	source := testenv.Must(c.from.Open(c.t.Context(), "team", "source", client.GetOptions{}))(c.t)
	_, err := c.to.PutObject(ctx, "team", "copy", source, c.o)
	return errors.Join(err, source.Close())
}

// check fails the test unless the copy has this content, and neither an upload nor a file is left.
func (c *copied) check(content []byte) {
	c.t.Helper()
	if got, err := all(c.to.Get(c.t.Context(), "team", "copy", client.GetOptions{})); err != nil || !bytes.Equal(got, content) {
		c.t.Errorf("the copy has %d bytes, %v, want %d", len(got), err, len(content))
	}
	checkNoUploads(c.t, c.to)
	if entries, err := os.ReadDir(filepath.Dir(c.o.StateFile)); err != nil || c.o.StateFile != "" && len(entries) > 0 {
		c.t.Errorf("files are left: %v, %v", entries, err)
	}
}

// TestPutObject copies blobs of different sizes from one service to another.
func TestPutObject(t *testing.T) {
	t.Parallel()
	_, from := startServer(t)
	_, to := startServer(t)
	for _, size := range []int{0, 1, copiedPart, copiedPart + 1, 10*copiedPart - 1} {
		c := &copied{t: t, from: from, to: to, o: client.PutOptions{PartSize: copiedPart, StateFile: filepath.Join(testenv.MemoryDir(t), "state")}}
		content := randomBytes(size)
		c.store(content)
		testenv.OK(t, c.copy(t.Context()))
		c.check(content)
	}
}

// TestPutObjectResumes interrupts a copy. The next call must neither read nor send bytes that the
// target has acknowledged, unless the source was replaced since.
// Invariant 150.
func TestPutObjectResumes(t *testing.T) {
	const size = 10*copiedPart - 5
	for name, replaced := range map[string]bool{"the same source": false, "another source": true} {
		t.Run(name, func(t *testing.T) {
			source, from := startServer(t)
			target, to := startServer(t)
			c := &copied{t: t, from: from, to: to, o: client.PutOptions{PartSize: copiedPart, Concurrency: 1, StateFile: filepath.Join(testenv.MemoryDir(t), "state")}}
			content := randomBytes(size)
			c.store(content)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			target.setHook(c.sent.count(func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/parts/6") {
					cancel()
				}
			}))
			testenv.Is(t, c.copy(ctx), context.Canceled, "the interrupted copy")
			sent := c.sent.total()
			if replaced {
				content = bytes.Clone(content)
				content[0]++
				c.store(content)
			}
			c.o.Concurrency = 0
			source.setHook(nil)
			testenv.OK(t, c.copy(t.Context()))
			want := 10 - sent
			if replaced {
				want = 10
			}
			reads := source.requests(func(r request) bool { return r.method == http.MethodGet })
			if reads != want || c.sent.total() != sent+want || sent < 6 {
				t.Errorf("%d parts were sent before, %d ranges were read and %d parts sent since, want %d", sent, reads, c.sent.total()-sent, want)
			}
			if replaced { // the upload of the first one expires
				abortUploads(t, to)
			}
			c.check(content)
		})
	}
}

// TestPutObjectWithoutStateIsAborted checks that a failed copy without a state file leaves no
// upload.
func TestPutObjectWithoutStateIsAborted(t *testing.T) {
	source, from := startServer(t)
	_, to := startServer(t)
	c := &copied{t: t, from: from, to: to, o: client.PutOptions{PartSize: copiedPart}}
	c.store(randomBytes(4 * copiedPart))
	source.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	testenv.Is(t, c.copy(t.Context()), client.ErrForbidden, "copy")
	checkNoUploads(t, to)
}
