// Package document reads and writes the XML documents of S3 ("Actions" in the Amazon S3 API
// Reference). It knows no HTTP and no storage.
//
// A document to read is bounded in depth and elements, and has no declarations, so that it cannot
// expand. One to write is built in memory: the largest is one page from a listing.
package document

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"time"
)

// namespace is the XML namespace of S3's elements. Some clients leave it out.
const namespace = "http://s3.amazonaws.com/doc/2006-03-01/"

// rewritten is a response that encoding/xml writes in another form.
type rewritten interface {
	document() any
}

// page is a response with many entries, which it writes itself before the root's end.
type page interface {
	writeEntries(*bytes.Buffer)
}

// Encode returns a response's document. r is a response or Error of this package.
func Encode(r any) []byte {
	text := bytes.NewBufferString(xml.Header)
	written := r
	if other, ok := r.(rewritten); ok {
		written = other.document()
	}
	if err := xml.NewEncoder(text).Encode(written); err != nil {
		panic(fmt.Sprintf("document: %T cannot be written: %v", r, err)) // the types are closed
	}
	if p, ok := r.(page); ok {
		at := bytes.LastIndex(text.Bytes(), []byte("</"))
		end := string(text.Bytes()[at:])
		text.Truncate(at)
		p.writeEntries(text)
		text.WriteString(end)
	}
	return text.Bytes()
}

// Checksums are an object's or a part's flexible checksums in base64. Empty ones are left out.
type Checksums struct {
	ChecksumCRC32     string `xml:",omitempty"`
	ChecksumCRC32C    string `xml:",omitempty"`
	ChecksumCRC64NVME string `xml:",omitempty"`
	ChecksumSHA1      string `xml:",omitempty"`
	ChecksumSHA256    string `xml:",omitempty"`
	ChecksumSHA512    string `xml:",omitempty"`
	ChecksumMD5       string `xml:",omitempty"`
	ChecksumXXHASH64  string `xml:",omitempty"`
	ChecksumXXHASH3   string `xml:",omitempty"`
	ChecksumXXHASH128 string `xml:",omitempty"`
	ChecksumType      string `xml:",omitempty"` // COMPOSITE or FULL_OBJECT
}

// Of returns the checksum by an algorithm, such as SHA256, or nil if there is none by it.
func (c *Checksums) Of(algorithm string) *string { return c.ByAlgorithm()[algorithm] }

// ByAlgorithm returns the checksums by their algorithms' names.
func (c *Checksums) ByAlgorithm() map[string]*string {
	return map[string]*string{
		"CRC32": &c.ChecksumCRC32, "CRC32C": &c.ChecksumCRC32C, "CRC64NVME": &c.ChecksumCRC64NVME, "SHA1": &c.ChecksumSHA1, "SHA256": &c.ChecksumSHA256,
		"SHA512": &c.ChecksumSHA512, "MD5": &c.ChecksumMD5, "XXHASH64": &c.ChecksumXXHASH64, "XXHASH3": &c.ChecksumXXHASH3, "XXHASH128": &c.ChecksumXXHASH128,
	}
}

// Owner is an owner, or who began an upload.
type Owner struct {
	ID          string
	DisplayName string
}

// Error is the body of an error's response. Empty members but Code, Message and RequestID are left
// out.
type Error struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	Condition string `xml:",omitempty"` // the header with the condition that does not hold
	Key       Name   `xml:",omitempty"`
	Bucket    string `xml:"BucketName,omitempty"`
	UploadID  string `xml:"UploadId,omitempty"`
	Resource  Name   `xml:",omitempty"`
	RequestID string `xml:"RequestId"`
	HostID    string `xml:"HostId,omitempty"`
}

// ListAllMyBucketsResult is the list of buckets.
type ListAllMyBucketsResult struct {
	XMLName           xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListAllMyBucketsResult"`
	Owner             Owner
	Buckets           []Bucket `xml:"Buckets>Bucket"`
	ContinuationToken string   `xml:",omitempty"` // names the next page
	Prefix            string   `xml:",omitempty"`
}

