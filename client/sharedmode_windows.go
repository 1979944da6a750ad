package client

import "os"

// share does nothing: a file has the access control list of its folder from the beginning.
func share(*os.Root, *os.File, string) error { return nil }
