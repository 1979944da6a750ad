package s3api

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice/s3api/internal/model"
	"sluice/test/testenv"
)

// refusedOperations are the operations of Amazon's SDK that this interface refuses on purpose.
var refusedOperations = []string{
	"CreateBucketMetadataConfiguration", "CreateBucketMetadataTableConfiguration", "CreateSession", "DeleteBucketMetadataConfiguration",
	"DeleteBucketMetadataTableConfiguration", "DeleteObjectAnnotation", "GetBucketMetadataConfiguration",
	"GetBucketMetadataTableConfiguration", "GetObjectAnnotation", "GetObjectTorrent",
	"ListDirectoryBuckets", "ListObjectAnnotations", "PutBucketAbac", "PutBucketAccelerateConfiguration", "PutBucketAnalyticsConfiguration",
	"PutBucketEncryption", "PutBucketIntelligentTieringConfiguration", "PutBucketInventoryConfiguration",
	"PutBucketLogging", "PutBucketMetricsConfiguration", "PutBucketNotificationConfiguration",
	"PutBucketOwnershipControls", "PutBucketReplication", "PutBucketRequestPayment",
	"PutBucketWebsite", "PutObjectAnnotation",
	"RenameObject", "RestoreObject", "SelectObjectContent", "UpdateBucketMetadataAnnotationTableConfiguration",
	"UpdateBucketMetadataInventoryTableConfiguration", "UpdateBucketMetadataJournalTableConfiguration", "UpdateObjectEncryption",
	"WriteGetObjectResponse",
}

// paths are the paths of requests of each level.
var paths = map[string]string{"service": "/", "bucket": "/bucket", "object": "/bucket/key"}

// TestEveryOperationIsDecided: each operation of Amazon's SDK is served by the route that its
// requests have, or refused.
// Invariant 184.
func TestEveryOperationIsDecided(t *testing.T) {
	levels := map[level]string{serviceLevel: "service", bucketLevel: "bucket", objectLevel: "object"}
	served := map[string]bool{"PostObject": true} // browsers send it
	for _, o := range model.Operations {
		for _, r := range routes {
			if r.operation.name != o.Name {
				continue
			}
			served[o.Name] = true
			if r.method != o.Method || levels[r.level] != o.Level || r.parameter != "" && !slices.Contains(known.of[o.Name], strings.TrimSuffix(r.parameter, "&id")) {
				t.Errorf("%s has the route %s %s ?%s, and the model %+v", o.Name, r.method, levels[r.level], r.parameter, o)
			}
		}
		if served[o.Name] == slices.Contains(refusedOperations, o.Name) {
			t.Errorf("%s: it must have a route, or be refused; route: %t", o.Name, served[o.Name])
		}
	}
	for _, name := range slices.Concat(refusedOperations, []string{"PostObject"}) {
		if known.of[name] == nil && name != "PostObject" {
			t.Errorf("there is no operation %s", name)
		}
	}
	for _, r := range routes {
		testenv.Equal(t, served[r.operation.name], true, "the model has %s", r.operation.name)
	}
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body is sent")
	return 0, io.ErrUnexpectedEOF
}

// TestRefusedOperations: each operation that is refused is 501 before its body, and changes
// nothing.
// Invariant 184.
func TestRefusedOperations(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/key", "content")
	refuse := func(method, path string) {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), method, s.url+path, unreadable{t}))(t)
		r.ContentLength = 1
		r.Header.Set("Expect", "100-continue")
		wantError(t, send(t, r), 501, "NotImplemented")
	}
	for _, o := range model.Operations {
		if !slices.Contains(refusedOperations, o.Name) {
			continue
		}
		q := url.Values{}
		for _, name := range o.Selectors {
			q.Set(name, "")
		}
		for _, name := range o.Parameters {
			q.Set(name, "1")
		}
		if len(o.Selectors) > 0 {
			refuse(o.Method, paths[o.Level]+"?"+q.Encode())
		}
		q.Set("x-id", o.Name)
		refuse(o.Method, paths[o.Level]+"?"+q.Encode())
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/key", "").body, "content", "the object")
}

// TestUnknownParameters: a parameter that could select an operation is refused, and one of caches,
// tracing and presigned URLs is not.
// Invariant 184.
func TestUnknownParameters(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/key", "content")
	for _, test := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"PUT", "/bucket/key?newFeature", 501, "NotImplemented"},
		{"PUT", "/bucket/key?newFeature=1", 501, "NotImplemented"},
		{"PUT", "/bucket/key?compose", 501, "NotImplemented"}, // Google's
		{"PUT", "/bucket/key?Annotation", 501, "NotImplemented"},
		{"PUT", "/bucket/key?x-amz-new-feature=1", 400, "InvalidRequest"},
		{"DELETE", "/bucket/key?newFeature", 501, "NotImplemented"},
		{"DELETE", "/bucket?newFeature", 501, "NotImplemented"},
		{"POST", "/bucket?newFeature", 501, "NotImplemented"},
		{"POST", "/bucket/key?newFeature", 501, "NotImplemented"},
		{"POST", "/bucket/key", 405, "MethodNotAllowed"},
		{"PUT", "/?newFeature", 501, "NotImplemented"},
		{"GET", "/bucket/key?newFeature", 501, "NotImplemented"},
		{"GET", "/bucket?newFeature=", 501, "NotImplemented"},
		{"GET", "/bucket/key?uploads", 501, "NotImplemented"},
		{"PUT", "/bucket/key?partNumber=1", 501, "NotImplemented"},
		{"DELETE", "/bucket/key?max-keys=1", 501, "NotImplemented"},
		{"PUT", "/bucket/key?versionId=null", 501, "NotImplemented"},
	} {
		s.refused(t, test.status, test.code, test.method, test.path, "replaced")
	}
	testenv.Equal(t, s.want(t, 200, "GET", "/bucket/key", "").body, "content", "the object")
	for _, path := range []string{
		"/bucket/key?x-id=GetObject&X-Trace=1", "/bucket/key?v=3&utm_source=a&_=1700000000", "/bucket/key?1700000000", "/bucket/key?id=5",
		"/bucket/key?AWSAccessKeyId=any&Expires=1&Signature=any", "/bucket?list-type=2&marker=&metadata=true", "/?x-id=ListBuckets",
	} {
		s.want(t, 200, "GET", path, "")
	}
	s.want(t, 200, "PUT", "/bucket/key?x-id=PutObject&x-request-id=1&AWSAccessKeyId=any&Expires=1&Signature=any", "replaced")
	s.want(t, 204, "DELETE", "/bucket/key?x-id=DeleteObject&versionId=null", "")
	s.want(t, 404, "HEAD", "/bucket/key", "")
}
