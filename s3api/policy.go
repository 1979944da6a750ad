package s3api

import (
	"errors"
	"net/http"
	"slices"

	"sluice/access"
	"sluice/access/places"
	"sluice/admin"
	"sluice/s3api/internal/bucketpolicy"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// A bucket's policy is its account's settings of who may read and list, in S3's words: whatever has
// set them, the policy has them, and a policy that is put changes them.

// propertyPolicy is the property with the last policy's text in a bucket's record.
const propertyPolicy = "X-Amz-Bucket-Policy"

// by returns who administers by the request.
func (x *call) by() admin.By { return admin.By{Caller: x.Caller, From: x.From()} }

// settings returns the rules for the bucket's account as they are now.
func (s *Server) settings(x *call) (access.AccountRules, error) {
	if err := s.places.Renew(x.Request.Context()); err != nil {
		return access.AccountRules{}, err
	}
	return s.places.Account(x.Request.Context(), x.account)
}

// opened returns the permissions that the account's settings give everybody, in Parse's order.
func (s *Server) opened(x *call) (open []bucketpolicy.Open, err error) {
	rules, err := s.settings(x)
	for p, set := range rules.Places() {
		if access.Reads(set.Reads).Everybody() {
			open = append(open, bucketpolicy.Open{Exact: p.Exact, Name: p.Name})
		}
		if access.Reads(set.Lists).Everybody() {
			open = append(open, bucketpolicy.Open{Lists: true, Name: p.Name})
		}
	}
	return bucketpolicy.Sorted(open), err
}

// errNotAdministered refuses to change an account's settings where package admin changes none.
var errNotAdministered = &refusal{
	code: "NotImplemented", as: wire.CodeMethodNotAllowed, status: http.StatusNotImplemented,
	detail: "settings cannot be changed over the network: the operator has set --admin-api off",
}

// changePlace changes the settings for the account's blobs below a prefix, or of one.
func (s *Server) changePlace(x *call, prefix, name string, change wire.ChangePlace) error {
	if s.admin == nil {
		return errNotAdministered
	}
	_, err := s.admin.ChangePlace(x.Request.Context(), x.by(), x.account, prefix, name, change)
	return s.changed(x, err)
}

// changed makes this node obey a change of settings, unless that failed.
func (s *Server) changed(x *call, err error) error {
	if err != nil {
		return err
	}
	return s.places.Renew(x.Request.Context())
}

func (s *Server) setGuard(x *call, guard places.Guard) error {
	if s.admin == nil {
		return errNotAdministered
	}
	return s.changed(x, s.admin.SetGuard(x.Request.Context(), x.by(), x.account, guard))
}

// reopen makes the account's settings give everybody the wanted permissions, and no others.
func (s *Server) reopen(x *call, wanted []bucketpolicy.Open) error {
	if s.admin == nil {
		return errNotAdministered
	}
	var openings []admin.Opening
	for _, o := range wanted {
		openings = append(openings, admin.Opening(o))
	}
	return s.changed(x, s.admin.Reopen(x.Request.Context(), x.by(), x.account, openings))
}

var errNoPolicy = &refusal{code: "NoSuchBucketPolicy", as: wire.CodeBlobNotFound, detail: "the bucket is opened to nobody"}

// getPolicy returns the policy that was put, unless the settings were changed otherwise since.
func (s *Server) getPolicy(x *call) error {
	open, err := s.opened(x)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return errNoPolicy
	}
	text, err := s.bucketProperty(x, propertyPolicy)
	if err != nil {
		return err
	}
	if kept, err := bucketpolicy.Parse([]byte(text), x.bucket); err != nil || !slices.Equal(kept, open) {
		text = string(bucketpolicy.Format(x.bucket, open))
	}
	return x.writeDocument(http.StatusOK, "application/json", []byte(text))
}

