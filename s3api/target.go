package s3api

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf16"

	"sluice/blob"
	"sluice/wire"
)

// level is the kind of thing that a request's path names.
type level int

const (
	serviceLevel level = iota // all buckets
	bucketLevel
	objectLevel
)

// target is a request's bucket and key.
type target struct {
	level  level
	bucket string
	key    string
}

// parseTarget returns a request's target: the host names the bucket if it is below a domain, or
// else the path's first segment does. Everything after is the key, in which each %XX is decoded
// once.
func parseTarget(r *http.Request, h hosts) (target, error) {
	path, ok := strings.CutPrefix(escapedPath(r.URL), "/")
	if !ok {
		return target{}, refuseWith("InvalidURI", wire.CodeBadRequest, "the path must begin with a slash")
	}
	var t target
	var err error
	if t.bucket, err = h.bucket(r.Host); err != nil {
		return target{}, err
	}
	if t.bucket == "" {
		t.bucket, path, _ = strings.Cut(path, "/")
	}
	if t.bucket, err = url.PathUnescape(t.bucket); err == nil {
		t.key, err = url.PathUnescape(path)
	}
	switch {
	case err != nil:
		return target{}, refuseWith("InvalidURI", wire.CodeBadRequest, `a "%%" in the path is not followed by two hexadecimal digits`)
	case t.bucket == "" && t.key == "":
		t.level = serviceLevel
	case t.bucket == "":
		return target{}, refuseWith("InvalidBucketName", wire.CodeBadAccount, "the bucket's name is empty")
	case t.key == "":
		t.level = bucketLevel
	default:
		t.level = objectLevel
	}
	return t, nil
}

// CheckDomain returns an error if buckets cannot be hosts below the domain.
func CheckDomain(domain string) error {
	if _, err := netip.ParseAddr(domain); err == nil || domain == "" || domain != strings.ToLower(domain) || strings.ContainsAny(domain, ":/*[]@ ") || strings.HasSuffix(domain, ".") || strings.HasPrefix(domain, ".") {
		return errors.New("want a host name in lower case, such as s3.example.org")
	}
	return nil
}

// pattern returns a target's pattern for the log and the metrics.
func (t target) pattern() string {
	switch t.level {
	case serviceLevel:
		return "s3:/"
	case bucketLevel:
		return "s3:/{bucket}"
	default:
		return "s3:/{bucket}/{key}"
	}
}

// checkKey returns an error for a key that neither a blob nor a marker can have (see blob.Place).
func checkKey(key string) error {
	if len(utf16.Encode([]rune(key))) > blob.MaxNameLength {
		return refuseWith("KeyTooLongError", wire.CodeBadName, "a key has at most %d characters", blob.MaxNameLength)
	}
	if folder, ok := strings.CutSuffix(key, "/"); ok {
		key = folder + "-" // a blob's name cannot end in a slash
	}
	return blob.CheckName(strings.ReplaceAll(key, "\x7f", "-"))
}

// query is a request's query.
type query url.Values

// parseQuery parses the query. Parameters that cannot be decoded or occur more than once are
// errors.
func parseQuery(r *http.Request) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuseWith("InvalidURI", wire.CodeBadParameter, "the query cannot be decoded")
	}
	for name, all := range values {
		if len(all) > 1 {
			return nil, refuseWith("InvalidArgument", wire.CodeBadParameter, "the parameter %.40q must occur once", name)
		}
	}
	return query(values), nil
}

// has reports whether there is a parameter.
func (q query) has(name string) bool { return q[name] != nil }

// get returns a parameter, or "".
func (q query) get(name string) string { return url.Values(q).Get(name) }

// parameterError returns an error about a parameter.
func parameterError(name, reason string) error {
	return refuseWith("InvalidArgument", wire.CodeBadParameter, "the parameter %s %s", name, reason)
}
