package s3api

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"sluice/wire"
)

// amzPrefix begins the names of S3's own fields.
const amzPrefix = "X-Amz-"

// signatureFields are the parameters with a presigned URL's signature. Package sigv4 reads them.
var signatureFields = []string{"Algorithm", "Credential", "Date", "Expires", "Security-Token", "Signature", "Signedheaders"}

// knownFields are the fields of requests that begin with X-Amz-, by the rest of their names, and
// whether a field without a value is an error, because without the field the request would do more.
// Those of the second group ask for nothing that differs here. Any other field is refused.
var knownFields = map[string]bool{
	"Acl": false, "Checksum-Algorithm": false, "Checksum-Mode": false, "Checksum-Type": false, "Content-Sha256": false,
	"Copy-Source": true, "Copy-Source-If-Match": true, "Copy-Source-If-None-Match": true, "Copy-Source-If-Modified-Since": true,
	"Copy-Source-If-Unmodified-Since": true, "Copy-Source-Range": true, "Decoded-Content-Length": true, "Expected-Bucket-Owner": true,
	"If-Match-Initiated-Time": true, "If-Match-Last-Modified-Time": true, "If-Match-Size": true, "Max-Parts": false, "Metadata-Directive": true,
	"Mp-Object-Size": true, "Object-Attributes": true, "Part-Number-Marker": false, "Sdk-Checksum-Algorithm": false,
	"Source-Expected-Bucket-Owner": true, "Storage-Class": false, "Tagging": false, "Tagging-Directive": true, "Trailer": false,

	"Bypass-Governance-Retention": false, "Cf-Id": false, "Id-2": false, "Mfa": false, "Object-Annotation-Directive": false, "Object-Ownership": false,
	"Optional-Object-Attributes": false, "Region-Set": false, "Request-Id": false, "Request-Payer": false, "Server-Side-Encryption": false, "Te": false,
	"User-Agent": false,
}

// fieldsOf returns a request's header with the fields X-Amz-... that its query has, as presigned
// URLs do. It is the only place that reads them. A field that the header and the query state
// differently is an error, and so is one that is not known, unless its value asks for nothing.
func fieldsOf(header http.Header, q query) (http.Header, error) {
	merged, added := header, false
	for name, values := range q {
		name, ours := amzName(name)
		if !ours || slices.Contains(signatureFields, strings.TrimPrefix(name, amzPrefix)) {
			continue
		}
		value := strings.Trim(values[0], " \t")
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, fieldError(name, "has a control character")
		}
		if stated, both := merged[name]; both {
			if strings.Join(stated, ",") != value {
				return nil, fieldError(name, "is stated twice, with different values")
			}
			continue
		}
		if !added {
			merged, added = maps.Clone(header), true
		}
		merged[name] = []string{value}
	}
	for name, values := range merged {
		if err := checkField(name, values); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// amzName returns a field's canonical name, and whether it begins with X-Amz-.
func amzName(name string) (string, bool) {
	if len(name) < len(amzPrefix) || !strings.EqualFold(name[:len(amzPrefix)], amzPrefix) {
		return name, false
	}
	return amzPrefix + http.CanonicalHeaderKey(name)[len(amzPrefix):], true
}

// checkField refuses a field that asks for what this interface does not have.
func checkField(name string, values []string) error {
	short, ours := strings.CutPrefix(name, amzPrefix)
	if !ours || strings.HasPrefix(name, metaPrefix) || slices.Contains(signatureFields, short) {
		return nil
	}
	value := strings.Join(values, ",")
	needsValue, isKnown := knownFields[short]
	switch {
	case value == "" && needsValue:
		return fieldError(name, "must have a value")
	case isKnown, strings.HasPrefix(short, "Checksum-"): // package checksums refuses those that it does not know
		return nil
	case value == "", strings.EqualFold(value, "false"), strings.EqualFold(value, "off"):
		return nil
	}
	if strings.HasPrefix(short, "Grant-") {
		return noAccessList("access for others than the owner cannot be granted")
	}
	return refuseWith("InvalidRequest", wire.CodeBadHeader, "the header %.100q asks for something that is not supported", strings.ToLower(name))
}

// fieldError returns an error about a field. It is logged, so it does not have a name that a writer
// has chosen.
func fieldError(name, reason string) error {
	if strings.HasPrefix(name, metaPrefix) {
		name = metaPrefix + "*"
	}
	return refuseWith("InvalidArgument", wire.CodeBadHeader, "%.100q %s", strings.ToLower(name), reason)
}