// putPolicy sets who may read and list.
func (s *Server) putPolicy(x *call) error {
	body, err := x.readDocument(bucketpolicy.MaxBytes)
	if err != nil {
		return err
	}
	open, err := bucketpolicy.Parse(body, x.bucket)
	if err != nil {
		return err
	}
	if err := s.reopen(x, open); err != nil {
		return err
	}
	// The text is kept last: without it the policy has other words for the same.
	if err := s.setBucketProperty(x, propertyPolicy, bucketpolicy.Line(body), nil); err != nil && !errors.Is(err, access.ErrQuota) {
		return err
	}
	return x.writeEmpty(http.StatusNoContent)
}

// deletePolicy closes everything that the settings open.
func (s *Server) deletePolicy(x *call) error {
	open, err := s.opened(x)
	if err == nil && len(open) > 0 {
		err = s.reopen(x, nil)
	}
	if err == nil {
		err = s.removeBucketProperty(x, propertyPolicy, nil)
	}
	return x.done(err, http.StatusNoContent)
}

// getPolicyStatus reports whether the settings open anything.
func (s *Server) getPolicyStatus(x *call) error {
	open, err := s.opened(x)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return errNoPolicy
	}
	return x.writeXML(http.StatusOK, document.PolicyStatus{IsPublic: true})
}

// setBucketList makes a canned access list the setting of who may list the bucket: everybody
// with public-read, and otherwise whom the instance lets.
func (s *Server) setBucketList(x *call) error {
	rules, err := s.settings(x)
	if err != nil {
		return err
	}
	account := places.Place{Account: x.account}
	set, wanted := rules.Settings(account), ""
	switch opens := x.header.Get("X-Amz-Acl") == "public-read"; {
	case opens && set.Guard&places.RefuseLists != 0:
		return admin.ErrGuarded
	case !opens && !access.Reads(set.Lists).Everybody(), opens && rules.Lists("") == access.ReadsPublic:
		return nil
	case opens:
		wanted = string(access.ReadsPublic)
	}
	return s.changePlace(x, "", "", wire.ChangePlace{Lists: &wanted})
}

// getPublicAccessBlock returns the account's protections from being opened.
func (s *Server) getPublicAccessBlock(x *call) error {
	rules, err := s.settings(x)
	if err != nil {
		return err
	}
	guard := rules.Settings(places.Place{Account: x.account}).Guard
	if guard == 0 {
		return &refusal{code: "NoSuchPublicAccessBlockConfiguration", as: wire.CodeBlobNotFound, detail: "the bucket has no public access block"}
	}
	var block document.PublicAccessBlock
	for member, bit := range guardsOf(&block) {
		*member = guard&bit != 0
	}
	return x.writeXML(http.StatusOK, block)
}

// guardsOf returns the protection that each member of a document stands for.
func guardsOf(b *document.PublicAccessBlock) map[*bool]places.Guard {
	return map[*bool]places.Guard{
		&b.BlockPublicAcls: places.RefuseLists, &b.IgnorePublicAcls: places.IgnoreLists,
		&b.BlockPublicPolicy: places.RefusePolicies, &b.RestrictPublicBuckets: places.IgnorePolicies,
	}
}

// putPublicAccessBlock sets the account's protections.
func (s *Server) putPublicAccessBlock(x *call) error {
	block, err := readAs(x, wire.MaxJSONBody, document.DecodePublicAccessBlock)
	if err != nil {
		return err
	}
	var guard places.Guard
	for member, bit := range guardsOf(&block) {
		if *member {
			guard |= bit
		}
	}
	return x.done(s.setGuard(x, guard), http.StatusOK)
}

// deletePublicAccessBlock removes the account's protections.
func (s *Server) deletePublicAccessBlock(x *call) error {
	rules, err := s.settings(x)
	if err == nil && rules.Settings(places.Place{Account: x.account}).Guard != 0 {
		err = s.setGuard(x, 0)
	}
	return x.done(err, http.StatusNoContent)
}
