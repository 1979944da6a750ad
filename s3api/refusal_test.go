package s3api

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"sluice/database"
	"sluice/exchange"
	"sluice/internal/testenv"
	"sluice/s3api/internal/sigv4"
)

// notForClients are the sentinels that no operation returns, or that S3's clients get as an
// internal error because they can do nothing about them.
var notForClients = []string{
	"../blob.ErrForeignStore", "../blob.ErrUnfinishedCopy", "../blob.ErrLargeSweep", "../blob.ErrInvalidName",
	"../bytestore.ErrNotFound", "../bytestore.ErrExists", "../bytestore.ErrSize", "../bytestore.ErrTruncated", "../bytestore.ErrInvalidName",
	"../database.ErrNotFound", "../database.ErrExists", "../database.ErrExpired", "../database.ErrNewer", "../database.ErrOlder", "../database.ErrClock", "../database.ErrLongStop", "../database.ErrDamagedRow", "../bytestore.ErrReadOnly",
	"../metastore.ErrNameHasBlobs", "../metastore.ErrTooManyAliases", // in the command bucket
	"../access.ErrInvalidKey", "../access.ErrInvalidLimit",
	"../exchange/transfer.ErrSlowReader", // a response that has begun is cut
	"internal/sigv4.ErrUnsigned",         // such a request has no credentials
}

// TestEverySentinelHasACode checks that each error of what the handlers call is in the table, and
// that each row has one of S3's codes.
func TestEverySentinelHasACode(t *testing.T) {
	var texts []string
	for _, row := range errorTable.Rows() {
		texts = append(texts, row.Is.Error())
		// S3 has no idempotency keys.
		if code := codeOf(row, row.Is); code == "" && !errors.Is(row.Is, database.ErrIdempotencyReuse) {
			t.Errorf("%q has no code of S3", row.Is)
		}
	}
	known := map[string]bool{}
	for _, dir := range []string{
		".", "internal/checksums", "internal/document", "internal/postpolicy", "internal/sigv4",
		"../blob", "../access", "../bytestore", "../database", "../metastore", "../exchange", "../exchange/headers", "../exchange/transfer",
	} {
		for name, text := range testenv.Sentinels(t, dir) {
			full := dir + "." + name
			known[full] = true
			listed, exempt := slices.Contains(texts, text), slices.Contains(notForClients, full)
			if listed == exempt {
				t.Errorf("%s: in the error table: %t, exempt from it: %t", full, listed, exempt)
			}
		}
	}
	for _, name := range notForClients {
		if !known[name] {
			t.Errorf("%s is exempt, and there is no such error", name)
		}
	}
}

// TestWhatHappenedIsNoRefusal: an unknown outcome is an internal error, which clients repeat,
// whatever else the error wraps.
func TestWhatHappenedIsNoRefusal(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("%w: %w", database.ErrUnknownOutcome, exchange.ErrPrecondition), 500, "InternalError"},
		{fmt.Errorf("%w: %w", database.ErrUnavailable, exchange.ErrNoBlob), 503, "ServiceUnavailable"},
		{exchange.ErrNoBlob, 404, "NoSuchKey"},
		{exchange.ErrBlobExpired, 404, "NoSuchKey"},
		{exchange.ErrNoUpload, 404, "NoSuchUpload"},
		{exchange.ErrTooBusy, 503, "SlowDown"},
		{exchange.ErrPrecondition, 412, "PreconditionFailed"},
		{fmt.Errorf("%w: %w", exchange.ErrBadCredential, errors.New("x")), 403, "InvalidAccessKeyId"},
		{sigv4.ErrMismatch, 403, "SignatureDoesNotMatch"},
		{sigv4.ErrSkewed, 403, "RequestTimeTooSkewed"},
		{notImplemented("it"), 501, "NotImplemented"},
		{errors.New("a fault"), 500, "InternalError"},
	} {
		row := errorTable.RowOf(test.err)
		if got := codeOf(row, test.err); row.Status != test.status || got != test.code {
			t.Errorf("%v: %d %s, want %d %s", test.err, row.Status, got, test.status, test.code)
		}
	}
}

// TestWhatIsNotSupportedIsSaid: the operations that this interface does not have are 501.
func TestWhatIsNotSupportedIsSaid(t *testing.T) {
	s := newService(t)
	s.want(t, 200, "PUT", "/bucket/a", "x")
	s.refused(t, 404, "NoSuchVersion", "GET", "/bucket/a?versionId=3HL4kqtJlcpXroDTDmJ", "")
	s.refused(t, 501, "NotImplemented", "PUT", "/bucket?versioning", "")
	s.want(t, 200, "GET", "/bucket/a?versionId=null", "")
	for _, fields := range [][]string{
		{"X-Amz-Acl", "public-read"},
		{"X-Amz-Server-Side-Encryption", "AES256"},
		{"X-Amz-Server-Side-Encryption-Customer-Algorithm", "AES256"},
		{"X-Amz-Object-Lock-Mode", "GOVERNANCE"},
		{"X-Amz-Website-Redirect-Location", "/b"},
		{"X-Amz-Grant-Read", "id=1"},
		{"X-Amz-Write-Offset-Bytes", "1"},
	} {
		s.refused(t, 501, "NotImplemented", "PUT", "/bucket/b", "x", fields...)
	}
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/b", "")
	s.refused(t, 405, "MethodNotAllowed", "PATCH", "/bucket/a", "")
	s.refused(t, 405, "MethodNotAllowed", "PUT", "/", "")
}
