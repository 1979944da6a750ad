//go:build unix

package secretfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/secretfile"
	"sluice/test/testenv"
)

// TestGroup checks for whom besides its owner a file may be: for the group of this process, if root
// owns the file and the group may only read it.
func TestGroup(t *testing.T) {
	testenv.Require(t, testenv.RootMount) // only root can make files of other users
	const root, other = 0, 65532
	group := os.Getegid()
	for _, test := range []struct {
		mode       os.FileMode
		owner, gid int
		accepted   bool
	}{
		{0o440, root, group, true}, // as Kubernetes mounts a Secret
		{0o640, root, group, true},
		{0o040, root, group, true},
		{0o400, root, group, true},
		{0o400, other, other, true},
		{0o600, other, other, true},
		{0o440, root, other, false},
		{0o440, other, group, false},
		{0o440, other, other, false},
		{0o640, root, other, false},
		{0o460, root, group, false},
		{0o660, root, group, false},
		{0o450, root, group, false},
		{0o444, root, group, false},
		{0o442, root, group, false},
		{0o441, root, group, false},
		{0o404, root, group, false},
	} {
		name := filepath.Join(t.TempDir(), "secret")
		testenv.OK(t, os.WriteFile(name, nil, 0o600))
		testenv.OK(t, os.Chown(name, test.owner, test.gid))
		testenv.OK(t, os.Chmod(name, test.mode))
		if _, err := secretfile.Read(name); (err == nil) != test.accepted {
			t.Errorf("mode %04o, owner %d, group %d: %v, want accepted: %t", test.mode, test.owner, test.gid, err, test.accepted)
		}
	}
}
