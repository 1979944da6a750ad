package s3api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"sluice/admin"
	"sluice/blob"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/metastore"
	"sluice/s3api/internal/bucketpolicy"
	"sluice/s3api/internal/checksums"
	"sluice/s3api/internal/document"
	"sluice/s3api/internal/postpolicy"
	"sluice/s3api/internal/sigv4"
	"sluice/wire"
)

// refusal is an error that S3 has a code of its own for.
type refusal struct {
	code   string    // S3's
	as     wire.Code // its code for the metrics, which also has its status unless status is set
	status int
	detail string
	fields map[string]string // that its response has
}

// Error returns the detail.
func (r *refusal) Error() string { return r.detail }

// refuseWith returns a refusal.
func refuseWith(code string, as wire.Code, format string, args ...any) error {
	return &refusal{code: code, as: as, detail: fmt.Sprintf(format, args...)}
}

// notImplemented returns the error for a function that this interface lacks.
func notImplemented(what string) error {
	return &refusal{code: "NotImplemented", as: wire.CodeMethodNotAllowed, status: http.StatusNotImplemented, detail: what + " is not supported"}
}

// ownRows are the rows of errors that only this interface has.
var ownRows = []exchange.Row{
	{Is: checksums.ErrInvalidRequest, Code: wire.CodeBadDigest},
	{Is: checksums.ErrInvalidDigest, Code: wire.CodeBadDigest},
	{Is: checksums.ErrBadDigest, Code: wire.CodeDigestMismatch},
	{Is: checksums.ErrMalformedTrailer, Code: wire.CodeBadDigest},
	{Is: document.ErrMalformed, Code: wire.CodeBadRequest},
	{Is: document.ErrCORS, Code: wire.CodeBadRequest},
	{Is: document.ErrPeriod, Code: wire.CodeBadRequest},
	{Is: document.ErrLifecycle, Code: wire.CodeBadParameter},
	{Is: document.ErrTransition, Code: wire.CodeMethodNotAllowed, Status: http.StatusNotImplemented},
	{Is: bucketpolicy.ErrMalformed, Code: wire.CodeBadRequest},
	{Is: bucketpolicy.ErrUnsupported, Code: wire.CodeMethodNotAllowed, Status: http.StatusNotImplemented},
	{Is: postpolicy.ErrMalformed, Code: wire.CodeBadRequest},
	{Is: postpolicy.ErrField, Code: wire.CodeBadParameter},
	{Is: postpolicy.ErrTooLong, Code: wire.CodeTooLarge},
	{Is: postpolicy.ErrPolicy, Code: wire.CodeBadParameter},
	{Is: postpolicy.ErrRefused, Code: wire.CodeScopeMissing},
	{Is: postpolicy.ErrTooSmall, Code: wire.CodeBadParameter},
	{Is: postpolicy.ErrTooLarge, Code: wire.CodeTooLarge, Status: http.StatusBadRequest},
	{Is: sigv4.ErrBody, Code: wire.CodeIncompleteBody},
	{Is: sigv4.ErrShortChunk, Code: wire.CodeBadRequest, Status: http.StatusForbidden},
	{Is: sigv4.ErrChunk, Code: wire.CodeCredentialUnknown},
	{Is: sigv4.ErrMalformed, Code: wire.CodeBadHeader},
	{Is: sigv4.ErrUnsupported, Code: wire.CodeBadHeader},
	{Is: sigv4.ErrNotCovered, Code: wire.CodeCredentialUnknown},
	{Is: sigv4.ErrSkewed, Code: wire.CodeCredentialUnknown},
	{Is: sigv4.ErrExpired, Code: wire.CodeCredentialUnknown},
	{Is: sigv4.ErrMismatch, Code: wire.CodeCredentialUnknown},
	{Is: admin.ErrBeyond, Code: wire.CodeBeyondKey},
	{Is: admin.ErrOpening, Code: wire.CodeOpeningForbidden},
	{Is: admin.ErrGuarded, Code: wire.CodeOpeningForbidden},
	{Is: admin.ErrConflict, Code: wire.CodeConflict},
	{Is: admin.ErrInvalid, Code: wire.CodeBadParameter},
	{Is: blob.ErrNoParts, Code: wire.CodeBadRequest},
	{Is: blob.ErrPartOrder, Code: wire.CodePartIndex},
	{Is: blob.ErrPartUnknown, Code: wire.CodePartsMissing},
	{Is: blob.ErrPartTooSmall, Code: wire.CodePartSize},
	{Is: blob.ErrNoBucket, Code: wire.CodeBlobNotFound, Detail: blob.ErrNoBucket.Error()},
	{Is: blob.ErrBucketNotEmpty, Code: wire.CodePreconditionFailed, Status: http.StatusConflict, Detail: blob.ErrBucketNotEmpty.Error()},
	{Is: blob.ErrSource, Code: wire.CodeInternal, Detail: blob.ErrSource.Error()},
}

