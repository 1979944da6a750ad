package folder_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/client"
	"sluice/client/folder"
	"sluice/test/testenv"
)

// tracking are the options of a sync that tracks renames.
func tracking(remove bool, put client.PutOptions) syncOptions {
	return syncOptions{Options: folder.Options{TrackRenames: true, Put: put, Concurrency: 1}, Delete: remove}
}

// account returns all blobs of an account.
func (s *service) account(name string) folder.Prefix {
	return folder.Prefix{Client: s.Client, Account: name}
}

// properties returns the blobs of an account as they are listed.
func (s *service) properties(account string) map[string]client.Blob {
	blobs := map[string]client.Blob{}
	for e, err := range s.List(context.Background(), account, client.ListOptions{Metadata: true}) {
		check(err)
		blobs[e.Name] = e.Blob
	}
	return blobs
}

// texts returns the contents of an account's blobs.
func (s *service) texts(account string) map[string]string {
	texts := map[string]string{}
	for _, name := range s.names(account) {
		r, err := s.Get(context.Background(), account, name, client.GetOptions{})
		check(err)
		text, err := io.ReadAll(r)
		check(errors.Join(err, r.Close()))
		texts[name] = string(text)
	}
	return texts
}

// textsIn returns the contents of a folder's files.
func textsIn(dir string) map[string]string {
	texts := map[string]string{}
	for _, name := range filesOf(dir) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		check(err)
		texts[name] = string(text)
	}
	return texts
}

// TestSyncTracksRenames renames, copies and changes files, and checks which requests are sent.
func TestSyncTracksRenames(t *testing.T) {
	s := newService(t)
	before := map[string]string{"old/a": "first", "old/b": "other", "same": "same", "double": "twice", "changed": "one", "empty": ""}
	after := map[string]string{"new/a": "first", "new/b": "OTHER", "same": "same", "twin/1": "twice", "twin/2": "twice", "changed": "two", "void": ""}
	both := maps.Clone(before)
	maps.Copy(both, after)
	dir := folder.Dir(newFiles(t, after))
	for _, test := range []struct {
		account string
		remove  bool
		want    folder.Summary
		left    map[string]string
	}{
		{"moved", true, folder.Summary{Copied: 4, Unchanged: 1, Moved: 2, Deleted: 2, Bytes: 13}, after},
		{"copied", false, folder.Summary{Copied: 6, Unchanged: 1, Bytes: 23}, both},
	} {
		to := s.account(test.account)
		check(testenv.Error(upload(t.Context(), folder.Dir(newFiles(t, before)), to, folder.Options{})))
		o := tracking(test.remove, client.PutOptions{})
		o.DryRun = true
		s.setHook(nil)
		wantRun(mirror(t.Context(), dir, to, o))(t, test.account+" in a dry run", test.want, nil)
		testenv.Equal(t, s.requests("PUT")+s.requests("POST")+s.requests("DELETE"), 0, "writes of a dry run")
		o.DryRun = false
		wantRun(mirror(t.Context(), dir, to, o))(t, test.account, test.want, nil)
		testenv.Equal(t, s.requests("PUT"), 3, "%s: files that are sent", test.account) // new/b, changed and void
		if got := s.texts(test.account); !maps.Equal(got, test.left) {
			t.Errorf("%s: stored are %q", test.account, got)
		}
		wantRun(mirror(t.Context(), dir, to, o))(t, test.account+" again", folder.Summary{Unchanged: len(after)}, nil)
	}
}

// TestRenamesAmongExistingNames renames files to names that other files had.
func TestRenamesAmongExistingNames(t *testing.T) {
	s := newService(t)
	for name, test := range map[string]struct {
		source, target map[string]string
		sent           int
	}{
		"swap": {map[string]string{"a": "two", "b": "one"}, map[string]string{"a": "one", "b": "two"}, 2},
		// c is copied from b before b is replaced.
		"chain": {map[string]string{"b": "one", "c": "two"}, map[string]string{"a": "one", "b": "two"}, 1},
		"twins": {map[string]string{"b": "one", "c": "one"}, map[string]string{"a": "one", "b": "one"}, 0},
	} {
		to := s.account(name)
		check(testenv.Error(upload(t.Context(), folder.Dir(newFiles(t, test.target)), to, folder.Options{})))
		s.setHook(nil)
		_, err := mirror(t.Context(), folder.Dir(newFiles(t, test.source)), to, tracking(true, client.PutOptions{}))
		testenv.OK(t, err)
		testenv.Equal(t, s.requests("PUT"), test.sent, "%s: files that are sent", name)
		if got := s.texts(name); !maps.Equal(got, test.source) {
			t.Errorf("%s: stored are %q", name, got)
		}
	}
}

