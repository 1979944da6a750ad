package folder_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/client/folder/tree"
	"sluice/test/testenv"
)

// TestUploadAgain checks that a second run stores files that have changed and, unless content alone
// counts, files that would get other properties.
func TestUploadAgain(t *testing.T) {
	s := newService(t)
	dir := newFiles(t, map[string]string{"a.txt": "a", "sub/b": "b", "sub/.c.0.sluice-upload": "state"})
	to := s.team("dir") // without its slash
	described := client.PutOptions{Metadata: map[string]string{"Color": "blue"}}
	for _, step := range []struct {
		name    string
		change  func() error
		options folder.Options
		want    folder.Summary
		puts    int
	}{
		{"the first run", nil, folder.Options{}, folder.Summary{Copied: 2, Bytes: 2}, 2},
		{"nothing has changed", nil, folder.Options{}, folder.Summary{Unchanged: 2}, 0},
		{"another content", func() error { return os.WriteFile(filepath.Join(dir, "a.txt"), []byte("A"), 0o600) }, folder.Options{}, folder.Summary{Copied: 1, Unchanged: 1, Bytes: 1}, 1},
		{"a dry run", nil, folder.Options{Put: described, DryRun: true}, folder.Summary{Copied: 2, Bytes: 2}, 0},
		{"content alone", nil, folder.Options{Put: described, ContentOnly: true}, folder.Summary{Unchanged: 2}, 0},
		{"other properties", nil, folder.Options{Put: described}, folder.Summary{Copied: 2, Bytes: 2}, 2},
		{"the same properties", nil, folder.Options{Put: client.PutOptions{Metadata: map[string]string{"color": "blue"}}}, folder.Summary{Unchanged: 2}, 0},
	} {
		if step.change != nil {
			check(step.change())
		}
		s.setHook(nil)
		wantRun(upload(t.Context(), folder.Dir(dir), to, step.options))(t, step.name, step.want, nil)
		testenv.Equal(t, s.requests("PUT"), step.puts, "%s: the writes", step.name)
	}
	wantNames(t, s.names("team"), "dir/a.txt", "dir/sub/b")
	testenv.Equal(t, testenv.Must(s.Head(t.Context(), "team", "dir/a.txt"))(t).ContentType, "text/plain; charset=utf-8", "the content type")
}

// TestNamesThatNoBlobHas: a dry run refuses the names that a real run refuses, and both ask nobody.
func TestNamesThatNoBlobHas(t *testing.T) {
	s := newService(t)
	dir := newFiles(t, map[string]string{"a": "a", "line\nbreak": "b", "\xff": "c"})
	s.store(map[string]string{"from/a": "a"})
	for _, dry := range []bool{true, false} {
		o := folder.Options{DryRun: dry}
		s.setHook(nil)
		wantRun(upload(t.Context(), folder.Dir(dir), s.team("to"), o))(t, "an upload", folder.Summary{Copied: 1, Bytes: 1, Failed: 2}, client.ErrInvalid)
		wantRun(copyBlobs(t.Context(), s.team("from"), s.team(strings.Repeat("x", 1023)), o))(t, "a copy", folder.Summary{Failed: 1}, client.ErrInvalid)
		if dry {
			testenv.Equal(t, s.requests("PUT")+s.requests("POST"), 0, "writes")
		}
	}
	wantNames(t, s.names("team"), "from/a", "to/a")
}

// TestUploadWithAKeyThatOnlyWrites checks that files are stored if the blobs cannot be listed.
func TestUploadWithAKeyThatOnlyWrites(t *testing.T) {
	s := newService(t)
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	dir := folder.Dir(newFiles(t, map[string]string{"a": "a"}))
	wantRun(upload(t.Context(), dir, s.team(""), folder.Options{}))(t, "Upload", folder.Summary{Copied: 1, Bytes: 1}, nil)
}

