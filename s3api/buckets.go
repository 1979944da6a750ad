package s3api

import (
	"net/http"
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

// listBuckets lists the accounts that have blobs and that the caller may read or write, by their
// names and aliases, ordered by account.
func (s *Server) listBuckets(x *call) error {
	if s.keys != nil && x.Caller == nil {
		if err := x.credentialError(); err != nil {
			return err
		}
		return exchange.ErrNoCredential // who may read a blob need not know the accounts
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
	prefix, after := x.query.get("prefix"), x.query.get("continuation-token")
	result := document.ListAllMyBucketsResult{Owner: ownerOf(callerName(x)), Prefix: prefix}
	accounts, next, err := s.accounts(x, after, limit)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		for _, name := range s.namesOf(account) {
			if strings.HasPrefix(name, prefix) {
				result.Buckets = append(result.Buckets, document.Bucket{Name: name, CreationDate: document.Time{Time: time.Unix(0, 0)}, BucketRegion: region})
			}
		}
		if len(result.Buckets) >= limit && account != accounts[len(accounts)-1] { // it has aliases
			next = account
			break
		}
	}
	result.ContinuationToken = next
	x.SpendPage(len(result.Buckets))
	return x.writeXML(http.StatusOK, result)
}

// accounts returns accounts that have blobs, behind one, that the caller may read or write: all, or
// those that the caller's key names. It looks at no more than limit accounts, and returns the last
// one if others follow.
func (s *Server) accounts(x *call, after string, limit int) (names []string, next string, err error) {
	if x.Caller != nil && !x.Caller.AllAccounts() {
		return s.accountsOf(x, after, limit)
	}
	if x.Caller != nil && !mayUse(x.Caller, "") {
		return nil, "", nil
	}
	list, err := s.blobs.Accounts(x.Request.Context(), after, limit)
	for _, one := range list {
		names = append(names, one.Account)
	}
	if err == nil && len(list) == limit {
		next = names[limit-1]
	}
	return names, next, err
}

// accountsOf is accounts for a key that names them. Each costs a query, and ten as much as a
// request.
func (s *Server) accountsOf(x *call, after string, limit int) (names []string, next string, err error) {
	looked := 0
	defer func() { x.Allowance.Spend(int64(looked / 10)) }()
	for _, account := range x.Caller.Accounts() {
		if account <= after || !mayUse(x.Caller, account) {
			continue
		}
		if looked == limit {
			return names, next, nil
		}
		looked++
		next = account
		page, err := s.blobs.List(x.Request.Context(), metastore.ListQuery{Account: account, Limit: 1})
		if err != nil {
			return nil, "", err
		}
		if len(page.Blobs) > 0 {
			names = append(names, account)
		}
	}
	return names, "", nil
}

// mayUse reports whether a key is for reading or writing an account.
func mayUse(caller *access.Caller, account string) bool {
	return caller.Allows(access.ScopeRead, account) == nil || caller.Allows(access.ScopeWrite, account) == nil
}

// region is the region of every bucket. Any other is accepted in signatures.
const region = "us-east-1"

// namesOf returns an account's buckets: its own name if no other account has it as alias, and its
// aliases.
func (s *Server) namesOf(account string) (names []string) {
	if own, err := s.accountOf(account); err == nil && own == account {
		names = append(names, account)
	}
	if s.aliases != nil {
		names = append(names, s.aliases.Of(account)...)
	}
	return names
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
	if err := refuseForeign(x.header); err != nil {
		return err
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
	if err := refuseForeign(x.header); err != nil {
		return err
	}
	if x.header.Get("X-Amz-Acl") == "" {
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
