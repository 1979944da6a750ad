package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/memory"
	"sluice/database/whole"
	"sluice/internal/testenv"
)

// TestDeletedContentCutsItsResponse checks that a client that does not read its response retains a
// deleted blob's bytes only while there is space. Then its connection is closed and the bytes are
// freed.
func TestDeletedContentCutsItsResponse(t *testing.T) {
	const size = 32 << 20 // more than a connection's buffers hold
	files, err := localfs.Open(filepath.Join(testenv.MemoryDir(t), "bytes"), localfs.Options{})
	testenv.OK(t, err)
	defer closeOrFail(t, files)
	for name, store := range map[string]bytestore.Store{"copied": memory.New(), "sendfile": files} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			space := func(int64) error {
				if full.Load() {
					return bytestore.ErrNoSpace
				}
				return nil
			}
			var meta whole.Database
			around := func(m whole.Database) whole.Database { meta = m; return m }
			s := startOver(t, around, nil, func(c *Config, s *Server) {
				if s == nil {
					c.Blobs = blob.New(meta, store, blob.Options{Space: space, VerifyTTL: time.Minute})
				}
			})
			const path = "/v1/blobs/0x1/n"
			if res, body := s.do(t, "PUT", path, string(make([]byte, size))); res.StatusCode != http.StatusNoContent {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			conn, err := net.Dial("tcp", s.addr)
			testenv.OK(t, err)
			defer closeOrFail(t, conn)
			send(t, conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			begun := make([]byte, 1<<20)
			if _, err := io.ReadFull(conn, begun); err != nil {
				t.Fatal(err)
			}
			if res, body := s.do(t, "DELETE", path, ""); res.StatusCode != http.StatusNoContent {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			ctx := t.Context()
			testenv.OK(t, s.blobs.FreeGarbage(ctx))
			if n := objectsIn(ctx, t, store); n == 0 {
				t.Fatal("the bytes were freed while they were read")
			}
			full.Store(true)
			testenv.OK(t, s.blobs.FreeGarbage(ctx))
			if n, err := io.Copy(io.Discard, conn); n+int64(len(begun)) >= size {
				t.Errorf("the client received all of %d bytes, %v", n, err)
			}
			// The response has ended, and its reader with it.
			for objectsIn(ctx, t, store) > 0 {
				testenv.OK(t, errors.Join(ctx.Err(), s.blobs.FreeGarbage(ctx)))
			}
		})
	}
}

func objectsIn(ctx context.Context, t *testing.T, store bytestore.Store) (n int) {
	t.Helper()
	testenv.OK(t, store.List(ctx, "", func(bytestore.Object) error { n++; return nil }))
	return n
}
