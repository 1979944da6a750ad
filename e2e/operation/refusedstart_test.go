package operation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestBusyPortLeavesNoFolder checks that a server which cannot listen on one of its addresses
// creates no data folder, and puts nothing into one that is empty.
func TestBusyPortLeavesNoFolder(t *testing.T) {
	t.Parallel()
	taken := e2e.ListenHere(t)
	defer func() { testenv.Check(t, taken.Close()) }()
	for _, flag := range []string{"--addr", "--admin-addr", "--s3-addr"} {
		data := filepath.Join(t.TempDir(), "data")
		for _, existing := range []bool{false, true} {
			if existing {
				testenv.OK(t, os.Mkdir(data, 0o700))
			}
			said := e2e.RefusedStart(t, e2e.Options{Data: data, Flags: []string{flag, taken.Addr().String()}})
			if !strings.Contains(said, "the port is in use") || !strings.Contains(said, flag) {
				t.Errorf("with %s: %s", flag, said)
			}
			entries, err := os.ReadDir(data)
			if len(entries) > 0 || errors.Is(err, fs.ErrNotExist) == existing {
				t.Errorf("with %s, and the folder exists: %t; afterwards it has %v, %v", flag, existing, entries, err)
			}
		}
	}
}

// TestSecondServer checks that a server reports that another server holds its folder, and that the
// folder can be served again once that one was killed.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	want := "the data folder " + s.Data + " is in use by a running server: stop that server, or name another folder with --data DIR"
	for range 2 { // the refused one leaves no sign that a server runs
		if said := e2e.RefusedStart(t, e2e.Options{Data: s.Data}); !strings.Contains(said, want) {
			t.Errorf("a second server prints %s, want %s", said, want)
		}
		s.Must(204, "PUT", "/v1/blobs/team/a", []byte("x"))
		s.Kill()
		s.Launch()
	}
	s.Holds(e2e.BlobTarget("team", "a"), []byte("x"))
}
