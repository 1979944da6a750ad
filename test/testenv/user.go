package testenv

import (
	"errors"
	"os"
	"os/user"
	"strconv"
)

// osUser is a user in the operating system.
type osUser struct{ uid, gid uint32 }

// serverUser returns the user to run PostgreSQL as, or nil for the user of this process. PostgreSQL
// refuses to run as root.
func serverUser() (*osUser, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uerr, gerr); err != nil {
			return nil, err
		}
		return &osUser{uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and neither the user postgres nor nobody exists")
}