// errorTable has the rows of this interface, and of all interfaces.
var errorTable = exchange.NewErrors(ownRows, rowOfRefusal, explain)

// rowOfRefusal returns a refusal's row.
func rowOfRefusal(err error) (exchange.Row, bool) {
	var r *refusal
	if !errors.As(err, &r) {
		return exchange.Row{}, false
	}
	status := r.status
	if status == 0 {
		status = r.as.Row().Status
	}
	return exchange.Row{Code: r.as, Status: statusOf(r.code, status), Detail: r.detail}, true
}

// explain sets the status that S3 has for an error.
func explain(row *exchange.Row, err error) { row.Status = statusOf(codeOf(*row, err), row.Status) }

// codesOfErrors are S3's codes of errors, where this service's code is less specific.
var codesOfErrors = []struct {
	is   error
	code string
}{
	{checksums.ErrInvalidRequest, "InvalidRequest"},
	{checksums.ErrInvalidDigest, "InvalidDigest"},
	{checksums.ErrBadDigest, "BadDigest"},
	{checksums.ErrMalformedTrailer, "MalformedTrailerError"},
	{document.ErrMalformed, "MalformedXML"},
	{document.ErrCORS, "InvalidRequest"},
	{document.ErrPeriod, "InvalidRetentionPeriod"},
	{document.ErrTransition, "NotImplemented"},
	{metastore.ErrRules, "InvalidArgument"},
	{bucketpolicy.ErrMalformed, "MalformedPolicy"},
	{bucketpolicy.ErrUnsupported, "NotImplemented"},
	{postpolicy.ErrMalformed, "MalformedPOSTRequest"},
	{postpolicy.ErrField, "InvalidArgument"},
	{postpolicy.ErrTooLong, "MaxPostPreDataLengthExceeded"},
	{postpolicy.ErrPolicy, "InvalidPolicyDocument"},
	{postpolicy.ErrRefused, "AccessDenied"},
	{postpolicy.ErrTooSmall, "EntityTooSmall"},
	{postpolicy.ErrTooLarge, "EntityTooLarge"},
	{sigv4.ErrBody, "IncompleteBody"},
	{sigv4.ErrShortChunk, "InvalidChunkSizeError"},
	{sigv4.ErrChunk, "SignatureDoesNotMatch"},
	{sigv4.ErrMalformed, "AuthorizationHeaderMalformed"},
	{sigv4.ErrUnsupported, "InvalidRequest"},
	{sigv4.ErrNotCovered, "AccessDenied"},
	{sigv4.ErrSkewed, "RequestTimeTooSkewed"},
	{sigv4.ErrExpired, "AccessDenied"},
	{sigv4.ErrMismatch, "SignatureDoesNotMatch"},
	{blob.ErrNoParts, "MalformedXML"},
	{blob.ErrPartOrder, "InvalidPartOrder"},
	{blob.ErrPartUnknown, "InvalidPart"},
	{blob.ErrPartTooSmall, "EntityTooSmall"},
	{blob.ErrTotals, "InvalidRequest"},
	{blob.ErrNoBucket, "NoSuchBucket"},
	{blob.ErrBucketNotEmpty, "BucketNotEmpty"},
	{metastore.ErrNoSource, "NoSuchKey"},
	{metastore.ErrLocksStay, "InvalidBucketState"},
	{exchange.ErrForeignOrigin, "AccessForbidden"},
	{headers.ErrMalformedMetadata, "InvalidArgument"},
}

