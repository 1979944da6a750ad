package document

import (
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MostCORSRules is how many rules a bucket has at most ("CORSConfiguration", Amazon S3 API
// Reference).
const MostCORSRules = 100

// ErrCORS means that a well-formed rule cannot be (InvalidRequest).
var ErrCORS = errors.New("a CORS rule is invalid")

// CORSConfiguration has a bucket's rules.
type CORSConfiguration struct {
	XMLName xml.Name   `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CORSConfiguration" json:"-"`
	Rules   []CORSRule `xml:"CORSRule"`
}

// CORSRule lets pages from some origins send some requests, and read the responses.
type CORSRule struct {
	ID      string   `xml:",omitempty" json:",omitempty"`
	Headers []string `xml:"AllowedHeader" json:",omitempty"` // with at most one "*", which stands for any text
	Methods []string `xml:"AllowedMethod"`
	Origins []string `xml:"AllowedOrigin"` // with at most one "*"
	Exposed []string `xml:"ExposeHeader" json:",omitempty"`
	MaxAge  *int     `xml:"MaxAgeSeconds" json:",omitempty"` // nil: not stated
}

// fieldName has a field name's characters (RFC 9110, section 5.6.2).
var fieldName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// corsMethods are the methods that a rule can allow.
var corsMethods = []string{"GET", "PUT", "POST", "DELETE", "HEAD"}

// DecodeCORS reads a body with 1 to MostCORSRules rules. The error wraps ErrMalformed or ErrCORS.
// The caller bounds the body's size.
func DecodeCORS(body []byte) (c CORSConfiguration, err error) {
	var sent struct {
		strict
		XMLName xml.Name `xml:"CORSConfiguration"`
		Rules   []struct {
			strict
			ID, MaxAgeSeconds                                         []string
			AllowedHeader, AllowedMethod, AllowedOrigin, ExposeHeader []string
		} `xml:"CORSRule"`
	}
	if err := decodeStrictly(body, &sent); err != nil {
		return c, err
	}
	if len(sent.Rules) == 0 || len(sent.Rules) > MostCORSRules {
		return c, fmt.Errorf("%w: it must have 1 to %d elements CORSRule", ErrMalformed, MostCORSRules)
	}
	for _, one := range sent.Rules {
		r := CORSRule{Headers: one.AllowedHeader, Methods: one.AllowedMethod, Origins: one.AllowedOrigin, Exposed: one.ExposeHeader}
		if r.ID, err = optional("ID", one.ID); err != nil {
			return c, err
		}
		age, err := optional("MaxAgeSeconds", one.MaxAgeSeconds)
		if err != nil {
			return c, err
		}
		if age = strings.TrimSpace(age); age != "" {
			seconds, err := strconv.ParseUint(age, 10, 31)
			if err != nil {
				return c, fmt.Errorf("%w: MaxAgeSeconds must be a number from 0 to 2147483647", ErrMalformed)
			}
			r.MaxAge = new(int)
			*r.MaxAge = int(seconds)
		}
		if err := r.check(); err != nil {
			return c, err
		}
		c.Rules = append(c.Rules, r)
	}
	return c, nil
}

// check refuses texts that cannot be sent, or that would not mean what they look like.
func (r *CORSRule) check() error {
	if len(r.Methods) == 0 || len(r.Origins) == 0 {
		return fmt.Errorf("%w: a rule needs AllowedMethod and AllowedOrigin", ErrMalformed)
	}
	if len(r.ID) > 255 {
		return fmt.Errorf("%w: an ID must have at most 255 characters", ErrCORS)
	}
	for _, method := range r.Methods {
		if !slices.Contains(corsMethods, method) {
			return fmt.Errorf("%w: AllowedMethod must be one of %s", ErrCORS, strings.Join(corsMethods, ", "))
		}
	}
	for _, text := range slices.Concat(r.Origins, r.Headers) {
		if strings.Count(text, "*") > 1 {
			return fmt.Errorf(`%w: %.100q has more than one "*"`, ErrCORS, text)
		}
	}
	sendable := func(text string) bool {
		return !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
	}
	for _, origin := range r.Origins {
		if origin == "" || !sendable(origin) {
			return fmt.Errorf("%w: the AllowedOrigin %.100q is not an origin", ErrCORS, origin)
		}
	}
	for _, name := range r.Headers {
		if !fieldName.MatchString(name) {
			return fmt.Errorf("%w: the AllowedHeader %.100q is not a header's name", ErrCORS, name)
		}
	}
	for _, name := range r.Exposed {
		if !fieldName.MatchString(name) || strings.Contains(name, "*") {
			return fmt.Errorf("%w: the ExposeHeader %.100q is not a header's name", ErrCORS, name)
		}
	}
	return nil
}

// Find returns the first rule that lets an origin's pages send a request with the method and with
// header fields of these names, in lower case, or nil.
func (c *CORSConfiguration) Find(origin, method string, fields []string) *CORSRule {
	for i := range c.Rules {
		r := &c.Rules[i]
		allowed := func(name string) bool {
			return slices.ContainsFunc(r.Headers, func(p string) bool { return matches(strings.ToLower(p), name) })
		}
		fits := slices.Contains(r.Methods, method) && slices.ContainsFunc(r.Origins, func(p string) bool { return matches(p, origin) })
		if fits && !slices.ContainsFunc(fields, func(name string) bool { return !allowed(name) }) {
			return r
		}
	}
	return nil
}

// matches reports whether a text is as a pattern, in which at most one "*" stands for any text.
func matches(pattern, text string) bool {
	before, after, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == text
	}
	return len(text) >= len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
}
