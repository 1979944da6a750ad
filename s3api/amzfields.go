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

// listFields are the fields that are lists, and so may occur more than once.
var listFields = []string{"Object-Attributes", "Optional-Object-Attributes", "Trailer"}

// flagFields are true or false.
var flagFields = []string{"Bucket-Object-Lock-Enabled", "Bypass-Governance-Retention"}

// knownFields are the fields of requests that begin with X-Amz-, by the rest of their names, with
// their group's demand. Any other field is refused.
var knownFields = map[string]demand{
	"Acl": optional, "Checksum-Algorithm": optional, "Checksum-Mode": optional, "Checksum-Type": optional, "Content-Sha256": optional,
	"Max-Parts": optional, "Metadata-Directive": valued, "Object-Attributes": valued, "Part-Number-Marker": optional, "Sdk-Checksum-Algorithm": optional,
	"Decoded-Content-Length": valued, "Expected-Bucket-Owner": valued, "Storage-Class": optional, "Tagging": optional, "Tagging-Directive": valued, "Trailer": optional,

	"Copy-Source": ofCopies, "Copy-Source-If-Match": ofCopies, "Copy-Source-If-None-Match": ofCopies, "Copy-Source-If-Modified-Since": ofCopies,
	"Copy-Source-If-Unmodified-Since": ofCopies, "Copy-Source-Range": "UploadPartCopy", "Source-Expected-Bucket-Owner": ofCopies,
	"If-Match-Initiated-Time": "AbortMultipartUpload", "If-Match-Last-Modified-Time": "DeleteObject", "If-Match-Size": "DeleteObject",
	"Mp-Object-Size": "CompleteMultipartUpload", "Bucket-Object-Lock-Enabled": "CreateBucket",
	"Object-Lock-Mode": ofStores, "Object-Lock-Retain-Until-Date": ofStores, "Object-Lock-Legal-Hold": ofStores,
	"Bypass-Governance-Retention": optional,

	// They ask for nothing that differs here.
	"Cf-Id": optional, "Id-2": optional, "Object-Annotation-Directive": optional,
	"Object-Ownership": optional, "Optional-Object-Attributes": optional, "Region-Set": optional, "Request-Id": optional, "Request-Payer": optional,
	"Server-Side-Encryption": optional, "Te": optional, "User-Agent": optional,
	"Transition-Default-Minimum-Object-Size": optional,
}

// demand is a rule for a known field's value. Without all fields but the optional ones, the request
// would do more: they must have a value, and those that bound or condition one operation must not
// be sent with another, which would ignore them.
type demand string

const (
	optional demand = ""
	valued   demand = "*"
	ofCopies demand = "CopyObject UploadPartCopy" // or other names of operations
	ofStores demand = "PutObject CopyObject CreateMultipartUpload PostObject"
)

// writeConditionFields are the conditions of a write, and conditionalWrites the writes that have
// them, as at Amazon S3 ("How to prevent object overwrites with conditional writes" in the User
// Guide). Any other write would ignore them.
var (
	writeConditionFields = []string{"If-Match", "If-None-Match", "If-Unmodified-Since"}
	conditionalWrites    = []string{"PutObject", "CopyObject", "CompleteMultipartUpload", "DeleteObject"}
)

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

// checkField refuses a field that asks for a function that this interface lacks, or for two things.
func checkField(name string, values []string) error {
	short, ours := strings.CutPrefix(name, amzPrefix)
	if !ours || strings.HasPrefix(name, metaPrefix) || slices.Contains(signatureFields, short) {
		return nil
	}
	value := strings.Join(values, ",")
	needs, isKnown := knownFields[short]
	switch {
	case value == "" && needs != optional:
		return fieldError(name, "must have a value")
	case slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) && !slices.Contains(listFields, short):
		return fieldError(name, "is stated twice, with different values")
	case slices.Contains(flagFields, short) && value != "" && !strings.EqualFold(values[0], "true") && !strings.EqualFold(values[0], "false"):
		return fieldError(name, "must be true or false")
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

// checkFieldsOf refuses the fields that an operation would ignore, and that it must not.
func checkFieldsOf(header http.Header, op *operation) error {
	for name := range header {
		short, ours := strings.CutPrefix(name, amzPrefix)
		if needs := knownFields[short]; ours && needs != optional && needs != valued && !slices.Contains(strings.Fields(string(needs)), op.name) {
			return fieldError(name, "has no meaning for "+op.name)
		}
		if op.writes && slices.Contains(writeConditionFields, name) && !slices.Contains(conditionalWrites, op.name) {
			return fieldError(name, "has no meaning for "+op.name)
		}
	}
	return nil
}

// fieldError returns an error about a field. It is logged, so it does not have a name that a writer
// has chosen.
func fieldError(name, reason string) error {
	if strings.HasPrefix(name, metaPrefix) {
		name = metaPrefix + "*"
	}
	return refuseWith("InvalidArgument", wire.CodeBadHeader, "%.100q %s", strings.ToLower(name), reason)
}