// Bucket is a bucket in a list.
type Bucket struct {
	Name         string
	CreationDate Time
	BucketRegion string `xml:",omitempty"`
}

func (r ListAllMyBucketsResult) document() any {
	return struct {
		ListAllMyBucketsResult
		Buckets bucketList // that is there without a bucket, too
	}{r, bucketList{r.Buckets}}
}

type bucketList struct{ Bucket []Bucket }

// Copied returns the document with a copy's root: CopyObjectResult or CopyPartResult.
func Copied(root string, modified time.Time, etag string, sums Checksums) any {
	return copied{xml.Name{Space: namespace, Local: root}, Time{modified}, etag, sums}
}

type copied struct {
	XMLName      xml.Name
	LastModified Time
	ETag         string
	Checksums
}

// DeleteResult has the outcomes of a request that deletes keys.
type DeleteResult struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ DeleteResult"`
	Deleted []Deleted
	Errors  []DeleteError `xml:"Error"`
}

// Deleted is a key or a version that was deleted, or was not there.
type Deleted struct {
	Key       Name
	VersionID string `xml:"VersionId,omitempty"`             // that the request names
	Mark      bool   `xml:"DeleteMarker,omitempty"`          // a mark was set or deleted
	MarkID    string `xml:"DeleteMarkerVersionId,omitempty"` // its version
}

// DeleteError is a key that was not deleted.
type DeleteError struct {
	Key       Name
	VersionID string `xml:"VersionId,omitempty"`
	Code      string
	Message   string
}

// GetObjectAttributesResponse has those attributes that were requested.
type GetObjectAttributesResponse struct {
	XMLName      xml.Name     `xml:"http://s3.amazonaws.com/doc/2006-03-01/ GetObjectAttributesResponse"`
	ETag         string       `xml:",omitempty"` // without quotes
	Checksum     *Checksums   `xml:",omitempty"`
	ObjectParts  *ObjectParts `xml:",omitempty"`
	StorageClass string       `xml:",omitempty"`
	ObjectSize   *int64       `xml:",omitempty"`
}

// ObjectParts is a page with an object's parts.
type ObjectParts struct {
	PartsCount           int
	PartNumberMarker     int
	NextPartNumberMarker int
	MaxParts             int
	IsTruncated          bool
	Parts                []ObjectPart `xml:"Part"`
}

// ObjectPart is an object's part.
type ObjectPart struct {
	PartNumber int
	Size       int64
	Checksums
}

// PostResponse is the object that a form's upload has created.
type PostResponse struct {
	XMLName  xml.Name `xml:"PostResponse"`
	Location string
	Bucket   string
	Key      Name
	ETag     string
}

// AccessControlPolicy is an access list: the owner may do everything.
type AccessControlPolicy struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ AccessControlPolicy"`
	Owner   Owner
	Public  bool `xml:"-"` // everybody may list the bucket
}

func (r AccessControlPolicy) document() any {
	type grantee struct {
		Instance string `xml:"xmlns:xsi,attr"`
		Type     string `xml:"xsi:type,attr"`
		*Owner
		URI string `xml:",omitempty"`
	}
	type grant struct {
		Grantee    grantee
		Permission string
	}
	const instance = "http://www.w3.org/2001/XMLSchema-instance"
	grants := []grant{{grantee{instance, "CanonicalUser", &r.Owner, ""}, "FULL_CONTROL"}}
	if r.Public {
		grants = append(grants, grant{grantee{instance, "Group", nil, "http://acs.amazonaws.com/groups/global/AllUsers"}, "READ"})
	}
	return struct {
		AccessControlPolicy
		Grants []grant `xml:"AccessControlList>Grant"`
	}{r, grants}
}

// Tagging is the list of an object's tags.
type Tagging struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Tagging"`
	Tags    []Tag    `xml:"TagSet>Tag"`
}

// Tag is a tag. Its value may be empty.
type Tag struct{ Key, Value string }

func (r Tagging) document() any {
	return struct {
		Tagging
		TagSet struct{ Tag []Tag } // that is there without a tag, too
	}{r, struct{ Tag []Tag }{r.Tags}}
}
