package sqlstore

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/metastore"
)

// maxLogFile is the log's maximum size in bytes under steady reads and writes: one and a half times
// the size at which it is restarted.
const maxLogFile = 96 << 20

// TestLogStaysBounded writes more than maxLogFile while other goroutines read without pause.
func TestLogStaysBounded(t *testing.T) {
	const writers, readers, commits = 16, 8, 130
	path := filepath.Join(t.TempDir(), "meta.db") // on the disk, where checkpoints take their time
	s := openAt(t, path, Options{})
	body := make([]byte, 64<<10)
	var done atomic.Bool
	var lists sync.WaitGroup
	for range readers {
		lists.Go(func() {
			for !done.Load() {
				if _, err := s.ListBlobs(t.Context(), metastore.ListQuery{Account: "a", Limit: 1000}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var commit sync.WaitGroup
	var longest atomic.Int64
	for g := range writers {
		commit.Go(func() {
			for i := range commits {
				_, err := s.CommitBlob(t.Context(),
					metastore.Blob{Account: "a", Name: fmt.Sprint(g, "-", i%100), Content: metastore.NewContentID(time.Now()), Size: int64(len(body))},
					[]metastore.Extent{{Size: int64(len(body)), Body: body}}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if info, err := os.Stat(path + "-wal"); err != nil {
					t.Error(err)
				} else if info.Size() > longest.Load() {
					longest.Store(info.Size())
				}
			}
		})
	}
	commit.Wait()
	done.Store(true)
	lists.Wait()
	if longest.Load() > maxLogFile {
		t.Errorf("the log grew to %d bytes, more than %d", longest.Load(), maxLogFile)
	}
	t.Logf("%d bytes written, the log had at most %d", writers*commits*len(body), longest.Load())
}
