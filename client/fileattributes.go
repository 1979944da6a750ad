package client

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// The metadata in which a file's attributes are kept, in rclone's form: seconds since 1970 with a
// fraction, and the type and permissions in octal, such as 100644.
const (
	metaModified = "mtime"
	metaMode     = "mode"
)

// regularType is the type in a mode, as stat has it.
const regularType = 0o100000

// FileMetadata returns the metadata that keep a file's time of modification and permissions. They
// are rclone's, so that its option --metadata restores them over S3's interface, and vice versa.
func FileMetadata(info fs.FileInfo) map[string]string {
	return map[string]string{metaModified: formatModified(info.ModTime()), metaMode: fmt.Sprintf("%o", regularType|info.Mode().Perm())}
}

// RestoreFile sets the time of modification and the permissions of a file below root to those in a
// blob's metadata. It ignores members that are missing or malformed, and sets no other bits of a
// mode.
func RestoreFile(root *os.Root, path string, metadata map[string]string) error {
	if mode, err := strconv.ParseUint(metadata[metaMode], 8, 32); err == nil && (mode&^0o7777 == 0 || mode&^0o7777 == regularType) {
		if err := root.Chmod(path, fs.FileMode(mode)&fs.ModePerm); err != nil {
			return err
		}
	}
	if modified, valid := parseModified(metadata[metaModified]); valid {
		return root.Chtimes(path, time.Time{}, modified)
	}
	return nil
}

// formatModified returns a time as seconds since 1970, with as many digits as it needs.
func formatModified(t time.Time) string {
	nanoseconds, sign := t.UnixNano(), ""
	if nanoseconds < 0 {
		nanoseconds, sign = -nanoseconds, "-"
	}
	text := fmt.Sprintf("%s%d.%09d", sign, nanoseconds/1e9, nanoseconds%1e9)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// parseModified parses a text that formatModified returned. Digits after the ninth of a fraction
// have no effect.
func parseModified(text string) (t time.Time, valid bool) {
	unsigned, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	fraction = (fraction + "000000000")[:9]
	seconds, err1 := strconv.ParseUint(whole, 10, 33)
	nanoseconds, err2 := strconv.ParseUint(fraction, 10, 30)
	if err1 != nil || err2 != nil {
		return time.Time{}, false
	}
	ns := int64(seconds)*1e9 + int64(nanoseconds)
	if negative {
		ns = -ns
	}
	return time.Unix(0, ns), true
}
