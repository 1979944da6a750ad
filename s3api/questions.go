package s3api

import (
	"net/http"

	"sluice/access"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// question is an operation on a bucket's settings by which tools find out which settings a bucket
// has, or remove them before they delete it. Buckets here have no such settings, and the response
// is Amazon's for a bucket without them ("Error responses" in the Amazon S3 API Reference).
type question struct {
	parameter, name string
	missing         string // the error's code, with status 404; "": there is a document
	is              any    // the document with status 200
}

// asked are the questions of GET.
var asked = []question{
	{"abac", "GetBucketAbac", "", document.Setting("AbacStatus", "Status", "Disabled")},
	{"accelerate", "GetBucketAccelerateConfiguration", "", document.Setting("AccelerateConfiguration", "", "")},
	{"encryption", "GetBucketEncryption", "ServerSideEncryptionConfigurationNotFoundError", nil},
	{"location", "GetBucketLocation", "", document.Setting("LocationConstraint", "", "")},
	{"logging", "GetBucketLogging", "", document.Setting("BucketLoggingStatus", "", "")},
	{"notification", "GetBucketNotificationConfiguration", "", document.Setting("NotificationConfiguration", "", "")},
	{"ownershipControls", "GetBucketOwnershipControls", "OwnershipControlsNotFoundError", nil},
	{"replication", "GetBucketReplication", "ReplicationConfigurationNotFoundError", nil},
	{"requestPayment", "GetBucketRequestPayment", "", document.Setting("RequestPaymentConfiguration", "Payer", "BucketOwner")},
	{"website", "GetBucketWebsite", "NoSuchWebsiteConfiguration", nil},
}

// removed are the questions of DELETE, which succeed without a setting.
var removed = []question{
	{"encryption", "DeleteBucketEncryption", "", nil},
	{"ownershipControls", "DeleteBucketOwnershipControls", "", nil},
	{"replication", "DeleteBucketReplication", "", nil},
	{"website", "DeleteBucketWebsite", "", nil},
}

// several are the settings that have ids, by their parameters: each that an id names is missing,
// and the list, by its root element, is empty.
var several = []struct{ parameter, kind, list string }{
	{"analytics", "Analytics", "ListBucketAnalyticsConfigurationResult"},
	{"intelligent-tiering", "IntelligentTiering", "ListBucketIntelligentTieringConfigurationsOutput"},
	{"inventory", "Inventory", "ListInventoryConfigurationsResult"},
	{"metrics", "Metrics", "ListMetricsConfigurationsResult"},
}

// questions returns the routes of all questions. They precede those without a parameter.
func questions() (list []route) {
	add := func(method string, scope access.Scope, q question) {
		list = append(list, route{method, bucketLevel, q.parameter, operation{name: q.name, handle: q.respond, scope: scope, bucket: true, some: scope == access.ScopeRead}})
	}
	for _, q := range asked {
		add(http.MethodGet, access.ScopeRead, q)
	}
	for _, q := range removed {
		add(http.MethodDelete, access.ScopeWrite, q)
	}
	for _, s := range several {
		add(http.MethodGet, access.ScopeRead, question{s.parameter + "&id", "GetBucket" + s.kind + "Configuration", "NoSuchConfiguration", nil})
		add(http.MethodGet, access.ScopeRead, question{s.parameter, "ListBucket" + s.kind + "Configurations", "", document.Setting(s.list, "IsTruncated", "false")})
		add(http.MethodDelete, access.ScopeWrite, question{s.parameter, "DeleteBucket" + s.kind + "Configuration", "NoSuchConfiguration", nil})
	}
	return list
}

// respond responds to a question.
func (q question) respond(s *Server, x *call) error {
	switch {
	case q.name == "GetBucketEncryption" && s.encrypted:
		return x.writeXML(http.StatusOK, document.Encryption(encryption))
	case q.missing != "":
		return &refusal{code: q.missing, as: wire.CodeBlobNotFound, detail: "the bucket has no such configuration"}
	case q.is == nil:
		return x.writeEmpty(http.StatusNoContent)
	default:
		return x.writeXML(http.StatusOK, q.is)
	}
}
