package httpapi

import (
	"errors"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/memory"
	"sluice/test/testenv"
)

// TestDeletedContentCutsItsResponse checks that a client that does not read its response retains a
// deleted blob's bytes only while there is space. Then its connection is closed and the bytes are
// freed.
// Invariant 8.
func TestDeletedContentCutsItsResponse(t *testing.T) {
	const size = 32 << 20 // more than a connection's buffers hold
	files, err := localfs.Open(filepath.Join(testenv.MemoryDir(t), "bytes"), localfs.Options{})
	testenv.OK(t, err)
	testenv.AtEnd(t, files.Close)
	for name, store := range map[string]bytestore.Store{"copied": memory.New(), "sendfile": files} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			space := func(int64) error {
				if full.Load() {
					return bytestore.ErrNoSpace
				}
				return nil
			}
			s := newService(t, nil)
			s.blobs = blob.New(s.meta, store, blob.Options{Space: space, VerifyTTL: time.Minute})
			const path = "/v1/blobs/0x1/n"
			s.want(t, 204, "PUT", path, string(make([]byte, size)))
			conn := dial(t, s.addr)
			conn.send(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			begun := make([]byte, 1<<20)
			testenv.OK(t, testenv.Error(io.ReadFull(conn, begun)))
			s.want(t, 204, "DELETE", path, "")
			ctx := t.Context()
			testenv.OK(t, s.blobs.FreeGarbage(ctx))
			if n := objectsIn(t, store); n == 0 {
				t.Fatal("the bytes were freed while they were read")
			}
			full.Store(true)
			testenv.OK(t, s.blobs.FreeGarbage(ctx))
			if n, err := io.Copy(io.Discard, conn); n+int64(len(begun)) >= size {
				t.Errorf("the client received all of %d bytes, %v", n, err)
			}
			// The response has ended, and its reader with it.
			for objectsIn(t, store) > 0 {
				testenv.OK(t, errors.Join(ctx.Err(), s.blobs.FreeGarbage(ctx)))
			}
		})
	}
}

func objectsIn(t *testing.T, store bytestore.Store) (n int) {
	t.Helper()
	testenv.OK(t, store.List(t.Context(), "", func(bytestore.Object) error { n++; return nil }))
	return n
}
