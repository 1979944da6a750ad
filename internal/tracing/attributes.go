package tracing

import "go.opentelemetry.io/otel/attribute"

// The attributes of spans, by the semantic conventions of OpenTelemetry. None has a value that a
// client chooses: routes are patterns, and methods and errors are of closed lists.
const (
	keyMethod   attribute.Key = "http.request.method"
	keyRoute    attribute.Key = "http.route"
	keyStatus   attribute.Key = "http.response.status_code"
	keyBytesIn  attribute.Key = "http.request.body.size"
	keyBytesOut attribute.Key = "http.response.body.size"
	keyError    attribute.Key = "error.type"
)

// otherMethod stands for methods that are not standard.
const otherMethod = "_OTHER"
