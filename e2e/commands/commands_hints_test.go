package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestDryRunsOfTransfers checks that put and get list the changes that they would make, also into a
// folder that does not exist, and do nothing.
func TestDryRunsOfTransfers(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"a": "a", "sub/b": "bb"})
	target := filepath.Join(t.TempDir(), "none")
	would := func(lines, summary string, args ...string) {
		t.Helper()
		r := s.Sluice(append(args, "-n")...)
		testenv.Equal(t, fmt.Sprint(r.Code, r.Stderr), fmt.Sprint(0, lines, summary), "%q", args)
	}
	would("would copy "+dir+"/a -> team/x/a\nwould copy "+dir+"/sub/b -> team/x/sub/b\n", "dry run: 2 to copy (3 B)\n", "put", "-r", "-j", "1", dir, "team/x/")
	would("would copy "+dir+"/a -> team/a\n", "", "put", dir+"/a", "team/a")
	if names := s.Names("team"); len(names) > 0 {
		t.Errorf("stored were %q", names)
	}
	s.Must(204, "PUT", "/v1/blobs/team/x/a", []byte("a"))
	would("would copy team/x/a -> "+target+"/a\n", "", "get", "-r", "team/x/", target)
	would("would copy team/x/a -> "+target+"\n", "", "get", "team/x/a", target)
	would("would copy team/x/a -> "+target+"/a\n", "", "sync", ":team/x/", target)
	if r := s.Sluice("get", "-n", "team/none", target); r.Code != 3 {
		t.Errorf("a blob that does not exist: %+v", r)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("a dry run created the folder")
	}
}

// TestLocalLinks shares blobs of a local instance, which needs no link.
func TestLocalLinks(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	s.Must(204, "PUT", "/v1/blobs/team/a%20b", []byte("shared"))
	r := s.Sluice("share", "team/a b")
	path, ours := strings.CutPrefix(strings.TrimSpace(r.Stdout), s.URL)
	if r.Code != 0 || !ours || string(s.Must(200, "GET", path, nil).Body) != "shared" || strings.Contains(path, "?") {
		t.Errorf("share: %+v", r)
	}
	if r := s.Sluice("share", "--json", "team/x/"); r.Code != 0 || r.Stdout != `{"url":"`+s.URL+`/v1/blobs/team/x/","list":"`+s.URL+`/v1/blobs/team?prefix=x%2F"}`+"\n" {
		t.Errorf("share of a prefix: %+v", r)
	}
}

// TestContextAddAsksTheServer adds contexts with the URLs that are most often mistaken. One that
// cannot be reached is added.
func TestContextAddAsksTheServer(t *testing.T) {
	s := e2e.Start(t, e2e.Options{Flags: []string{"--s3-addr", "127.0.0.1:0"}})
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("HOME", config)
	add := func(name, url string) e2e.Result { return e2e.SluiceRuns(t, "context", "add", name, url) }
	for name, url := range map[string]string{"route": s.URL + "/v1", "s3": s.S3, "path": s.URL + "/sluice"} {
		if r := add(name, url); r.Code != 2 || !strings.Contains(r.Stderr, url+" is not the base URL of a service: want it with its base path, without /v1") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	testenv.Equal(t, fmt.Sprint(add("right", s.URL)), fmt.Sprint(e2e.Result{}), "the base URL")
	if r := add("away", "http://127.0.0.1:1"); r.Code != 0 || !strings.Contains(r.Stderr, "The context is added, although the server cannot be asked now: ") {
		t.Errorf("a server that is away: %+v", r)
	}
	testenv.Equal(t, len(strings.Split(strings.TrimSpace(e2e.SluiceRuns(t, "context", "ls").Stdout), "\n")), 2, "the contexts")
}