// codes are S3's codes for this service's codes.
var codes = map[wire.Code]string{
	wire.CodeBadRequest: "InvalidRequest", wire.CodeBadAccount: "InvalidBucketName", wire.CodeBadName: "InvalidArgument",
	wire.CodeBadParameter: "InvalidArgument", wire.CodeBadHeader: "InvalidArgument", wire.CodeBadDigest: "InvalidDigest",
	wire.CodeDigestMismatch: "XAmzContentSHA256Mismatch", wire.CodeIncompleteBody: "IncompleteBody",
	wire.CodePartSize: "EntityTooLarge", wire.CodePartIndex: "InvalidArgument", wire.CodePartsMissing: "InvalidPart",
	wire.CodeCredentialRequired: "AccessDenied", wire.CodeCredentialUnknown: "InvalidAccessKeyId",
	wire.CodeScopeMissing: "AccessDenied", wire.CodeAccountForbidden: "AccessDenied", wire.CodeNameForbidden: "AccessDenied", wire.CodeQuotaExceeded: "QuotaExceeded",
	wire.CodeForbiddenOrigin: "AccessForbidden", wire.CodeScriptForbidden: "AccessForbidden",
	wire.CodeBeyondKey: "AccessDenied", wire.CodeOpeningForbidden: "AccessDenied", wire.CodeLocked: "AccessDenied", wire.CodeConflict: "OperationAborted",
	wire.CodeBlocked:     "AllAccessDisabled", // the closest one, which Amazon has with status 403
	wire.CodeRateLimited: "SlowDown", wire.CodeTooManyAtOnce: "SlowDown",
	wire.CodeBlobNotFound: "NoSuchKey", wire.CodeBlobExpired: "NoSuchKey",
	wire.CodeUploadNotFound: "NoSuchUpload", wire.CodeLostInRollback: "NoSuchUpload", wire.CodeUploadCommitted: "NoSuchUpload", wire.CodeUploadAborted: "NoSuchUpload",
	wire.CodeUploadChanged: "OperationAborted", wire.CodeMethodNotAllowed: "MethodNotAllowed",
	wire.CodeBodyTooSlow: "RequestTimeout", wire.CodeLengthRequired: "MissingContentLength",
	wire.CodePreconditionFailed: "PreconditionFailed", wire.CodeTooLarge: "EntityTooLarge",
	wire.CodeRangeNotSatisfiable: "InvalidRange", wire.CodeForeignHost: "AccessForbidden",
	wire.CodePutTooLong: "RequestTimeout", wire.CodeClientGone: "RequestTimeout",
	wire.CodeDraining: "ServiceUnavailable", wire.CodeOverloaded: "SlowDown", wire.CodeUnavailable: "ServiceUnavailable",
	wire.CodeNotReady: "ServiceUnavailable", wire.CodeRolledBack: "ServiceUnavailable", wire.CodeStorageFull: "ServiceUnavailable",
	wire.CodeOutcomeUnknown: "InternalError", wire.CodeInternal: "InternalError", wire.CodeDamaged: "InternalError",
}

// statuses are S3's statuses of codes, where they differ from this service's: its clients decide by
// them whether to repeat a request.
var statuses = map[string]int{
	"NoSuchKey": http.StatusNotFound, "NoSuchUpload": http.StatusNotFound, "EntityTooLarge": http.StatusBadRequest,
	"AccessDenied": http.StatusForbidden, "InvalidAccessKeyId": http.StatusForbidden, "SignatureDoesNotMatch": http.StatusForbidden,
	"RequestTimeTooSkewed": http.StatusForbidden, "AccessForbidden": http.StatusForbidden, "QuotaExceeded": http.StatusForbidden,
	"SlowDown": http.StatusServiceUnavailable, "RequestTimeout": http.StatusBadRequest, "OperationAborted": http.StatusConflict, "InvalidBucketState": http.StatusConflict,
	"MaxPostPreDataLengthExceeded": http.StatusBadRequest, "InvalidPart": http.StatusBadRequest, "EntityTooSmall": http.StatusBadRequest,
	"MalformedXML": http.StatusBadRequest, "InvalidPartOrder": http.StatusBadRequest, "IncompleteBody": http.StatusBadRequest,
	"InternalError": http.StatusInternalServerError,
}

// statusOf returns the status with S3's code.
func statusOf(code string, otherwise int) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return otherwise
}

// codeOf returns S3's code for an error with this row.
func codeOf(row exchange.Row, err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.code
	}
	if errors.Is(row.Is, headers.ErrMalformedMetadata) && errors.Is(err, headers.ErrLargeMetadata) {
		return "MetadataTooLarge"
	}
	for _, one := range codesOfErrors {
		if errors.Is(row.Is, one.is) {
			return one.code
		}
	}
	return codes[row.Code]
}

// refuse sets an error response's fields and returns its body.
func refuse(x *exchange.Exchange, row exchange.Row, cause error) ([]byte, error) {
	body := document.Encode(document.Error{
		Code:      codeOf(row, cause),
		Message:   exchange.Sentence(row.Detail),
		Resource:  document.Name(escapedPath(x.Request.URL)),
		RequestID: x.RequestID,
	})
	removeObjectFields(&x.Fields)
	var unmet *exchange.UnsatisfiedRange
	if errors.As(cause, &unmet) {
		x.Fields.Set("Content-Range", headers.UnsatisfiedRange(unmet.Size))
	}
	var refused *refusal
	if errors.As(cause, &refused) {
		for name, value := range refused.fields {
			x.Fields.Set(name, value)
		}
	}
	x.Fields.Set("Content-Type", "application/xml")
	x.Fields.Set("Content-Length", strconv.Itoa(len(body)))
	x.Fields.Set("Cache-Control", "no-store")
	x.Fields.SetRetryAfter(row, cause)
	return body, nil
}
