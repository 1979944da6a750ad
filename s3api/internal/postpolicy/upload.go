package postpolicy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Errors of files.
var (
	// ErrTooSmall means that a file is smaller than its policy allows (EntityTooSmall).
	ErrTooSmall = errors.New("the file is smaller than the policy allows")
	// ErrTooLarge means that a file is larger than its policy allows (EntityTooLarge).
	ErrTooLarge = errors.New("the file is larger than the policy allows")
)

// Upload is a form's request.
type Upload struct {
	// Key is not empty.
	Key string
	// Header has the fields that PutObject has as headers, such as Content-Type and X-Amz-Meta-*.
	Header http.Header
	// Tagging is the document with the object's tags, or "".
	Tagging string
	// Status is the one to answer with: 200, 201 with a document, or 204.
	Status int
	// Redirect is where to send the browser, or nil.
	Redirect *url.URL
	// Body is the file. At its end, an error wraps ErrTooSmall or ErrTooLarge if the policy does
	// not allow its size, ErrMalformed if the form does not end, or is the form's.
	Body io.Reader
}

// headers are the fields that PutObject has as headers, besides those that begin with x-amz-.
var headers = []string{"cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"}

// Check compares the form with its policy, at a time and for the bucket that it was sent to, and
// returns its request. The signature must have been verified. Without a policy everything is
// allowed: then the caller must know that it may be. The error wraps ErrField, ErrPolicy or
// ErrRefused.
func (f *Form) Check(bucket string, now time.Time) (Upload, error) {
	fields := f.expanded()
	key := fields["key"]
	if key == "" {
		return Upload{}, fmt.Errorf("%w: the key must not be empty", ErrField)
	}
	if named, ok := fields["bucket"]; ok && named != bucket {
		return Upload{}, fmt.Errorf("%w: the form is for another bucket", ErrField)
	}
	p := policy{most: anySize}
	var err error
	if f.Signature != nil {
		if p, err = parsePolicy(f.Signature.Policy); err != nil {
			return Upload{}, err
		}
		fields["bucket"] = bucket
		if err := p.check(fields, now); err != nil {
			return Upload{}, err
		}
	}
	h, err := headerOf(fields)
	if err != nil {
		return Upload{}, err
	}
	return Upload{Key: key, Header: h, Tagging: fields["tagging"], Status: statusOf(fields), Redirect: redirectOf(fields),
		Body: &file{source: f.file, least: p.least, most: p.most}}, nil
}

// headerOf returns the fields that are headers. A field can have characters that a header cannot.
func headerOf(fields map[string]string) (http.Header, error) {
	h := http.Header{}
	for name, value := range fields {
		if name == "acl" {
			name = "x-amz-acl"
			if _, twice := fields[name]; twice {
				return nil, fmt.Errorf("%w: the access list must be in acl or in x-amz-acl", ErrField)
			}
		}
		if slices.Contains(signatureFields, name) || !slices.Contains(headers, name) && !strings.HasPrefix(name, "x-amz-") {
			continue
		}
		if strings.ContainsFunc(name, notInToken) || strings.ContainsFunc(value, isControl) {
			return nil, fmt.Errorf("%w: the field %.40q cannot be a header", ErrField, name)
		}
		h.Set(name, strings.TrimSpace(value))
	}
	return h, nil
}

// isControl reports whether a field of a header cannot have a character (RFC 9110, 5.5).
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// notInToken reports whether a header's name cannot have a character (RFC 9110, 5.6.2).
func notInToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// statusOf returns the status that a form wants. S3 answers any other value with 204.
func statusOf(fields map[string]string) int {
	switch fields["success_action_status"] {
	case "200":
		return http.StatusOK
	case "201":
		return http.StatusCreated
	}
	return http.StatusNoContent
}

// redirectOf returns the URL that a form wants. S3 ignores one that is none.
func redirectOf(fields map[string]string) *url.URL {
	text := fields["success_action_redirect"]
	if text == "" {
		text = fields["redirect"]
	}
	to, err := url.Parse(text)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil
	}
	return to
}

// file is a form's file. It ends with an error if the policy does not allow its size.
type file struct {
	source      io.Reader
	least, most int64
	size        int64 // in bytes, as read
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.source.Read(p)
	f.size += int64(n)
	switch {
	case f.size > f.most:
		return 0, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, f.most)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, fmt.Errorf("%w: it ends within the file", ErrMalformed)
	case errors.Is(err, io.EOF) && f.size < f.least:
		return n, fmt.Errorf("%w: it has %d bytes, less than %d", ErrTooSmall, f.size, f.least)
	}
	return n, err
}
