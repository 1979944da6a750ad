package s3api

import (
	"net/url"
	"strings"

	"sluice/exchange"
)

// Names of header fields, in canonical form.
const (
	fieldCRC64        = "X-Amz-Checksum-Crc64nvme"
	fieldChecksumType = "X-Amz-Checksum-Type"
	fieldCopySource   = "X-Amz-Copy-Source"
	fieldTagging      = "X-Amz-Tagging" // and the property that keeps the tags
	fieldTaggingCount = "X-Amz-Tagging-Count"
	fieldVersion      = "X-Amz-Version-Id"
	fieldFromVersion  = "X-Amz-Copy-Source-Version-Id"
	fieldMark         = "X-Amz-Delete-Marker"
	fieldLockMode     = "X-Amz-Object-Lock-Mode"
	fieldLockUntil    = "X-Amz-Object-Lock-Retain-Until-Date"
	fieldLegalHold    = "X-Amz-Object-Lock-Legal-Hold"
	fieldBucketLocks  = "X-Amz-Bucket-Object-Lock-Enabled"
	fieldBypass       = "X-Amz-Bypass-Governance-Retention"
	metaPrefix        = "X-Amz-Meta-"
	// fieldEncryption asks for encryption, and reports it.
	fieldEncryption = "X-Amz-Server-Side-Encryption"
	// fieldExpiration states after how many seconds a blob expires.
	fieldExpiration = metaPrefix + "Expiration-Seconds"
)

// objectFields are the fields that describe a blob, or a part of it. An error response has none of
// them.
var objectFields = []string{
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Range",
	"Content-Security-Policy", "Content-Type", "Etag", "Expires", "Last-Modified", fieldEncryption, "X-Amz-Expiration", "X-Amz-Mp-Parts-Count",
	fieldTaggingCount, fieldVersion, fieldFromVersion, fieldLockMode, fieldLockUntil, fieldLegalHold,
}

// removeObjectFields removes the fields that a handler has set for its own response.
func removeObjectFields(f *exchange.Fields) {
	for name := range f.All() {
		if strings.HasPrefix(name, strings.ToLower(metaPrefix)) || strings.HasPrefix(name, "X-Amz-Checksum-") {
			f.Remove(name)
		}
	}
	for _, name := range objectFields {
		f.Remove(name)
	}
}

// escapedPath returns a path as it was sent.
func escapedPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}
