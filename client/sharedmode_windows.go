package client

import "os"

// newFileMode returns 0: a file has its folder's access control list from the beginning.
func newFileMode(*os.Root, string) (os.FileMode, error) { return 0, nil }

// share does nothing.
func share(*os.File, os.FileMode) error { return nil }
