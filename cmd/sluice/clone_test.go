package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/storage"
	"sluice/internal/testenv"
)

// newSource creates a data folder with an empty instance.
func newSource(t *testing.T) string {
	t.Helper()
	data := filepath.Join(testenv.MemoryDir(t), "source")
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	testenv.OK(t, s.Close())
	return data
}

// TestClone checks what the command prints, under its former name as well.
func TestClone(t *testing.T) {
	from, to := newSource(t), filepath.Join(testenv.MemoryDir(t), "target")
	if r := must(t, "clone", "--from", from, "--to", to, "--quiet"); r.stderr != "" || !strings.HasPrefix(r.stdout, "Cloned the instance ") {
		t.Errorf("the first time: %+v", r)
	}
	r := must(t, "migrate", "--from", from, "--to", to, "--quiet")
	if !strings.Contains(r.stderr, "use clone") || !strings.HasSuffix(r.stdout, " was cloned before.\n") {
		t.Errorf("the second time, as migrate: %+v", r)
	}
}

func TestCloneRefusals(t *testing.T) {
	from := newSource(t)
	empty := func() string { return filepath.Join(testenv.MemoryDir(t), "data") }
	withKey := empty()
	makeKey(t, withKey, "--scopes", "read", "--all-accounts")
	withBytes := empty()
	s, err := storage.OpenEndpoint(t.Context(), storage.Location{Data: withBytes}, false, nil)
	testenv.OK(t, err)
	testenv.OK(t, s.Bytes.Put(t.Context(), "stray", strings.NewReader("x"), 1))
	testenv.OK(t, s.Close())
	begun := empty()
	// An unfinished clone's markers, as previous versions wrote them.
	id := strings.Repeat("0", 32)
	if s, err = storage.OpenEndpoint(t.Context(), storage.Location{Data: begun}, false, nil); err != nil {
		t.Fatal(err)
	}
	err = s.Bytes.Put(t.Context(), "sluice-migration", strings.NewReader(id), 32)
	testenv.OK(t, errors.Join(err, s.Meta.SetProperty(t.Context(), "instance", "copy of "+id), s.Close()))
	served := newSource(t)
	opened(t, served)
	nowhere := empty()
	const secret = "secret-canary"
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "--to DIR, or both", []string{"--from", from, "--to-meta", "postgres://h/n"}},
		{exitUsage, "--to-meta: want postgres://", []string{"--from", from, "--to", empty(), "--to-meta", "mysql://u:" + secret + "@h"}},
		{exitUsage, "--from-bytes: ", []string{"--from", from, "--from-bytes", "http://" + secret, "--to", empty()}},
		{exitUsage, "in the same place", []string{"--from", from, "--to", from + "/."}},
		{exitUsage, "in the same place", []string{"--from", from, "--to", from, "--to-bytes", "s3://bucket"}},
		{exitNotFound, "the source: there is no data in the folder " + nowhere, []string{"--from", nowhere, "--to", empty()}},
		{exitFailed, "the source: the data folder " + served + " is in use", []string{"--from", served, "--to", empty()}},
		{exitFailed, "the target: the data folder " + served + " is in use", []string{"--from", from, "--to", served}},
		{exitFailed, "the target: it is the instance ", []string{"--from", from, "--to", newSource(t)}},
		{exitFailed, "the target: it has metadata already", []string{"--from", from, "--to", withKey}},
		{exitFailed, "the target: it has bytes already, such as the object stray", []string{"--from", from, "--to", withBytes}},
		{exitFailed, "the target: it contains an unfinished clone of the instance 000", []string{"--from", from, "--to", begun}},
	} {
		r := sluice(append([]string{"clone"}, c.args...)...)
		if r.code != c.code || r.stdout != "" || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, secret) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q; want %d and a line that says %q", c.args, r.code, r.stderr, c.code, c.want)
		}
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("a source was created")
	}
}
