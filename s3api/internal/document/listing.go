package document

import (
	"encoding/xml"
	"slices"
)

// Object is an object in a listing.
type Object struct {
	Key               Name
	LastModified      Time
	ETag              string
	ChecksumAlgorithm string `xml:",omitempty"`
	ChecksumType      string `xml:",omitempty"`
	Size              int64
	Owner             *Owner `xml:",omitempty"`
	StorageClass      string
}

// CommonPrefix stands for the keys that begin with it.
type CommonPrefix struct{ Prefix Name }

// ListBucketResult is a page of ListObjects. Its names are as they are: with EncodingURL, Encode
// writes them so.
type ListBucketResult struct {
	XMLName        xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name           string
	Prefix         Name
	Marker         Name
	NextMarker     Name `xml:",omitempty"`
	MaxKeys        int
	Delimiter      Name   `xml:",omitempty"`
	EncodingType   string `xml:",omitempty"` // empty or EncodingURL
	IsTruncated    bool
	Contents       []Object
	CommonPrefixes []CommonPrefix
}

func (r ListBucketResult) document() any {
	if r.EncodingType == EncodingURL {
		encodeURL(&r.Prefix, &r.Marker, &r.NextMarker, &r.Delimiter)
		r.Contents, r.CommonPrefixes = contentsInURL(r.Contents), prefixesInURL(r.CommonPrefixes)
	}
	return r
}

// ListBucketResultV2 is a page of ListObjectsV2. Its names are as they are: with EncodingURL,
// Encode writes them so.
type ListBucketResultV2 struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                Name
	StartAfter            Name   `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	KeyCount              int    // of Contents and CommonPrefixes
	MaxKeys               int
	Delimiter             Name   `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"` // empty or EncodingURL
	IsTruncated           bool
	Contents              []Object
	CommonPrefixes        []CommonPrefix
}

func (r ListBucketResultV2) document() any {
	if r.EncodingType == EncodingURL {
		encodeURL(&r.Prefix, &r.StartAfter, &r.Delimiter)
		r.Contents, r.CommonPrefixes = contentsInURL(r.Contents), prefixesInURL(r.CommonPrefixes)
	}
	return r
}

func contentsInURL(contents []Object) []Object {
	contents = slices.Clone(contents)
	for i := range contents {
		encodeURL(&contents[i].Key)
	}
	return contents
}

func prefixesInURL(prefixes []CommonPrefix) []CommonPrefix {
	prefixes = slices.Clone(prefixes)
	for i := range prefixes {
		encodeURL(&prefixes[i].Prefix)
	}
	return prefixes
}
