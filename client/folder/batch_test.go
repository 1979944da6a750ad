package folder_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/test/testenv"
)

// TestRequestsAtATime counts the requests for content that a batch has at a time. Each waits until
// as many are there as are expected, so fewer would end the test at its deadline.
func TestRequestsAtATime(t *testing.T) {
	const part = 1000
	parts := client.PutOptions{PartSize: part}
	for _, c := range []struct {
		name        string
		files, size int
		o           folder.Options
		want        int
		receive     bool
	}{
		{"small files", 80, 10, folder.Options{}, folder.DefaultRequests, false},
		{"small files that are received", 40, 10, folder.Options{}, folder.DefaultRequests / client.DefaultConcurrency, true},
		{"large files", 20, 8 * part, folder.Options{Put: parts}, folder.DefaultRequests, false},
		{"files of two parts", 40, 2 * part, folder.Options{Put: parts}, folder.DefaultRequests, false},
		{"three small files", 20, 10, folder.Options{Concurrency: 3}, 3, false},
		{"three large files", 20, 8 * part, folder.Options{Concurrency: 3, Put: parts}, 3 * client.DefaultConcurrency, false},
		{"one file with many parts", 1, 50 * part, folder.Options{Put: client.PutOptions{PartSize: part, Concurrency: 40}}, 40, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t)
			files := map[string]string{}
			for i := range c.files {
				files[fmt.Sprintf("f%03d", i)] = strings.Repeat("x", c.size)
			}
			dir := newFiles(t, files)
			if c.receive {
				s.store(files)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var mu sync.Mutex
			running, most := 0, 0
			all := make(chan struct{})
			s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if !strings.HasSuffix(path.Dir(r.URL.Path), "/team") && r.Method != http.MethodPut {
					next.ServeHTTP(w, r)
					return
				}
				mu.Lock()
				if running++; running > most {
					if most = running; most == c.want {
						close(all)
					}
				}
				mu.Unlock()
				select {
				case <-all:
				case <-r.Context().Done():
				}
				next.ServeHTTP(w, r)
				mu.Lock()
				running--
				mu.Unlock()
			})
			want := folder.Summary{Copied: c.files, Bytes: int64(c.files * c.size)}
			if c.receive {
				wantRun(download(ctx, s.team(""), folder.Dir(t.TempDir()), c.o))(t, "Download", want, nil)
			} else {
				wantRun(upload(ctx, folder.Dir(dir), s.team(""), c.o))(t, "Upload", want, nil)
			}
			testenv.Equal(t, most, c.want, "the requests at a time")
		})
	}
}
