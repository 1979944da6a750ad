package folder_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/client"
	"sluice/client/folder"
	"sluice/database/sqlstore"
	"sluice/exchange"
	"sluice/httpapi"
	"sluice/metastore"
	"sluice/test/testenv"
)

// service is a service in this process. Requests pass through a hook, and are logged.
type service struct {
	*client.Client
	meta metastore.Store
	stop func()

	mu   sync.Mutex
	hook func(w http.ResponseWriter, r *http.Request, next http.Handler)
	log  []string // METHOD /path of requests since the last setHook
}

// startService starts a service. It panics if that fails, as examples use it, too.
func startService() *service {
	dir, err := os.MkdirTemp(testenv.MemoryRoot(), "folder")
	check(err)
	meta, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	check(err)
	handler, err := httpapi.New(httpapi.Config{
		Reads:  access.ReadsPublic,
		Blobs:  blob.New(meta, memory.New(), blob.Options{}),
		Config: exchange.Config{Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil }},
	})
	check(err)
	s := &service{meta: meta}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.log = append(s.log, r.Method+" "+r.URL.Path)
		hook := s.hook
		s.mu.Unlock()
		if hook != nil {
			hook(w, r, handler)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	s.Client, err = client.New(server.URL, client.Options{MaxAttempts: 1})
	check(err)
	s.stop = func() {
		s.CloseIdleConnections()
		server.Close()
		check(errors.Join(meta.Close(), os.RemoveAll(dir)))
	}
	return s
}

// setHook sets the hook and empties the log.
func (s *service) setHook(hook func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook, s.log = hook, nil
}

// requests returns how many requests since the last setHook begin with METHOD /path.
func (s *service) requests(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, line := range s.log {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// newService starts a service for a test.
func newService(t *testing.T) *service {
	t.Helper()
	s := startService()
	t.Cleanup(s.stop)
	return s
}

// team returns the account team's blobs below a prefix.
func (s *service) team(name string) folder.Prefix {
	return folder.Prefix{Client: s.Client, Account: "team", Name: name}
}

// item returns a blob in the account team.
func (s *service) item(name string) folder.Item {
	return folder.Item{Client: s.Client, Account: "team", Name: name}
}

// wantRun takes a run's results. The function that it returns fails the test unless the run, which
// label names, returned a summary and an error.
func wantRun(got folder.Summary, err error) func(t *testing.T, label string, want folder.Summary, wantErr error) {
	return func(t *testing.T, label string, want folder.Summary, wantErr error) {
		t.Helper()
		testenv.Equal(t, got, want, "%s", label)
		testenv.Is(t, err, wantErr, "%s", label)
	}
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("the names are %q, want %q", got, want)
	}
}

// store stores blobs in the account team.
func (s *service) store(blobs map[string]string) {
	for name, text := range blobs {
		_, err := s.Put(context.Background(), "team", name, strings.NewReader(text), client.PutOptions{})
		check(err)
	}
}

// names returns the names in an account.
func (s *service) names(account string) (names []string) {
	for e, err := range s.List(context.Background(), account, client.ListOptions{}) {
		check(err)
		names = append(names, e.Name)
	}
	return names
}

// writeFiles writes files below a new folder.
func writeFiles(files map[string]string) (dir string, remove func()) {
	dir, err := os.MkdirTemp(testenv.MemoryRoot(), "files")
	check(err)
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		check(errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o600)))
	}
	return dir, func() { check(os.RemoveAll(dir)) }
}

// newFiles writes files below a new folder for a test.
func newFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, remove := writeFiles(files)
	t.Cleanup(remove)
	return dir
}

// filesOf returns the names of all files below a folder, sorted.
func filesOf(dir string) (names []string) {
	check(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(dir)+"/"))
		}
		return err
	}))
	slices.Sort(names)
	return names
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