// TestRenamesKeepProperties checks which properties renamed blobs have.
func TestRenamesKeepProperties(t *testing.T) {
	s := newService(t)
	expires := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	blue, red := map[string]string{"color": "blue"}, map[string]string{"color": "red"}
	own := client.PutOptions{ContentType: "text/x-own", Metadata: blue, Expires: expires}
	guessed := client.PutOptions{ContentType: "text/plain; charset=utf-8", Metadata: blue}
	for i, test := range []struct {
		name, to      string
		stored, flags client.PutOptions
		remove        bool
		want          client.PutOptions
		moved         int
	}{
		{"a move", "b.txt", own, client.PutOptions{}, true, own, 1},
		{"a move to another ending", "b.html", own, client.PutOptions{}, true, own, 1},
		{"a guessed type", "b.txt", guessed, client.PutOptions{}, true, guessed, 1},
		{"a guessed type and another ending", "b.html", guessed, client.PutOptions{}, true, client.PutOptions{ContentType: "text/html; charset=utf-8", Metadata: blue}, 0},
		{"flags with other values", "b.txt", own, client.PutOptions{Metadata: red, CacheControl: "no-cache"}, true, client.PutOptions{ContentType: "text/x-own", CacheControl: "no-cache", Metadata: red, Expires: expires}, 0},
		{"a flag for the type", "b.txt", own, client.PutOptions{ContentType: "a/b"}, true, client.PutOptions{ContentType: "a/b", Metadata: blue, Expires: expires}, 0},
		{"a flag for the expiry", "b.txt", own, client.PutOptions{Expires: expires.Add(time.Hour)}, true, client.PutOptions{ContentType: "text/x-own", Metadata: blue, Expires: expires.Add(time.Hour)}, 0},
		{"flags with the same values", "b.txt", own, client.PutOptions{Metadata: blue, Expires: expires}, true, own, 1},
		{"a copy", "b.txt", own, client.PutOptions{}, false, client.PutOptions{ContentType: "text/plain; charset=utf-8"}, 0},
		{"a copy with flags", "b.txt", own, client.PutOptions{Metadata: red}, false, client.PutOptions{ContentType: "text/plain; charset=utf-8", Metadata: red}, 0},
	} {
		account := fmt.Sprintf("account%d", i)
		check(testenv.Error(s.Put(t.Context(), account, "a.txt", strings.NewReader("text"), test.stored)))
		s.setHook(nil)
		got, err := mirror(t.Context(), folder.Dir(newFiles(t, map[string]string{test.to: "text"})), s.account(account), tracking(test.remove, test.flags))
		if err != nil || got.Moved != test.moved || got.Moved+got.Copied != 1 || s.requests("PUT") > 0 {
			t.Errorf("%s: %+v, %v with %d files that were sent", test.name, got, err, s.requests("PUT"))
		}
		b, stored := s.properties(account)[test.to], test.want
		if b.ContentType != stored.ContentType || b.CacheControl != stored.CacheControl || !maps.Equal(b.Metadata, stored.Metadata) || !b.Expires.Equal(stored.Expires) {
			t.Errorf("%s: stored is %+v, want %+v", test.name, b, stored)
		}
	}
}

// TestRenamesAcrossServices checks that a renamed blob has the source's properties, whether it
// could be moved or not.
func TestRenamesAcrossServices(t *testing.T) {
	one, two := newService(t), newService(t)
	for name, color := range map[string]string{"new/a": "blue", "new/b": "red"} {
		check(testenv.Error(one.Put(t.Context(), "team", name, strings.NewReader("text "+name[4:]), client.PutOptions{ContentType: "a/b", Metadata: map[string]string{"color": color}})))
		check(testenv.Error(two.Put(t.Context(), "team", "old/"+name[4:], strings.NewReader("text "+name[4:]), client.PutOptions{ContentType: "a/b", Metadata: map[string]string{"color": "blue"}})))
	}
	one.setHook(nil)
	got, err := mirror(t.Context(), one.team(""), two.team(""), tracking(true, client.PutOptions{}))
	wantRun(got, err)(t, "the run", folder.Summary{Copied: 1, Moved: 1, Deleted: 1, Bytes: 6}, nil)
	testenv.Equal(t, one.requests("GET /v1/blobs/team/"), 0, "blobs that were read")
	for name, b := range two.properties("team") {
		if want := one.properties("team")[name]; b.ETag != want.ETag || b.ContentType != "a/b" || !maps.Equal(b.Metadata, want.Metadata) {
			t.Errorf("%s is %+v, want %+v", name, b, want)
		}
	}
}

