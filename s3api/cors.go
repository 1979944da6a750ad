package s3api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/blob"
	"sluice/exchange/headers"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// propertyCORS is the property with a bucket's CORS rules in its record, in JSON.
const propertyCORS = "X-Amz-Bucket-Cors"

// mostCORS bounds a document with CORS rules, in bytes, as Amazon does.
const mostCORS = 64 << 10

// corsOf returns the bucket's rules, or nil if it has none.
func (s *Server) corsOf(x *call) (*document.CORSConfiguration, error) {
	stored, err := s.bucketProperty(x, propertyCORS)
	if err != nil || stored == "" {
		return nil, err
	}
	c := new(document.CORSConfiguration)
	if err := json.Unmarshal([]byte(stored), c); err != nil {
		return nil, fmt.Errorf("the CORS rules of a bucket: %w", err)
	}
	return c, nil
}

// getCORS returns the bucket's CORS rules.
func (s *Server) getCORS(x *call) error {
	c, err := s.corsOf(x)
	switch {
	case err != nil:
		return err
	case c == nil:
		return &refusal{code: "NoSuchCORSConfiguration", as: wire.CodeBlobNotFound, detail: "the bucket has no CORS rules"}
	}
	return x.writeXML(http.StatusOK, *c)
}

// putCORS replaces the bucket's CORS rules.
func (s *Server) putCORS(x *call) error {
	c, err := readAs(x, mostCORS, document.DecodeCORS)
	if err != nil {
		return err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return x.done(s.changeCORS(x, func(act blob.ActOf) error {
		return s.setBucketProperty(x, propertyCORS, string(text), act)
	}), http.StatusOK)
}

// deleteCORS removes the bucket's CORS rules.
func (s *Server) deleteCORS(x *call) error {
	return x.done(s.changeCORS(x, func(act blob.ActOf) error {
		return s.removeBucketProperty(x, propertyCORS, act)
	}), http.StatusNoContent)
}

// changeCORS calls change with the function that records the change, if actions are recorded.
func (s *Server) changeCORS(x *call, change func(blob.ActOf) error) error {
	if s.admin == nil {
		return change(nil)
	}
	rules := func(metadata string) string { return headers.Metadata(metadata).Property(propertyCORS) }
	return s.admin.ChangingCORS(x.Request.Context(), x.by(), x.account, rules, change)
}

// admitPage decides whether a page may send the request and read the response. foreign is why the
// instance does not allow it, or nil. If the bucket has CORS rules, they decide instead.
func (s *Server) admitPage(x *call, foreign error) error {
	origins := x.header.Values("Origin")
	if len(origins) != 1 || x.account == "" {
		return foreign
	}
	c, err := s.corsOf(x)
	if err != nil || c == nil {
		return errors.Join(foreign, err)
	}
	x.ruled = true
	for _, name := range []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Timing-Allow-Origin"} {
		x.Fields.Remove(name)
	}
	x.Fields.Set("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")
	method := x.Request.Method
	var asked []string
	if method == http.MethodOptions {
		method = x.header.Get("Access-Control-Request-Method")
		asked = headers.Requested(x.header.Values("Access-Control-Request-Headers"))
	}
	rule := c.Find(origins[0], method, asked)
	switch {
	case rule != nil:
		setRuleFields(x, rule, origins[0], asked)
		return nil
	case method != "" && x.Request.Method == http.MethodOptions:
		return refuseWith("AccessForbidden", wire.CodeForbiddenOrigin, "the bucket's CORS rules do not allow this request")
	default:
		return foreign
	}
}

// setRuleFields sets the fields by which a rule admits a page.
func setRuleFields(x *call, rule *document.CORSRule, origin string, asked []string) {
	if slices.Contains(rule.Origins, "*") {
		origin = "*"
	} else {
		x.Fields.Set("Access-Control-Allow-Credentials", "true")
	}
	x.Fields.Set("Access-Control-Allow-Origin", origin)
	x.Fields.Set("Access-Control-Allow-Methods", strings.Join(rule.Methods, ", "))
	x.Fields.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if len(asked) > 0 {
		x.Fields.Set("Access-Control-Allow-Headers", strings.Join(asked, ", "))
	}
	if len(rule.Exposed) > 0 {
		x.Fields.Set("Access-Control-Expose-Headers", strings.Join(rule.Exposed, ", "))
	}
	if rule.MaxAge != nil {
		x.Fields.Set("Access-Control-Max-Age", strconv.Itoa(*rule.MaxAge))
	}
}

// respondOptions responds to OPTIONS. If the bucket has no CORS rules, pages may send the fields
// that S3's clients send.
func (s *Server) respondOptions(x *call, foreign error) error {
	if x.bucket != "" {
		if err := s.findAccount(x); err != nil {
			x.account = "" // no bucket has rules
		}
	}
	if err := s.admitPage(x, foreign); err != nil {
		return err
	}
	if x.ruled {
		return x.writeEmpty(http.StatusOK)
	}
	methods := []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut}
	x.RespondOptions(methods, "Authorization, Cache-Control, Content-Disposition, Content-Encoding, Content-Language, Content-MD5, Content-Type, Expires, If-Match, If-Modified-Since, If-None-Match, If-Unmodified-Since, Range, "+wire.HeaderRequestID)
	return nil
}
