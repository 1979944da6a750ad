package commands

import (
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
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
		stderr string // what it contains
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
