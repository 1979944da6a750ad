package document

import (
	"bytes"
	"encoding/xml"
)

// InitiateMultipartUploadResult names an upload that was begun.
type InitiateMultipartUploadResult struct {
	XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ InitiateMultipartUploadResult"`
	Bucket   string
	Key      Name
	UploadID string `xml:"UploadId"`
}

// CompleteMultipartUploadResult is the object that an upload has become.
type CompleteMultipartUploadResult struct {
	XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUploadResult"`
	Location string
	Bucket   string
	Key      Name
	ETag     string
	Checksums
}

// ListPartsResult is a page with an upload's parts.
type ListPartsResult struct {
	XMLName              xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListPartsResult"`
	Bucket               string
	Key                  Name
	UploadID             string `xml:"UploadId"`
	PartNumberMarker     int
	NextPartNumberMarker int
	MaxParts             int
	IsTruncated          bool
	Parts                []Part `xml:"Part"`
	Initiator            Owner
	Owner                Owner
	StorageClass         string
	ChecksumAlgorithm    string `xml:",omitempty"`
	ChecksumType         string `xml:",omitempty"`
}

// Part is an upload's part.
type Part struct {
	PartNumber   int
	LastModified Time
	ETag         string
	Size         int64
	Checksums
}

// ListMultipartUploadsResult is a page with open uploads. Its names are as they are: with
// EncodingURL, Encode writes them so.
type ListMultipartUploadsResult struct {
	XMLName            xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListMultipartUploadsResult"`
	Bucket             string
	KeyMarker          Name
	UploadIDMarker     string `xml:"UploadIdMarker"`
	NextKeyMarker      Name   `xml:",omitempty"`
	NextUploadIDMarker string `xml:"NextUploadIdMarker,omitempty"`
	Prefix             Name   `xml:",omitempty"`
	Delimiter          Name   `xml:",omitempty"`
	EncodingType       string `xml:",omitempty"` // empty or EncodingURL
	MaxUploads         int
	IsTruncated        bool
	Uploads            []Upload       `xml:"-"`
	CommonPrefixes     []CommonPrefix `xml:"-"`
}

// Upload is an open upload. Empty members for its checksum are left out.
type Upload struct {
	Key               Name
	UploadID          string
	Initiator         Owner
	Owner             Owner
	StorageClass      string
	Initiated         Time
	ChecksumAlgorithm string
	ChecksumType      string
}

func (r ListMultipartUploadsResult) document() any {
	if r.EncodingType == EncodingURL {
		encodeURL(&r.KeyMarker, &r.NextKeyMarker, &r.Prefix, &r.Delimiter)
	}
	return r
}

// writeEntries writes the entries as Page.writeAs does.
func (r ListMultipartUploadsResult) writeEntries(b *bytes.Buffer) {
	size := sizeOfPrefixes(r.CommonPrefixes, r.EncodingType)
	for i := range r.Uploads {
		u := &r.Uploads[i]
		size += 2*entrySize + lengthIn(u.Key, r.EncodingType) + 2*(len(u.Owner.ID)+len(u.Owner.DisplayName))
	}
	b.Grow(size)
	for i := range r.Uploads {
		u := &r.Uploads[i]
		b.WriteString("<Upload>")
		element(b, "Key", nameIn(u.Key, r.EncodingType))
		element(b, "UploadId", u.UploadID)
		writeOwner(b, "Initiator", &u.Initiator)
		writeOwner(b, "Owner", &u.Owner)
		element(b, "StorageClass", u.StorageClass)
		element(b, "Initiated", u.Initiated.text())
		optionalElement(b, "ChecksumAlgorithm", u.ChecksumAlgorithm)
		optionalElement(b, "ChecksumType", u.ChecksumType)
		b.WriteString("</Upload>")
	}
	writePrefixes(b, r.CommonPrefixes, r.EncodingType)
}
