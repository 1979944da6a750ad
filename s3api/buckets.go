package s3api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/access"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// mostBuckets bounds a list of buckets.
const mostBuckets = 1000

// listBuckets lists the accounts that have blobs and that the caller may read, by their names and
// aliases.
func (s *Server) listBuckets(x *call) error {
	if err := s.permitListing(x); err != nil {
		return err
	}
	limit, err := x.number("max-buckets", mostBuckets)
	switch {
	case err != nil:
		return err
	case limit == 0:
		return parameterError("max-buckets", "must be at least 1")
	}
	if err := x.HoldPage(limit); err != nil {
		return err
	}
	result := document.ListAllMyBucketsResult{Owner: ownerOf(callerName(x)), Prefix: x.query.get("prefix")}
	after := x.query.get("continuation-token")
	for {
		accounts, err := s.blobs.Accounts(x.Request.Context(), after, limit)
		if err != nil {
			return err
		}
		for _, one := range accounts {
			after = one.Account
			if !s.mayList(x, one.Account) {
				continue
			}
			names, err := s.namesOf(x, one.Account)
			if err != nil {
				return err
			}
			for _, name := range names {
				if strings.HasPrefix(name, result.Prefix) {
					result.Buckets = append(result.Buckets, document.Bucket{Name: name, CreationDate: document.Time{Time: time.Unix(0, 0)}, BucketRegion: region})
				}
			}
		}
		switch {
		case len(accounts) < limit:
			x.SpendPage(len(result.Buckets))
			return x.writeXML(http.StatusOK, result)
		case len(result.Buckets) >= limit:
			result.ContinuationToken = after
			x.SpendPage(len(result.Buckets))
			return x.writeXML(http.StatusOK, result)
		}
	}
}

// region is the region of every bucket. Any other is accepted in signatures.
const region = "us-east-1"

// permitListing requires a key: who may read a blob need not know of the accounts.
func (s *Server) permitListing(x *call) error {
	if s.keys == nil {
		return nil
	}
	if x.Caller == nil {
		return exchange.ErrNoCredential
	}
	return nil
}

// mayList reports whether the caller's list of buckets has the account.
func (s *Server) mayList(x *call, account string) bool {
	if x.Local {
		return true
	}
	return slices.ContainsFunc([]access.Scope{access.ScopeRead, access.ScopeWrite}, func(scope access.Scope) bool {
		return x.Caller.Allows(scope, account) == nil
	})
}

// namesOf returns an account's buckets: its own name if a bucket can have it, and its aliases.
func (s *Server) namesOf(x *call, account string) ([]string, error) {
	names, err := s.aliases(x.Request.Context(), account)
	if err != nil {
		return nil, err
	}
	own, err := s.accountOf(x, account)
	if err == nil && own == account { // and not another account's alias
		names = append([]string{account}, names...)
	}
	return names, nil
}

// callerName returns who the caller is for a list's owner.
func callerName(x *call) string {
	if x.Caller == nil {
		return "local"
	}
	return x.Caller.ID()
}

// headBucket reports that a bucket can be used: an account needs no creation.
func (s *Server) headBucket(x *call) error {
	x.Fields.Set("X-Amz-Bucket-Region", region)
	return x.writeEmpty(http.StatusOK)
}

// createBucket reports that the caller may write to the bucket, which needs no creation.
func (s *Server) createBucket(x *call) error {
	if err := refuseForeign(x.Request.Header); err != nil {
		return err
	}
	if strings.EqualFold(x.Request.Header.Get("X-Amz-Bucket-Object-Lock-Enabled"), "true") {
		return notImplemented("object lock")
	}
	text, err := x.readDocument(wire.MaxJSONBody)
	if err != nil {
		return err
	}
	if _, err := document.DecodeCreateBucket(text); err != nil {
		return err
	}
	x.Fields.Set("Location", "/"+x.bucket)
	return x.writeEmpty(http.StatusOK)
}

// deleteBucket reports whether the bucket is empty. An empty account leaves nothing behind.
func (s *Server) deleteBucket(x *call) error {
	page, err := s.blobs.List(x.Request.Context(), metastore.ListQuery{Account: x.account, Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Blobs) > 0 {
		return &refusal{code: "BucketNotEmpty", as: wire.CodeBadParameter, status: http.StatusConflict, detail: "the bucket is not empty"}
	}
	return x.writeEmpty(http.StatusNoContent)
}

func (s *Server) getLocation(x *call) error {
	return x.writeXML(http.StatusOK, document.LocationConstraint{})
}

func (s *Server) getVersioning(x *call) error {
	return x.writeXML(http.StatusOK, document.VersioningConfiguration{})
}

// getACL returns the only access list that there is: the account has everything.
func (s *Server) getACL(x *call) error {
	if x.level == objectLevel {
		if _, err := s.lookUp(x); err != nil {
			return err
		}
	}
	return x.writeXML(http.StatusOK, document.AccessControlPolicy{Owner: ownerOf(x.account)})
}

// putACL accepts the access list that there is.
func (s *Server) putACL(x *call) error {
	if err := refuseForeign(x.Request.Header); err != nil {
		return err
	}
	if x.Request.Header.Get("X-Amz-Acl") == "" {
		return notImplemented("an access list in the body")
	}
	if _, err := x.readDocument(wire.MaxJSONBody); err != nil {
		return err
	}
	return x.writeEmpty(http.StatusOK)
}

// lookUp returns the blob that the request names.
func (s *Server) lookUp(x *call) (metastore.Blob, error) {
	c, err := s.blobs.Open(x.Request.Context(), x.account, x.key)
	if err != nil {
		return metastore.Blob{}, exchange.BlobError(err)
	}
	defer c.Close()
	return c.Blob, nil
}