// refusing answers POST requests as a service would that refuses them.
func refusing(status int, code string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		check(testenv.Error(fmt.Fprintf(w, `{"status": %d, "code": %q, "detail": "A sentence."}`, status, code)))
	}
}

// TestRenamesFallBack lets the service refuse moves and copies: then files are sent, unless that
// would be refused, too. The old blob is deleted only after that.
func TestRenamesFallBack(t *testing.T) {
	s := newService(t)
	moved := folder.Summary{Moved: 1}
	sent := folder.Summary{Copied: 1, Deleted: 1, Bytes: 4}
	meanwhile := func(name, text string) func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPost {
				account := strings.Split(r.URL.Path, "/")[3]
				check(testenv.Error(s.Put(r.Context(), account, name, strings.NewReader(text), client.PutOptions{})))
			}
			next.ServeHTTP(w, r)
		}
	}
	for i, test := range []struct {
		name string
		hook func(w http.ResponseWriter, r *http.Request, next http.Handler)
		want folder.Summary
		err  error
		next folder.Summary // of another run
	}{
		{"an earlier version", refusing(405, "method_not_allowed"), sent, nil, folder.Summary{Unchanged: 1}},
		{"a key without the scope", refusing(403, "scope_missing"), sent, nil, folder.Summary{Unchanged: 1}},
		{"another version", meanwhile("old", "TEXT"), sent, nil, folder.Summary{Unchanged: 1}},
		{"a blob with the new name", meanwhile("new", "mine"), sent, nil, folder.Summary{Unchanged: 1}},
		{"no such blob", refusing(404, "blob_not_found"), sent, nil, folder.Summary{Unchanged: 1}},
		{"a full quota", refusing(403, "quota_exceeded"), folder.Summary{Failed: 1}, client.ErrForbidden, moved},
		{"a service that is busy", refusing(503, "overloaded"), folder.Summary{Failed: 1}, client.ErrUnavailable, moved},
		{"a lost response", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			if r.Method == http.MethodPost {
				panic(http.ErrAbortHandler)
			}
		}, folder.Summary{Failed: 1}, folder.ErrIncomplete, folder.Summary{Unchanged: 1}},
	} {
		account := fmt.Sprintf("account%d", i)
		check(testenv.Error(s.Put(t.Context(), account, "old", strings.NewReader("text"), client.PutOptions{})))
		dir := folder.Dir(newFiles(t, map[string]string{"new": "text"}))
		s.setHook(test.hook)
		wantRun(mirror(t.Context(), dir, s.account(account), tracking(true, client.PutOptions{})))(t, test.name, test.want, test.err)
		s.setHook(nil)
		wantRun(mirror(t.Context(), dir, s.account(account), tracking(true, client.PutOptions{})))(t, "after "+test.name, test.next, nil)
		wantNames(t, s.names(account), "new")
	}
}

// TestRenamesTakeNothingAwayInDoubt lets a transfer fail: then nothing loses its name unless that
// is forced, and files in a folder stay.
func TestRenamesTakeNothingAwayInDoubt(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	s := newService(t)
	s.store(map[string]string{"old": "text"})
	dir := folder.Dir(newFiles(t, map[string]string{"new": "text", "bad\x01": "b"}))
	o := tracking(true, client.PutOptions{})
	wantRun(mirror(t.Context(), dir, s.team(""), o))(t, "a run in doubt", folder.Summary{Copied: 1, Failed: 1, Bytes: 4}, folder.ErrIncomplete)
	wantNames(t, s.names("team"), "new", "old")
	check(s.Delete(t.Context(), "team", "new", client.DeleteOptions{}))
	o.Force = true
	wantRun(mirror(t.Context(), dir, s.team(""), o))(t, "a forced run", folder.Summary{Moved: 1, Failed: 1}, client.ErrInvalid)
	wantNames(t, s.names("team"), "new")

	s.store(map[string]string{"link/b": "b"})
	down := newFiles(t, map[string]string{"old": "text"})
	check(os.Symlink("none", filepath.Join(down, "link")))
	o.Force = false
	wantRun(mirror(t.Context(), s.team(""), folder.Dir(down), o))(t, "a folder in doubt", folder.Summary{Copied: 1, Failed: 1, Bytes: 4}, folder.ErrIncomplete)
	wantNames(t, filesOf(down), "link", "new", "old")
}

