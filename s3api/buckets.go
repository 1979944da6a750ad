package s3api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice/access"
	"sluice/access/places"
	"sluice/blob"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

const (
	// mostBuckets bounds a list of buckets.
	mostBuckets = 1000
	// mostAsked is how many buckets a request may ask for, as at Amazon.
	mostAsked = 10_000
)

// listBuckets lists the buckets that exist and that the caller may read or write, by their names
// and aliases, ordered by account.
func (s *Server) listBuckets(x *call) error {
	if s.keys != nil && x.Caller == nil {
		if err := x.credentialError(); err != nil {
			return err
		}
		return exchange.ErrNoCredential // who may read a blob need not know the accounts
	}
	limit, err := x.number("max-buckets", mostAsked+1)
	switch {
	case err != nil:
		return err
	case x.query.get("max-buckets") != "" && (limit == 0 || limit > mostAsked):
		return parameterError("max-buckets", "must be a number from 1 to 10000")
	}
	limit = min(limit, mostBuckets)
	if err := x.HoldPage(limit); err != nil {
		return err
	}
	prefix, after := x.query.get("prefix"), x.query.get("continuation-token")
	result := document.ListAllMyBucketsResult{Owner: ownerOf(callerName(x)), Prefix: prefix}
	accounts, next, err := s.accounts(x, prefix, after, limit)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		for _, name := range s.namesOf(account, prefix) {
			result.Buckets = append(result.Buckets, document.Bucket{Name: name, CreationDate: document.Time{Time: time.Unix(0, 0)}, BucketRegion: region})
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

// accounts returns accounts with buckets, behind one, that the caller may read or write: all, or
// those that the caller's key names. It looks at no more than limit accounts, and returns the last
// one if more follow.
func (s *Server) accounts(x *call, prefix, after string, limit int) (names []string, next string, err error) {
	if x.Caller != nil {
		if own := x.Caller.Accounts(access.ScopeRead, access.ScopeCreate); own != nil {
			return s.accountsOf(x, own, prefix, after, limit)
		}
	}
	names, more, err := s.blobs.Buckets(x.Request.Context(), after, limit)
	if s.aliases != nil {
		names = slices.Concat(names, s.aliases.Accounts(after))
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if more = more || len(names) > limit; more {
		names = names[:limit]
		next = names[limit-1]
	}
	return names, next, err
}

// accountsOf is accounts for a key that names them. Each with a bucket's name that begins with the
// prefix costs a query, and ten as much as a request.
func (s *Server) accountsOf(x *call, own []string, prefix, after string, limit int) (names []string, next string, err error) {
	looked := 0
	defer func() { x.Allowance.Spend(int64(looked / 10)) }()
	for _, account := range own {
		if account <= after || len(s.namesOf(account, prefix)) == 0 {
			continue
		}
		if looked == limit {
			return names, next, nil
		}
		looked++
		next = account
		exists, err := s.hasBucket(x.Request.Context(), account)
		if err != nil {
			return nil, "", err
		}
		if exists {
			names = append(names, account)
		}
	}
	return names, "", nil
}

// region is the region of every bucket. Any other is accepted in signatures.
const region = "us-east-1"

// namesOf returns an account's buckets that begin with the prefix: its own name if no other account
// has it as alias, and its aliases.
func (s *Server) namesOf(account, prefix string) (names []string) {
	if own, err := s.accountOf(account); err == nil && own == account {
		names = append(names, account)
	}
	if s.aliases != nil {
		names = append(names, s.aliases.Of(account)...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// callerName returns who the caller is for a list's owner.
func callerName(x *call) string {
	if x.Caller == nil {
		return "local"
	}
	return x.Caller.ID()
}

// headBucket reports that a bucket exists.
func (s *Server) headBucket(x *call) error {
	x.Fields.Set("X-Amz-Bucket-Region", region)
	x.Fields.Set("Cache-Control", "no-store")
	return x.writeEmpty(http.StatusOK)
}

// hasBucket reports whether a bucket exists: it was created, has an object, or has an alias.
func (s *Server) hasBucket(ctx context.Context, account string) (bool, error) {
	if s.aliases != nil && len(s.aliases.Of(account)) > 0 {
		return true, nil
	}
	return s.blobs.HasBucket(ctx, account)
}

// needBucket returns an error if a bucket does not exist.
func (s *Server) needBucket(ctx context.Context, account string) error {
	exists, err := s.hasBucket(ctx, account)
	if err == nil && !exists {
		err = blob.ErrNoBucket
	}
	return err
}

// missing returns an error about a request to an account's bucket, which is that there is no bucket
// rather than that there is no object.
func (s *Server) missing(ctx context.Context, account string, err error) error {
	if !errors.Is(err, exchange.ErrNoBlob) && !errors.Is(err, errNoVersion) {
		return err
	}
	return cmp.Or(s.needBucket(ctx, account), err)
}

// createBucket records that the bucket was created. Repeated, it has the same response, as in
// Amazon's region us-east-1.
func (s *Server) createBucket(x *call) error {
	if err := s.refuseForeign(x, x.key, x.header); err != nil {
		return err
	}
	locks, err := s.wantsLocks(x)
	if err != nil {
		return err
	}
	if _, err := readAs(x, wire.MaxJSONBody, document.DecodeCreateBucket); err != nil {
		return err
	}
	created, err := s.blobs.IsBucketCreated(x.Request.Context(), x.account)
	switch {
	case err != nil, created:
	case neverNames.MatchString(x.bucket):
		err = s.needBucket(x.Request.Context(), x.account)
		if errors.Is(err, blob.ErrNoBucket) {
			err = refuseWith("InvalidBucketName", wire.CodeBadAccount, "S3 allows no bucket to be created with this name")
		}
	default:
		err = s.recordBucket(x)
	}
	if err == nil && locks {
		err = s.enableLocks(x)
	}
	if err == nil && x.header.Get("X-Amz-Acl") != "" {
		err = s.setBucketList(x)
	}
	if err != nil {
		return err
	}
	x.Fields.Set("Location", "/"+x.bucket)
	return x.writeEmpty(http.StatusOK)
}

// neverNames matches names that S3 has allowed for no bucket, and that suites and tools expect to
// be refused. Longer names, such as addresses, and underscores are allowed here.
var neverNames = regexp.MustCompile(`^.{1,2}$|-$|\.\.|\.-|-\.|^\d+\.\d+\.\d+\.\d+$`)

// recordBucket records that the request's bucket was created, as an object that the caller stores.
func (s *Server) recordBucket(x *call) error {
	reservation, err := x.Allowance.Reserve(x.Request.Context(), x.bucket, "", 0)
	if err != nil {
		return err
	}
	err = s.blobs.CreateBucket(x.Request.Context(), x.account, x.Owner())
	exchange.Confirm(reservation, err)
	return err
}

// mostSeen bounds the buckets that a node remembers.
const mostSeen = 10_000

// ensureBucket creates the request's bucket if it does not exist. So it stays when its last object
// is deleted. A bucket is looked up once: one that is deleted meanwhile, maybe by another node,
// comes back with the object.
func (s *Server) ensureBucket(x *call) error {
	s.seenMu.Lock()
	seen := s.seen[x.account]
	s.seenMu.Unlock()
	if seen {
		return nil
	}
	err := s.needBucket(x.Request.Context(), x.account)
	if errors.Is(err, blob.ErrNoBucket) {
		err = s.recordBucket(x)
	}
	if err != nil {
		return err
	}
	s.seenMu.Lock()
	defer s.seenMu.Unlock()
	if len(s.seen) >= mostSeen {
		clear(s.seen)
	}
	s.seen[x.account] = true
	return nil
}

// deleteBucket removes the record that the bucket was created, if it is empty. Its aliases stay,
// and with them the bucket.
func (s *Server) deleteBucket(x *call) error {
	err := s.blobs.DeleteBucket(x.Request.Context(), x.account)
	s.seenMu.Lock()
	delete(s.seen, x.account)
	s.seenMu.Unlock()
	if errors.Is(err, blob.ErrNoBucket) {
		err = s.needBucket(x.Request.Context(), x.account)
	}
	return x.done(err, http.StatusNoContent)
}

// getACL returns the only access list that there is: the account has everything, and everybody may
// list a bucket that was opened.
func (s *Server) getACL(x *call) error {
	if x.level == objectLevel {
		b, err := s.lookUp(x)
		if err != nil {
			return err
		}
		x.setVersion(&b)
	}
	list := document.AccessControlPolicy{Owner: ownerOf(x.account)}
	if x.level == bucketLevel {
		rules, err := s.settings(x)
		if err != nil {
			return err
		}
		list.Public = access.Reads(rules.Settings(places.Place{Account: x.account}).Lists).Everybody()
	}
	return x.writeXML(http.StatusOK, list)
}

// putACL accepts the access lists that there are.
func (s *Server) putACL(x *call) error {
	if err := s.refuseForeign(x, x.key, x.header); err != nil {
		return err
	}
	if x.header.Get("X-Amz-Acl") == "" {
		return notImplemented("an access list in the body")
	}
	body, err := x.readDocument(wire.MaxJSONBody)
	if err == nil && len(body) > 0 {
		err = refuseWith("UnexpectedContent", wire.CodeBadRequest, "an access list is in the header x-amz-acl or in the body")
	}
	if err == nil && x.level == bucketLevel {
		err = s.setBucketList(x)
	}
	if err == nil && x.version.stated {
		var b metastore.Blob
		b, err = s.lookUp(x)
		x.setVersion(&b)
	}
	return x.done(err, http.StatusOK)
}

// accountOfPlace returns the account that an object's bucket has.
func accountOfPlace(at metastore.BlobName) string {
	if account, ok := metastore.AccountOfMarkers(at.Account); ok {
		return account
	}
	return at.Account
}

// place returns where the object that the request names is stored, or the record of its bucket.
func (x *call) place() metastore.BlobName {
	if x.level == bucketLevel {
		return blob.RecordOf(x.account)
	}
	return blob.Place(x.account, x.key)
}

// open opens the object or the version that the request names.
func (s *Server) open(x *call) (*blob.Content, error) {
	return s.openNamed(x, x.account, x.key, x.version)
}

// lookUp returns the object or the version that the request names, or the record of its bucket.
func (s *Server) lookUp(x *call) (metastore.Blob, error) {
	if x.level == bucketLevel {
		return s.record(x)
	}
	return closed(s.open(x))
}

// record returns the bucket's record.
func (s *Server) record(x *call) (metastore.Blob, error) {
	at := blob.RecordOf(x.account)
	c, err := s.blobs.Open(x.Request.Context(), at.Account, at.Name)
	return closed(c, exchange.BlobError(err))
}

// closed closes a content that was opened, and returns its blob.
func closed(c *blob.Content, err error) (metastore.Blob, error) {
	if err != nil {
		return metastore.Blob{}, err
	}
	defer c.Close()
	return c.Blob, nil
}
