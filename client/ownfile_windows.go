package client

import "io/fs"

// openOwnFlags are the flags with which openOwn opens a file: none, as os.Root opens links
// themselves.
const openOwnFlags = 0

// isOwn reports whether a file is a regular one. Who may access it is decided by the access control
// list of its folder, which has no mode.
func isOwn(info fs.FileInfo) bool { return info.Mode().IsRegular() }