// TestEvents checks the events of transfers: their order and numbers, and that calls do not
// overlap.
func TestEvents(t *testing.T) {
	s := newService(t)
	files := map[string]string{"big": strings.Repeat("x", 5000)}
	for i := range 20 {
		files[fmt.Sprintf("%02d", i)] = "text"
	}
	dir := newFiles(t, files)
	last := map[folder.Item]folder.Event{}
	var calls, copying int
	report := func(e folder.Event) {
		calls++ // the race detector sees calls that overlap
		before := last[e.Source]
		switch e.Kind {
		case folder.Copying:
			copying++
			if e.Number != 21 || e.Size != 5080 {
				t.Errorf("%+v", e)
			}
			return
		case folder.Started:
			if before.Kind != 0 || e.Source.Client != nil || e.Target.Client != s.Client || e.Target.Account != "team" {
				t.Errorf("%+v after %+v", e, before)
			}
		case folder.Progress:
			if before.Kind != folder.Started && before.Kind != folder.Progress {
				t.Errorf("%+v after %+v", e, before)
			}
		case folder.Copied:
			if e.ETag == "" || before.Done != e.Size {
				t.Errorf("%+v after %+v", e, before)
			}
		default:
			t.Errorf("%+v", e)
		}
		last[e.Source] = e
	}
	to := s.team("")
	got, err := upload(t.Context(), folder.Dir(dir), to, folder.Options{Report: report, Put: client.PutOptions{PartSize: 1000}})
	if err != nil || got.Copied != 21 || got.Bytes != 5080 || copying != 1 || len(last) != 21 || calls < 3*21 {
		t.Errorf("%+v, %v, %d events of %d files", got, err, calls, len(last))
	}
}

// TestFailuresAreTyped lets some of many files fail: the rest are stored, and the error has an
// Error for each, up to a limit.
func TestFailuresAreTyped(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	s := newService(t)
	files := map[string]string{"good": "text"}
	for i := range 120 {
		files[fmt.Sprintf("bad\x01%03d", i)] = "text"
	}
	dir := newFiles(t, files)
	got, err := upload(t.Context(), folder.Dir(dir), s.team(""), folder.Options{})
	testenv.Equal(t, got, folder.Summary{Copied: 1, Bytes: 4, Failed: 120}, "the run")
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok || len(joined.Unwrap()) != 100 || !errors.Is(err, client.ErrInvalid) {
		t.Fatalf("the error is a %T", err)
	}
	for _, err := range joined.Unwrap() {
		failure, ok := errors.AsType[*folder.Error](err)
		if !ok || filepath.Dir(failure.Source.Name) != dir || !strings.HasPrefix(failure.Target.Name, "bad\x01") || !strings.HasPrefix(err.Error(), failure.Source.String()+": ") {
			t.Errorf("%#v", err)
		}
	}
}

