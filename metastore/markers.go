package metastore

import "strings"

// markers begins the accounts that MarkersOf returns. No caller can name such an account: names
// begin with a letter or a digit. In byte order they follow all other accounts.
const markers = "~"

// MarkersOf returns the account under which an account's folder markers are stored: the blobs with
// names that end in "/" or have U+007F, which only S3's interface has. There they count towards
// quotas and are copied, backed up and checked like all blobs, but no list of that account has
// them.
func MarkersOf(account string) string { return markers + account }

// AccountOfMarkers returns the account for which MarkersOf returns this one, if there is one.
func AccountOfMarkers(account string) (string, bool) {
	of, ok := strings.CutPrefix(account, markers)
	return of, ok && !IsHidden(of)
}

// IsHidden reports whether an account is one that MarkersOf or KeptOf returns. These follow all
// other accounts.
func IsHidden(account string) bool { return strings.HasPrefix(account, markers) }