// TestRenamesOfFiles renames files in a folder, and leaves alone a file that is in the way.
func TestRenamesOfFiles(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	s := newService(t)
	s.store(map[string]string{"new/a": "first", "new/b": "other", "twin": "other", "link": "third", "changed": "fourth"})
	dir := newFiles(t, map[string]string{"old/a": "first", "old/sub/b": "other", "mine": "third", "edited": "fourth"})
	check(os.Symlink("mine", filepath.Join(dir, "link")))
	before := testenv.Must(os.Stat(filepath.Join(dir, "old", "a")))(t)
	o := tracking(true, client.PutOptions{})
	o.Report = func(e folder.Event) {
		if e.Kind == folder.Copying { // after the files were read
			check(os.WriteFile(filepath.Join(dir, "edited"), []byte("FOURTH"), 0o600))
			check(os.Chtimes(filepath.Join(dir, "edited"), time.Time{}, time.Unix(1, 0)))
		}
	}
	wantRun(mirror(t.Context(), s.team(""), folder.Dir(dir), o))(t, "the run", folder.Summary{Copied: 3, Moved: 2, Deleted: 2, Bytes: 16}, nil)
	if got := textsIn(dir); !maps.Equal(got, s.texts("team")) {
		t.Errorf("the files are %q", got)
	}
	if !os.SameFile(before, testenv.Must(os.Lstat(filepath.Join(dir, "new", "a")))(t)) {
		t.Error("the file was not renamed")
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder that has become empty: %v", err)
	}
}

// TestRenamesLeadToTheSource makes random folders like each other in each direction, while the
// service refuses some requests or loses their responses, or the run is interrupted. After a run
// without faults the target has the source's names and contents, whatever was renamed. If there
// were none, no byte was sent for a content that the target had.
func TestRenamesLeadToTheSource(t *testing.T) {
	for name, value := range map[string]string{"rapid.checks": "40", "rapid.nofailfile": "true"} {
		f := flag.Lookup(name).Value
		before := f.String()
		check(f.Set(value))
		defer func() { check(f.Set(before)) }()
	}
	s := newService(t)
	files := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d/a", "d/b", "e/a", "f"}), rapid.SampledFrom([]string{"", "one", "two", "three"}), 1, 6)
	accounts := 0
	rapid.Check(t, func(t *rapid.T) {
		accounts++
		source, target := files.Draw(t, "source"), files.Draw(t, "target")
		remove := rapid.Bool().Draw(t, "delete")
		direction := rapid.SampledFrom([]string{"up", "down", "across"}).Draw(t, "direction")
		fault := rapid.SampledFrom([]string{"none", "none", "405", "412", "500", "lost", "interrupted"}).Draw(t, "fault")
		every := rapid.IntRange(1, 3).Draw(t, "every")

		from, to := s.account(fmt.Sprintf("from%d", accounts)), s.account(fmt.Sprintf("to%d", accounts))
		var left, right folder.End = from, to
		result := func() map[string]string { return s.texts(to.Account) }
		if direction == "up" {
			dir, end := writeFiles(source)
			defer end()
			left = folder.Dir(dir)
		}
		if direction == "down" {
			dir, end := writeFiles(target)
			defer end()
			right, result = folder.Dir(dir), func() map[string]string { return textsIn(dir) }
		}
		s.setHook(nil)
		for p, texts := range map[folder.Prefix]map[string]string{from: source, to: target} {
			for name, text := range texts {
				check(testenv.Error(p.Client.Put(t.Context(), p.Account, name, strings.NewReader(text), client.PutOptions{})))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			n++
			switch {
			case r.Method != http.MethodPost || n%every != 0 || fault == "none":
				next.ServeHTTP(w, r)
			case fault == "lost":
				next.ServeHTTP(w, r)
				panic(http.ErrAbortHandler)
			case fault == "interrupted":
				next.ServeHTTP(w, r)
				cancel()
			default:
				w.WriteHeader(map[string]int{"405": 405, "412": 412, "500": 500}[fault])
			}
		})
		o := tracking(remove, client.PutOptions{})
		_, err := mirror(ctx, left, right, o)
		if direction == "up" && fault == "none" {
			if got, want := s.requests("PUT"), sentFiles(source, target); err != nil || got != want {
				t.Fatalf("%d files were sent, want %d, %v", got, want, err)
			}
		}
		s.setHook(nil)
		if _, err := mirror(t.Context(), left, right, o); err != nil {
			t.Fatal(err)
		}
		want := source
		if !remove {
			want = maps.Clone(target)
			maps.Copy(want, source)
		}
		if got := result(); !maps.Equal(got, want) {
			t.Fatalf("the target is %q, want %q", got, want)
		}
	})
}

// sentFiles returns how many files cannot be made from the target's contents.
func sentFiles(source, target map[string]string) (n int) {
	has := slices.Collect(maps.Values(target))
	for name, text := range source {
		switch stored, exists := target[name]; {
		case exists && stored != text, !exists && (text == "" || !slices.Contains(has, text)):
			n++
		}
	}
	return n
}
