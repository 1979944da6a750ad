package s3api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/access"
	"sluice/exchange"
	"sluice/internal/auditlog"
	"sluice/s3api/internal/model"
	"sluice/wire"
)

// routes has every operation that is served. Of several that fit a request, the first counts. Any
// other operation of package model is refused before its body is read.
var routes = append(questions(), []route{
	{http.MethodGet, serviceLevel, "", operation{name: "ListBuckets", handle: (*Server).listBuckets}},

	{http.MethodHead, bucketLevel, "", operation{name: "HeadBucket", handle: (*Server).headBucket, scope: access.ScopeRead, some: true, bucket: true}},
	{http.MethodGet, bucketLevel, "tagging", operation{name: "GetBucketTagging", handle: (*Server).getTagging, scope: access.ScopeRead, bucket: true}},
	{http.MethodPut, bucketLevel, "tagging", operation{name: "PutBucketTagging", handle: (*Server).putTagging, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodDelete, bucketLevel, "tagging", operation{name: "DeleteBucketTagging", handle: (*Server).deleteTagging, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodGet, bucketLevel, "cors", operation{name: "GetBucketCors", handle: (*Server).getCORS, scope: access.ScopeRead, some: true, bucket: true}},
	{http.MethodPut, bucketLevel, "cors", operation{name: "PutBucketCors", handle: (*Server).putCORS, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodDelete, bucketLevel, "cors", operation{name: "DeleteBucketCors", handle: (*Server).deleteCORS, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodGet, bucketLevel, "policy", operation{name: "GetBucketPolicy", handle: (*Server).getPolicy, scope: access.ScopeRead, bucket: true}},
	{http.MethodPut, bucketLevel, "policy", operation{name: "PutBucketPolicy", handle: (*Server).putPolicy, scope: access.ScopeAdmin, writes: true, bucket: true}},
	{http.MethodDelete, bucketLevel, "policy", operation{name: "DeleteBucketPolicy", handle: (*Server).deletePolicy, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodGet, bucketLevel, "policyStatus", operation{name: "GetBucketPolicyStatus", handle: (*Server).getPolicyStatus, scope: access.ScopeRead, some: true, bucket: true}},
	{http.MethodGet, bucketLevel, "publicAccessBlock", operation{name: "GetPublicAccessBlock", handle: (*Server).getPublicAccessBlock, scope: access.ScopeRead, some: true, bucket: true}},
	{http.MethodPut, bucketLevel, "publicAccessBlock", operation{name: "PutPublicAccessBlock", handle: (*Server).putPublicAccessBlock, scope: access.ScopeAdmin, writes: true, bucket: true}},
	{http.MethodDelete, bucketLevel, "publicAccessBlock", operation{name: "DeletePublicAccessBlock", handle: (*Server).deletePublicAccessBlock, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodGet, bucketLevel, "versioning", operation{name: "GetBucketVersioning", handle: (*Server).getVersioning, scope: access.ScopeRead, some: true, bucket: true}},
	{http.MethodPut, bucketLevel, "versioning", operation{name: "PutBucketVersioning", handle: (*Server).putVersioning, scope: access.ScopeAdmin, writes: true, bucket: true}},
	{http.MethodGet, bucketLevel, "object-lock", operation{name: "GetObjectLockConfiguration", handle: (*Server).getObjectLock, scope: access.ScopeRead, some: true, bucket: true}},
	{http.MethodPut, bucketLevel, "object-lock", operation{name: "PutObjectLockConfiguration", handle: (*Server).putObjectLock, scope: access.ScopeAdmin, writes: true, bucket: true}},
	{http.MethodGet, bucketLevel, "lifecycle", operation{name: "GetBucketLifecycleConfiguration", handle: (*Server).getLifecycle, scope: access.ScopeAdmin, bucket: true}},
	{http.MethodPut, bucketLevel, "lifecycle", operation{name: "PutBucketLifecycleConfiguration", handle: (*Server).putLifecycle, scope: access.ScopeAdmin, writes: true, bucket: true}},
	{http.MethodDelete, bucketLevel, "lifecycle", operation{name: "DeleteBucketLifecycle", handle: (*Server).deleteLifecycle, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodPut, bucketLevel, "acl", operation{name: "PutBucketAcl", handle: (*Server).putACL, scope: access.ScopeWrite, writes: true, bucket: true}},
	{http.MethodPut, bucketLevel, "", operation{name: "CreateBucket", handle: (*Server).createBucket, scope: access.ScopeWrite, some: true, writes: true}},
	{http.MethodDelete, bucketLevel, "", operation{name: "DeleteBucket", handle: (*Server).deleteBucket, scope: access.ScopeWrite, writes: true}},
	{http.MethodGet, bucketLevel, "acl", operation{name: "GetBucketAcl", handle: (*Server).getACL, scope: access.ScopeRead, bucket: true}},
	{http.MethodGet, bucketLevel, "uploads", operation{name: "ListMultipartUploads", handle: (*Server).listUploads, scope: access.ScopeWrite, lists: true}},
	{http.MethodGet, bucketLevel, "versions", operation{name: "ListObjectVersions", handle: (*Server).listVersions, scope: access.ScopeRead, lists: true}},
	{http.MethodGet, bucketLevel, "list-type", operation{name: "ListObjectsV2", handle: (*Server).listObjectsV2, scope: access.ScopeRead, lists: true}},
	{http.MethodGet, bucketLevel, "", operation{name: "ListObjects", handle: (*Server).listObjects, scope: access.ScopeRead, lists: true}},
	{http.MethodPost, bucketLevel, "delete", operation{name: "DeleteObjects", handle: (*Server).deleteObjects, scope: access.ScopeWrite, some: true, writes: true, audits: auditlog.Delete}},
	{http.MethodPost, bucketLevel, "", operation{name: "PostObject", handle: (*Server).postObject, some: true, writes: true, audits: auditlog.Write}},

	{http.MethodGet, objectLevel, "acl", operation{name: "GetObjectAcl", handle: (*Server).getACL, scope: access.ScopeRead}},
	{http.MethodGet, objectLevel, "tagging", operation{name: "GetObjectTagging", handle: (*Server).getTagging, scope: access.ScopeRead}},
	{http.MethodGet, objectLevel, "retention", operation{name: "GetObjectRetention", handle: (*Server).getRetention, scope: access.ScopeRead}},
	{http.MethodGet, objectLevel, "legal-hold", operation{name: "GetObjectLegalHold", handle: (*Server).getLegalHold, scope: access.ScopeRead}},
	{http.MethodPut, objectLevel, "retention", operation{name: "PutObjectRetention", handle: (*Server).putRetention, scope: access.ScopeRetain, writes: true}},
	{http.MethodPut, objectLevel, "legal-hold", operation{name: "PutObjectLegalHold", handle: (*Server).putLegalHold, scope: access.ScopeRetain, writes: true}},
	{http.MethodGet, objectLevel, "attributes", operation{name: "GetObjectAttributes", handle: (*Server).getAttributes, scope: access.ScopeRead, audits: auditlog.Read}},
	{http.MethodGet, objectLevel, "uploadId", operation{name: "ListParts", handle: (*Server).listParts, scope: access.ScopeCreate}},
	{http.MethodGet, objectLevel, "", operation{name: "GetObject", handle: (*Server).getObject, scope: access.ScopeRead, audits: auditlog.Read}},
	{http.MethodHead, objectLevel, "", operation{name: "HeadObject", handle: (*Server).getObject, scope: access.ScopeRead, audits: auditlog.Read}},
	{http.MethodPut, objectLevel, "acl", operation{name: "PutObjectAcl", handle: (*Server).putACL, scope: access.ScopeWrite}},
	{http.MethodPut, objectLevel, "tagging", operation{name: "PutObjectTagging", handle: (*Server).putTagging, scope: access.ScopeWrite, writes: true, audits: auditlog.Tag}},
	{http.MethodPut, objectLevel, "uploadId", operation{name: "UploadPartCopy", handle: (*Server).copyPart, scope: access.ScopeCreate, writes: true, copies: true}},
	{http.MethodPut, objectLevel, "uploadId", operation{name: "UploadPart", handle: (*Server).uploadPart, scope: access.ScopeCreate, writes: true}},
	{http.MethodPut, objectLevel, "", operation{name: "CopyObject", handle: (*Server).copyObject, scope: access.ScopeCreate, writes: true, copies: true, audits: auditlog.Copy}},
	{http.MethodPut, objectLevel, "", operation{name: "PutObject", handle: (*Server).putObject, scope: access.ScopeCreate, writes: true, audits: auditlog.Write}},
	{http.MethodDelete, objectLevel, "tagging", operation{name: "DeleteObjectTagging", handle: (*Server).deleteTagging, scope: access.ScopeWrite, writes: true, audits: auditlog.Tag}},
	{http.MethodDelete, objectLevel, "uploadId", operation{name: "AbortMultipartUpload", handle: (*Server).abortUpload, scope: access.ScopeCreate, writes: true}},
	{http.MethodDelete, objectLevel, "", operation{name: "DeleteObject", handle: (*Server).deleteObject, scope: access.ScopeWrite, writes: true, audits: auditlog.Delete}},
	{http.MethodPost, objectLevel, "uploads", operation{name: "CreateMultipartUpload", handle: (*Server).createUpload, scope: access.ScopeCreate, writes: true}},
	{http.MethodPost, objectLevel, "uploadId", operation{name: "CompleteMultipartUpload", handle: (*Server).completeUpload, scope: access.ScopeCreate, writes: true, audits: auditlog.Write}},
}...)

// signatureV2 are the parameters of URLs that are presigned with version 2, which a local instance
// accepts like any credentials.
var signatureV2 = []string{"AWSAccessKeyId", "Expires", "Signature"}

// findOperation returns a request's operation. A parameter that could ask for another operation
// must not be ignored.
func findOperation(x *call) (*operation, error) {
	op := operationOf(x)
	for _, name := range slices.Sorted(maps.Keys(x.query)) {
		if err := checkParameter(x, op, name); err != nil {
			return nil, err
		}
	}
	if op != nil && x.query.has("versionId") && slices.Contains(known.of[op.name], "versionId") {
		version, err := parseVersion(x.query.get("versionId"))
		if err != nil {
			return nil, err
		}
		x.version = version
	}
	switch {
	case op != nil:
		return op, nil
	case slices.ContainsFunc(routes, func(r route) bool { return r.method == x.Request.Method }):
		return nil, refuseWith("MethodNotAllowed", wire.CodeMethodNotAllowed, "the method %s is not allowed here", x.Request.Method)
	}
	return nil, exchange.ErrMethod
}

// operationOf returns the first operation that fits a request, or nil.
func operationOf(x *call) *operation {
	_, copies := x.header[fieldCopySource]
	for i := range routes {
		r := &routes[i]
		if r.method == x.Request.Method && r.level == x.level && r.selects(x.query) && (copies || !r.operation.copies) {
			return &r.operation
		}
	}
	return nil
}

// checkParameter refuses a parameter that belongs to another operation than the request's, which is
// nil if there is none. A read ignores, as Amazon does, a parameter that selects no operation.
func checkParameter(x *call, op *operation, name string) error {
	value, reads := x.query.get(name), x.Request.Method == http.MethodGet || x.Request.Method == http.MethodHead
	switch {
	case op != nil && slices.Contains(known.of[op.name], name), slices.Contains(signatureV2, name):
		return nil
	case name == "x-id" && known.of[value] != nil && !isServed(value):
		return notImplemented(value) // nothing else distinguishes it from another operation
	case len(name) > 2 && strings.EqualFold(name[:2], "x-"):
		return nil // of tracing and caches, or a field, which fieldsOf checks
	case reads && !known.selectors[name] && (value != "" || known.all[name] || !couldSelect(name)):
		return nil
	}
	return notImplemented("the parameter " + strconv.Quote(name) + " of this request")
}

// couldSelect reports whether a parameter without a value looks like those that select operations.
func couldSelect(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return c != '-' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') })
}

// isServed reports whether there is an operation of this name.
func isServed(name string) bool {
	return slices.ContainsFunc(routes, func(r route) bool { return r.operation.name == name })
}

// vocabulary has the parameters of S3's operations.
type vocabulary struct {
	of        map[string][]string // by the operation's name
	all       map[string]bool
	selectors map[string]bool // those that select an operation
}

// known are the parameters that package model has.
var known = func() vocabulary {
	v := vocabulary{of: map[string][]string{}, all: map[string]bool{}, selectors: map[string]bool{}}
	for _, o := range model.Operations {
		v.of[o.Name] = append(append([]string{}, o.Selectors...), o.Parameters...)
		for _, name := range v.of[o.Name] {
			v.all[name] = true
		}
		for _, name := range o.Selectors {
			v.selectors[name] = true
		}
	}
	return v
}()
