package s3api

import (
	"net/http"
	"slices"
	"strings"

	"sluice/access"
	"sluice/exchange"
	"sluice/wire"
)

// route selects an operation by the method, the level, one parameter of the query, and whether the
// header names a source to copy.
type route struct {
	method    string
	level     level
	parameter string // "": there is none that selects
	operation operation
}

// routes has every operation. Of several that fit a request, the first counts.
var routes = []route{
	{http.MethodGet, serviceLevel, "", operation{name: "ListBuckets", handle: (*Server).listBuckets}},

	{http.MethodHead, bucketLevel, "", operation{name: "HeadBucket", handle: (*Server).headBucket, scope: access.ScopeRead}},
	{http.MethodPut, bucketLevel, "acl", operation{name: "PutBucketAcl", handle: (*Server).putACL, scope: access.ScopeWrite}},
	{http.MethodPut, bucketLevel, "", operation{name: "CreateBucket", handle: (*Server).createBucket, scope: access.ScopeWrite}},
	{http.MethodDelete, bucketLevel, "", operation{name: "DeleteBucket", handle: (*Server).deleteBucket, scope: access.ScopeWrite}},
	{http.MethodGet, bucketLevel, "location", operation{name: "GetBucketLocation", handle: (*Server).getLocation, scope: access.ScopeRead}},
	{http.MethodGet, bucketLevel, "versioning", operation{name: "GetBucketVersioning", handle: (*Server).getVersioning, scope: access.ScopeRead}},
	{http.MethodGet, bucketLevel, "acl", operation{name: "GetBucketAcl", handle: (*Server).getACL, scope: access.ScopeRead}},
	{http.MethodGet, bucketLevel, "uploads", operation{name: "ListMultipartUploads", handle: (*Server).listUploads, scope: access.ScopeWrite}},
	{http.MethodGet, bucketLevel, "list-type", operation{name: "ListObjectsV2", handle: (*Server).listObjectsV2, scope: access.ScopeRead}},
	{http.MethodGet, bucketLevel, "", operation{name: "ListObjects", handle: (*Server).listObjects, scope: access.ScopeRead}},
	{http.MethodPost, bucketLevel, "delete", operation{name: "DeleteObjects", handle: (*Server).deleteObjects, scope: access.ScopeWrite, writes: true}},
	{http.MethodPost, bucketLevel, "", operation{name: "PostObject", handle: (*Server).postObject, writes: true}},

	{http.MethodGet, objectLevel, "acl", operation{name: "GetObjectAcl", handle: (*Server).getACL, scope: access.ScopeRead}},
	{http.MethodGet, objectLevel, "tagging", operation{name: "GetObjectTagging", handle: (*Server).getTagging, scope: access.ScopeRead}},
	{http.MethodGet, objectLevel, "attributes", operation{name: "GetObjectAttributes", handle: (*Server).getAttributes, scope: access.ScopeRead}},
	{http.MethodGet, objectLevel, "uploadId", operation{name: "ListParts", handle: (*Server).listParts, scope: access.ScopeWrite}},
	{http.MethodGet, objectLevel, "", operation{name: "GetObject", handle: (*Server).getObject, scope: access.ScopeRead, markers: true}},
	{http.MethodHead, objectLevel, "", operation{name: "HeadObject", handle: (*Server).getObject, scope: access.ScopeRead, markers: true}},
	{http.MethodPut, objectLevel, "acl", operation{name: "PutObjectAcl", handle: (*Server).putACL, scope: access.ScopeWrite}},
	{http.MethodPut, objectLevel, "uploadId", operation{name: "UploadPartCopy", handle: (*Server).copyPart, scope: access.ScopeWrite, writes: true, copies: true}},
	{http.MethodPut, objectLevel, "uploadId", operation{name: "UploadPart", handle: (*Server).uploadPart, scope: access.ScopeWrite, writes: true}},
	{http.MethodPut, objectLevel, "", operation{name: "CopyObject", handle: (*Server).copyObject, scope: access.ScopeWrite, writes: true, markers: true, copies: true}},
	{http.MethodPut, objectLevel, "", operation{name: "PutObject", handle: (*Server).putObject, scope: access.ScopeWrite, writes: true, markers: true}},
	{http.MethodDelete, objectLevel, "uploadId", operation{name: "AbortMultipartUpload", handle: (*Server).abortUpload, scope: access.ScopeWrite, writes: true}},
	{http.MethodDelete, objectLevel, "", operation{name: "DeleteObject", handle: (*Server).deleteObject, scope: access.ScopeWrite, writes: true, markers: true}},
	{http.MethodPost, objectLevel, "uploads", operation{name: "CreateMultipartUpload", handle: (*Server).createUpload, scope: access.ScopeWrite, writes: true}},
	{http.MethodPost, objectLevel, "uploadId", operation{name: "CompleteMultipartUpload", handle: (*Server).completeUpload, scope: access.ScopeWrite, writes: true}},
}

// unsupported are the parameters that select operations which this interface does not have.
var unsupported = []string{
	"accelerate", "analytics", "cors", "encryption", "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "logging",
	"metadataConfiguration", "metadataTable", "metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus",
	"publicAccessBlock", "renameObject", "replication", "requestPayment", "restore", "retention", "select", "session", "tagging", "torrent",
	"versions", "website",
}

// findOperation returns a request's operation.
func findOperation(x *call) (*operation, error) {
	asksForTags := x.level == objectLevel && x.Request.Method == http.MethodGet
	for _, name := range unsupported {
		if x.query.has(name) && (name != "tagging" || !asksForTags) {
			return nil, notImplemented(name)
		}
	}
	if version := x.query.get("versionId"); version != "" && version != "null" {
		return nil, notImplemented("versioning")
	}
	if x.query.has("versioning") && x.Request.Method != http.MethodGet {
		return nil, notImplemented("versioning")
	}
	if x.level == objectLevel && x.Request.Method == http.MethodPut && x.query.has("partNumber") && !x.query.has("uploadId") {
		return nil, parameterError("partNumber", "needs an uploadId") // it must not become the whole object
	}
	_, copies := x.header[fieldCopySource]
	for i := range routes {
		r := &routes[i]
		if r.method == x.Request.Method && r.level == x.level && (r.parameter == "" || x.query.has(r.parameter)) && (copies || !r.operation.copies) {
			return &r.operation, nil
		}
	}
	if slices.ContainsFunc(routes, func(r route) bool { return r.method == x.Request.Method }) {
		return nil, refuseWith("MethodNotAllowed", wire.CodeMethodNotAllowed, "the method %s is not allowed here", x.Request.Method)
	}
	return nil, exchange.ErrMethod
}

// requestedFields returns the fields of S3 among those that a page asks to send.
func requestedFields(values []string) (names []string) {
	const most = 64
	for _, line := range values {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
			if strings.HasPrefix(name, "X-Amz-") && len(names) < most && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