// TestNothingBeginsAfterAnErrorThatConcernsAll refuses the second write with an error that every
// other write would meet.
func TestNothingBeginsAfterAnErrorThatConcernsAll(t *testing.T) {
	s := newService(t)
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("%02d", i)] = "text"
	}
	dir := newFiles(t, files)
	writes := 0
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut {
			if writes++; writes == 2 {
				w.WriteHeader(http.StatusInsufficientStorage)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	want := folder.Summary{Copied: 1, Bytes: 4, Failed: 1, Left: 18}
	wantRun(upload(t.Context(), folder.Dir(dir), s.team(""), folder.Options{Concurrency: 1}))(t, "Upload", want, client.ErrStorageFull)
	testenv.Equal(t, writes, 2, "the writes")
}

// TestCancelledRunContinues ends the context within a run. Copied files stay, and the next run
// copies the rest.
func TestCancelledRunContinues(t *testing.T) {
	s := newService(t)
	dir := newFiles(t, map[string]string{"a": "a", "b": "b", "c": "c", "d": "d"})
	ctx, cancel := context.WithCancel(t.Context())
	report := func(e folder.Event) {
		if e.Kind == folder.Copied && e.Target.Name == "b" {
			cancel()
		}
	}
	upload := func(ctx context.Context, o folder.Options) (folder.Summary, error) {
		return upload(ctx, folder.Dir(dir), s.team(""), o)
	}
	o := folder.Options{Concurrency: 1, Report: report}
	wantRun(upload(ctx, o))(t, "the cancelled run", folder.Summary{Copied: 2, Left: 2, Bytes: 2}, context.Canceled)
	wantRun(upload(t.Context(), folder.Options{}))(t, "the next run", folder.Summary{Copied: 2, Unchanged: 2, Bytes: 2}, nil)
}

// TestFilesThatChangeFail changes a file while it is sent: it alone fails, and a later run stores
// it.
func TestFilesThatChangeFail(t *testing.T) {
	s := newService(t)
	dir := newFiles(t, map[string]string{"log": "one line", "other": "text"})
	log := filepath.Join(dir, "log")
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/log") {
			check(errors.Join(os.WriteFile(log, []byte("two lines"), 0o600), os.Chtimes(log, time.Time{}, time.Unix(1, 0))))
		}
		next.ServeHTTP(w, r)
	})
	upload := func() (folder.Summary, error) {
		return upload(t.Context(), folder.Dir(dir), s.team(""), folder.Options{})
	}
	wantRun(upload())(t, "the first run", folder.Summary{Copied: 1, Failed: 1, Bytes: 4}, client.ErrChanged)
	s.setHook(nil)
	wantRun(upload())(t, "the next run", folder.Summary{Copied: 1, Unchanged: 1, Bytes: 9}, nil)
}

// TestDownloadStaysInItsFolder reads hostile names, names that collide, and into a folder with
// links.
func TestDownloadStaysInItsFolder(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	s := newService(t)
	blobs := map[string]string{}
	for _, name := range []string{"../x", "a//b", "foo", "foo/bar", "README", "readme", "out/x", "link", "good", ".x.0.sluice-part"} {
		blobs[name] = "from the service"
	}
	s.store(blobs)
	dir, outside := newFiles(t, nil), newFiles(t, map[string]string{"file": "mine"})
	check(errors.Join(os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink(filepath.Join(outside, "file"), filepath.Join(dir, "link"))))
	reasons := map[string]error{}
	got, err := download(t.Context(), s.team(""), folder.Dir(dir), folder.Options{Report: func(e folder.Event) {
		if e.Kind == folder.Skipped {
			reasons[e.Source.Name] = e.Err
		}
	}})
	if failure, ok := errors.AsType[*folder.Error](err); !ok || failure.Source.Name != "out/x" || got.Failed != 1 || got.Copied != 4 || got.Skipped != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	for name, want := range map[string]error{"../x": tree.ErrNotLocal, "a//b": tree.ErrNotLocal, ".x.0.sluice-part": folder.ErrTemporary} {
		if !errors.Is(reasons[name], want) {
			t.Errorf("%s: %v, want %v", name, reasons[name], want)
		}
	}
	for name, earlier := range map[string]string{"foo/bar": "foo", "readme": "README"} {
		if e, collides := errors.AsType[*tree.CollisionError](reasons[name]); !collides || e.Earlier != earlier {
			t.Errorf("%s: %v, want a collision with %s", name, reasons[name], earlier)
		}
	}
	if text, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(text) != "mine" || len(filesOf(outside)) != 1 {
		t.Errorf("outside are %q with %q, %v", filesOf(outside), text, err)
	}
	wantNames(t, filesOf(dir), "README", "foo", "good", "link", "out")
}

