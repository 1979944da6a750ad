package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/blob"
	"sluice/database"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/httpapi/internal/router"
	"sluice/metastore"
	"sluice/wire"
)

// blobTarget returns the blob that the path names. A parameter that would name one of its versions
// is an error, because ignoring it could return or delete other bytes.
func (x *call) blobTarget() (account, name string, err error) {
	if x.target != (metastore.BlobName{}) {
		return x.target.Account, x.target.Name, nil
	}
	if x.Request.URL.RawQuery != "" {
		for _, parameter := range []string{"version", "versionId"} {
			if x.Request.URL.Query().Has(parameter) {
				return "", "", fmt.Errorf("%w: %q: a version has a path of its own, /v1/versions/{account}/{version}/{blobName}", exchange.ErrParameter, parameter)
			}
		}
	}
	if account, err = blob.ParseAccount(x.params.Get("account")); err != nil {
		return "", "", err
	}
	name = x.params.Get("blobName")
	if err = blob.CheckName(name); err == nil {
		x.target = metastore.BlobName{Account: account, Name: name}
	}
	return account, name, err
}

type query map[string][]string

// readQuery parses the query. Parameters that cannot be decoded, are not UTF-8 or occur more than
// once are errors.
func readQuery(r *http.Request) (query, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: the query cannot be decoded", exchange.ErrParameter)
	}
	for name, values := range q {
		if len(values) > 1 || !utf8.ValidString(values[0]) {
			return nil, fmt.Errorf("%w: %.40q must occur once, in UTF-8", exchange.ErrParameter, name)
		}
	}
	return query(q), nil
}

// text returns a parameter, or "".
func (q query) text(name string) string {
	if len(q[name]) == 0 {
		return ""
	}
	return q[name][0]
}

// limit returns a page's requested size.
func (q query) limit() (int, error) {
	text, ok := q["limit"]
	if !ok {
		return wire.MaxPageSize, nil
	}
	n, err := strconv.ParseUint(text[0], 10, 63)
	if errors.Is(err, strconv.ErrRange) {
		return wire.MaxPageSize, nil
	}
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: limit must be a number from 1 to %d", exchange.ErrParameter, wire.MaxPageSize)
	}
	return int(min(n, wire.MaxPageSize)), nil
}

// readJSON is the function readJSON for the body of this request. The caller's key is checked again
// afterwards, because a slow body takes minutes.
func (x *call) readJSON(into any) ([]byte, error) {
	body, err := readJSON(x.Request, into)
	if err == nil && len(body) > 0 {
		err = x.Recheck(x.Request.Context())
	}
	return body, err
}

// checkContent checks a PUT's headers that describe its body. It returns the SHA-256 that the body
// must have, or nil.
func checkContent(r *http.Request) (sha256 []byte, err error) {
	h := r.Header
	if err := checkContentEncoding(h); err != nil {
		return nil, err
	}
	if r.ContentLength == 0 && h.Get("Content-Length") == "" {
		return nil, exchange.ErrNoLength
	}
	for _, name := range []string{wire.HeaderContentDigest, wire.HeaderReprDigest} {
		if _, announced := r.Trailer[name]; announced {
			return nil, fmt.Errorf("%w: %s must be sent before the body", headers.ErrMalformedDigest, name)
		}
	}
	if h.Get("Content-Range") != "" {
		return nil, fmt.Errorf("%w: Content-Range is not supported, since a PUT stores the whole; use a multipart upload", exchange.ErrHeader)
	}
	ofContent, err := headers.ParseDigest(h, wire.HeaderContentDigest)
	if err != nil {
		return nil, err
	}
	// Without a Content-Encoding the content is the representation.
	ofWhole, err := headers.ParseDigest(h, wire.HeaderReprDigest)
	if err != nil {
		return nil, err
	}
	switch {
	case ofContent == nil:
		return ofWhole, nil
	case ofWhole != nil && subtle.ConstantTimeCompare(ofContent, ofWhole) == 0:
		return nil, fmt.Errorf("%w: %s and %s differ", headers.ErrMalformedDigest, wire.HeaderContentDigest, wire.HeaderReprDigest)
	default:
		return ofContent, nil
	}
}

// expiresHeader parses Blob-Expires. It returns the zero time if the header is absent.
func expiresHeader(h http.Header) (time.Time, error) {
	values := h.Values(wire.HeaderBlobExpires)
	if len(values) == 0 {
		return time.Time{}, nil
	}
	t, ok := parseTimestamp(values[0])
	if !ok || len(values) > 1 {
		return time.Time{}, fmt.Errorf("%w: %s must be a time such as 2030-01-02T15:04:05Z (RFC 3339)", exchange.ErrHeader, wire.HeaderBlobExpires)
	}
	return t, nil
}

// parseTime parses an optional RFC 3339 time in a JSON body.
func parseTime(member, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	t, ok := parseTimestamp(value)
	if !ok {
		return time.Time{}, fmt.Errorf("%w: %s must be a time such as 2030-01-02T15:04:05Z (RFC 3339)", exchange.ErrParameter, member)
	}
	return t, nil
}

// idempotency returns a request's Idempotency-Key, or nil. Its scope is the operation, the resource
// (may be "") and the caller's key; on a local instance all callers share their keys.
func idempotency(x *call, operation, resource string, body []byte) (*database.Idempotency, error) {
	r := x.Request
	keys := r.Header.Values(wire.HeaderIdempotencyKey)
	if len(keys) == 0 {
		return nil, nil
	}
	const limit = 255
	if len(keys) > 1 || len(keys[0]) < 1 || len(keys[0]) > limit || !isVisibleASCII(keys[0]) {
		return nil, fmt.Errorf("%w: %s must occur once, with 1 to %d visible ASCII characters", exchange.ErrHeader, wire.HeaderIdempotencyKey, limit)
	}
	request := append([]byte(r.Method+"\n"+router.EscapedPath(r.URL)+"\n"), body...)
	return &database.Idempotency{Scope: scope(operation, resource) + x.CallerScope(), Key: keys[0], Hash: sha256.Sum256(request)}, nil
}

// ownedIdempotency is idempotency for a request with a record that counts towards the caller's
// quota.
func ownedIdempotency(x *call, operation, resource string, body []byte) (*database.Idempotency, error) {
	idem, err := idempotency(x, operation, resource, body)
	if idem != nil {
		idem.Owner = x.Owner()
	}
	return idem, err
}

// scope joins an operation and its resource, which may contain any character, so that different
// pairs, followed by any caller, result in different texts. Ids and addresses of this service are
// not quoted, for compatibility with the scopes of all versions; everything else is.
func scope(operation, resource string) string {
	switch {
	case resource == "":
		return operation
	case strings.Trim(resource, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == "":
		return operation + " " + resource
	default:
		return operation + " " + strconv.Quote(resource)
	}
}

func isVisibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
