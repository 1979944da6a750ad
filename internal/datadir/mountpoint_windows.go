package datadir

// isMountPoint returns false: a junction or a mounted volume is not a folder by its mode.
func isMountPoint(_, _ string) (bool, error) { return false, nil }
