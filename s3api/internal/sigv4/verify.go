package sigv4

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verify checks that the secret's owner has signed the request at a time near now, and that the
// signature covers the fields that it must: the host, every header named "x-amz-..." and
// Content-MD5. As by Amazon, x-amz-content-sha256 need not be listed: the canonical request has its
// value. r must be the request that Parse got, with its path as the client sent it. Verify compares
// signatures in constant time. The chain that it returns is for the body's chunks.
//
// It returns ErrSkewed, ErrExpired, ErrNotCovered or ErrMismatch.
func (s *Signature) Verify(r *http.Request, query url.Values, secret string, now time.Time) (*Chain, error) {
	if err := s.checkTime(now); err != nil {
		return nil, err
	}
	if err := s.checkCovered(r.Header); err != nil {
		return nil, err
	}
	canonical, err := s.canonicalRequest(r, query)
	if err != nil {
		return nil, err
	}
	k := deriveKey(secret, s.date, s.Region)
	digest := sha256.Sum256([]byte(canonical))
	want := mac(k[:], algorithm+"\n"+s.Time.Format(timeForm)+"\n"+s.scope()+"\n"+hex.EncodeToString(digest[:]))
	if subtle.ConstantTimeCompare(want[:], s.sum[:]) != 1 {
		return nil, ErrMismatch
	}
	return &Chain{key: k, time: s.Time.Format(timeForm), scope: s.scope(), last: want}, nil
}

func (s *Signature) scope() string {
	return s.date + "/" + s.Region + "/" + Service + "/" + terminator
}

func (s *Signature) checkTime(now time.Time) error {
	early, late := s.Time.Add(-MaxSkew), s.Time.Add(MaxSkew)
	if s.presigned {
		late = s.Time.Add(s.Expires)
	}
	switch {
	case now.Before(early):
		return ErrSkewed
	case now.After(late) && s.presigned:
		return ErrExpired
	case now.After(late):
		return ErrSkewed
	}
	return nil
}

// checkCovered returns an error unless the signed headers contain those that change a request's
// effect.
func (s *Signature) checkCovered(h http.Header) error {
	for name := range h {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, "x-amz-") && lower != "content-md5" || lower == "x-amz-content-sha256" {
			continue // the payload's digest is signed in any case
		}
		if _, covered := slices.BinarySearch(s.headers, lower); !covered {
			return fmt.Errorf("%w: %s", ErrNotCovered, lower)
		}
	}
	return nil
}

// canonicalRequest returns the text that is signed.
func (s *Signature) canonicalRequest(r *http.Request, query url.Values) (string, error) {
	var b strings.Builder
	b.WriteString(r.Method)
	b.WriteByte('\n')
	path, err := url.PathUnescape(r.URL.EscapedPath())
	if err != nil {
		return "", fmt.Errorf("%w: the path: %w", ErrMismatch, err)
	}
	writeEscaped(&b, path, true)
	b.WriteByte('\n')
	s.writeQuery(&b, query)
	b.WriteByte('\n')
	for _, name := range s.headers {
		value, ok := headerValue(r, name)
		if !ok {
			return "", fmt.Errorf("%w: the request has no header %s", ErrMismatch, name)
		}
		b.WriteString(name)
		b.WriteByte(':')
		b.WriteString(value)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	b.WriteString(strings.Join(s.headers, ";"))
	b.WriteByte('\n')
	b.WriteString(string(s.Payload))
	return b.String(), nil
}

// writeQuery writes the parameters ordered by their escaped names and values, without the
// signature.
func (s *Signature) writeQuery(b *strings.Builder, query url.Values) {
	type pair struct{ name, value string }
	var pairs []pair
	for name, values := range query {
		if s.presigned && name == "X-Amz-Signature" {
			continue
		}
		for _, value := range values {
			pairs = append(pairs, pair{escaped(name), escaped(value)})
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int {
		return cmp.Or(strings.Compare(x.name, y.name), strings.Compare(x.value, y.value))
	})
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.name + "=" + p.value)
	}
}

func escaped(text string) string {
	var b strings.Builder
	writeEscaped(&b, text, false)
	return b.String()
}

// headerValue returns a header's canonical value. net/http keeps some headers elsewhere.
func headerValue(r *http.Request, name string) (string, bool) {
	switch name {
	case "host":
		return r.Host, true
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10), r.ContentLength >= 0
	case "transfer-encoding":
		return "chunked", true // the only one there is; a proxy may frame the body otherwise
	}
	values, ok := r.Header[http.CanonicalHeaderKey(name)]
	if !ok {
		return "", false
	}
	trimmed := make([]string, len(values))
	for i, value := range values {
		trimmed[i] = strings.Join(strings.Fields(value), " ")
	}
	return strings.Join(trimmed, ","), true
}

const upperHex = "0123456789ABCDEF"

// writeEscaped writes a text in which every byte is escaped but the unreserved characters of RFC
// 3986 and, in a path, the slash.
func writeEscaped(b *strings.Builder, text string, path bool) {
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0, path && c == '/':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
}
