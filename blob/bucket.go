package blob

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
)

// bucketName is how Amazon's buckets are named ("Bucket naming rules" in the Amazon S3 User Guide),
// which many clients check.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// CheckBucket returns an error for a name that a bucket should not have.
func CheckBucket(name string) error {
	if _, err := netip.ParseAddr(name); err == nil || !bucketName.MatchString(name) || strings.Contains(name, "..") {
		return errors.New(`a bucket's name has 3 to 63 of a-z, 0-9, "-" and ".", begins and ends with a letter or a digit, has no two dots in a row, and is no IP address`)
	}
	return nil
}
