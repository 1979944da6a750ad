package s3api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/access"
	"sluice/database"
	"sluice/exchange"
	"sluice/s3api/internal/sigv4"
	"sluice/test/testenv"
)

// notForClients are the sentinels that no operation returns, or that S3's clients get as an
// internal error because they can do nothing about them.
var notForClients = []string{
	"../history.ErrForeignStore", "../history.ErrUnfinishedCopy", "../blob.ErrLargeSweep", "../blob.ErrInvalidName", "../blob.errAge",
	"../bytestore.ErrNotFound", "../bytestore.ErrExists", "../bytestore.ErrSize", "../bytestore.ErrTruncated", "../bytestore.ErrInvalidName",
	"../database.ErrNotFound", "../database.ErrExists", "../database.ErrExpired", "../database.ErrNewer", "../database.ErrOlder", "../database.ErrNodesRun", "../database.ErrClock", "../database.ErrLongStop", "../database.ErrDamagedRow", "../bytestore.ErrReadOnly",
	"../metastore.ErrNameHasBlobs", "../metastore.ErrTooManyAliases", // in the command bucket
	"../metastore.ErrTooManyWebhooks", "../metastore.ErrWebhookChanged", // of webhooks
	"../access.ErrInvalidKey", "../access.ErrInvalidLimit",
	"../exchange/transfer.ErrSlowReader", // a response that has begun is cut
	"internal/sigv4.ErrUnsigned",         // such a request has no credentials
}

// TestEverySentinelHasACode checks that each error of the packages that the handlers call is in the
// table, and that each row has one of S3's codes.
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
		".", "internal/bucketpolicy", "internal/checksums", "internal/document", "internal/postpolicy", "internal/sigv4",
		"../blob", "../history", "../integrity", "../access", "../bytestore", "../database", "../metastore", "../exchange", "../exchange/headers", "../exchange/transfer",
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
	s.refused(t, 501, "NotImplemented", "PUT", "/bucket?encryption", "")
	s.want(t, 200, "GET", "/bucket/a?versionId=null", "")
	for _, refused := range []struct{ code, name, value string }{
		{"AccessControlListNotSupported", "X-Amz-Acl", "authenticated-read"},
		{"AccessControlListNotSupported", "X-Amz-Grant-Read", "id=1"},
		{"InvalidRequest", "X-Amz-Server-Side-Encryption", "AES256"},
		{"InvalidEncryptionAlgorithmError", "X-Amz-Server-Side-Encryption", "aws:kms"},
		{"InvalidRequest", "X-Amz-Server-Side-Encryption-Customer-Algorithm", "AES256"},
		{"InvalidArgument", "X-Amz-Object-Lock-Mode", "GOVERNANCE"},
		{"InvalidRequest", "X-Amz-Website-Redirect-Location", "/b"},
		{"InvalidRequest", "X-Amz-Write-Offset-Bytes", "1"},
	} { // clients repeat a 5xx, and none of these will be another
		s.refused(t, 400, refused.code, "PUT", "/bucket/b", "x", refused.name, refused.value)
		s.refused(t, 400, refused.code, "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "bucket/a", refused.name, refused.value)
	}
	s.refused(t, 404, "NoSuchKey", "GET", "/bucket/b", "")
	s.refused(t, 405, "MethodNotAllowed", "PATCH", "/bucket/a", "")
	s.refused(t, 405, "MethodNotAllowed", "PUT", "/", "")
}

// TestPublicRead: an access list that everybody may read is accepted where everybody may.
func TestPublicRead(t *testing.T) {
	for reads, want := range map[access.Reads]int{access.ReadsPublic: 200, access.ReadsKey: 400, access.ReadsPaid: 400} {
		h := startHosted(t, reads, nil)
		admin := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}})
		for _, path := range []string{"/ours", "/ours/a", "/ours?acl", "/ours/a?acl"} {
			send(t, admin.sign(h.request(t, "PUT", strings.TrimSuffix(path, "?acl"), "")))
			res := send(t, admin.sign(h.request(t, "PUT", path, "", "X-Amz-Acl", "public-read")))
			wanted := want
			// A bucket's list is a setting, which needs the operator's permission.
			if want == 400 && !strings.Contains(path, "/a") {
				wanted = 403
			}
			testenv.Equal(t, res.StatusCode, wanted, "%s with --reads %s", path, reads)
		}
	}
}

// TestDeclaredEncryption: where the operator declares that all is encrypted, a client may ask for
// it, and responses report it.
func TestDeclaredEncryption(t *testing.T) {
	s := start(t, setup{config: func(c *Config) { c.Encrypted = true }})
	const name, algorithm = "X-Amz-Server-Side-Encryption", "AES256"
	check := func(res response) response {
		t.Helper()
		testenv.Equal(t, res.Header.Get(name), algorithm, "%s %s", res.Request.Method, res.Request.URL)
		return res
	}
	check(s.want(t, 200, "PUT", "/bucket/a", "x", name, algorithm))
	check(s.want(t, 200, "GET", "/bucket/a", ""))
	check(s.want(t, 200, "HEAD", "/bucket/a", ""))
	check(s.want(t, 200, "PUT", "/bucket/b", "", "X-Amz-Copy-Source", "bucket/a", name, algorithm))
	id := s.begin(t, "/bucket/c", name, algorithm)
	part := check(s.want(t, 200, "PUT", "/bucket/c?partNumber=1&uploadId="+id, "x")).Header.Get("ETag")
	check(s.want(t, 200, "POST", "/bucket/c?uploadId="+id, completion(named{1, part})))
	if got := s.want(t, 200, "GET", "/bucket?encryption", "").body; !strings.Contains(got, "<SSEAlgorithm>AES256</SSEAlgorithm>") {
		t.Errorf("the bucket has %s", got)
	}
	res := s.refused(t, 404, "NoSuchKey", "GET", "/bucket/none", "")
	testenv.Equal(t, res.Header.Get(name), "", "an error's encryption")
	s.refused(t, 400, "InvalidEncryptionAlgorithmError", "PUT", "/bucket/a", "x", name, "aws:kms")
}