// TestDownloadAgain checks that a second run reads only blobs that differ, and that an empty prefix
// is an error.
func TestDownloadAgain(t *testing.T) {
	s := newService(t)
	s.store(map[string]string{"dir/a": "a", "dir/sub/b": "b"})
	dir := filepath.Join(newFiles(t, nil), "new", "folder")
	from := s.team("dir/")
	download := func(from folder.Prefix) (folder.Summary, error) {
		return download(t.Context(), from, folder.Dir(dir), folder.Options{})
	}
	wantRun(download(from))(t, "the first run", folder.Summary{Copied: 2, Bytes: 2}, nil)
	wantRun(download(from))(t, "the second run", folder.Summary{Unchanged: 2}, nil)
	check(os.WriteFile(filepath.Join(dir, "a"), []byte("A"), 0o600))
	wantRun(download(from))(t, "the run after a change", folder.Summary{Copied: 1, Unchanged: 1, Bytes: 1}, nil)
	wantRun(download(s.team("none")))(t, "an empty prefix", folder.Summary{}, folder.ErrEmpty)
	wantRun(upload(t.Context(), folder.Dir(t.TempDir()), s.team(""), folder.Options{}))(t, "an empty folder", folder.Summary{}, folder.ErrEmpty)
}

// TestCopyKeepsProperties copies to another account: properties that the options do not set are the
// source's.
func TestCopyKeepsProperties(t *testing.T) {
	s := newService(t)
	expires := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := s.Put(t.Context(), "team", "dir/a", strings.NewReader("a"), client.PutOptions{
		ContentType: "text/x-own", CacheControl: "max-age=9", ContentLanguage: "de", Expires: expires, Metadata: map[string]string{"color": "blue"},
	})
	check(err)
	from, to := s.team("dir/"), folder.Prefix{Client: s.Client, Account: "other"}
	o := folder.Options{Put: client.PutOptions{ContentLanguage: "en"}}
	wantRun(copyBlobs(t.Context(), from, to, o))(t, "the first run", folder.Summary{Copied: 1, Bytes: 1}, nil)
	wantRun(copyBlobs(t.Context(), from, to, o))(t, "the second run", folder.Summary{Unchanged: 1}, nil)
	for e, err := range s.List(t.Context(), "other", client.ListOptions{Metadata: true}) {
		check(err)
		if e.ContentType != "text/x-own" || e.CacheControl != "max-age=9" || e.ContentLanguage != "en" || !e.Expires.Equal(expires) || !maps.Equal(e.Metadata, map[string]string{"color": "blue"}) {
			t.Errorf("%+v", e.Blob)
		}
	}
}

// TestCopyResumes interrupts a large copy. The next run sends no part again that arrived, and
// leaves nothing in the folder for state.
func TestCopyResumes(t *testing.T) {
	s := newService(t)
	const parts = 10
	s.store(map[string]string{"big": strings.Repeat("x", parts*1000)})
	state := filepath.Join(newFiles(t, nil), "state")
	o := folder.Options{StateDir: state, Put: client.PutOptions{PartSize: 1000, Concurrency: 1}}
	another := testenv.Must(client.New(s.URL(), client.Options{MaxAttempts: 1}))(t)
	from, to := s.team(""), folder.Prefix{Client: another, Account: "other"}
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodPut {
			if sent++; sent == 4 {
				cancel()
			}
		}
	})
	got, err := copyBlobs(ctx, from, to, o)
	if !errors.Is(err, context.Canceled) || got.Left != 1 || len(filesOf(state)) != 1 {
		t.Fatalf("%+v, %v, the state is %q", got, err, filesOf(state))
	}
	s.setHook(nil)
	got, err = copyBlobs(t.Context(), from, to, o)
	if sent := s.requests("PUT"); err != nil || got.Copied != 1 || sent > parts-4 {
		t.Errorf("the next run: %+v, %v with %d parts", got, err, sent)
	}
	if left := filesOf(state); len(left) != 0 {
		t.Errorf("the state is %q", left)
	}
}

