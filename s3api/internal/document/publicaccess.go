package document

import (
	"encoding/xml"
	"errors"
)

// PublicAccessBlock is a bucket's protection from being opened to everybody
// ("PublicAccessBlockConfiguration", Amazon S3 API Reference).
type PublicAccessBlock struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ PublicAccessBlockConfiguration" json:"-"`
	BlockPublicAcls       bool     // refuses access lists that open the bucket
	IgnorePublicAcls      bool     // lets access lists open nothing
	BlockPublicPolicy     bool     // refuses policies that open the bucket
	RestrictPublicBuckets bool     // lets policies open nothing
}

// PolicyStatus reports whether a bucket is open to everybody.
type PolicyStatus struct {
	XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ PolicyStatus"`
	IsPublic bool
}

// DecodePublicAccessBlock reads a body with a bucket's protection; members that are missing are
// false. The error wraps ErrMalformed. The caller bounds the body's size.
func DecodePublicAccessBlock(body []byte) (p PublicAccessBlock, err error) {
	var sent struct {
		strict
		XMLName                                                                     xml.Name `xml:"PublicAccessBlockConfiguration"`
		BlockPublicAcls, IgnorePublicAcls, BlockPublicPolicy, RestrictPublicBuckets []string
	}
	if err := decodeStrictly(body, &sent); err != nil {
		return p, err
	}
	var errs [4]error
	p.BlockPublicAcls, errs[0] = optionalFlag("BlockPublicAcls", sent.BlockPublicAcls)
	p.IgnorePublicAcls, errs[1] = optionalFlag("IgnorePublicAcls", sent.IgnorePublicAcls)
	p.BlockPublicPolicy, errs[2] = optionalFlag("BlockPublicPolicy", sent.BlockPublicPolicy)
	p.RestrictPublicBuckets, errs[3] = optionalFlag("RestrictPublicBuckets", sent.RestrictPublicBuckets)
	if err := errors.Join(errs[:]...); err != nil {
		return PublicAccessBlock{}, err
	}
	return p, nil
}
