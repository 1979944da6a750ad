package commands

import (
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestTransferFlags checks --include, --exclude, --jobs and --create-only.
func TestTransferFlags(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	dir := e2e.MakeTree(t, map[string]string{"a.jpg": "1", "a.tmp": "2", "keep.tmp": "3", "cache/b": "4", "dir/c.jpg": "5"})
	other := e2e.MakeTree(t, map[string]string{"a.jpg": "other", "new.jpg": "6"})
	for _, test := range []struct {
		args   string // DIR and OTHER are folders
		code   int
		stderr string // a part
		names  string // of the blobs below team/x/ afterwards
	}{
		{"put -r DIR team/x/ --include keep.tmp --exclude *.tmp --exclude cache/ -j 1", 0, "3 copied", "a.jpg dir/c.jpg keep.tmp"},
		{"sync DIR :team/x/ --delete --exclude *.tmp --exclude *.jpg -j 16", 0, "cache/b", "a.jpg cache/b dir/c.jpg keep.tmp"},
		{"put DIR/a.jpg team/x/a.jpg --create-only", 4, "precondition_failed", "a.jpg cache/b dir/c.jpg keep.tmp"},
		{"put -r DIR team/x/ --create-only --exclude *.tmp", 0, "3 unchanged", "a.jpg cache/b dir/c.jpg keep.tmp"},
		{"put -r OTHER team/x/ --create-only", 5, "1 of 2 were not done", "a.jpg cache/b dir/c.jpg keep.tmp new.jpg"},
		{"cp :team/x/a.jpg :team/x/new.jpg --create-only", 4, "precondition_failed", "a.jpg cache/b dir/c.jpg keep.tmp new.jpg"},
		{"cp -r :team/x/ :team/y/ --exclude /dir --exclude *.tmp", 0, "3 copied", "a.jpg cache/b dir/c.jpg keep.tmp new.jpg"},
		{"get -r team/y/ OTHER/got --include *.jpg --exclude *", 0, "2 copied", "a.jpg cache/b dir/c.jpg keep.tmp new.jpg"},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "OTHER", other).Replace(test.args))
		r := s.Sluice(args...)
		if r.Code != test.code || !strings.Contains(r.Stderr, test.stderr) {
			t.Errorf("%s: %+v, want exit code %d and %q", test.args, r, test.code, test.stderr)
		}
		names := strings.Join(strings.Fields(s.Sluice("ls", "-r", "team/x/").Stdout), " ")
		testenv.Equal(t, names, test.names, "the blobs after %s", test.args)
	}
}

// TestMaxRate checks that transfers take at least as long as --max-rate requires, whatever their
// number at a time. How even the rate is, is tested without a clock beside the limiter.
func TestMaxRate(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	const size = 64 << 10 // of each of two files
	text := strings.Repeat("x", size)
	dir := e2e.MakeTree(t, map[string]string{"a": text, "b": text})
	got := t.TempDir()
	for _, args := range []string{
		"put -r DIR team/x/ --max-rate 128KiB",
		"get -r team/x/ GOT/a --max-rate 128KiB -j 16",
		"get team/x/a - --max-rate 64KiB",
		"cp -r DIR :team/y/ --max-rate 128KiB",
		"sync :team/x/ GOT/b --max-rate 128KiB",
	} {
		began := time.Now()
		r := s.Sluice(strings.Fields(strings.NewReplacer("DIR", dir, "GOT", got).Replace(args))...)
		if took := time.Since(began); r.Code != 0 || took < time.Second {
			t.Errorf("%s: exit code %d after %v, and the bytes need a second: %s", args, r.Code, took, r.Stderr)
		}
	}
	testenv.Equal(t, s.Sluice("cat", "team/x/a", "team/y/b").Stdout == text+text, true, "the blobs are the files")
	for args, want := range map[string]string{
		"put -r DIR team/x/ --max-rate 10":     "sluice: --max-rate: want a size of at least 1KiB, such as 20MiB, not \"10\"\n",
		"get -r team/x/ GOT/c --max-rate fast": "sluice: --max-rate: want a size of at least 1KiB, such as 20MiB, not \"fast\"\n",
	} {
		r := s.Sluice(strings.Fields(strings.NewReplacer("DIR", dir, "GOT", got).Replace(args))...)
		testenv.Equal(t, r, e2e.Result{Code: 2, Stderr: want}, "%s", args)
	}
}