// TestDeletions deletes single blobs, and blobs while they are listed, up to the list's error.
func TestDeletions(t *testing.T) {
	s := newService(t)
	s.store(map[string]string{"a": "a", "b": "b", "c": "c"})
	b := folder.NewBatch(folder.Options{})
	b.Delete(s.item("a"), true)
	b.Delete(s.item("none"), true)
	b.Delete(s.item("nor this"), false)
	got, err := b.Run(t.Context())
	if failure, ok := errors.AsType[*folder.Error](err); got.Deleted != 2 || got.Failed != 1 || !ok || failure.Source != s.item("none") || !errors.Is(err, client.ErrNotFound) {
		t.Errorf("%+v, %v", got, err)
	}
	broken := errors.New("the list is broken")
	b = folder.NewBatch(folder.Options{})
	got, err = b.DeleteListed(t.Context(), func(yield func(folder.Item, error) bool) {
		if yield(s.item("b"), nil) && yield(folder.Item{}, broken) {
			t.Error("the list goes on after its error")
		}
	})
	if got.Deleted != 1 || got.Failed != 1 || !errors.Is(err, broken) {
		t.Errorf("%+v, %v", got, err)
	}
	wantNames(t, s.names("team"), "c")
}

// TestBatchKeepsNamesApart adds blobs of several prefixes to one folder: two never become one file.
func TestBatchKeepsNamesApart(t *testing.T) {
	s := newService(t)
	s.store(map[string]string{"one/a": "1", "two/A": "2"})
	dir := newFiles(t, nil)
	b := folder.NewBatch(folder.Options{})
	defer func() { check(b.Close()) }()
	prefix := s.team("one/")
	check(b.Download(t.Context(), prefix, folder.Dir(dir), ""))
	err := b.DownloadBlob(s.item("two/A"), folder.Dir(dir+"/."), "A")
	if e, collides := errors.AsType[*tree.CollisionError](err); !collides || e.Earlier != "a" {
		t.Errorf("%v", err)
	}
	wantRun(b.Run(t.Context()))(t, "Run", folder.Summary{Copied: 1, Bytes: 1}, nil)
}

// TestReceivedFilesAppearSoon holds the response with one blob until a file with another has
// appeared: files that are published together do not wait for slow ones.
func TestReceivedFilesAppearSoon(t *testing.T) {
	s := newService(t)
	s.store(map[string]string{"fast": "fast", "slow": "slow"})
	dir, appeared := t.TempDir(), make(chan struct{})
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			<-appeared
		}
		next.ServeHTTP(w, r)
	})
	report := func(e folder.Event) {
		if e.Kind == folder.Copied && e.Source.Name == "fast" {
			testenv.Equal(t, string(testenv.Must(os.ReadFile(filepath.Join(dir, "fast")))(t)), "fast", "the file that has appeared")
			close(appeared)
		}
	}
	wantRun(download(t.Context(), s.team(""), folder.Dir(dir), folder.Options{Report: report}))(t, "the run", folder.Summary{Copied: 2, Bytes: 8}, nil)
}

// TestManyFilesArePublished downloads more files than are published at a time, from several
// folders, and cancels a second such run: the files that it has received are there, and nothing
// else.
func TestManyFilesArePublished(t *testing.T) {
	s := newService(t)
	blobs := map[string]string{}
	for i := range 300 {
		blobs[fmt.Sprintf("%d/%d", i%7, i)] = strings.Repeat("x", i)
	}
	s.store(blobs)
	dir := t.TempDir()
	wantRun(download(t.Context(), s.team(""), folder.Dir(dir), folder.Options{}))(t, "the run", folder.Summary{Copied: 300, Bytes: 300 * 299 / 2}, nil)
	testenv.Equal(t, len(filesOf(dir)), 300, "files")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := 0
	dir = t.TempDir()
	sum, err := download(ctx, s.team(""), folder.Dir(dir), folder.Options{Report: func(e folder.Event) {
		if e.Kind == folder.Started {
			if begun++; begun == 100 {
				cancel()
			}
		}
	}})
	testenv.Is(t, err, context.Canceled, "the cancelled run")
	testenv.Equal(t, len(filesOf(dir)), sum.Copied, "files of the cancelled run")
	for _, name := range filesOf(dir) {
		testenv.Equal(t, string(testenv.Must(os.ReadFile(filepath.Join(dir, name)))(t)), blobs[filepath.ToSlash(name)], "%s", name)
	}
}
