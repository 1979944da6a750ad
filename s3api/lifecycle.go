package s3api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// A bucket's lifecycle is its account's rules, in S3's words.

// mostLifecycle bounds a document with rules, in bytes.
const mostLifecycle = 256 << 10

// getLifecycle returns the account's rules.
func (s *Server) getLifecycle(x *call) error {
	stored, err := s.blobs.Rules(x.Request.Context(), x.account)
	switch {
	case err != nil:
		return err
	case len(stored.Rules) == 0:
		return &refusal{code: "NoSuchLifecycleConfiguration", as: wire.CodeBlobNotFound, detail: "the bucket has no lifecycle"}
	}
	rules := make([]document.LifecycleRule, len(stored.Rules))
	for i, r := range stored.Rules {
		rules[i] = document.LifecycleRule(r)
	}
	return x.writeXML(http.StatusOK, document.Lifecycle(rules))
}

// putLifecycle replaces the account's rules. Those without an id get one.
func (s *Server) putLifecycle(x *call) error {
	sent, err := readAs(x, mostLifecycle, document.DecodeLifecycle)
	if err != nil {
		return err
	}
	rules := make([]metastore.Rule, len(sent))
	for i, r := range sent {
		for n := i + 1; r.ID == ""; n++ {
			id := fmt.Sprintf("rule-%d", n)
			if !slices.ContainsFunc(sent, func(other document.LifecycleRule) bool { return other.ID == id }) {
				r.ID = id
			}
		}
		rules[i], sent[i] = metastore.Rule(r), r
	}
	return x.done(s.setRules(x, rules), http.StatusOK)
}

// deleteLifecycle removes the account's rules.
func (s *Server) deleteLifecycle(x *call) error {
	stored, err := s.blobs.Rules(x.Request.Context(), x.account)
	if err == nil && len(stored.Rules) > 0 {
		err = s.setRules(x, nil)
	}
	return x.done(err, http.StatusNoContent)
}

// setRules sets the account's rules.
func (s *Server) setRules(x *call, rules []metastore.Rule) error {
	if s.admin == nil {
		return errNotAdministered
	}
	_, err := s.admin.ChangeRules(x.Request.Context(), x.by(), x.account, nil, func(now *[]metastore.Rule) error {
		*now = rules
		return nil
	})
	return err
}

// expiringReplies are the operations that report when an object expires.
var expiringReplies = []string{"CompleteMultipartUpload", "CopyObject", "GetObject", "HeadObject", "PostObject", "PutObject"}

// loadRules loads the account's rules for a request that reports when an object expires.
func (s *Server) loadRules(x *call) (err error) {
	if slices.Contains(expiringReplies, x.op.name) {
		x.lifecycle, err = s.blobs.RulesOf(x.Request.Context(), x.account)
	}
	return err
}

// setExpiration sets the field that states when a current blob expires: as its writer has stated
// it, or by a rule.
func (x *call) setExpiration(b *metastore.Blob) {
	when, id := b.Expires, strings.ToLower(fieldExpiration)
	r, due := metastore.FirstRule(x.lifecycle, func(r *metastore.Rule) time.Time { return r.Expires(b) })
	if r != nil && b.Since.IsZero() && (when.IsZero() || due.Before(when)) {
		when, id = due, r.ID
	}
	if !when.IsZero() {
		x.Fields.Set("X-Amz-Expiration", `expiry-date="`+exchange.Date(when)+`", rule-id="`+url.QueryEscape(id)+`"`)
	}
}
