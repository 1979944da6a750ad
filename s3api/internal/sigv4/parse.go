package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signature is a request's signature, which is not verified yet.
type Signature struct {
	AccessKey string
	Region    string
	Time      time.Time     // when the request was signed
	Expires   time.Duration // how long a presigned URL is valid; 0: the signature is in the header
	Payload   Payload

	date      string // in the scope
	headers   []string
	presigned bool
	sum       [sha256.Size]byte
}

const (
	// mostAccessKey, mostRegion and mostHeaders bound the names in a signature.
	mostAccessKey = 128
	mostRegion    = 64
	mostHeaders   = 64
)

// Parse returns a request's signature. query is the request's, parsed. Parse returns
// ErrUnsigned if there is none, ErrUnsupported if it is of another kind, and ErrMalformed.
func Parse(r *http.Request, query url.Values) (*Signature, error) {
	authorization, inHeader := single(r.Header["Authorization"])
	_, inQuery := query["X-Amz-Algorithm"]
	_, older := query["Signature"]
	switch {
	case len(r.Header["Authorization"]) > 1:
		return nil, fmt.Errorf("%w: there are several Authorization headers", ErrMalformed)
	case inHeader && (inQuery || older):
		return nil, fmt.Errorf("%w: only one of the header and the query can have it", ErrMalformed)
	case inHeader:
		return parseHeader(r, authorization)
	case inQuery:
		return parseQuery(r, query)
	case older:
		return nil, ErrUnsupported
	}
	return nil, ErrUnsigned
}

// single returns a header's only value.
func single(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// parseHeader parses an Authorization header.
func parseHeader(r *http.Request, authorization string) (*Signature, error) {
	scheme, rest, _ := strings.Cut(authorization, " ")
	if scheme != algorithm {
		return nil, ErrUnsupported
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(field), "=")
		if _, twice := fields[name]; !found || twice {
			return nil, fmt.Errorf("%w: want Credential, SignedHeaders and Signature in Authorization, once each", ErrMalformed)
		}
		fields[name] = value
	}
	payload, stated := single(r.Header["X-Amz-Content-Sha256"])
	if !stated {
		return nil, fmt.Errorf("%w: the header x-amz-content-sha256 is required", ErrMalformed)
	}
	date, err := headerTime(r.Header)
	if err != nil {
		return nil, err
	}
	s := &Signature{Time: date, Payload: Payload(payload)}
	return s, s.parse(fields["Credential"], fields["SignedHeaders"], fields["Signature"])
}

// headerTime returns the time of X-Amz-Date or, if there is none, of Date.
func headerTime(h http.Header) (time.Time, error) {
	if stamp, ok := single(h["X-Amz-Date"]); ok {
		return parseTime(stamp)
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: the header x-amz-date is required", ErrMalformed)
	}
	return date.UTC(), nil
}

func parseTime(stamp string) (time.Time, error) {
	date, err := time.Parse(timeForm, stamp)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: the time is not in the form %s", ErrMalformed, timeForm)
	}
	return date, nil
}

// parseQuery parses a presigned URL's parameters.
func parseQuery(r *http.Request, query url.Values) (*Signature, error) {
	parameter := func(name string) string {
		value, _ := single(query["X-Amz-"+name])
		return value
	}
	if parameter("Algorithm") != algorithm {
		return nil, ErrUnsupported
	}
	date, err := parseTime(parameter("Date"))
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseUint(parameter("Expires"), 10, 32)
	if err != nil || seconds == 0 || seconds > uint64(MaxExpiry/time.Second) {
		return nil, fmt.Errorf("%w: X-Amz-Expires must be from 1 to %d seconds", ErrMalformed, MaxExpiry/time.Second)
	}
	s := &Signature{Time: date, Expires: time.Duration(seconds) * time.Second, Payload: Unsigned, presigned: true}
	if payload := parameter("Content-Sha256"); payload != "" {
		s.Payload = Payload(payload)
	} else if payload, ok := single(r.Header["X-Amz-Content-Sha256"]); ok {
		s.Payload = Payload(payload)
	}
	return s, s.parse(parameter("Credential"), parameter("SignedHeaders"), parameter("Signature"))
}

// parse parses the fields that both forms have.
func (s *Signature) parse(credential, headers, signature string) error {
	if !s.Payload.valid() {
		return fmt.Errorf("%w: x-amz-content-sha256 is neither a SHA-256 in hexadecimal digits nor a supported constant", ErrMalformed)
	}
	// An access key may contain a slash, so the scope is taken from the end.
	parts := strings.Split(credential, "/")
	if len(parts) < 5 {
		return fmt.Errorf("%w: the credential must be KEY/DATE/REGION/%s/%s", ErrMalformed, Service, terminator)
	}
	scope := parts[len(parts)-4:]
	s.AccessKey = strings.Join(parts[:len(parts)-4], "/")
	s.date, s.Region = scope[0], scope[1]
	switch {
	case scope[2] != Service || scope[3] != terminator:
		return fmt.Errorf("%w: the credential must end in /%s/%s", ErrMalformed, Service, terminator)
	case s.date != s.Time.Format(dateForm):
		return fmt.Errorf("%w: the credential has another date than the request", ErrMalformed)
	case s.AccessKey == "" || len(s.AccessKey) > mostAccessKey || s.Region == "" || len(s.Region) > mostRegion:
		return fmt.Errorf("%w: the credential has no key or no region, or a longer one than any", ErrMalformed)
	}
	s.headers = strings.Split(headers, ";")
	if len(s.headers) > mostHeaders || !slices.IsSorted(s.headers) || !slices.Contains(s.headers, "host") || !slices.Equal(s.headers, slices.Compact(slices.Clone(s.headers))) {
		return fmt.Errorf("%w: the signed headers must be sorted, contain host and be at most %d", ErrMalformed, mostHeaders)
	}
	if slices.ContainsFunc(s.headers, func(name string) bool { return name != strings.ToLower(name) || name == "" }) {
		return fmt.Errorf("%w: the signed headers must be in lower case", ErrMalformed)
	}
	if n, err := hex.Decode(s.sum[:], []byte(signature[:min(len(signature), hex.EncodedLen(len(s.sum)))])); err != nil || n != len(s.sum) || len(signature) != hex.EncodedLen(n) {
		return fmt.Errorf("%w: the signature is not 64 hexadecimal digits", ErrMalformed)
	}
	return nil
}
